{{- define "kubenexus.schedulerConfiguration" -}}
apiVersion: kubenexus.io/v1alpha1
kind: SchedulerConfiguration
leaderElection:
  resourceName: {{ include "kubenexus.fullname" . }}-scheduler
  resourceNamespace: {{ .Release.Namespace }}
profiles:
  {{- toYaml .Values.scheduler.profiles | nindent 2 }}
{{- end -}}
