#!/usr/bin/env bats
# The annotated module in kwctl: `make e2e-tests`. KWCTL says which one.

KWCTL=${KWCTL:-kwctl}
MODULE=${MODULE:-annotated-policy.wasm}

# Runs one request: evaluate <request> <settings> [more arguments of kwctl run]. Answers end up in $output.
evaluate() {
  local request=$1 settings=$2
  shift 2
  run --separate-stderr "$KWCTL" run --request-path "test_data/$request" --settings-path "test_data/$settings" "$@" "$MODULE"
}

# Runs one request with a recorded session of look-ups.
replay() {
  evaluate "$1" "$2" --allow-context-aware --replay-host-capabilities-interactions "test_data/$3"
}

# field <subscripts>: a part of the answer, as Python prints it.
field() {
  python3 -c 'import json,sys; answer=json.loads(sys.argv[1]); print(eval("answer" + sys.argv[2]))' "$output" "$1"
}

# The decoded patch of the answer.
patch() {
  python3 -c 'import base64,json,sys; print(base64.b64decode(json.loads(sys.argv[1])["patch"]).decode())' "$output"
}

setup_file() {
  bats_require_minimum_version 1.5.0
  export RUST_BACKTRACE=0
}

@test "a Pod that nothing matches is accepted as it is" {
  run --separate-stderr "$KWCTL" run --request-path test_data/pod-create-review.json "$MODULE"
  [ "$status" -eq 0 ]
  [ "$(field '["allowed"]')" = True ]
  [[ "$output" != *'"patch"'* ]]
}

@test "a Pod gets the log agent, and nothing of it is removed" {
  evaluate pod-create-review.json settings-log-agent.json
  [ "$status" -eq 0 ]
  [ "$(field '["allowed"]')" = True ]
  [ "$(field '["auditAnnotations"]["injected-sidecarsets"]')" = log-agent ]
  [[ "$(patch)" == *'"path":"/spec/containers/1"'* ]]
  [[ "$(patch)" == *'kruise.io/sidecarset-hash'* ]]
  [[ "$(patch)" != *'"op":"remove"'* ]]
  [[ "$(patch)" != *'"op":"replace"'* ]]
}

@test "a bare request is answered like a review" {
  evaluate pod-create-request.json settings-log-agent.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$(patch)" == *'"path":"/spec/containers/1"'* ]]
}

@test "deleting a Pod is no business of the policy" {
  evaluate pod-delete-review.json settings-log-agent.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$output" != *'"patch"'* ]]
}

@test "a sidecar with the name of a container is refused" {
  evaluate pod-create-review.json settings-clash.json
  [ "$status" -eq 0 ]
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 403 ]
  [[ "$(field '["status"]["message"]')" == *'SidecarSet "intruder": spec.containers[0].name: sidecar "p-strip"'* ]]
  [[ "$output" != *'"patch"'* ]]
}

@test "a namespace selector reads the Namespace: matching" {
  replay pod-create-review.json settings-namespace-selector.json session-namespace-found.yml
  [ "$(field '["allowed"]')" = True ]
  [[ "$(patch)" == *'"path":"/spec/containers/1"'* ]]
}

@test "a namespace selector reads the Namespace: gone" {
  replay pod-create-review.json settings-namespace-selector.json session-namespace-missing.yml
  [ "$(field '["allowed"]')" = True ]
  [[ "$output" != *'"patch"'* ]]
}

@test "a namespace selector reads the Namespace: forbidden" {
  replay pod-create-review.json settings-namespace-selector.json session-namespace-forbidden.yml
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 503 ]
  [[ "$(field '["status"]["message"]')" == *contextAwareResources* ]]
  [[ "$(field '["status"]["message"]')" != *system:serviceaccount* ]]
}

@test "a SidecarSet is defaulted and hashed" {
  evaluate sidecarset-create-review.json settings-log-agent.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$(patch)" == *'kruise.io/sidecarset-hash-without-image'* ]]
  [[ "$(patch)" == *'terminationMessagePath'* ]]
}

@test "a v1alpha1 SidecarSet stays v1alpha1" {
  run --separate-stderr "$KWCTL" run --request-path test_data/sidecarset-create-v1alpha1-review.json "$MODULE"
  [ "$(field '["allowed"]')" = True ]
  [[ "$(patch)" == *'kruise.io/sidecarset-hash'* ]]
  [[ "$(patch)" != *'/apiVersion","value":"apps.kruise.io'* ]]
  [[ "$(patch)" != *'"op":"remove"'* ]]
}

@test "an invalid SidecarSet is refused with every field" {
  evaluate sidecarset-create-invalid-review.json settings-log-agent.json
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 422 ]
  [[ "$(field '["status"]["message"]')" == *'spec.selector: '* ]]
  [[ "$(field '["status"]["message"]')" == *'spec.containers[0].volumeMounts[0].name: '* ]]
}

@test "an update that adds a container is refused" {
  evaluate sidecarset-update-adds-container-review.json settings-log-agent.json
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 422 ]
}

@test "invalid settings are refused with the path and the SidecarSet" {
  evaluate pod-create-review.json settings-invalid.json
  [ "$status" -eq 1 ]
  [[ "$stderr" == *'sidecarSets[0].spec.containers[0].image: '* ]]
  [[ "$stderr" == *'SidecarSet "log-agent"'* ]]
}

@test "unknown settings and settings to come are refused, all at once" {
  evaluate pod-create-review.json settings-unknown.json
  [ "$status" -eq 1 ]
  [[ "$stderr" == *'sidecarsets: Unknown field'* ]]
  [[ "$stderr" == *'role: Forbidden'* ]]
}

@test "a Shoot is accepted as it is where its rules are off" {
  evaluate shoot-create-documented-review.json settings-log-agent.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$output" != *'"patch"'* ]]
}

@test "a sound Shoot is accepted as it is, with what its author should know" {
  evaluate shoot-create-review.json settings-shoots.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$(field '["warnings"]')" == *'set extendTokenExpiration to false'* ]]
  [[ "$output" != *'"patch"'* ]]
}

@test "the Shoot of Gardener's documentation is refused with every field" {
  evaluate shoot-create-documented-review.json settings-shoots.json
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 422 ]
  [[ "$(field '["status"]["message"]')" == *'serviceAccountConfig.maxTokenExpiration: Invalid value: "45d": time: unknown unit "d" in duration "45d"; use 1080h'* ]]
  [[ "$(field '["status"]["message"]')" == *'serviceAccountConfig.issuer: Invalid value: "foo": must have https scheme'* ]]
  [[ "$(field '["status"]["message"]')" == *'serviceAccountConfig.acceptedIssuers[1]: Invalid value: "foo2"'* ]]
}

@test "a Shoot whose tokens would stop working is warned of, or refused" {
  evaluate shoot-update-loses-tokens-review.json settings-shoots.json
  [ "$(field '["allowed"]')" = True ]
  [[ "$(field '["warnings"]')" == *'"https://issuer.example.com" is no longer the issuer'* ]]
  evaluate shoot-update-loses-tokens-review.json settings-shoots-deny.json
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 403 ]
  [ "$(field '["auditAnnotations"]["refused-because"]')" = forbidden ]
}

@test "a Shoot whose API server would not start is refused" {
  evaluate shoot-update-same-issuer-twice-review.json settings-shoots.json
  [ "$(field '["allowed"]')" = False ]
  [ "$(field '["status"]["code"]')" = 422 ]
  [[ "$(field '["status"]["message"]')" == *'acceptedIssuers[1]: '*'given twice'* ]]
}

@test "invalid settings for Shoots are refused, all at once" {
  evaluate shoot-create-review.json settings-shoots-invalid.json
  [ "$status" -eq 1 ]
  [[ "$stderr" == *'shoots.enabled: '*'shoots.managed: Unknown field'*'shoots.migration: Unsupported value'*'shoots.pathPrefixes[0]: '* ]]
}
