{{/* What NOTES.txt says about the SidecarSet definition of the cluster. */}}
{{- define "pillion.notesAboutDefinition" -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "sidecarsets.apps.kruise.io" -}}
{{- if and .Values.crds.install $there (not (include "pillion.hasDefinition" .)) }}

The cluster has a SidecarSet definition that this release did not make, of OpenKruise or of another release. It was left
alone. Of OpenKruise's definition, the fields of identities are pruned: use the annotations (docs/identities.md).
{{- end }}
{{- if and (not $there) (not .Values.crds.install) }}

crds.install is false, and the cluster has no SidecarSet definition: only settings.sidecarSets are injected.
{{- end }}
{{- with dig "spec" "conversion" "webhook" "clientConfig" "service" dict $there }}
{{- if and .name (not (include "pillion.hasDefinition" $)) (not (lookup "v1" "Service" .namespace .name)) }}

WARNING: the definition converts with the Service {{ .namespace }}/{{ .name }}, which is not there: the API server can
neither list nor change SidecarSets. If OpenKruise was removed, let the API server convert without it:

  kubectl patch customresourcedefinition sidecarsets.apps.kruise.io --type merge --patch '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
{{- end }}
{{- end }}
{{- end -}}

{{/* What NOTES.txt says about namespaces whose Pods no policy sees, and in which SidecarSets may still name an account. */}}
{{- define "pillion.notesAboutNamespaces" -}}
{{- $unprotected := list -}}
{{- range .excluded | uniq | sortAlpha }}
{{- if not (has . $.protected) }}{{ $unprotected = append $unprotected . }}{{ end -}}
{{- end -}}
{{- if and .facts.identities $unprotected }}

No policy sees the Pods of {{ join ", " $unprotected }}: add these namespaces to
settings.serviceAccounts.protectedNamespaces, so that no SidecarSet names a ServiceAccount there.
{{- end }}
{{- end -}}

{{/* What NOTES.txt says about settings.sidecarSets where Kubewarden runs the policies. */}}
{{- define "pillion.notesAboutSidecarSets" -}}
{{- if .settings.sidecarSets }}
{{- if .bundlesSettings }}

The controller keeps settings.sidecarSets in the bundle, ConfigMap {{ .settings.bundleRef.namespace }}/{{ .settings.bundleRef.name }}. A change of them
takes effect about a minute after the upgrade.
{{- else }}

The policies have settings.sidecarSets as manifests, which the policy server copies for each request: with 10 of them,
each Pod takes 1.4 times as long as with a bundle of them, and 100 take five times as long. Compile them, and write the
text into settings.bundle in place of settings.sidecarSets:

  pillion bundle sidecarsets/
{{- if ne (toString .settings.onBundleUnavailable) "UseSettings" }}

Or let the controller put them into the bundle: with settings.bundleRef, and the controller "bundle".
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
