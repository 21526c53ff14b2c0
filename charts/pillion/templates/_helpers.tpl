{{/* The name of the objects. As in other charts, a release's name that contains the chart's other name is not extended. */}}
{{- define "pillion.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if or (not .Values.nameOverride) (contains .Values.nameOverride .Release.Name) -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.nameOverride -}}
{{- end -}}
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

{{/* The annotations of an object: root, and own, a list of maps besides commonAnnotations. A later map wins. */}}
{{- define "pillion.annotations" -}}
{{- $all := dict -}}
{{- range prepend (default list .own) .root.Values.commonAnnotations }}{{ $all = mergeOverwrite $all (default dict .) }}{{ end -}}
{{- with $all }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* The labels that selectors use: instance and component. They stay the same in every version. */}}
{{- define "pillion.selector" -}}
app.kubernetes.io/name: pillion
app.kubernetes.io/instance: {{ .instance }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The image of the server, of the controllers and of the Jobs. */}}
{{- define "pillion.image" -}}
{{- $repository := include "pillion.mirrored" (dict "root" . "repository" .Values.image.repository) -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ $repository }}@{{ .digest }}
{{- else -}}
{{ $repository }}:{{ default (printf "v%s" $.Chart.AppVersion) .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The module that Kubewarden's policies run. kubewarden.module is a whole address, which stays as it is. */}}
{{- define "pillion.module" -}}
{{- $repository := include "pillion.mirrored" (dict "root" . "repository" "ghcr.io/pillion/policies/pillion") -}}
{{- default (printf "registry://%s:v%s" $repository .Chart.AppVersion) .Values.kubewarden.module -}}
{{- end -}}

{{/* A repository in the registry of global.imageRegistry, if there is one: root and repository. Of a repository, the part
before the first slash is a registry if it has a dot or a colon or is localhost, as for docker pull. */}}
{{- define "pillion.mirrored" -}}
{{- $registry := dig "imageRegistry" "" (default dict .root.Values.global) | trimSuffix "/" -}}
{{- if $registry -}}
{{ $registry }}/{{ regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" .repository "" }}
{{- else -}}
{{ .repository }}
{{- end -}}
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
