{{/* Refuses values that contradict each other. Each message names the value and what to do. */}}
{{- define "pillion.check" -}}
{{- $name := include "pillion.fullname" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,42}[a-z0-9])?$" $name) -}}
{{- fail (printf "the name %q is not possible: objects and labels start with it. Set fullnameOverride to a name of at most 44 lower-case letters, digits and '-' that begins with a letter" $name) -}}
{{- end -}}
{{- with .Values.settings -}}
{{- if .role -}}
{{- fail "settings.role is set; remove it: the chart gives the asserting twin its role" -}}
{{- end -}}
{{- end -}}
{{- if .Values.optOutLabel -}}
{{- if not (regexMatch "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$" .Values.optOutLabel) -}}
{{- fail (printf "optOutLabel is %q, which is no label; write KEY=VALUE, such as pillion.dev/injection=disabled" .Values.optOutLabel) -}}
{{- end -}}
{{- end -}}
{{- $size := len (toYaml .Values.settings) -}}
{{- if ge $size 1000000 -}}
{{- fail (printf "settings have %d bytes, and a ConfigMap takes less than 1 MiB; make SidecarSets objects of the cluster, or compile them: pillion bundle --settings" $size) -}}
{{- end -}}
{{- include "pillion.checkServer" . -}}
{{- include "pillion.checkKubewarden" . -}}
{{- include "pillion.checkDefinition" . -}}
{{- include "pillion.checkController" . -}}
{{- include "pillion.checkAutoscaling" . -}}
{{- include "pillion.checkDisruptionBudget" . -}}
{{- with .Values.server -}}
{{- if and .port (eq (int .port) (int .healthPort)) -}}
{{- fail (printf "server.port and server.healthPort are both %d; give them different ports" (int .port)) -}}
{{- end -}}
{{- end -}}
{{- range (default dict .Values.rbac).sidecarSetReaders -}}
{{- if and (eq .kind "ServiceAccount") (not .namespace) -}}
{{- fail (printf "rbac.sidecarSetReaders has the ServiceAccount %q without a namespace; add namespace" .name) -}}
{{- end -}}
{{- end -}}
{{- range $process := list "server" "controller" -}}
{{- $values := index $.Values $process -}}
{{- range default list $values.extraArgs -}}
{{- if and (hasPrefix "--log-level" .) (ne (default "info" $values.logLevel) "info") -}}
{{- fail (printf "%s.logLevel is %q, and %s.extraArgs has %q: the process takes one of them. Remove it from extraArgs" $process $values.logLevel $process .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pillion.checkAutoscaling" -}}
{{- with .Values.server.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "server.autoscaling.minReplicas is %d, and maxReplicas is %d; set maxReplicas to at least minReplicas" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if not (dig "requests" "cpu" "" (default dict $.Values.server.resources)) -}}
{{- fail "server.autoscaling.enabled is true, and server.resources.requests.cpu is absent: the autoscaler measures a percentage of it. Set server.resources.requests.cpu" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A number of Pods that must stay, and that a process does not exceed, stops every drain of its nodes. */}}
{{- define "pillion.checkDisruptionBudget" -}}
{{- with .Values.podDisruptionBudget -}}
{{- $min := get . "minAvailable" -}}
{{- $hasMin := ne (toString $min) "" -}}
{{- if and $hasMin (ne (toString (get . "maxUnavailable")) "") -}}
{{- fail "podDisruptionBudget.minAvailable and podDisruptionBudget.maxUnavailable are both set; a PodDisruptionBudget takes one of them. Remove one" -}}
{{- end -}}
{{- if and .enabled $hasMin (not (kindIs "string" $min)) -}}
{{- $replicas := dict -}}
{{- if not $.Values.kubewarden.enabled }}{{ $_ := set $replicas (ternary "server.autoscaling.minReplicas" "server.replicas" (dig "autoscaling" "enabled" false $.Values.server)) (include "pillion.replicas" $.Values.server | int) }}{{ end -}}
{{- if $.Values.controller.enabled }}{{ $_ := set $replicas "controller.replicas" (int $.Values.controller.replicas) }}{{ end -}}
{{- range $value, $number := $replicas -}}
{{- if and (gt $number 1) (ge (int $min) $number) -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %d, and %s is %d: no node with such a Pod could be drained. Use podDisruptionBudget.maxUnavailable, or a percentage below 100%%" (int $min) $value $number) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pillion.checkServer" -}}
{{- $certificates := .Values.server.certificates -}}
{{- $issuer := default dict $certificates.issuer -}}
{{- if and .Values.kubewarden.enabled (ne $certificates.source "self-signed") -}}
{{- fail (printf "kubewarden.enabled is true, and server.certificates.source is %q: with Kubewarden there is no server of Pillion, and the certificate would not be used. Leave out server.certificates, or set kubewarden.enabled to false" $certificates.source) -}}
{{- end -}}
{{- if not $certificates.secretName -}}
{{- fail "server.certificates.secretName is empty; name the Secret with the certificate, or leave the value out" -}}
{{- end -}}
{{- if and (eq $certificates.source "files") (eq $certificates.secretName "pillion-serve-tls") (not $certificates.caBundle) -}}
{{- fail "server.certificates.source is files, and neither secretName nor caBundle is set: the API server could not trust the certificate. Set server.certificates.secretName to your Secret with tls.crt and tls.key, and server.certificates.caBundle to the CA that signed it, PEM (--set-file server.certificates.caBundle=ca.crt)" -}}
{{- end -}}
{{- if and $certificates.caBundle (ne $certificates.source "files") -}}
{{- fail (printf "server.certificates.caBundle is set, and server.certificates.source is %q, which writes caBundle itself. Remove caBundle, or set the source to files" $certificates.source) -}}
{{- end -}}
{{- if and $certificates.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $certificates.caBundle)) -}}
{{- fail "server.certificates.caBundle has no certificate in PEM; use --set-file server.certificates.caBundle=ca.crt" -}}
{{- end -}}
{{- if and (or $issuer.kind $issuer.name) (ne $certificates.source "cert-manager") -}}
{{- fail (printf "server.certificates.issuer is set, and server.certificates.source is %q. Set the source to cert-manager, or remove the issuer" $certificates.source) -}}
{{- end -}}
{{- if ne (empty $issuer.kind) (empty $issuer.name) -}}
{{- fail "server.certificates.issuer needs both kind and name, such as ClusterIssuer and internal; leave out both for an issuer with a CA of its own" -}}
{{- end -}}
{{- end -}}

{{- define "pillion.checkKubewarden" -}}
{{- with .Values.kubewarden -}}
{{- if and .module (not (regexMatch (ternary "^(registry|https?|file)://[^[:space:]]+$" "^[^[:space:]]+$" (contains "://" .module)) .module)) -}}
{{- fail (printf "kubewarden.module is %q; write registry://REGISTRY/NAME:TAG, or a URL with https, http or file" .module) -}}
{{- end -}}
{{- if and (not .enabled) (or .module .policyServer (ne .mode "protect")) -}}
{{- fail "kubewarden.module, kubewarden.policyServer or kubewarden.mode is set, and kubewarden.enabled is false: the values would have no effect. Set kubewarden.enabled to true, or remove them" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of the conversion's webhook, Helm 4 can only remove the fields that it wrote, and the server wrote caBundle. */}}
{{- define "pillion.checkDefinition" -}}
{{- if and .Values.kubewarden.enabled (include "pillion.hasDefinition" .) -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "sidecarsets.apps.kruise.io" -}}
{{- if dig "spec" "conversion" "webhook" "clientConfig" "caBundle" "" $there -}}
{{- fail "kubewarden.enabled is true, and the SidecarSet definition still converts with the server of this release, which goes. Run this first, and Helm again: kubectl patch customresourcedefinition sidecarsets.apps.kruise.io --type merge --patch '{\"spec\":{\"conversion\":{\"strategy\":\"None\",\"webhook\":null}}}'" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "pillion.checkController" -}}
{{- $gates := default dict (default dict .Values.settings).featureGates -}}
{{- if and .Values.controller.rollouts.enabled (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) -}}
{{- fail (printf "controller.rollouts.enabled is true, and the cluster runs Kubernetes %s: the ValidatingAdmissionPolicy that limits the controller needs 1.30. Upgrade the cluster, or set controller.rollouts.enabled to false" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- with .Values.controller -}}
{{- if and .tokenNamespaces (not $gates.SidecarSetServiceAccountInjection) -}}
{{- fail "controller.tokenNamespaces is set, and identities are off: no sidecar has a token. Set settings.featureGates.SidecarSetServiceAccountInjection to true, or remove controller.tokenNamespaces" -}}
{{- end -}}
{{- range $item := .controllers -}}
{{- if eq (trimPrefix "-" $item) "sidecarset-rollout" -}}
{{- fail (printf "controller.controllers has %q; use controller.rollouts.enabled, which is the switch for rollouts" $item) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
