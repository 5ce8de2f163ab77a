{{- /* What the NetworkPolicies of all components have in common. */ -}}

{{- /* Whoever may read metrics, on this port: (list $ port). */ -}}
{{- define "kubenexus.metricsIngress" -}}
- ports:
    - port: {{ last . }}
      protocol: TCP
  {{- with (first .).Values.networkPolicy.metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* The API server has no labels to select it by, so its ports have to do. */ -}}
{{- define "kubenexus.apiServerEgress" -}}
- ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
{{- end -}}
