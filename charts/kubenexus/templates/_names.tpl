{{- /* Names and labels. Every object is called <fullname>-<component>; several releases can stand side by side. */ -}}

{{- define "kubenexus.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kubenexus.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kubenexus.labels" -}}
{{ include "kubenexus.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The namespace in which `helm test` tries a pod. Helm deletes what it finds under the name of a hook, so nobody else may
have a namespace of that name. */ -}}
{{- define "kubenexus.testNamespace" -}}
{{- $place := printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- printf "%s-test-%s" (include "kubenexus.fullname" .) (sha256sum $place | trunc 8) -}}
{{- end -}}

{{- /* A map whose values are texts, also where YAML or `--set` made `true` or a number of one. */ -}}
{{- define "kubenexus.texts" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- /* A map as a selector of labels. */ -}}
{{- define "kubenexus.selector" -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}{{- $pairs = append $pairs (printf "%s=%v" $key $value) -}}{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- /* What `kubenexus doctor` need not look at, because it is not there. */ -}}
{{- define "kubenexus.unseen" -}}
{{- $unseen := list -}}
{{- $onNodes := or (has "labels" .Values.agent.publish) (has "annotation" .Values.agent.publish) -}}
{{- if not (and .Values.agent.enabled $onNodes) -}}{{- $unseen = append $unseen "nodes" -}}{{- end -}}
{{- if not .Values.scheduler.enabled -}}{{- $unseen = append $unseen "scheduler" -}}{{- end -}}
{{- join "," $unseen -}}
{{- end -}}

{{- define "kubenexus.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The scheduler that the webhook names in pods. */ -}}
{{- define "kubenexus.schedulerName" -}}
{{- (first (.Values.scheduler.profiles | default (list dict))).schedulerName -}}
{{- end -}}

{{- /* The names of all profiles, as a list in YAML. */ -}}
{{- define "kubenexus.schedulerNames" -}}
{{- $names := list -}}
{{- range .Values.scheduler.profiles -}}{{- $names = append $names .schedulerName -}}{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- /* The user name of a component's ServiceAccount: (list $ "agent"). */ -}}
{{- define "kubenexus.user" -}}
{{- printf "system:serviceaccount:%s:%s-%s" (first .).Release.Namespace (include "kubenexus.fullname" (first .)) (last .) -}}
{{- end -}}

{{- define "kubenexus.certificateMode" -}}
{{- (.Values.webhook.certificates | default dict).mode | default "" -}}
{{- end -}}

{{- /* Whether cert-manager is to sign with an authority of this chart; a text that is not empty if so. */ -}}
{{- define "kubenexus.ownAuthority" -}}
{{- if and .Values.webhook.enabled (eq (include "kubenexus.certificateMode" .) "certManager") -}}
{{- if not .Values.webhook.certificates.issuerRef -}}yes{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kubenexus.certificateSecret" -}}
{{- if eq (include "kubenexus.certificateMode" .) "existingSecret" -}}
{{- .Values.webhook.certificates.secretName -}}
{{- else -}}
{{- include "kubenexus.fullname" . }}-webhook-certs
{{- end -}}
{{- end -}}
