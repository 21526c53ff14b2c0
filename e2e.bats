#!/usr/bin/env bats
# Tests the annotated module in kwctl or in pillion: `make e2e-tests`. KWCTL chooses the program, MODULE the module.
# Needs jq.

KWCTL=${KWCTL:-kwctl}
MODULE=${MODULE:-annotated-policy.wasm}

setup_file() {
  bats_require_minimum_version 1.5.0
  export RUST_BACKTRACE=0
}

# Every test starts with a Pod that an API server sent, and the log agent that matches it.
setup() {
  REQUEST=$BATS_TEST_TMPDIR/request.json
  SETTINGS=$BATS_TEST_TMPDIR/settings.json
  SESSION=$BATS_TEST_TMPDIR/session.yml
  request pod-create-review.json
  settings .
}

# request <file of test_data> [jq program]: sets the request, changed by the program.
request() {
  jq "${2:-.}" "test_data/$1" > "$REQUEST"
}

# settings <jq program>: sets the log agent's settings, changed by the program.
settings() {
  jq "$1" test_data/settings-log-agent.json > "$SETTINGS"
}

# look_up <apiVersion> <kind> <namespace or null> <name> Success|Error <payload or message>: adds a recorded answer.
look_up() {
  cat >> "$SESSION" <<YAML
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: $1
    kind: $2
    name: $4
    namespace: $3
    disable_cache: true
  response:
    type: $5
    $([ "$5" = Success ] && echo payload || echo message): $(jq -n --arg text "$6" '$text')
YAML
}

# Runs the policy; its answer ends up in $output. Arguments go to `run`.
evaluate() {
  run --separate-stderr "$KWCTL" run --request-path "$REQUEST" --settings-path "$SETTINGS" "$@" "$MODULE"
}

# Runs the policy with the recorded look-ups.
replay() {
  evaluate --allow-context-aware --replay-host-capabilities-interactions "$SESSION"
}

# Fails unless the jq program returns true for the answer; `ops` are the operations of the patch.
answer() {
  [ "$status" -eq 0 ] || { echo "exit code $status: $stderr"; return 1; }
  jq -e 'def ops: if .patch then .patch | @base64d | fromjson else [] end; '"$1" <<< "$output" > /dev/null ||
    { echo "not so: $1"; echo "$output"; return 1; }
}

accepted_as_it_is() {
  answer '.allowed and (has("patch") | not) and .status == null'
}

# refused <code> <part of the message>
refused() {
  answer ".allowed == false and (has(\"patch\") | not) and .status.code == $1"
  answer ".status.message | contains($(jq -n --arg text "$2" '$text'))"
}

# settings_refused <part of the message>...
settings_refused() {
  evaluate
  [ "$status" -eq 1 ]
  for text in 'Provided settings are not valid: ' "$@"; do
    [[ "$stderr" == *"$text"* ]] || { echo "\"$text\" is not in: $stderr"; return 1; }
  done
}

# --- accepted unchanged

@test "accepted as it is: no settings" {
  run --separate-stderr "$KWCTL" run --request-path "$REQUEST" "$MODULE"
  accepted_as_it_is
}

@test "accepted as it is: a Pod that no SidecarSet matches" {
  request pod-create-review.json '.request.object.metadata.labels.mode = "other"'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: injection is paused" {
  settings '.sidecarSets[0].spec.injectionStrategy.paused = true'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: another kind, whatever the settings hold" {
  request pod-create-review.json '.request |= (.kind.kind = "Service" | .requestKind.kind = "Service" | .resource.resource = "services")'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a kind that is called Pod in another group" {
  request pod-create-review.json '.request |= (.kind.group = "example.com" | .resource.group = "example.com")'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a Pod is deleted" {
  request pod-delete-review.json
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a Pod is updated" {
  request pod-create-review.json '.request |= (.operation = "UPDATE" | .oldObject = .object)'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a subresource of a Pod" {
  request pod-create-review.json '.request |= (.subResource = "binding" | .requestSubResource = "binding")'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a SidecarSet is deleted" {
  request sidecarset-create-review.json '.request |= (.operation = "DELETE" | .oldObject = .object | .object = null)'
  evaluate
  accepted_as_it_is
}

@test "accepted as it is: a Pod that was injected before, under another uid" {
  request pod-readmission-review.json
  evaluate
  accepted_as_it_is
  answer '.auditAnnotations["injected-sidecarsets"] == "log-agent"'
}

# --- injected

@test "injected: the sidecar, its volume and the annotations are added, nothing else is touched" {
  evaluate
  answer '.allowed and .patchType == "JSONPatch" and .warnings == null'
  answer '[ops[] | .op] | unique == ["add"]'
  answer '[ops[] | .path] | sort == ["/metadata/annotations", "/spec/containers/1", "/spec/volumes/1"]'
  answer 'ops[] | select(.path == "/spec/containers/1").value
    | .name == "log-agent" and .image == "fluent/fluent-bit:3.0" and .imagePullPolicy == "IfNotPresent"'
  answer 'ops[] | select(.path == "/metadata/annotations").value
    | .["kruise.io/sidecarset-injected-list"] == "log-agent"
    and (.["kruise.io/sidecarset-hash"] | fromjson | .["log-agent"].sidecarList == ["log-agent"])'
}

@test "injected: a manifest that says that the Pod has finished" {
  request pod-create-review.json '.request.object.status.phase = "Succeeded"'
  evaluate
  answer '.allowed and any(ops[]; .path == "/spec/containers/1") and all(ops[]; .path | startswith("/status") | not)'
}

@test "injected: audit annotations name the SidecarSet and the container" {
  evaluate
  answer '.auditAnnotations == {"injected-sidecarsets": "log-agent", "injected-containers": "log-agent/log-agent"}'
}

@test "injected: a bare request is answered like a review" {
  request pod-create-request.json
  evaluate
  answer '.allowed and any(ops[]; .path == "/spec/containers/1")'
}

@test "injected: the request may come from standard input, the settings from the command line" {
  run --separate-stderr "$KWCTL" run --request-path - --settings-json "$(cat "$SETTINGS")" "$MODULE" < "$REQUEST"
  answer '.allowed and any(ops[]; .path == "/spec/containers/1")'
}

@test "injected: settings may be YAML" {
  cat > "$SETTINGS" <<YAML
sidecarSets:
  - apiVersion: apps.kruise.io/v1alpha1
    kind: SidecarSet
    metadata: {name: yaml}
    spec:
      namespace: default
      selector: {matchLabels: {mode: strip}}
      containers: [{name: yaml, image: "busybox:1.36", podInjectPolicy: AfterAppContainer}]
YAML
  look_up v1 Namespace null default Success '{"metadata":{"name":"default","labels":{"kubernetes.io/metadata.name":"default"}}}'
  replay
  answer '.allowed and any(ops[]; .value.name? == "yaml")'
}

@test "injected: a dry run is answered like the real thing" {
  request pod-create-review.json '.request.dryRun = true'
  evaluate
  answer '.allowed and any(ops[]; .path == "/spec/containers/1")'
}

@test "injected: a native sidecar before the containers" {
  settings '.sidecarSets[0].spec |= (.updateStrategy = {type: "NotUpdate"} | .initContainers = [{
    name: "native", image: "busybox:1.36", restartPolicy: "Always"}])'
  evaluate
  answer 'any(ops[]; .path == "/spec/initContainers" and .value[0].restartPolicy == "Always")'
  answer '.auditAnnotations["injected-containers"] == "log-agent/native,log-agent/log-agent"'
}

@test "injected: resources that are computed" {
  request pod-create-review.json '.request.object.spec.containers[0].resources = {requests: {cpu: "1"}, limits: {memory: "1Gi"}}'
  settings '.sidecarSets[0].spec.containers[0] |= (del(.resources) | .resourcesPolicy = {
    targetContainersMode: "sum", targetContainersNameRegex: ".*",
    resourcesExpr: {requests: {cpu: "cpu*10%"}, limits: {memory: "memory/4"}}})'
  evaluate
  answer 'ops[] | select(.path == "/spec/containers/1").value.resources == {requests: {cpu: "100m"}, limits: {memory: "256Mi"}}'
}

@test "injected: annotations alone" {
  settings '.sidecarSets[0].spec.patchPodMetadata = [{patchPolicy: "Retain", annotations: {"example.com/scrape": "true"}}]'
  evaluate
  answer 'ops[] | select(.path == "/metadata/annotations").value["example.com/scrape"] == "true"'
}

# --- warnings

@test "a warning: a variable that is not there" {
  settings '.sidecarSets[0].spec.containers[0].transferEnv = [{sourceContainerName: "p-strip", envName: "ABSENT"}]'
  evaluate
  answer '.allowed and (.warnings | length == 1) and (.warnings[0] | contains("\"ABSENT\" is not set in container \"p-strip\""))'
}

@test "a warning: a plain sidecar in the Pod of a Job" {
  request pod-create-review.json '.request.object.metadata.ownerReferences = [{
    apiVersion: "batch/v1", kind: "Job", name: "j", uid: "u", controller: true}]'
  evaluate
  answer '.allowed and (.warnings[0] | contains("may keep the Job from finishing"))'
}

@test "a warning: a field of a SidecarSet that nobody knows" {
  request sidecarset-create-review.json '.request.object.spec.containers[0].imagePulPolicy = "Always"'
  evaluate
  answer '.allowed and (.warnings[0] | startswith("spec.containers[0].imagePulPolicy: unknown field"))'
}

@test "a warning: a SidecarSet that is not among the settings" {
  settings '.sidecarSets = []'
  request sidecarset-create-review.json
  evaluate
  answer '.allowed and (.warnings[0] | contains("will not be injected"))'
}

# --- refusals of Pods, by code

@test "400: a Pod that cannot be decoded" {
  request pod-create-review.json '.request.object.spec.containers = "none"'
  evaluate
  refused 400 'spec.containers'
}

@test "400: a request without its operation" {
  request pod-create-review.json '.request.operation = "SELL"'
  evaluate
  refused 400 operation
}

@test "403: a sidecar with the name of a container" {
  settings '.sidecarSets[0] |= (.metadata.name = "intruder" | .spec.containers[0].name = "p-strip")'
  evaluate
  refused 403 'SidecarSet "intruder": spec.containers[0].name: sidecar "p-strip"'
  answer '.auditAnnotations == {"refused-because": "forbidden", "refused-by": "intruder"}'
}

@test "injected: annotations of an injected Pod, pasted onto one without the sidecar" {
  request pod-readmission-review.json '.request.object.spec.containers |= map(select(.name != "log-agent"))'
  evaluate
  answer '.allowed and any(ops[]; .path == "/spec/containers/1" and .value.name == "log-agent")'
}

@test "injected: annotations of an injected Pod do not protect a sidecar that was changed" {
  request pod-readmission-review.json '(.request.object.spec.containers[] | select(.name == "log-agent")) |= (.command = ["sleep"])'
  evaluate
  answer '.allowed and any(ops[]; .path == "/spec/containers/1/command" and .op == "remove")'
}

@test "403: a revision that is neither in the settings nor in the cluster" {
  settings '.sidecarSets[0].spec.injectionStrategy.revision = {customVersion: "v0", policy: "Always"}'
  evaluate
  refused 403 'v0'
}

@test "422: an annotation that cannot be merged" {
  request pod-create-review.json '.request.object.metadata.annotations["example.com/json"] = "no JSON"'
  settings '.sidecarSets[0].spec.patchPodMetadata = [{patchPolicy: "MergePatchJson", annotations: {"example.com/json": "{}"}}]'
  evaluate
  refused 422 'example.com/json'
  answer '.auditAnnotations["refused-because"] == "invalid"'
}

@test "403: resources for which there is nothing to compute from" {
  settings '.sidecarSets[0].spec.containers[0] |= (del(.resources) | .resourcesPolicy = {
    targetContainersMode: "sum", targetContainersNameRegex: "^absent$", resourcesExpr: {requests: {cpu: "cpu*10%"}}})'
  evaluate
  refused 403 'no containers match'
}

# --- look-ups

with_namespace_selector() {
  settings '.sidecarSets[0].spec.namespaceSelector = {matchLabels: {team: "a"}}'
}

@test "a look-up: the Namespace matches" {
  with_namespace_selector
  look_up v1 Namespace null default Success '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","labels":{"team":"a"}}}'
  replay
  answer '.allowed and any(ops[]; .path == "/spec/containers/1")'
}

@test "a look-up: the Namespace does not match" {
  with_namespace_selector
  look_up v1 Namespace null default Success '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default","labels":{"team":"b"}}}'
  replay
  accepted_as_it_is
}

@test "a look-up: the Namespace is not there" {
  with_namespace_selector
  look_up v1 Namespace null default Error "Cannot find v1/Namespace named 'default' inside of namespace 'None'"
  replay
  accepted_as_it_is
}

@test "503: the Namespace may not be read, and the message gives nothing away" {
  with_namespace_selector
  look_up v1 Namespace null default Error 'ApiError: namespaces "default" is forbidden: User "system:serviceaccount:kubewarden:policy-server" cannot get resource "namespaces": Forbidden'
  replay
  refused 503 contextAwareResources
  answer '.status.message | contains("system:serviceaccount") | not'
  answer '.auditAnnotations["refused-because"] == "unavailable"'
}

@test "503: the API server takes too long" {
  with_namespace_selector
  look_up v1 Namespace null default Error 'ServiceError: client error (Connect): deadline has elapsed'
  replay
  refused 503 'default'
}

@test "503: the host grants no access to the cluster" {
  with_namespace_selector
  evaluate
  refused 503 'default'
}

with_revision() {
  settings '.sidecarSets[0].spec.injectionStrategy.revision = {revisionName: "log-agent-1", policy: "Always"}'
}

@test "a look-up: the revision is in the cluster" {
  with_revision
  look_up apps/v1 ControllerRevision kruise-system log-agent-1 Success '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"log-agent-1","namespace":"kruise-system","labels":{"kruise.io/sidecarset-name":"log-agent"}},"revision":1,"data":{"spec":{"$patch":"replace","containers":[{"name":"log-agent","image":"fluent/fluent-bit:2.2"}]}}}'
  replay
  answer 'any(ops[]; .value.image? == "fluent/fluent-bit:2.2")'
}

@test "403: the revision is of another SidecarSet" {
  with_revision
  look_up apps/v1 ControllerRevision kruise-system log-agent-1 Success '{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"log-agent-1","namespace":"kruise-system","labels":{"kruise.io/sidecarset-name":"other"}},"revision":1,"data":{"spec":{"$patch":"replace","containers":[{"name":"log-agent","image":"fluent/fluent-bit:2.2"}]}}}'
  replay
  refused 403 log-agent-1
}

@test "403: the revision is not there" {
  with_revision
  look_up apps/v1 ControllerRevision kruise-system log-agent-1 Error "Cannot find apps/v1/ControllerRevision named 'log-agent-1' inside of namespace 'Some(\"kruise-system\")'"
  replay
  refused 403 log-agent-1
}

# --- SidecarSets

@test "a SidecarSet is defaulted and hashed" {
  request sidecarset-create-review.json
  evaluate
  answer '.allowed and .patchType == "JSONPatch"'
  answer '[ops[] | .op] | unique == ["add"]'
  answer 'any(ops[]; .path == "/metadata/annotations" and (.value["kruise.io/sidecarset-hash"] | length == 64))'
  answer 'any(ops[]; .path == "/spec/containers/0/terminationMessagePath")'
}

@test "a SidecarSet stays in the version in which it was written" {
  request sidecarset-create-v1alpha1-review.json
  settings '.sidecarSets = []'
  evaluate
  answer '.allowed and any(ops[]; .path == "/metadata/annotations") and all(ops[]; .path != "/apiVersion" and .op == "add")'
}

@test "a SidecarSet that was hashed before is accepted as it is" {
  request sidecarset-create-review.json
  evaluate
  answer .allowed
  # The object that the API server would store: the request's, with the answer's patch applied.
  jq --argjson ops "$(jq '.patch | @base64d | fromjson' <<< "$output")" '
    reduce $ops[] as $op (.; setpath(["request", "object"] + ($op.path[1:] | split("/")
      | map(gsub("~1"; "/") | gsub("~0"; "~") | if test("^[0-9]+$") then tonumber else . end)); $op.value))' \
    "$REQUEST" > "$BATS_TEST_TMPDIR/stored.json"
  REQUEST=$BATS_TEST_TMPDIR/stored.json
  evaluate
  accepted_as_it_is
}

@test "an update of a SidecarSet that changes its image gives it another hash" {
  request sidecarset-update-adds-container-review.json '.request.object.spec.containers |= .[:1]
    | .request.object.spec.containers[0].image = "fluent/fluent-bit:3.1"'
  evaluate
  answer '.allowed and any(ops[]; .path == "/metadata/annotations")'
}

@test "422: a SidecarSet with several errors, all of which are named" {
  request sidecarset-create-invalid-review.json
  evaluate
  refused 422 'spec.selector: '
  refused 422 'spec.containers[0].volumeMounts[0].name: '
}

@test "422: an update that adds a container" {
  request sidecarset-update-adds-container-review.json
  evaluate
  refused 422 'second'
}

@test "422: a SidecarSet in conflict with one of the settings" {
  request sidecarset-create-review.json '.request |= (.name = "other" | .object.metadata.name = "other")'
  evaluate
  refused 422 'log-agent'
}

@test "422: a canary without its base" {
  settings '.sidecarSets = []'
  request sidecarset-create-review.json '.request.object |= (.metadata.annotations = {
    "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "absent"} | .spec.updateStrategy = {type: "NotUpdate"})'
  evaluate
  refused 422 'absent'
}

@test "400: a SidecarSet with a field of another type" {
  request sidecarset-create-review.json '.request.object.spec.containers[0].image = ["a", "b"]'
  evaluate
  refused 400 'spec.containers[0].image'
}

patching_annotations() {
  request sidecarset-create-review.json '.request.object.spec.patchPodMetadata = [{
    patchPolicy: "Retain", annotations: {"example.com/scrape": "true"}}]'
}

@test "a whitelist: of the settings, which allows it" {
  patching_annotations
  settings '.patchPodMetadataWhitelist.rules = [{allowedAnnotationKeyExprs: ["^example\\.com/"]}]'
  evaluate
  answer .allowed
}

@test "a whitelist: of the settings, which does not allow it" {
  patching_annotations
  settings '.patchPodMetadataWhitelist.rules = [{allowedAnnotationKeyExprs: ["^other\\.com/"]}]'
  evaluate
  refused 422 'example.com/scrape'
}

@test "a whitelist: the ConfigMap allows it" {
  patching_annotations
  look_up v1 ConfigMap kruise-system kruise-configuration Success '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kruise-configuration","namespace":"kruise-system"},"data":{"SidecarSet_PatchPodMetadata_WhiteList":"{\"rules\":[{\"allowedAnnotationKeyExprs\":[\"^example.com/\"]}]}"}}'
  replay
  answer .allowed
}

@test "a whitelist: there is no ConfigMap" {
  patching_annotations
  look_up v1 ConfigMap kruise-system kruise-configuration Error "Cannot find v1/ConfigMap named 'kruise-configuration' inside of namespace 'Some(\"kruise-system\")'"
  replay
  refused 422 'spec.patchPodMetadata'
}

@test "a whitelist: there is none, and the gate allows it" {
  patching_annotations
  settings '.featureGates.SidecarSetPatchPodMetadataDefaultsAllowed = true'
  look_up v1 ConfigMap kruise-system kruise-configuration Error "Cannot find v1/ConfigMap named 'kruise-configuration' inside of namespace 'Some(\"kruise-system\")'"
  replay
  answer .allowed
}

@test "503: the ConfigMap may not be read" {
  patching_annotations
  look_up v1 ConfigMap kruise-system kruise-configuration Error 'ApiError: configmaps "kruise-configuration" is forbidden: Forbidden'
  replay
  refused 503 'kruise-configuration'
}

# --- SidecarSets in a ConfigMap

# no_bundle [jq program]: sets settings with a bundleRef whose ConfigMap is missing, changed by the program.
no_bundle() {
  settings ".bundleRef = {namespace: \"pillion-system\", name: \"sets\"} | ${1:-.}"
  look_up v1 ConfigMap pillion-system sets Error "Cannot find v1/ConfigMap named 'sets' inside of namespace 'Some(\"pillion-system\")'"
}

@test "422: a new SidecarSet of the cluster with the name of one of the settings" {
  no_bundle '.onBundleUnavailable = "UseSettings"'
  request sidecarset-create-review.json
  replay
  refused 422 "the policy's settings have a SidecarSet of this name"
}

@test "422: a canary of the cluster for a SidecarSet of the settings" {
  no_bundle '.onBundleUnavailable = "UseSettings"'
  request sidecarset-create-review.json '.request.name = "canary" | .request.object |= (.metadata |= (.name = "canary" | .annotations = {
    "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "log-agent"}) | .spec.updateStrategy = {type: "NotUpdate"})'
  replay
  refused 422 'which only a canary of the settings replaces'
}

@test "503: the ConfigMap of bundleRef is not there" {
  no_bundle
  replay
  refused 503 'ConfigMap "pillion-system/sets" does not exist'
}

@test "a bundleRef: the ConfigMap is not there, and the settings will do" {
  no_bundle '.onBundleUnavailable = "UseSettings"'
  replay
  answer '.allowed and (ops | length > 0) and (.warnings[0] | contains("judged by the SidecarSets of the settings"))'
}

@test "a bundleRef: where the controller starts, the settings will do" {
  no_bundle
  request pod-create-review.json '(.request // .) |= (.namespace = "pillion-system" | .object.metadata.namespace = "pillion-system")'
  replay
  answer '.allowed and (.warnings[0] | contains("does not exist"))'
}

@test "a bundleRef: a bundle of long ago is as good as none" {
  settings '.bundleRef = {namespace: "pillion-system", name: "sets"}'
  look_up v1 ConfigMap pillion-system sets Success '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"sets","namespace":"pillion-system","annotations":{"pillion.dev/bundle-time":"2020-01-01T00:00:00Z"}},"data":{"bundle":"pillion-bundle-3:x:y"}}'
  replay
  refused 503 'is older than bundleMaxAge'
}

# --- settings that keep a policy server from starting

@test "settings: a field of another type" {
  settings '.sidecarSets[0].spec.containers[0].image = []'
  settings_refused 'sidecarSets[0].spec.containers[0].image: ' 'SidecarSet "log-agent"'
}

@test "settings: unknown ones and wrong ones, all at once" {
  settings '.sidecarsets = [] | .bundleRef = {namespace: "pillion-system"} | .onBundleUnavailable = "Ignore" | .bundleMaxAge = "1d"'
  settings_refused 'sidecarsets: Unknown field' 'bundleRef.name: Required value' 'onBundleUnavailable: Unsupported value' 'bundleMaxAge: Invalid value'
}

@test "settings: a manifest of another kind" {
  settings '.sidecarSets[0].kind = "Deployment"'
  settings_refused 'sidecarSets[0].kind'
}

@test "settings: one name twice" {
  settings '.sidecarSets += .sidecarSets'
  settings_refused 'sidecarSets[1].metadata.name: Duplicate value: "log-agent"'
}

@test "settings: an invalid SidecarSet" {
  settings '.sidecarSets[0].spec.selector = {}'
  settings_refused 'sidecarSets[0].spec.selector'
}

@test "settings: a conflict of two SidecarSets" {
  settings '.sidecarSets += (.sidecarSets | map(.metadata.name = "zz"))'
  settings_refused 'sidecarSets[1].spec.containers' '"log-agent"'
}

@test "settings: a canary without its base" {
  settings '.sidecarSets[0] |= (.metadata.annotations = {"apps.kruise.io/sidecarset-canary": "true",
    "apps.kruise.io/sidecarset-base": "absent"} | .spec.updateStrategy = {type: "NotUpdate"})'
  settings_refused '"absent"'
}

@test "settings: an expression that no value can cure" {
  settings '.sidecarSets[0].spec.containers[0] |= (del(.resources) | .resourcesPolicy = {
    targetContainersMode: "sum", targetContainersNameRegex: ".*", resourcesExpr: {requests: {cpu: "cpu*cpu"}}})'
  settings_refused 'sidecarSets[0].spec.containers[0].resourcesPolicy'
}

@test "settings: a feature gate that nobody knows" {
  settings '.featureGates.Typo = true'
  settings_refused 'featureGates.Typo: Unknown field'
}

@test "settings: a feature gate that is a string" {
  settings '.featureGates.EnableSortSidecarContainerByName = "true"'
  settings_refused 'featureGates.EnableSortSidecarContainerByName: '
}

@test "settings: a system namespace that cannot exist" {
  settings '.systemNamespace = "Kruise System"'
  settings_refused 'systemNamespace'
}

@test "settings: a whitelist with a broken expression" {
  settings '.patchPodMetadataWhitelist.rules = [{allowedAnnotationKeyExprs: ["("]}]'
  settings_refused 'patchPodMetadataWhitelist.rules[0].allowedAnnotationKeyExprs[0]'
}

@test "settings: a revision of another kind" {
  settings '.controllerRevisions = [{apiVersion: "v1", kind: "Pod", metadata: {name: "r"}}]'
  settings_refused 'controllerRevisions[0]'
}

@test "settings: null is no settings" {
  run --separate-stderr "$KWCTL" run --request-path "$REQUEST" --settings-json null "$MODULE"
  accepted_as_it_is
}

@test "settings: a list is refused" {
  run --separate-stderr "$KWCTL" run --request-path "$REQUEST" --settings-json '[]' "$MODULE"
  [ "$status" -eq 1 ]
}

# --- the policy as a custom resource

custom_resource() {
  cat > "$BATS_TEST_TMPDIR/policy.yaml" <<YAML
apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata:
  name: pillion
spec:
  module: file://$PWD/$MODULE
  mode: ${1:-protect}
  mutating: ${2:-true}
  rules:
    - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  settings: $(jq -c . "$SETTINGS")
YAML
  run --separate-stderr "$KWCTL" run --request-path "$REQUEST" "$BATS_TEST_TMPDIR/policy.yaml"
}

@test "a custom resource: its settings are used" {
  custom_resource
  answer '.allowed and any(ops[]; .path == "/spec/containers/1")'
}

@test "a custom resource: monitor mode refuses nothing and changes nothing" {
  settings '.sidecarSets[0].spec.containers[0].name = "p-strip"'
  custom_resource monitor
  accepted_as_it_is
}

@test "a custom resource: without mutating, an injection is refused" {
  custom_resource protect false
  answer '.allowed == false and (.status.message | contains("mutate"))'
}

# --- identities

MERGED=sidecarset-merged-7e18f737311b2dc3 # of the SidecarSets a and b

# identity [jq program]: gives the log agent a ServiceAccount; the program changes the settings.
identity() {
  settings ".featureGates.SidecarSetServiceAccountInjection = true
    | .sidecarSets[0].spec.serviceAccountName = \"log-agent\" | ${1:-.}"
}

# session <file of test_data>: uses the cluster's answers that were recorded in this file.
session() {
  SESSION=test_data/$1
}

# Applies the answer's patch to the Pod of $REQUEST: the Pod that the API server would continue with.
patched() {
  jq --argjson ops "$(jq '.patch | @base64d | fromjson' <<< "$output")" '
    def path: .path[1:] | split("/") | map(gsub("~1"; "/") | gsub("~0"; "~") | if test("^[0-9]+$") then tonumber else . end);
    reduce $ops[] as $op (.; (["request", "object"] + ($op | path)) as $path
      | if $op.op == "remove" then delpaths([$path]) else setpath($path; $op.value) end)' "$REQUEST"
}

@test "an identity: the ServiceAccount is there, and only the sidecar has its token" {
  identity
  session session-account-found.yml
  replay
  answer 'any(ops[]; .path == "/spec/serviceAccountName" and .value == "log-agent")'
  answer 'any(ops[]; .path == "/spec/automountServiceAccountToken" and .value == false)'
  patched > "$BATS_TEST_TMPDIR/pod.json"
  jq -e '.request.object.spec | [.containers[] | select(any(.volumeMounts[]?; .mountPath == "/var/run/secrets/kubernetes.io/serviceaccount"))
    | .name] == ["log-agent"]' "$BATS_TEST_TMPDIR/pod.json"
}

@test "an identity: a Pod that was given one is admitted again as it is" {
  identity
  session session-account-found.yml
  replay
  patched > "$BATS_TEST_TMPDIR/pod.json"
  REQUEST=$BATS_TEST_TMPDIR/pod.json
  replay
  accepted_as_it_is
}

@test "an identity: in mode Isolate the app keeps what it has" {
  identity '.sidecarSets[0].spec.serviceAccountMode = "Isolate"'
  session session-account-found.yml
  replay
  answer '[ops[].path] | any(startswith("/spec/containers/0") or startswith("/spec/serviceAccount") or startswith("/spec/automount")) | not'
  answer 'any(ops[]; .value.projected?.sources[0].secret.name? == "sidecarset-token-b077d031c6eaa197")'
}

@test "403: a Pod in which others can read the token of a sidecar" {
  identity '.serviceAccounts.exposure = "Deny"'
  session session-account-found.yml
  replay
  answer 'any(ops[]; .path == "/spec/serviceAccountName")'
  request pod-create-review.json '.request.object.spec.hostPID = true'
  replay
  refused 403 'SidecarSet "log-agent": spec.hostPID: lets every container of the Pod read the token of this SidecarSet through /proc'
}

@test "403: the ServiceAccount is not there" {
  identity
  session session-account-missing.yml
  replay
  refused 403 'ServiceAccount "log-agent" does not exist in namespace "default"'
}

@test "an identity: the ServiceAccount is not there, and the settings do without" {
  identity '.serviceAccounts.onMissing = "Skip"'
  session session-account-missing.yml
  replay
  answer '.allowed and any(ops[]; .path == "/spec/containers/1") and (any(ops[]; .path == "/spec/serviceAccountName") | not)'
  answer '.warnings[0] | contains("is injected without its ServiceAccount")'
}

@test "403: the ServiceAccount is being deleted" {
  identity
  session session-account-terminating.yml
  replay
  refused 403 'ServiceAccount "log-agent" is being deleted in namespace "default"'
}

@test "503: the ServiceAccount may not be read, which is not the same as missing" {
  identity '.serviceAccounts.onMissing = "Skip"'
  session session-account-forbidden.yml
  replay
  refused 503 'contextAwareResources must list v1 ServiceAccount and hostCapabilities kubernetes/get_resource'
  answer '.status.message | contains("policy-server\" cannot") | not'
}

@test "503: the host capability is not granted, which is not the same as missing either" {
  identity '.serviceAccounts.onMissing = "Skip"'
  rm -f "$SESSION"
  look_up v1 ServiceAccount default log-agent Error "Policy has not been granted access to the 'kubernetes/get_resource' host capability. The violation has been reported."
  replay
  refused 503 'hostCapabilities kubernetes/get_resource'
}

@test "an identity: without the gate nothing is looked up, and a warning says so" {
  identity '.featureGates = {}'
  evaluate
  answer '.allowed and (any(ops[]; .path == "/spec/serviceAccountName") | not)'
  answer '.warnings[0] | contains("the feature gate SidecarSetServiceAccountInjection is off")'
}

# A SidecarSet for one namespace; its author is not an admin.
granting() {
  identity '.serviceAccounts.denyPermissions = []'
  request sidecarset-create-review.json '.request |= (.userInfo = {username: "ann", groups: ["system:authenticated"]}
    | .object.spec |= (.serviceAccountName = "log-agent" | .behaviorWhenServiceAccountInjection = "Merge"
      | .namespaceSelector = {matchLabels: {"kubernetes.io/metadata.name": "default"}}
      | .serviceAccountPermissions = [{apiGroups: [""], resources: ["pods"], verbs: ["get"]}]))'
}

@test "an author who holds what the SidecarSet hands out" {
  granting
  session session-author-may.yml
  replay
  answer .allowed
}

@test "403: an author whose SidecarSet would get the rights of another one by merging" {
  granting
  jq '.sidecarSets[0] |= (.metadata.name = "metrics" | .spec |= (.containers[0] |= {name: "metrics", image}
    | del(.volumes) | .serviceAccountName = "metrics" | .behaviorWhenServiceAccountInjection = "Merge"))' \
    "$SETTINGS" > "$BATS_TEST_TMPDIR/merging.json"
  SETTINGS=$BATS_TEST_TMPDIR/merging.json
  session session-author-may.yml
  replay
  refused 403 'do not trust each other with a merged one'
}

@test "403: an author who does not hold it" {
  granting
  session session-author-may-not.yml
  replay
  refused 403 '"ann" may not grant get pods in namespace "default"'
  refused 403 '"ann" may not use the ServiceAccount "log-agent" in namespace "default"'
}

@test "403: what nobody may hand out needs no question" {
  granting
  identity
  jq '.request.object.spec.serviceAccountPermissions[0].resources = ["pods", "secrets"]' "$REQUEST" > "$BATS_TEST_TMPDIR/secrets.json"
  REQUEST=$BATS_TEST_TMPDIR/secrets.json
  evaluate
  refused 403 'no sidecar may get that'
}

@test "403: the rights of an author cannot be asked for" {
  granting
  evaluate
  refused 403 'could not be verified'
}

# --- the asserting twin

twin() {
  session session-account-found.yml
  identity
  replay
  patched > "$BATS_TEST_TMPDIR/pod.json"
  jq "${1:-.}" "$BATS_TEST_TMPDIR/pod.json" > "$REQUEST"
  identity '.role = "Assert"'
  replay
}

@test "the twin: what the policy made is accepted, and never changed" {
  twin
  accepted_as_it_is
}

@test "the twin: a Pod that was not injected is not changed" {
  identity '.role = "Assert"'
  session session-account-found.yml
  replay
  accepted_as_it_is
}

@test "403: the twin finds a container that mounts the token of a sidecar" {
  twin '.request.object.spec.containers |= (.[0].volumeMounts = .[1].volumeMounts)'
  refused 403 'container "p-strip" mounts the volume "sidecarset-sa-b077d031c6eaa197", which belongs to a sidecar'
}

@test "403: the twin finds a sidecar without its token" {
  twin 'del(.request.object.spec.containers[1].volumeMounts)'
  refused 403 'sidecar "log-agent" lacks the token of "log-agent"'
}

# --- guards

# guard <operation> <group> <kind> <object> [jq program]: sets a request about an object, changed by the program.
guard() {
  jq -n --arg operation "$1" --arg group "$2" --arg kind "$3" --argjson object "$4" '{apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: {
    uid: "705ab4f5-6393-11e8-b7cc-42010a800002", operation: $operation, namespace: "default", dryRun: false,
    name: $object.metadata.name, kind: {group: $group, version: "v1", kind: $kind},
    resource: {group: $group, version: "v1", resource: ($kind | ascii_downcase + "s")},
    userInfo: {username: "ann", groups: ["system:masters"]}, options: {}}}
    | .request[if $operation == "DELETE" then "oldObject" else "object" end] = $object | '"${5:-.}" > "$REQUEST"
}

MANAGED='{"metadata":{"name":"'$MERGED'","namespace":"default","annotations":{"pillion.dev/sidecarsets":"a,b"}}}'

@test "403: a merged ServiceAccount is deleted in an active namespace" {
  identity
  look_up v1 Namespace null default Success '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"},"status":{"phase":"Active"}}'
  # kubectl delete --all: the request contains no name.
  guard DELETE "" ServiceAccount "$MANAGED" 'del(.request.name)'
  replay
  refused 403 "ServiceAccount \"$MERGED\" belongs to Pillion's controller"
}

@test "accepted as it is: a merged ServiceAccount goes with its namespace" {
  identity
  look_up v1 Namespace null default Success '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"},"status":{"phase":"Terminating"}}'
  guard DELETE "" ServiceAccount "$MANAGED"
  replay
  accepted_as_it_is
}

@test "accepted as it is: the garbage collector is not in anybody's way" {
  identity
  guard DELETE "" ServiceAccount "$MANAGED" '.request.userInfo = {username: "system:serviceaccount:kube-system:generic-garbage-collector"}'
  evaluate
  accepted_as_it_is
}

@test "403: a Deployment names a merged ServiceAccount" {
  identity
  guard CREATE apps Deployment '{"metadata":{"name":"d"},"spec":{"template":{"spec":{"serviceAccountName":"'$MERGED'"}}}}'
  evaluate
  refused 403 "spec.template.spec.serviceAccountName: \"$MERGED\" is a merged ServiceAccount"
}

@test "403: a workload of OpenKruise, or a PodTemplate, names a merged ServiceAccount" {
  identity
  guard CREATE apps.kruise.io UnitedDeployment '{"metadata":{"name":"u"},"spec":{"template":{"cloneSetTemplate":{"spec":{"template":{"spec":{"serviceAccountName":"'$MERGED'"}}}}}}}'
  evaluate
  refused 403 "spec.template.cloneSetTemplate.spec.template.spec.serviceAccountName: \"$MERGED\" is a merged ServiceAccount"
  guard CREATE "" PodTemplate '{"metadata":{"name":"t"},"template":{"spec":{"serviceAccountName":"'$MERGED'"}}}'
  evaluate
  refused 403 "template.spec.serviceAccountName: \"$MERGED\" is a merged ServiceAccount"
}

@test "403: a merged Role that the controller did not make" {
  identity
  guard CREATE rbac.authorization.k8s.io Role "$MANAGED"
  evaluate
  refused 403 "Role \"$MERGED\": names that start with \"sidecarset-merged-\" are for objects that Pillion's controller makes"
  guard CREATE rbac.authorization.k8s.io Role "$MANAGED" '.request.userInfo = {username: "system:serviceaccount:pillion-system:pillion-controller"}'
  evaluate
  accepted_as_it_is
}

@test "403: an ephemeral container mounts the token of a sidecar" {
  identity
  guard UPDATE "" Pod '{"metadata":{"name":"p"},"spec":{"containers":[{"name":"app","image":"nginx"}],"volumes":[{"name":"sidecarset-sa-b077d031c6eaa197","emptyDir":{}}],
    "ephemeralContainers":[{"name":"debug","image":"busybox","volumeMounts":[{"name":"sidecarset-sa-b077d031c6eaa197","mountPath":"/t"}]}]}}' \
    '.request.subResource = "ephemeralcontainers" | .request.oldObject = (.request.object | del(.spec.ephemeralContainers))'
  evaluate
  refused 403 'ephemeral container "debug" mounts the volume "sidecarset-sa-b077d031c6eaa197"'
}

@test "403: another authority in kube-root-ca.crt" {
  identity
  guard UPDATE "" ConfigMap '{"metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":"forged"},"immutable":true}' \
    '.request.oldObject = (.request.object | del(.immutable) | .data["ca.crt"] = "true")'
  evaluate
  refused 403 'by the ConfigMap "kube-root-ca.crt" the sidecars of namespace "default" know the API server'
  guard UPDATE "" ConfigMap '{"metadata":{"name":"kube-root-ca.crt"},"data":{"ca.crt":"renewed"}}' \
    '.request.oldObject = (.request.object | .data["ca.crt"] = "true") | .request.userInfo = {username: "system:serviceaccount:kube-system:root-ca-cert-publisher"}'
  evaluate
  accepted_as_it_is
  guard UPDATE "" ConfigMap '{"metadata":{"name":"settings"},"data":{"a":"b"}}' '.request.oldObject = .request.object'
  evaluate
  accepted_as_it_is
}

@test "403: a Service that takes the place of the API server" {
  identity
  guard CREATE "" Service '{"metadata":{"name":"kubernetes"},"spec":{"ports":[{"port":443}]}}' '.request.namespace = "shop"'
  evaluate
  refused 403 'in namespace "shop", a Service called "kubernetes" takes the place of the API server'
  guard CREATE "" Service '{"metadata":{"name":"kubernetes"},"spec":{"ports":[{"port":443}]}}' '.request.namespace = "default"'
  evaluate
  accepted_as_it_is
}

@test "a privileged ephemeral container beside a token is warned of, or refused" {
  identity
  guard UPDATE "" Pod '{"metadata":{"name":"p"},"spec":{"containers":[{"name":"app","image":"nginx"},
      {"name":"log-agent","image":"agent","volumeMounts":[{"name":"sidecarset-sa-b077d031c6eaa197","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],
    "volumes":[{"name":"sidecarset-sa-b077d031c6eaa197","emptyDir":{}}],
    "ephemeralContainers":[{"name":"debug","image":"busybox","securityContext":{"privileged":true}}]}}' \
    '.request.subResource = "ephemeralcontainers" | .request.oldObject = (.request.object | del(.spec.ephemeralContainers))'
  evaluate
  accepted_as_it_is
  answer '.warnings == ["ephemeral container \"debug\" is privileged and can read the tokens of the sidecar \"log-agent\""]'
  identity '.serviceAccounts.exposure = "Deny"'
  evaluate
  refused 403 'ephemeral container "debug" is privileged and can read the tokens of the sidecar "log-agent"; debug without it'
}

# guards <jq program>: sets a guard of running Pods.
guards() {
  identity '.serviceAccounts.guards = {'"$1"'}'
}

# A Pod with an isolated sidecar of the SidecarSet log-agent.
RUNNING='{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"default"},"spec":{"containers":[{"name":"app","image":"nginx:1.27"},
  {"name":"log-agent","image":"agent:1","volumeMounts":[{"name":"sidecarset-sa-b077d031c6eaa197","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],
  "volumes":[{"name":"sidecarset-sa-b077d031c6eaa197","projected":{"sources":[{"secret":{"name":"sidecarset-token-b077d031c6eaa197"}}]}}]}}'

# opening <container>: sets a request to open a container, with the recorded Pod. The artifact of this guard reads Pods.
opening() {
  MODULE=${MODULE%policy.wasm}exec.wasm
  guards 'exec: true'
  look_up v1 Pod default web Success "$(jq -c . <<< "$RUNNING")"
  guard CONNECT "" PodExecOptions '{"metadata":{"name":"web"}}' '.request |= (.name = "web" | .subResource = "exec" | .requestSubResource = "exec"
    | .resource.resource = "pods" | .userInfo.groups = ["system:authenticated"]
    | .object = {kind: "PodExecOptions", apiVersion: "v1", container: "'"$1"'", command: ["sh"]})'
}

# may_request_tokens <true or false>: adds the recorded answer about ann.
may_request_tokens() {
  cat >> "$SESSION" <<YAML
- type: Exchange
  request: |
    !KubernetesCanI
    request:
      groups:
      - system:authenticated
      resource_attributes:
        group: ''
        name: log-agent
        namespace: default
        resource: serviceaccounts
        subresource: token
        verb: create
        version: null
      user: ann
    disable_cache: true
  response:
    type: Success
    payload: '{"allowed":$1}'
YAML
}

@test "403: a user opens a sidecar, and may not request its tokens" {
  opening log-agent
  may_request_tokens false
  replay
  refused 403 'container "log-agent" of Pod "web" holds the identity of ServiceAccount "log-agent", and "ann" may not request its tokens'
}

@test "accepted as it is: a user opens a sidecar, and may request its tokens" {
  opening log-agent
  may_request_tokens true
  replay
  accepted_as_it_is
}

@test "accepted as it is: a user opens a container of the app" {
  opening app
  replay
  accepted_as_it_is
}

@test "503: the Pod that is opened may not be read" {
  opening app
  : > "$SESSION"
  look_up v1 Pod default web Error 'ApiError: pods "web" is forbidden: Forbidden'
  replay
  refused 503 'Pod "web" could not be read: not allowed'
}

@test "403: another image for a running sidecar" {
  guards 'images: true'
  guard UPDATE "" Pod "$RUNNING" '.request.oldObject = .request.object | .request.object.spec.containers[1].image = "mine:1"'
  evaluate
  refused 403 'container "log-agent" holds the identity of a sidecar, and "ann" may not change its image'
  guard UPDATE "" Pod "$RUNNING" '.request.oldObject = .request.object | .request.object.spec.containers[0].image = "nginx:1.28"'
  evaluate
  accepted_as_it_is
}

@test "403: a token of a merged ServiceAccount is requested" {
  guards 'tokenRequests: true, breakGlassGroups: ["oncall"]'
  guard CREATE authentication.k8s.io TokenRequest '{"metadata":{"name":"'$MERGED'"},"spec":{"audiences":[]}}' '.request.subResource = "token"'
  evaluate
  refused 403 "only nodes and Pillion's controller request tokens of ServiceAccount \"$MERGED\" in namespace \"default\""
  guard CREATE authentication.k8s.io TokenRequest '{"metadata":{"name":"'$MERGED'"},"spec":{"audiences":[]}}' '.request |= (.subResource = "token" | .userInfo.groups = ["oncall"])'
  evaluate
  accepted_as_it_is
}

token_secret() {
  identity "${1:-.}"
  guard CREATE "" Secret '{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token",
    "metadata":{"name":"t","namespace":"default","annotations":{"kubernetes.io/service-account.name":"log-agent"}}}'
}

@test "a token Secret gets the UID of its ServiceAccount" {
  token_secret
  session session-account-found.yml
  replay
  answer 'ops == [{op: "add", path: "/metadata/annotations/kubernetes.io~1service-account.uid", value: "0d2f3c54-8a0b-4d2a-9d2b-6f4f4f1a2b3c"}]'
  answer '.warnings[0] | contains("holds a token that does not expire")'
}

@test "403: a token Secret of a ServiceAccount that is not there, or is being deleted" {
  token_secret '.serviceAccounts.legacyTokenSecrets = "Allow"'
  session session-account-missing.yml
  replay
  refused 403 'ServiceAccount "log-agent" does not exist'
  session session-account-terminating.yml
  replay
  refused 403 'ServiceAccount "log-agent" is being deleted'
}

@test "403: a token Secret of a merged ServiceAccount, whatever the settings say of token Secrets" {
  token_secret '.serviceAccounts.legacyTokenSecrets = "Allow"'
  jq '.request.object.metadata.annotations["kubernetes.io/service-account.name"] = "'$MERGED'"' "$REQUEST" > "$BATS_TEST_TMPDIR/merged.json"
  REQUEST=$BATS_TEST_TMPDIR/merged.json
  evaluate
  refused 403 "a Secret would hold a token of the merged ServiceAccount \"$MERGED\""
}

# --- requests and modules that cannot be run

@test "a request that is not there is an error" {
  run --separate-stderr "$KWCTL" run --request-path test_data/absent.json "$MODULE"
  [ "$status" -eq 1 ]
  [ -n "$stderr" ]
}

@test "a request that is no JSON is an error" {
  echo 'no JSON' > "$REQUEST"
  evaluate
  [ "$status" -eq 1 ]
  [ -n "$stderr" ]
}

# --- Gardener Shoots

# shoots <jq program>: turns the rules for Shoots on; the program changes the settings.
shoots() {
  jq -n "{shoots: {enabled: true}} | $1" > "$SETTINGS"
}

# The Shoot from Gardener's documentation.
documented() {
  request shoot-create-review.json '.request.object.spec.kubernetes.kubeAPIServer.serviceAccountConfig = {
    issuer: "foo", acceptedIssuers: ["foo1", "foo2"], extendTokenExpiration: true, maxTokenExpiration: "45d"
  }'
}

@test "a Shoot is accepted as it is where its rules are off" {
  documented
  evaluate
  accepted_as_it_is
}

@test "a sound Shoot is accepted as it is, with what its author should know" {
  request shoot-create-review.json
  shoots .
  evaluate
  accepted_as_it_is
  answer '.warnings | length == 1 and (.[0] | contains("set extendTokenExpiration to false"))'
}

@test "the Shoot of Gardener's documentation is refused with every field" {
  documented
  shoots .
  evaluate
  refused 422 'serviceAccountConfig.maxTokenExpiration: Invalid value: "45d": time: unknown unit "d" in duration "45d"; use 1080h'
  refused 422 'serviceAccountConfig.issuer: Invalid value: "foo": must have https scheme'
  refused 422 'serviceAccountConfig.acceptedIssuers[1]: Invalid value: "foo2": must be a valid URL and have https scheme'
}

@test "a field of another type cannot be decoded" {
  request shoot-create-review.json '.request.object.spec.kubernetes.kubeAPIServer.serviceAccountConfig.maxTokenExpiration = 2592000'
  shoots .
  evaluate
  refused 400 'maxTokenExpiration: Invalid value: must be a string, found a number'
}

@test "a Shoot whose tokens would stop working is warned of, or refused" {
  request shoot-update-review.json
  shoots .
  evaluate
  accepted_as_it_is
  answer '.warnings[0] | contains("\"https://issuer.example.com\" is no longer the issuer")'
  shoots '.shoots.migration = "Deny"'
  evaluate
  refused 403 '"https://issuer.example.com" is no longer the issuer'
  answer '.auditAnnotations["refused-because"] == "forbidden"'
}

@test "a Shoot whose API server would not start is refused" {
  request shoot-update-review.json '.request |= (
    .oldObject.spec.kubernetes.kubeAPIServer.serviceAccountConfig.acceptedIssuers = ["https://tokens.example.com"]
    | .object.spec.kubernetes.kubeAPIServer.serviceAccountConfig.acceptedIssuers = ["https://tokens.example.com"])'
  shoots .
  evaluate
  refused 422 'acceptedIssuers[0]: Invalid value: "https://tokens.example.com": is the issuer, too'
}

@test "a managed issuer that is not supported is refused" {
  request shoot-create-review.json '.request.object |= (
    .metadata.annotations["authentication.gardener.cloud/issuer"] = "managed"
    | del(.spec.kubernetes.kubeAPIServer.serviceAccountConfig))'
  shoots '.shoots.managedIssuer = "Unsupported"'
  evaluate
  refused 403 'not supported in this Gardener installation'
  shoots .
  evaluate
  accepted_as_it_is
}

@test "invalid settings for Shoots are refused, all at once" {
  request shoot-create-review.json
  shoots '.shoots = {enabled: "yes", migration: "deny", pathPrefixes: ["Shoot.spec"], managed: true}'
  settings_refused 'shoots.enabled: ' 'shoots.managed: Unknown field' 'shoots.migration: Unsupported value' 'shoots.pathPrefixes[0]: '
}
