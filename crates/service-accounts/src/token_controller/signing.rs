//! Signs tokens that never expire with the key of the cluster's ServiceAccounts, like kube-controller-manager (TKN-10).
//! They are JSON Web Signatures (RFC 7515) in compact form.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The signature schemes, their names in tokens and, for elliptic curves, the length in bytes of each of the two
/// numbers in a signature.
const SCHEMES: [(SignatureScheme, &str, Option<usize>); 3] = [
    (SignatureScheme::RSA_PKCS1_SHA256, "RS256", None),
    (SignatureScheme::ECDSA_NISTP256_SHA256, "ES256", Some(32)),
    (SignatureScheme::ECDSA_NISTP384_SHA384, "ES384", Some(48)),
];

/// Why a token cannot be signed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// There is no private key in the file.
    #[error("there is no private key in PEM: {0}")]
    NoKey(String),
    /// The key is of a type that cannot sign tokens.
    #[error("the private key is neither RSA nor ECDSA on P-256 or P-384")]
    Unsupported,
    /// Signing failed.
    #[error("the token was not signed: {0}")]
    Failed(String),
}

/// A private key that signs tokens. `Debug` does not print the key.
#[derive(Clone)]
pub struct SigningKey {
    key: Arc<dyn sign::SigningKey>,
    scheme: SignatureScheme,
    algorithm: &'static str,
    half: Option<usize>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads the first private key in a PEM file: PKCS #1, PKCS #8 or SEC 1.
    ///
    /// # Errors
    /// [`KeyError::NoKey`] or [`KeyError::Unsupported`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| KeyError::NoKey(error.to_string()))?;
        let key = any_supported_type(&key).map_err(|_| KeyError::Unsupported)?;
        let fits = |(scheme, ..): &&(SignatureScheme, _, _)| key.choose_scheme(&[*scheme]).is_some();
        let &(scheme, algorithm, half) = SCHEMES.iter().find(fits).ok_or(KeyError::Unsupported)?;
        Ok(Self { key, scheme, algorithm, half })
    }

    /// Returns a token with these claims.
    ///
    /// # Errors
    /// [`KeyError::Failed`].
    pub(super) fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let failed = |reason: String| KeyError::Failed(reason);
        let mut header = json!({"alg": self.algorithm});
        // The API server finds the key by the digest of its public half. Without this id it tries all its keys.
        if let (Some(public), Some(header)) = (self.key.public_key(), header.as_object_mut()) {
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(public.as_ref()));
            header.insert("kid".to_owned(), digest.into());
        }
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(claims));
        let signer = self.key.choose_scheme(&[self.scheme]).ok_or(KeyError::Unsupported)?;
        let signature = signer.sign(message.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let signature = match self.half {
            None => signature,
            Some(half) => fixed(&signature, half).ok_or_else(|| failed("its form is not known".to_owned()))?,
        };
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Converts a DER signature (RFC 3279, 2.2.3) to the form in tokens (RFC 7518, 3.4): its two numbers, one after the
/// other, each of `half` bytes.
fn fixed(der: &[u8], half: usize) -> Option<Vec<u8>> {
    // The signature is shorter than 128 bytes, so every length takes one byte.
    let (sequence, rest) = element(der, 0x30)?;
    let (first, left) = element(sequence, 0x02)?;
    let (second, end) = element(left, 0x02)?;
    if !rest.is_empty() || !end.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(2 * half);
    for number in [first, second] {
        // DER puts a zero byte before a number whose first bit is set.
        let zeros = number.iter().take_while(|byte| **byte == 0).count();
        let digits = number.get(zeros..)?;
        out.resize(out.len() + half.checked_sub(digits.len())?, 0);
        out.extend_from_slice(digits);
    }
    Some(out)
}

/// Returns the contents of the first element, which must have this tag, and the bytes after it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [own, length, rest @ ..] = der else { return None };
    if *own != tag || *length >= 0x80 {
        return None;
    }
    rest.split_at_checked(usize::from(*length))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// A key made for this test: `openssl genrsa -traditional 2048`.
    const RSA: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAyX8K/le7Ed236XStf7sWZ21y0QDUsjHkaZhhWzndKSITp3qj
GTTMKhQQvFhVDDpriT2MeISUy5ObNC2ekzpONjE2FYP6uPyFn9LjF5rY0/Avr5Rp
MBEs2GrPIBF6FVgFydjpURCb2a7ADNdyBwxmOb5aiHOEll1rJ1fV92rJfZFFklcH
wmSc8hWFESqWWsWQRlypjXHcNzWpcMoE2k7rAAyclBi2vZHes0tfknnJ9BCqh3VC
bCEK+5fEVpbtRDgyPLuiEYh8puVVLY8Ga0qcKvSeDEKxXG0qL2Ff7s2mTe5lE/mJ
hC+98viaG9qv2IarHFt6U25jsiuMDE6dQwNiWwIDAQABAoIBABOoNrDYazITgMEg
NlrbLBTb+xMDszxNHLzmdjz5mKdOIT+5+ZZYbcB/I6DUNzvRqTMC06TgPknb9Qyy
lKFFU2L7Cw0vSnLog7qzTp87ZoLKkERfRKHBUzArv1ggDFpvs2TdKenUJngmkarP
C9s/LOveM6PTLTCkHXOBoKiZ/N0odhPKZiWfQo68kHIctzErOB4qX3Ox4bnxI+BO
YLue5iabLZJ61usiKsQ6IW/QXJYfPGu/Uci9kTWZVTXDNx4CLm7ihJihrTBAj/BP
JKnZBaw4eiqkWi2KzHfZaXyuZ/DOZ6Ae0gLUNGGlabYdEeFLqhhLBRztwKuq1k/2
D7h3M4UCgYEA7tX/knA+Z1BLolUUtUEdStUpSLwnjJnFn0LYAbnAZfMKy/FtoE0q
at37ohMS8njiSX11NZOo0GR6wwD7YnawyeHI9D5kiOb6PbXA8pCb2DO4B+EX8CnV
LUoddubdOZPOzTv3u3QmBeU+rWuzZ/sGy3nkK+MBdWieNqPri98Hi7UCgYEA1/oV
1YmrW4fWXv5tJ+BxWBDSvD9opRvfFG6Z0jKR2i1TpqV+pYaF7WvEtmSFwdHgVoyQ
LOAu9NpR4vWxcwJ9o9phHKa+k44JopMMpGbB7JPKJ6bP1Fx/SElFidnBrB9493W6
ujyN9wDmxpu90FlnUCFuLk7/NyT+oScbEUoUn88CgYEAwdnN00TpUZ+5k+usoCVW
qitzk8ar7xHMdiSiAFyNDfKDm968VPTs7cp4+Ca1JTr6qB19KdxMk8BKZ8Z/Q38E
pQduvNd7cCbRi47fKcI3y/bGcxa/AD5j+ZuDaMOfYaFXo/r9axet2PElu0qEVmxI
KpUnnntk7q/YYo8PmvqOPFUCgYAy7OALGswR6ASvH3TjizOOnWDjTFxDWkAOlEmm
24+yjy+DQtCK/R5FLj0S+L7lRbSNE9XHDxFjYLsgNeiigrrXUN3HILYdGsfA0sWP
Wj9tpidrlBS7MRg+FjDUYUkeaclfKB5gXXjn/glsWTq3ju0iYs+VEcFx4kI8A3mJ
aRtV1wKBgQCnJApioTCtK6ua1Iura5/zgQj7czhNUwB0Y9soA9znTK1yCOIgd5/c
Be0ra99YXMt4Cquq4U4Gn7/0hDOOTTfGOz/6G5UcII3+hsITv39Dvec1TN2De5kX
0qc9Hu8RCj3NtIBgC2DYHur2GxVmf1DeiaYKdRzQ2zhshuqeIf3oaQ==
-----END RSA PRIVATE KEY-----
";

    #[rstest]
    #[case::p256(&rcgen::PKCS_ECDSA_P256_SHA256, "ES256", 64)]
    #[case::p384(&rcgen::PKCS_ECDSA_P384_SHA384, "ES384", 96)]
    fn tkn10_a_token_says_how_and_by_which_key_it_is_signed(
        #[case] kind: &'static rcgen::SignatureAlgorithm,
        #[case] algorithm: &str,
        #[case] length: usize,
    ) {
        use rcgen::PublicKeyData as _;

        let pair = rcgen::KeyPair::generate_for(kind).expect("a key");
        let key = SigningKey::from_pem(pair.serialize_pem().as_bytes()).expect("a key");
        // Enough signatures to get numbers of different lengths.
        for _ in 0..32 {
            let token = key.sign(&json!({"sub": "me"})).expect("a token");
            let parts: Vec<_> = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).expect("base64")).collect();
            let header: Value = serde_json::from_slice(&parts[0]).expect("a header");
            let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.subject_public_key_info()));
            assert_eq!(header, json!({"alg": algorithm, "kid": digest}));
            assert_eq!(parts[1], br#"{"sub":"me"}"#);
            assert_eq!(parts[2].len(), length);
        }
        assert!(!format!("{key:?}").contains("BEGIN"));
    }

    /// The digest is that of openssl's token for the same header and claims. RSA PKCS #1 signatures are deterministic.
    #[test]
    fn tkn10_an_rsa_key_signs_as_openssl_does() {
        let key = SigningKey::from_pem(RSA.as_bytes()).expect("a key");
        let token = key.sign(&json!({"sub": "me"})).expect("a token");
        let digest = format!("{:x}", Sha256::digest(token));
        assert_eq!(digest, "d72e70188652c0c0492463f5273f02b9e94c2ae215c70c631b9b3cb0c38739d5");
    }

    /// A key made for this test: `openssl ecparam -genkey -name prime256v1 -noout`, which writes SEC 1. The id is
    /// openssl's digest of the public half.
    #[test]
    fn tkn10_a_curve_key_is_read_in_the_form_that_openssl_writes() {
        let pem = "\
-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIFKKjQeKhX3C2PB3Sk5iMoBrmCMggsOD6RKGfF5rPP3JoAoGCCqGSM49
AwEHoUQDQgAEULyrQwLhQTmt+dfPhx7z+WjR9NzH7dXXoNV1LNCM8wjAa8j4r0J5
2U17XOh3jdILLnOra12Yi7PkPXzoVjcsOA==
-----END EC PRIVATE KEY-----
";
        let token = SigningKey::from_pem(pem.as_bytes()).expect("a key").sign(&json!({})).expect("a token");
        let header = URL_SAFE_NO_PAD.decode(token.split('.').next().expect("a part")).expect("base64");
        let header: Value = serde_json::from_slice(&header).expect("a header");
        assert_eq!(header, json!({"alg": "ES256", "kid": "Nu8Pgrn_EKJ6dP-Kr8-WJBvxaIKNcvYCfMtkq4Lm9EA"}));
    }

    #[test]
    fn tkn10_other_keys_are_refused() {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
        let refused = SigningKey::from_pem(pair.serialize_pem().as_bytes()).err();
        assert_eq!(refused, Some(KeyError::Unsupported));
        assert!(matches!(SigningKey::from_pem(pair.public_key_pem().as_bytes()), Err(KeyError::NoKey(_))));
    }

    #[rstest]
    #[case::short_numbers(&[0x30, 6, 2, 1, 5, 2, 1, 7], Some(vec![0, 5, 0, 7]))]
    #[case::first_bit_set(&[0x30, 8, 2, 3, 0, 0xff, 1, 2, 1, 7], Some(vec![0xff, 1, 0, 7]))]
    #[case::too_long(&[0x30, 8, 2, 3, 1, 2, 3, 2, 1, 7], None)]
    #[case::something_after_it(&[0x30, 6, 2, 1, 5, 2, 1, 7, 0], None)]
    #[case::cut_off(&[0x30, 6, 2, 1, 5, 2, 1], None)]
    #[case::empty(&[], None)]
    fn signatures_become_two_numbers_of_fixed_length(#[case] der: &[u8], #[case] expected: Option<Vec<u8>>) {
        assert_eq!(fixed(der, 2), expected);
    }
}
