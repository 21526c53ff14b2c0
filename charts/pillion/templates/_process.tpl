{{/*
A process of Pillion in the cluster, the server or controllers: its ServiceAccount, settings, Deployment,
PodDisruptionBudget and NetworkPolicy. Given are root, state, name, component, values (server or controller), arguments,
ports (name and number), grace, and secret (the one with the certificate, or nothing). An autoscaler counts the Pods if
values.autoscaling.enabled.
*/}}
{{- define "pillion.process" -}}
{{- $labels := include "pillion.labels" (dict "root" .root "instance" .name "component" .component) }}
{{- $selector := include "pillion.selector" (dict "instance" .name "component" .component) }}
{{- $isInHostNetwork := dig "hostNetwork" false .values }}
{{- $isAutoscaled := dig "autoscaling" "enabled" false .values }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root "own" (list (dig "serviceAccount" "annotations" dict .values))) }}
automountServiceAccountToken: false
---
# The process reads the settings again when they change, and keeps the old ones where the new ones are invalid: nothing
# has to be restarted.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .name }}-settings
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
data:
  settings.yaml: |
    {{- toYaml .state.settings | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root "own" (list .values.deploymentAnnotations)) }}
spec:
  {{- if not $isAutoscaled }}
  replicas: {{ .values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  strategy:
    type: RollingUpdate
    # A new Pod is ready before an old one stops, unless both need the same ports of a node.
    rollingUpdate:
      maxSurge: {{ ternary 0 1 $isInHostNetwork }}
      maxUnavailable: {{ ternary 1 0 $isInHostNetwork }}
  template:
    metadata:
      labels:
        {{- with .values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- $labels | nindent 8 }}
      {{- with .values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace }}
      {{- with .values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $isInHostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      nodeSelector:
        {{- include "pillion.nodeSelector" .values | nindent 8 }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range . }}
        - {{ merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" (fromYaml $selector))) | toYaml | nindent 10 | trim }}
        {{- end }}
      {{- end }}
      containers:
        - name: pillion
          image: {{ include "pillion.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- $level := default "info" .values.logLevel }}
            {{- $logging := ternary list (list (printf "--log-level=%s" $level)) (eq $level "info") }}
            {{- range concat .arguments $logging (default list .values.extraArgs) }}
            - {{ . | quote }}
            {{- end }}
          {{- with .values.extraEnv }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- range .ports }}
            - name: {{ .name }}
              containerPort: {{ .number }}
              protocol: TCP
            {{- end }}
          startupProbe:
            {{- include "pillion.probe" (dict "path" "/healthz" "period" 2 "failures" 150) | nindent 12 }}
          livenessProbe:
            {{- include "pillion.probe" (dict "path" "/healthz" "period" 10 "failures" 3) | nindent 12 }}
          readinessProbe:
            {{- include "pillion.probe" (dict "path" "/readyz" "period" 5 "failures" 2) | nindent 12 }}
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            {{- include "pillion.containerSecurityContext" .root | nindent 12 }}
          volumeMounts:
            # The whole folder is mounted, so that changes reach the process.
            - name: settings
              mountPath: /etc/pillion
              readOnly: true
            {{- if .secret }}
            - name: tls
              mountPath: /etc/pillion-tls
              readOnly: true
            {{- end }}
            {{- with .values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: settings
          configMap:
            name: {{ .name }}-settings
        {{- with .secret }}
        - name: tls
          secret:
            secretName: {{ . }}
        {{- end }}
        {{- with .values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- if $isAutoscaled }}
{{- include "pillion.autoscaler" . }}
{{- end }}
{{- $budget := .root.Values.podDisruptionBudget }}
{{- if and $budget.enabled (gt (include "pillion.replicas" .values | int) 1) }}
---
# How many Pods a drain may take at a time. A Pod that is not ready anyway does not block the drain of a node.
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
spec:
  {{- $min := get $budget "minAvailable" }}
  {{- $max := get $budget "maxUnavailable" }}
  {{- if ne (toString $min) "" }}
  minAvailable: {{ $min }}
  {{- else }}
  maxUnavailable: {{ ternary 1 $max (eq (toString $max) "") }}
  {{- end }}
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  unhealthyPodEvictionPolicy: AlwaysAllow
{{- end }}
{{- /* A NetworkPolicy does not apply to Pods in the network of their nodes. */}}
{{- if and .root.Values.networkPolicy.enabled (not $isInHostNetwork) }}
---
# From anywhere: no selector knows where the API server, the kubelets and Prometheus run.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
spec:
  podSelector:
    matchLabels:
      {{- $selector | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
  - ports:
    {{- range .ports }}
    - protocol: TCP
      port: {{ .number }}
    {{- end }}
  # The API server, before and behind its Service.
  egress:
  - ports:
    {{- range .root.Values.networkPolicy.apiServerPorts }}
    - protocol: TCP
      port: {{ . }}
    {{- end }}
{{- end }}
{{- end -}}

{{/* The labels of the nodes of a process: its values, and Linux, since the image has no other system. */}}
{{- define "pillion.nodeSelector" -}}
{{- mergeOverwrite (dict "kubernetes.io/os" "linux") (default dict .nodeSelector) | toYaml -}}
{{- end -}}

{{/* The security context of a container. Without a value, as in an upgrade with the values of an earlier version, it is
what the Pod Security Standard "restricted" asks for. */}}
{{- define "pillion.containerSecurityContext" -}}
{{- $restricted := dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- toYaml (default $restricted .Values.containerSecurityContext) -}}
{{- end -}}

{{/* The number of Pods that a process has at least: its values. */}}
{{- define "pillion.replicas" -}}
{{- if dig "autoscaling" "enabled" false . }}{{ .autoscaling.minReplicas }}{{ else }}{{ .replicas }}{{ end -}}
{{- end -}}

{{/* The autoscaler of a process: root, name, component and values. */}}
{{- define "pillion.autoscaler" -}}
{{- $scaling := .values.autoscaling }}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pillion.labels" (dict "root" .root "instance" .name "component" .component) | nindent 4 }}
  {{- include "pillion.annotations" (dict "root" $.root) }}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {{ .name }}
  minReplicas: {{ $scaling.minReplicas }}
  maxReplicas: {{ $scaling.maxReplicas }}
  metrics:
  - type: Resource
    resource:
      name: cpu
      target:
        type: Utilization
        averageUtilization: {{ $scaling.targetCPUUtilizationPercentage }}
  {{- with $scaling.behavior }}
  behavior:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* A probe: path, period and failures. */}}
{{- define "pillion.probe" -}}
httpGet:
  path: {{ .path }}
  port: health
periodSeconds: {{ .period }}
failureThreshold: {{ .failures }}
{{- end -}}
