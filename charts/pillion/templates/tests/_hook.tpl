{{/* The annotations of an object that the test needs: its weight. It is removed however the test ends. */}}
{{- define "pillion.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}
