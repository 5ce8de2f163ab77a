{{- /* The pod of an agent; the two DaemonSets differ in their nodes and in how they reach a driver: (list $ "gpu"). */ -}}
{{- define "kubenexus.agentPod" -}}
{{- $root := first . -}}
{{- $gpu := eq (last .) "gpu" -}}
{{- with $root.Values.agent -}}
{{- $privileged := and $gpu (eq .gpu.access "hostDriver") -}}
serviceAccountName: {{ include "kubenexus.fullname" $root }}-agent
automountServiceAccountToken: true
enableServiceLinks: false
priorityClassName: {{ .priorityClassName }}
terminationGracePeriodSeconds: 10
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $gpu (eq .gpu.access "runtimeClass") }}
runtimeClassName: {{ .gpu.runtimeClassName }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- include "kubenexus.texts" . | nindent 2 }}
{{- end }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            # Tolerating every taint would lead there.
            - key: kubernetes.io/os
              operator: NotIn
              values: [windows]
            {{- if .gpu.enabled }}
            - key: {{ .gpu.nodeLabel.key }}
              operator: {{ ternary "In" "NotIn" $gpu }}
              values: [{{ .gpu.nodeLabel.value | quote }}]
            {{- end }}
tolerations:
  {{- toYaml .tolerations | nindent 2 }}
securityContext:
  {{- if or $privileged .podResources }}
  runAsUser: 0
  runAsGroup: 0
  seccompProfile:
    type: RuntimeDefault
  {{- else }}
  {{- include "kubenexus.podSecurity" $root | nindent 2 }}
  {{- end }}
containers:
  - name: agent
    image: {{ include "kubenexus.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args:
      - agent
      - --root=/host
      - --nvml={{ ternary "auto" "off" $gpu }}
      - --publish={{ join "," .publish }}
      - --interval={{ .interval }}
      - --metrics-port={{ .metricsPort }}
      {{- if and .kubeletConfig.enabled .kubeletConfig.dropIns }}
      - --kubelet-config-dir=/host/kubelet-drop-ins
      {{- end }}
    env:
      - name: NODE_NAME
        valueFrom:
          fieldRef:
            fieldPath: spec.nodeName
      {{- if and $gpu (eq .gpu.access "runtimeClass") }}
      - name: NVIDIA_VISIBLE_DEVICES
        value: all
      - name: NVIDIA_DRIVER_CAPABILITIES
        value: utility
      {{- end }}
      {{- if $privileged }}
      - name: LD_LIBRARY_PATH
        value: /driver
      {{- end }}
    ports:
      - name: metrics
        containerPort: {{ .metricsPort }}
    livenessProbe:
      httpGet: {path: /healthz, port: metrics}
      periodSeconds: 30
      failureThreshold: 3
    readinessProbe:
      httpGet: {path: /readyz, port: metrics}
      periodSeconds: 10
    securityContext:
      {{- if $privileged }}
      # The devices of the driver are behind the device cgroup, which only privileged containers pass.
      privileged: true
      readOnlyRootFilesystem: true
      {{- else }}
      {{- include "kubenexus.containerSecurity" $root | nindent 6 }}
      {{- end }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    volumeMounts:
      - {name: sys, mountPath: /host/sys, readOnly: true}
      - {name: meminfo, mountPath: /host/proc/meminfo, readOnly: true}
      {{- if $gpu }}
      - {name: driver-facts, mountPath: /host/proc/driver/nvidia, readOnly: true}
      {{- end }}
      {{- if $privileged }}
      - {name: driver-library, mountPath: /driver/libnvidia-ml.so.1, readOnly: true}
      {{- end }}
      {{- if .kubeletConfig.enabled }}
      - {name: kubelet-config, mountPath: /host/var/lib/kubelet/config.yaml, readOnly: true}
      {{- if .kubeletConfig.dropIns }}
      - {name: kubelet-drop-ins, mountPath: /host/kubelet-drop-ins, readOnly: true}
      {{- end }}
      {{- end }}
      {{- if .podResources }}
      - {name: pod-resources, mountPath: /host/var/lib/kubelet/pod-resources, readOnly: true}
      - {name: pod-logs, mountPath: /host/var/log/pods, readOnly: true}
      {{- end }}
volumes:
  - name: sys
    hostPath: {path: /sys, type: Directory}
  - name: meminfo
    hostPath: {path: /proc/meminfo, type: File}
  {{- if $gpu }}
  - name: driver-facts
    hostPath: {path: /proc/driver/nvidia, type: Directory}
  {{- end }}
  {{- if $privileged }}
  - name: driver-library
    hostPath: {path: {{ printf "%s/%s" (trimSuffix "/" .gpu.driverRoot) (trimPrefix "/" .gpu.driverLibrary) }}, type: File}
  {{- end }}
  {{- if .kubeletConfig.enabled }}
  - name: kubelet-config
    hostPath: {path: {{ .kubeletConfig.file }}, type: File}
  {{- if .kubeletConfig.dropIns }}
  - name: kubelet-drop-ins
    hostPath: {path: {{ .kubeletConfig.dropIns }}, type: Directory}
  {{- end }}
  {{- end }}
  {{- if .podResources }}
  - name: pod-resources
    hostPath: {path: {{ .kubeletRoot }}/pod-resources, type: Directory}
  - name: pod-logs
    hostPath: {path: /var/log/pods, type: Directory}
  {{- end }}
{{- end -}}
{{- end -}}
