{{- /* What the two webhook configurations have in common. */ -}}

{{- /* Everything of a webhook but its name, rules and selectors: (list $ "/mutate"). It fails open, and soon. */ -}}
{{- define "kubenexus.webhook" -}}
{{- with first . -}}
admissionReviewVersions: [v1]
failurePolicy: Ignore
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: 2
clientConfig:
  service:
    name: {{ include "kubenexus.fullname" . }}-webhook
    namespace: {{ .Release.Namespace }}
    path: {{ last $ }}
    port: {{ .Values.webhook.servicePort }}
  {{- if eq (include "kubenexus.certificateMode" .) "existingSecret" }}
  caBundle: {{ .Values.webhook.certificates.caBundle }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* Never the namespaces that a cluster cannot live without, nor our own. */ -}}
{{- define "kubenexus.namespaceExclusion" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: [kube-system, kube-node-lease, {{ .Release.Namespace }}]
{{- end -}}

{{- /* Kubelets create mirror pods, which describe what runs already. */ -}}
{{- define "kubenexus.notByKubelets" -}}
- name: not-by-kubelets
  expression: "!('system:nodes' in request.userInfo.groups)"
{{- end -}}
