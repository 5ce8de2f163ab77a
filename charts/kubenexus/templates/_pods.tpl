{{- /* What the pods of all components have in common. */ -}}

{{- /* The Pod Security Standard "restricted". */ -}}
{{- define "kubenexus.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kubenexus.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* One replica to a node, and zones alike, as far as there are enough: (list $ "scheduler"). */ -}}
{{- define "kubenexus.spread" -}}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ $key }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "kubenexus.selectorLabels" (first $) | nindent 6 }}
      app.kubernetes.io/component: {{ last $ }}
{{- end }}
{{- end -}}

