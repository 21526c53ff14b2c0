{{/* A process of controllers with its rights: root, state, name, and running, the names of the controllers. */}}
{{- define "pillion.controller" -}}
{{- $namespace := .root.Release.Namespace }}
{{- include "pillion.controllerRoles" . }}
{{- $arguments := list
  "controller" (printf "--controllers=%s" (join "," .running)) "--settings=/etc/pillion/settings.yaml"
  "--health-listen=0.0.0.0:8081" (printf "--namespace=%s" $namespace) (printf "--lease=%s" .name) }}
{{- if has "sidecar-tokens" .running }}
{{- $arguments = append $arguments (printf "--token-namespaces=%s" (join "," .root.Values.controller.tokenNamespaces)) }}
{{- end }}
{{- if and .state.bundlesSettings (has "bundle" .running) }}
{{- $arguments = append $arguments "--bundle-settings" }}
{{- end }}
{{- include "pillion.process" (dict "root" .root "state" .state "name" .name "component" "controller"
  "values" .root.Values.controller "arguments" $arguments "ports" (list (dict "name" "health" "number" 8081)) "grace" 15) }}
{{- end -}}

{{/* The roles of controllers. Of two rights to the same objects, the one that includes the other stays. */}}
{{- define "pillion.controllerRoles" -}}
{{- $name := .name }}
{{- $running := .running }}
{{- $settings := .state.settings }}
{{- $home := .root.Release.Namespace }}
{{- $data := .root.Files.Get "files/controllers.yaml" | replace "@NAME@" $name | fromYaml }}
{{- $rights := dict "Cluster" list "EverySecret" list "Bundle" list "System" list "Tokens" list "KubeSystem" list }}
{{- range $controller := $data.controllers }}
{{- if has $controller.name $running }}
{{- range $right := $controller.rights }}
{{- $isIncluded := false }}
{{- range $right.includedIn }}{{ if has . $running }}{{ $isIncluded = true }}{{ end }}{{ end }}
{{- if not (or $isIncluded (and $right.onlyForWhitelist (not $.state.facts.noWhitelist))) }}
{{- $_ := set $rights $right.scope (append (get $rights $right.scope) $right) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $common := dict "root" .root "instance" $name "account" (dict "namespace" $home "name" $name) }}
{{- $atHome := $data.home }}
{{- $place := dig "bundleRef" "namespace" "" $settings }}
{{- if eq $place $home }}{{ $atHome = concat $atHome $rights.Bundle }}{{ end }}
{{- $isSystemElsewhere := ne $settings.systemNamespace $home }}
{{- if not $isSystemElsewhere }}{{ $atHome = concat $atHome $rights.System }}{{ end }}
{{- include "pillion.role" (merge (dict "name" $name "rules" (concat $rights.Cluster $data.everywhere)) $common) }}
{{- include "pillion.role" (merge (dict "name" $name "namespace" $home "rules" $atHome) $common) }}
{{- if and $place (ne $place $home) }}
{{- include "pillion.role" (merge (dict "name" (printf "%s-bundle" $name) "namespace" $place "rules" $rights.Bundle) $common) }}
{{- end }}
{{- if $isSystemElsewhere }}
{{- include "pillion.role" (merge (dict "name" $name "namespace" $settings.systemNamespace "rules" $rights.System) $common) }}
{{- end }}
{{- range .root.Values.controller.tokenNamespaces | uniq }}
{{- include "pillion.role" (merge (dict "name" (printf "%s-tokens" $name) "namespace" . "rules" $rights.Tokens) $common) }}
{{- end }}
{{- $secrets := printf "%s-token-secrets" $name }}
{{- include "pillion.role" (merge (dict "name" $secrets "rules" $rights.EverySecret) $common) }}
{{- include "pillion.role" (merge (dict "name" $secrets "namespace" "kube-system" "rules" $rights.KubeSystem) $common) }}
{{- if has "merged-serviceaccounts" $running }}
{{- include "pillion.ceiling" . }}
{{- end }}
{{- end -}}

{{/* The roles that limit merged accounts: root, state and name. */}}
{{- define "pillion.ceiling" -}}
{{- $labels := include "pillion.labels" (dict "root" .root "instance" .name "component" "rbac") }}
---
# The most that merged accounts may get: the permissions of every ClusterRole with this label. The controller holds them,
# since the API server allows it no grant beyond its own permissions.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}-ceiling
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels:
      pillion.dev/merged-ceiling: "true"
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}-ceiling
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}-ceiling
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- with include "pillion.granted" .state.settings | fromJsonArray }}
---
# The permissions that SidecarSets of the settings give.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $.name }}-settings
  labels:
    {{- $labels | nindent 4 }}
    pillion.dev/merged-ceiling: "true"
  {{- include "pillion.annotations" (dict "root" $.root) }}
rules:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The permissions that settings.sidecarSets give to merged accounts, as JSON. Each is a field of the spec or an
annotation. */}}
{{- define "pillion.granted" -}}
{{- $rules := list -}}
{{- range default list .sidecarSets -}}
{{- $annotations := default dict (dig "metadata" "annotations" dict .) -}}
{{- $spec := default dict .spec -}}
{{- $conflict := default (index $annotations "pillion.dev/service-account-conflict") $spec.behaviorWhenServiceAccountInjection -}}
{{- if eq (lower (toString $conflict)) "merge" -}}
{{- $given := index $annotations "pillion.dev/service-account-permissions" -}}
{{- if $spec.serviceAccountPermissions -}}
{{- $rules = concat $rules $spec.serviceAccountPermissions -}}
{{- else if $given -}}
{{- $rules = concat $rules (fromYamlArray $given) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson (uniq $rules) -}}
{{- end -}}

{{/* The policy that limits what the rollout controller may change in Pods, whoever holds its token: root, state and name.
The expressions come from files/rollout-guard.yaml, with places for names, namespaces and annotations. */}}
{{- define "pillion.rolloutGuard" -}}
{{- $labels := include "pillion.labels" (dict "root" .root "instance" .name "component" "rollout") }}
{{- $guard := .root.Files.Get "files/rollout-guard.yaml" | fromYaml }}
{{- $accounts := .state.settings.serviceAccounts }}
{{- $protected := (.root.Files.Get "files/settings.yaml" | fromYaml).protectedNamespaces }}
{{- if not (kindIs "invalid" $accounts.protectedNamespaces) }}{{ $protected = $accounts.protectedNamespaces }}{{ end }}
{{- $namespaces := list }}
{{- range $protected }}{{ $namespaces = append $namespaces (printf "'%s'" .) }}{{ end }}
{{- $annotations := "" }}
{{- range dig "patchPodMetadataWhitelist" "rules" list .state.settings | default list }}
{{- range .allowedAnnotationKeyExprs }}
{{- $annotations = printf "%s || key.matches('%s')" $annotations (. | replace "\\" "\\\\" | replace "'" "\\'") }}
{{- end }}
{{- end }}
{{- $policy := dict }}
{{- range $field, $value := $guard.ValidatingAdmissionPolicy }}
{{- if eq $field "validations" }}
{{- $validations := list }}
{{- range $value }}
{{- $expression := .expression | replace "'@PROTECTED@'" (join ", " $namespaces) | replace " || key.matches('@ANNOTATION@')" $annotations }}
{{- $validations = append $validations (dict "expression" $expression "message" .message) }}
{{- end }}
{{- $_ := set $policy $field $validations }}
{{- else if eq $field "matchConditions" }}
{{- $conditions := list }}
{{- range $value }}
{{- $expression := .expression | replace "@NAMESPACE@" $.root.Release.Namespace | replace "@NAME@" $.name }}
{{- $conditions = append $conditions (dict "name" .name "expression" $expression) }}
{{- end }}
{{- $_ := set $policy $field $conditions }}
{{- else }}
{{- $_ := set $policy $field $value }}
{{- end }}
{{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
spec:
  {{- toYaml $policy | nindent 2 }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
spec:
  {{- set $guard.ValidatingAdmissionPolicyBinding "policyName" .name | toYaml | nindent 2 }}
{{- end -}}
