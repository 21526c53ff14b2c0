#!/bin/sh
# Creates what the sidecar needs in Vault. Run it in this folder.
set -eu

# Once for a cluster. Vault runs in the cluster, under the account of app.yaml that may review tokens, and uses its own
# token. Outside of the cluster, add kubernetes_ca_cert and token_reviewer_jwt, a token of that account.
vault auth enable kubernetes
vault write auth/kubernetes/config kubernetes_host=https://kubernetes.default.svc

# Once for a sidecar.
vault policy write log-agent - <<'POLICY'
path "secret/data/log-agent" {
  capabilities = ["read"]
}
POLICY
vault write auth/kubernetes/role/log-agent @role.json
