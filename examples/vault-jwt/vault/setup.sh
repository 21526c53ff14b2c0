#!/bin/sh
# Creates what the sidecar needs in Vault. Run it in this folder, with your issuer in config.json.
set -eu

# Once for a cluster. If the issuer is not public, replace oidc_discovery_url in config.json by jwt_validation_pubkeys,
# the public keys of the cluster in PEM; after a change of these keys, write them again.
vault auth enable jwt
vault write auth/jwt/config @config.json

# Once for a sidecar.
vault policy write log-agent - <<'POLICY'
path "secret/data/log-agent" {
  capabilities = ["read"]
}
POLICY
vault write auth/jwt/role/log-agent @role.json
