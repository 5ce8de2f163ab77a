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

{{- /* One replica to a node, and zones alike, as far as there are enough: (list $ "scheduler"). Zones are not another
constraint: where nodes have none, kube-scheduler would heed neither. */ -}}
{{- define "kubenexus.spread" -}}
topologySpreadConstraints:
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    {{- include "kubenexus.replicas" . | nindent 4 }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          {{- include "kubenexus.replicas" . | nindent 10 }}
{{- end -}}

{{- /* The replicas of one version of a component. */ -}}
{{- define "kubenexus.replicas" -}}
matchLabelKeys: [pod-template-hash]
labelSelector:
  matchLabels:
    {{- include "kubenexus.selectorLabels" (first .) | nindent 4 }}
    app.kubernetes.io/component: {{ last . }}
{{- end -}}
