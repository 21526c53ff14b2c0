{{/* The name of the objects. */}}
{{- define "pillion.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride -}}
{{- end -}}

{{/* The labels of an object: root, instance and component. */}}
{{- define "pillion.labels" -}}
{{ include "pillion.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: pillion
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels that selectors use: instance and component. They stay the same in every version. */}}
{{- define "pillion.selector" -}}
app.kubernetes.io/name: pillion
app.kubernetes.io/instance: {{ .instance }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The image of the server and of the controllers. */}}
{{- define "pillion.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default (printf "v%s" $.Chart.AppVersion) .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The module that Kubewarden's policies run. */}}
{{- define "pillion.module" -}}
{{- default (printf "registry://ghcr.io/pillion/policies/pillion:v%s" .Chart.AppVersion) .Values.kubewarden.module -}}
{{- end -}}

{{/* Whether this release has the SidecarSet definition: "true" or empty. A definition that OpenKruise or another release
made is left alone. Without a cluster, as in helm template, there is none. */}}
{{- define "pillion.hasDefinition" -}}
{{- if .Values.crds.install -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "sidecarsets.apps.kruise.io" -}}
{{- $notes := dig "metadata" "annotations" dict $there -}}
{{- $isOurs := and (eq (toString (get $notes "meta.helm.sh/release-name")) .Release.Name) (eq (toString (get $notes "meta.helm.sh/release-namespace")) .Release.Namespace) -}}
{{- if or (not $there) $isOurs -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* Selects every namespace except these. */}}
{{- define "pillion.otherNamespaces" -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values:
{{- range . | uniq | sortAlpha }}
  - {{ . }}
{{- end }}
{{- end -}}

{{/* Selects every object without the label of optOutLabel. */}}
{{- define "pillion.withoutLabel" -}}
{{- $label := splitn "=" 2 . -}}
matchExpressions:
- key: {{ $label._0 }}
  operator: NotIn
  values: [{{ $label._1 | quote }}]
{{- end -}}
