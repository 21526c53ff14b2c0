//! The cluster's authority: one for the API server's certificate and for those with which clients say who they are.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::Error;

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Signs the certificates of a cluster. They are valid far longer than any test.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new authority, which nothing outside its cluster trusts.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut params = named("pillion-testenv");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Its own certificate, in PEM.
    pub(crate) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A server's certificate for these names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Result<Certified, Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign(CertificateParams::new(names)?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client's certificate: the API server takes the common name for the user, the organisation for a group.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Certified, Error> {
        let mut params = named(user);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Result<Certified, Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Certified { certificate: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

/// A key for the signatures of ServiceAccounts' tokens, and the public one with which they are checked, in PEM.
pub(crate) fn token_keys() -> Result<(String, String), Error> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
