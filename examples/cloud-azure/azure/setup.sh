#!/bin/sh
# Creates what the sidecar needs in Azure. Run it in this folder, with your issuer, resource group and storage account.
set -eu

# The identity of the sidecar. Its client id goes into AZURE_CLIENT_ID.
az identity create --resource-group shop --name log-agent
az identity federated-credential create --resource-group shop --identity-name log-agent --name shop-log-agent \
  --issuer https://oidc.example.com/shop-cluster \
  --subject system:serviceaccount:shop:log-agent \
  --audiences api://AzureADTokenExchange

# For an app registration instead of a managed identity:
# az ad app federated-credential create --id 11111111-2222-3333-4444-555555555555 --parameters federated-credential.json

# What the identity may do.
az role assignment create --role "Storage Blob Data Contributor" \
  --assignee-object-id "$(az identity show --resource-group shop --name log-agent --query principalId --output tsv)" \
  --assignee-principal-type ServicePrincipal \
  --scope "$(az storage account show --resource-group shop --name shoplogs --query id --output tsv)"
