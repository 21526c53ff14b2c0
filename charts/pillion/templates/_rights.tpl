{{/* A role and its binding: root, instance, name, namespace (absent for a ClusterRole), account (namespace, name), and
rules, each with why and rule. Nothing without rules. */}}
{{- define "pillion.role" -}}
{{- if .rules }}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
{{- with .namespace }}
  namespace: {{ . }}
{{- end }}
  labels:
    {{- include "pillion.labels" (dict "root" .root "instance" .instance "component" "rbac") | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
rules:
{{- range .rules }}
{{- with .why }}
{{ wrapWith 114 "\n# " . | printf "# %s" }}
{{- end }}
- {{ toYaml .rule | nindent 2 | trim }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
{{- with .namespace }}
  namespace: {{ . }}
{{- end }}
  labels:
    {{- include "pillion.labels" (dict "root" .root "instance" .instance "component" "rbac") | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account.name }}
  namespace: {{ .account.namespace }}
{{- end }}
{{- end -}}

{{/* The rights of the policy for what it reads: root, state, account, and from, the list of files/parts.yaml. */}}
{{- define "pillion.readerRoles" -}}
{{- $data := (.root.Files.Get "files/parts.yaml" | fromYaml).rights }}
{{- $common := dict "root" .root "instance" .state.name "account" .account }}
{{- $everywhere := list }}
{{- range index $data .from }}{{ if hasKey $.state.reads .if }}{{ $everywhere = append $everywhere . }}{{ end }}{{ end }}
{{- include "pillion.role" (merge (dict "name" .state.name "rules" $everywhere) $common) }}
{{- if .root.Values.systemRole }}
{{- $system := list }}
{{- range $data.systemNamespace }}{{ if hasKey $.state.reads .if }}{{ $system = append $system . }}{{ end }}{{ end }}
{{- include "pillion.role" (merge (dict "name" .state.name "namespace" .state.settings.systemNamespace "rules" $system) $common) }}
{{- end }}
{{- with .state.settings.bundleRef }}
{{- include "pillion.role" (merge (dict "name" (printf "%s-bundle" $.state.name) "namespace" .namespace "rules" (ternary $data.watchedBundle $data.bundle (eq $.from "server"))) $common) }}
{{- end }}
{{- end -}}

{{/* The subjects of a binding, from a list of the values: users and groups have an API group, ServiceAccounts none. */}}
{{- define "pillion.subjects" -}}
{{- range . }}
{{- $group := ternary dict (dict "apiGroup" "rbac.authorization.k8s.io") (eq .kind "ServiceAccount") }}
- {{ merge (deepCopy .) $group | toYaml | nindent 2 | trim }}
{{- end }}
{{- end -}}
