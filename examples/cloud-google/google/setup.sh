#!/bin/sh
# Creates what the sidecar needs in Google Cloud. Replace the issuer, the project, its number, and the bucket.
set -eu

# Once for a cluster. Without --allowed-audiences, the provider accepts its own name as the audience. If the issuer is
# not public, add --jwk-json-path=jwks.json with the output of `kubectl get --raw /openid/v1/jwks`.
gcloud iam workload-identity-pools create clusters --project=shop-logs --location=global
gcloud iam workload-identity-pools providers create-oidc shop-cluster --project=shop-logs --location=global \
  --workload-identity-pool=clusters \
  --issuer-uri=https://oidc.example.com/shop-cluster \
  --attribute-mapping=google.subject=assertion.sub \
  --attribute-condition="assertion['kubernetes.io']['namespace'] in ['shop']"

# Once for a sidecar. The member is this ServiceAccount alone.
gcloud storage buckets add-iam-policy-binding gs://shop-logs --role=roles/storage.objectCreator \
  --member=principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/clusters/subject/system:serviceaccount:shop:log-agent
