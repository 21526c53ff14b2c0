{{/*
What the values need, as `pillion manifest --any-sidecar-sets` finds it out. The facts, and what follows from each, come
from the code: files/settings.yaml, files/parts.yaml and files/controllers.yaml.
*/}}

{{/* The settings of the policy, as JSON: those of the values, and what depends on the release. */}}
{{- define "pillion.settings" -}}
{{- $settings := dict -}}
{{- range $key, $value := .Values.settings -}}
{{- if and (not (kindIs "invalid" $value)) (ne $key "role") }}{{ $_ := set $settings $key (deepCopy $value) }}{{ end -}}
{{- end -}}
{{- with $settings.bundleRef -}}
{{- if not .namespace }}{{ $_ := set . "namespace" $.Release.Namespace }}{{ end -}}
{{- end -}}
{{- if not $settings.systemNamespace }}{{ $_ := set $settings "systemNamespace" .Release.Namespace }}{{ end -}}
{{- $accounts := default dict $settings.serviceAccounts -}}
{{- if not $accounts.controllerUser -}}
{{- $user := printf "system:serviceaccount:%s:%s-controller" .Release.Namespace (include "pillion.fullname" .) -}}
{{- $_ := set $accounts "controllerUser" $user -}}
{{- end -}}
{{- $guards := default dict $accounts.guards -}}
{{- if and (eq (toString $guards.images) "true") (kindIs "invalid" $guards.imageUsers) -}}
{{- $rollouts := printf "system:serviceaccount:%s:%s-controller-rollout" .Release.Namespace (include "pillion.fullname" .) -}}
{{- $_ := set $guards "imageUsers" (prepend (rest (.Files.Get "files/settings.yaml" | fromYaml).imageUsers) $rollouts) -}}
{{- end -}}
{{- $_ := set $settings "serviceAccounts" $accounts -}}
{{- toJson $settings -}}
{{- end -}}

{{/* The facts of files/settings.yaml that hold for these settings, as JSON. */}}
{{- define "pillion.facts" -}}
{{- $facts := dict -}}
{{- range $fact := .data.facts -}}
{{- $value := $.settings -}}
{{- range $key := $fact.path }}{{ $value = index (ternary $value dict (kindIs "map" $value)) $key }}{{ end -}}
{{- $isAbsent := kindIs "invalid" $value -}}
{{- $holds := ternary $isAbsent (ternary (not $isAbsent) (eq (toString $value) "true") (eq $fact.is "given")) (eq $fact.is "absent") -}}
{{- if $holds }}{{ $_ := set $facts $fact.name true }}{{ end -}}
{{- end -}}
{{- toJson $facts -}}
{{- end -}}

{{/* The regular expression of a list of globs, for CEL. */}}
{{- define "pillion.globs" -}}
^({{ range $at, $glob := . }}{{ if $at }}|{{ end }}{{ regexQuoteMeta $glob | replace "\\*" ".*" | replace "\\?" "." }}{{ end }})$
{{- end -}}

{{/* What match conditions contain of these settings, as JSON: a text for each place in files/parts.yaml. */}}
{{- define "pillion.places" -}}
{{- $guards := default dict .serviceAccounts.guards -}}
{{- $accounts := "" -}}
{{- range default list $guards.tokenRequestAccounts -}}
{{- $namespaces := include "pillion.globs" .namespaces | toRawJson -}}
{{- $accounts = printf "%s ||\n(request.namespace.matches(%s) && request.name.matches(%s))" $accounts $namespaces (include "pillion.globs" .names | toRawJson) -}}
{{- end -}}
{{- $places := dict "tokenRequestAccounts" $accounts "controllerUser" (toRawJson .serviceAccounts.controllerUser) -}}
{{- range list "breakGlassGroups" "execUsers" "imageUsers" }}{{ $_ := set $places . (default list (get $guards .) | toRawJson) }}{{ end -}}
{{- toJson $places -}}
{{- end -}}

{{/* Whether something is needed: always, or because of one of the facts. */}}
{{- define "pillion.isNeeded" -}}
{{- if not .if }}true{{ end -}}
{{- range .if }}{{ if hasKey $.facts . }}true{{ end }}{{ end -}}
{{- end -}}

{{/* Everything that the templates need to know, as JSON. A policy server copies the settings of a policy for each request,
so its policies get settings.sidecarSets from the bundle, into which the controller puts them (`bundlesSettings`). They
stay in the settings if these have to do without the bundle, or if no controller keeps it. Such policies read the bundle
from the policy server's cache, unless settings.bundleCache is false. */}}
{{- define "pillion.state" -}}
{{- include "pillion.check" . -}}
{{- $settings := include "pillion.settings" . | fromJson -}}
{{- $defaults := .Files.Get "files/settings.yaml" | fromYaml -}}
{{- $facts := include "pillion.facts" (dict "settings" $settings "data" $defaults) | fromJson -}}
{{- $data := .Files.Get "files/parts.yaml" | fromYaml -}}
{{- $places := include "pillion.places" $settings | fromJson -}}
{{- $parts := list -}}
{{- $reads := dict -}}
{{- $mutates := false -}}
{{- $validates := false -}}
{{- range $part := $data.parts -}}
{{- if and (include "pillion.isNeeded" (dict "if" $part.if "facts" $facts)) (not (has $part.name $.Values.without)) -}}
{{- $kinds := list -}}
{{- range $read := $part.reads -}}
{{- if include "pillion.isNeeded" (dict "if" $read.if "facts" $facts) -}}
{{- $kinds = append $kinds (dict "apiVersion" $read.apiVersion "kind" $read.kind) -}}
{{- $_ := set $reads $read.kind true -}}
{{- end -}}
{{- end -}}
{{- range $condition := $part.matchConditions -}}
{{- range $place, $text := $places }}{{ $_ := set $condition "expression" (replace (printf "@%s@" $place) $text $condition.expression) }}{{ end -}}
{{- end -}}
{{- if eq $part.name "exec" }}{{ $_ := set $reads "asksUsers" true }}{{ end -}}
{{- $parts = append $parts (set $part "reads" $kinds) -}}
{{- if $part.mutates }}{{ $mutates = true }}{{ else }}{{ $validates = true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $checksSets := not (has "sidecarsets" .Values.without) -}}
{{- if and $checksSets (include "pillion.isNeeded" (dict "if" $data.asksAuthors "facts" $facts)) }}{{ $_ := set $reads "asksAuthors" true }}{{ $_ := unset $reads "asksUsers" }}{{ end -}}
{{- if and $checksSets $facts.noWhitelist }}{{ $_ := set $reads "readsWhitelist" true }}{{ end -}}
{{- $controllers := include "pillion.controllers" (dict "root" . "facts" $facts) | fromJson -}}
{{- $bundlesSettings := and .Values.kubewarden.enabled (has "bundle" $controllers.others) (ne (toString $settings.onBundleUnavailable) "UseSettings") -}}
{{- if and $bundlesSettings (not (hasKey $settings "bundleCache")) }}{{ $_ := set $settings "bundleCache" true }}{{ end -}}
{{- $name := include "pillion.fullname" . -}}
{{- $excluded := concat $defaults.systemNamespaces (list .Release.Namespace $settings.systemNamespace) .Values.excludeNamespaces -}}
{{- $protected := ternary $defaults.protectedNamespaces $settings.serviceAccounts.protectedNamespaces (kindIs "invalid" $settings.serviceAccounts.protectedNamespaces) -}}
{{- dict "name" $name "settings" $settings "policySettings" (ternary (omit $settings "sidecarSets") $settings $bundlesSettings)
  "bundlesSettings" $bundlesSettings "facts" $facts "parts" $parts "reads" $reads "mutates" $mutates "validates" $validates
  "excluded" $excluded "protected" $protected "hasDefinition" (eq (include "pillion.hasDefinition" .) "true")
  "controllers" $controllers | toJson -}}
{{- end -}}

{{/* The controllers that run, as JSON: `others`, `rollouts`, and `idle`, those without work, each with the reason. */}}
{{- define "pillion.controllers" -}}
{{- $values := .root.Values.controller -}}
{{- $others := list -}}
{{- $rollouts := list -}}
{{- $idle := dict -}}
{{- if $values.enabled -}}
{{- $byDefault := or (not $values.controllers) (has "*" $values.controllers) -}}
{{- range $controller := (.root.Files.Get "files/controllers.yaml" | fromYaml).controllers -}}
{{- $name := $controller.name -}}
{{- $isChosen := or (and $byDefault $controller.byDefault) (has $name $values.controllers) -}}
{{- if eq $name "sidecarset-rollout" -}}
{{- if $values.rollouts.enabled }}{{ $rollouts = append $rollouts $name }}{{ end -}}
{{- else if and $isChosen (not (has (printf "-%s" $name) $values.controllers)) -}}
{{- if and (has $name (list "merged-serviceaccounts" "sidecar-tokens")) (not $.facts.identities) -}}
{{- $_ := set $idle $name "settings.featureGates.SidecarSetServiceAccountInjection is off" -}}
{{- else if and (eq $name "sidecar-tokens") (not $values.tokenNamespaces) -}}
{{- $_ := set $idle $name "controller.tokenNamespaces names no namespace" -}}
{{- else if and (eq $name "bundle") (not $.facts.bundle) -}}
{{- $_ := set $idle $name "settings.bundleRef is absent" -}}
{{- else -}}
{{- $others = append $others $name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- dict "others" $others "rollouts" $rollouts "idle" $idle | toJson -}}
{{- end -}}

{{/* The settings that a part reads, as JSON: part and settings. */}}
{{- define "pillion.settingsOfPart" -}}
{{- $settings := .settings -}}
{{- if eq .part "token-secrets" -}}
{{- $rules := dict -}}
{{- range $key, $value := $settings.serviceAccounts }}{{ if hasPrefix "legacyToken" $key }}{{ $_ := set $rules $key $value }}{{ end }}{{ end -}}
{{- $settings = ternary (dict "serviceAccounts" $rules) dict (not (empty $rules)) -}}
{{- else if has .part (list "images" "token-requests") -}}
{{- $settings = dict "serviceAccounts" (pick $settings.serviceAccounts "controllerUser" "guards" "trustedCsiDrivers") -}}
{{- else if eq .part "shoots" -}}
{{- $settings = pick $settings "shoots" -}}
{{- else if eq .part "assert" -}}
{{- $settings = merge (dict "role" "Assert") $settings -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}
