#!/bin/sh
# Creates what the sidecar needs in AWS. Run it in this folder, with your issuer, account and bucket in all files.
set -eu

# Once for a cluster. On EKS: `eksctl utils associate-iam-oidc-provider --cluster NAME --approve`.
aws iam create-open-id-connect-provider --url https://oidc.example.com/shop-cluster --client-id-list sts.amazonaws.com

# Once for a sidecar.
aws iam create-role --role-name log-agent --assume-role-policy-document file://trust-policy.json
aws iam put-role-policy --role-name log-agent --policy-name write-logs --policy-document file://permissions.json
