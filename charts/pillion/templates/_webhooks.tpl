{{/* How the API server reaches a path of the server: root, name and path. The server or cert-manager writes caBundle
later. Helm leaves a field alone that the chart does not have. */}}
{{- define "pillion.clientConfig" -}}
{{- with .root.Values.server.certificates.caBundle -}}
caBundle: {{ b64enc . }}
{{ end -}}
service:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  path: {{ .path }}
  port: 443
{{- end -}}

{{/* The annotation that makes cert-manager write caBundle. */}}
{{- define "pillion.injectCa" -}}
{{- if and (eq .Values.server.certificates.source "cert-manager") (not .Values.kubewarden.enabled) -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "pillion.fullname" . }}
{{- end -}}
{{- end -}}

{{/* A webhook configuration: root, state, kind, and mutates, whether the webhooks may change objects. */}}
{{- define "pillion.webhooks" -}}
{{- $root := .root }}
{{- $state := .state }}
apiVersion: admissionregistration.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ $state.name }}
  labels:
    {{- include "pillion.labels" (dict "root" $root "instance" $state.name "component" "webhook") | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root "own" (list $root.Values.server.webhookAnnotations (include "pillion.injectCa" $.root | fromYaml))) }}
webhooks:
{{- range $part := $state.parts }}
{{- if eq $part.mutates $.mutates }}
# {{ wrapWith 114 "\n# " $part.about }}
- name: {{ $part.name }}.pillion.dev
  admissionReviewVersions: [v1]
  clientConfig:
    {{- include "pillion.clientConfig" (dict "root" $root "name" $state.name "path" $part.path) | nindent 4 }}
  failurePolicy: {{ ternary $root.Values.failurePolicy $root.Values.guardFailurePolicy $part.aboutPods | default "Fail" }}
  matchPolicy: Equivalent
  {{- if or $part.aboutPods $part.afterAdmission }}
  namespaceSelector:
    {{- include "pillion.otherNamespaces" $state.excluded | nindent 4 }}
  {{- if and $part.aboutPods $root.Values.optOutLabel }}
  objectSelector:
    {{- include "pillion.withoutLabel" $root.Values.optOutLabel | nindent 4 }}
  {{- end }}
  {{- else if eq $part.name "guards" }}
  # The server's own Pods can always be debugged.
  namespaceSelector:
    {{- include "pillion.otherNamespaces" (list $root.Release.Namespace) | nindent 4 }}
  {{- end }}
  {{- if eq $part.name "pods" }}
  reinvocationPolicy: IfNeeded
  {{- end }}
  rules:
    {{- toYaml $part.rules | nindent 4 }}
  sideEffects: None
  timeoutSeconds: {{ $root.Values.webhookTimeoutSeconds }}
  {{- include "pillion.matchConditions" $part | indent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The match conditions of a part. They need Kubernetes 1.28. */}}
{{- define "pillion.matchConditions" -}}
{{- if .matchConditions }}
matchConditions:
{{- range .matchConditions }}
# {{ wrapWith 110 "\n# " .why }}
- name: {{ .name }}
  expression: {{ toJson .expression }}
{{- end }}
{{- end }}
{{- end -}}
