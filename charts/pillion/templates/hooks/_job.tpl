{{/* The annotations of an object of the uninstall hook: its weight. A Job that fails stays, with its Pods and their logs. */}}
{{- define "pillion.uninstallHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The spec of the Job of a hook: root, account, labels and arguments. */}}
{{- define "pillion.hookJob" -}}
activeDeadlineSeconds: 240
backoffLimit: 4
template:
  metadata:
    labels:
      {{- .labels | nindent 6 }}
  spec:
    serviceAccountName: {{ .account }}
    automountServiceAccountToken: true
    restartPolicy: Never
    {{- with .root.Values.image.pullSecrets }}
    imagePullSecrets:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .root.Values.podSecurityContext }}
    securityContext:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    nodeSelector:
      {{- include "pillion.nodeSelector" .root.Values.controller | nindent 6 }}
    {{- with .root.Values.controller.tolerations }}
    tolerations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
    - name: pillion
      image: {{ include "pillion.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        {{- range .arguments }}
        - {{ . | quote }}
        {{- end }}
      resources:
        requests:
          cpu: 10m
          memory: 32Mi
        limits:
          memory: 128Mi
      securityContext:
        {{- include "pillion.containerSecurityContext" .root | nindent 8 }}
{{- end -}}
