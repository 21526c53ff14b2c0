//! The cluster's authority, for the API server's certificate and for clients' certificates.

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
    /// Creates an authority, which only its own cluster trusts.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut params = named("pillion-testenv");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// Returns the authority's own certificate, in PEM.
    pub(crate) fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// Creates a server's certificate for these names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Result<Certified, Error> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.sign(CertificateParams::new(names)?, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// Creates a client's certificate. The API server reads the user from the common name and the group from the
    /// organisation.
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

/// Returns a key that signs the tokens of ServiceAccounts, and the public key that verifies them, in PEM.
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
