//! A service outside of the cluster that trusts the cluster's issuer, such as a cloud or Vault.
//!
//! It knows the issuer only by its discovery document (`OpenID` Connect Discovery 1.0, 3) and the keys that the document
//! names (RFC 7517). So it accepts a token as such a service would.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::Client;
use pillion_testenv::Cluster;
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value;

/// The path of the discovery document below the issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// A service that accepts tokens for its audience.
pub struct Verifier {
    audience: String,
    issuer: String,
    keys: Vec<Value>,
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no JSON Web Signature in compact form, or its algorithm is not that of the key.
    Form,
    /// The issuer has not published the key, or the signature is not of that key.
    Signature,
    /// It is from another issuer.
    Issuer(String),
    /// It is for others.
    Audience(Vec<String>),
    /// It is not valid at this time.
    Time { from: i64, until: i64 },
}

/// What a service learns from an accepted token.
#[derive(Clone, Debug, PartialEq)]
pub struct Bearer {
    /// `sub`: `system:serviceaccount:<namespace>:<name>`.
    pub subject: String,
    /// `aud`.
    pub audiences: Vec<String>,
    /// `iat`, in seconds since 1970.
    pub issued: i64,
    /// `exp`, in seconds since 1970.
    pub expires: i64,
    /// The claims of Kubernetes: namespace, account, and the object that the token is bound to.
    pub kubernetes: Value,
}

impl Verifier {
    /// Reads what the API server of a cluster publishes about its issuer.
    pub async fn new(cluster: &Cluster, audience: &str) -> Self {
        let client = cluster.admin().await.unwrap();
        let document = published(&client, DISCOVERY).await;
        let text = |key: &str| document[key].as_str().unwrap().to_owned();
        let url: http::Uri = text("jwks_uri").parse().unwrap();
        let keys = published(&client, url.path()).await;
        let algorithms = document["id_token_signing_alg_values_supported"].as_array().unwrap();
        let is_announced = |key: &&Value| algorithms.contains(&key["alg"]) && key["use"] == "sig";
        let keys: Vec<Value> = keys["keys"].as_array().unwrap().iter().filter(is_announced).cloned().collect();
        assert!(!keys.is_empty(), "the issuer publishes no key: {document}");
        Self { audience: audience.to_owned(), issuer: text("issuer"), keys }
    }

    /// The same service under another audience.
    pub fn called(&self, audience: &str) -> Self {
        Self { audience: audience.to_owned(), issuer: self.issuer.clone(), keys: self.keys.clone() }
    }

    /// Returns the name of the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Verifies a token at a time, in seconds since 1970.
    ///
    /// # Errors
    /// The first check that fails: form, signature, issuer, audience, time.
    pub fn verify(&self, token: &str, now: i64) -> Result<Bearer, Refused> {
        let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Form)?;
        let (header, claims) = signed.split_once('.').ok_or(Refused::Form)?;
        let [header, claims] = [decoded(header)?, decoded(claims)?];
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::Form)?;
        let key = self.keys.iter().find(|key| key["kid"] == header["kid"]).ok_or(Refused::Signature)?;
        // A token does not choose the algorithm: the key has one.
        if key["alg"] != header["alg"] {
            return Err(Refused::Form);
        }
        if !is_signed(key, signed.as_bytes(), &signature) {
            return Err(Refused::Signature);
        }
        let bearer = Bearer::from_claims(&claims)?;
        if claims["iss"] != self.issuer.as_str() {
            return Err(Refused::Issuer(claims["iss"].to_string()));
        }
        if !bearer.audiences.contains(&self.audience) {
            return Err(Refused::Audience(bearer.audiences));
        }
        let from = claims["nbf"].as_i64().ok_or(Refused::Form)?;
        if !(from..bearer.expires).contains(&now) {
            return Err(Refused::Time { from, until: bearer.expires });
        }
        Ok(bearer)
    }
}

impl Bearer {
    fn from_claims(claims: &Value) -> Result<Self, Refused> {
        let number = |key: &str| claims[key].as_i64().ok_or(Refused::Form);
        let audiences = claims["aud"].as_array().ok_or(Refused::Form)?;
        let audiences: Option<Vec<String>> =
            audiences.iter().map(|audience| audience.as_str().map(str::to_owned)).collect();
        Ok(Self {
            subject: claims["sub"].as_str().ok_or(Refused::Form)?.to_owned(),
            audiences: audiences.ok_or(Refused::Form)?,
            issued: number("iat")?,
            expires: number("exp")?,
            kubernetes: claims["kubernetes.io"].clone(),
        })
    }
}

/// Whether the key made the signature.
fn is_signed(key: &Value, signed: &[u8], signature: &[u8]) -> bool {
    let part = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap_or_default()).unwrap_or_default();
    match key["alg"].as_str() {
        Some("RS256") => {
            let key = RsaPublicKeyComponents { n: part("n"), e: part("e") };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature).is_ok()
        }
        Some("ES256") => {
            // The point without compression (SEC 1, 2.3.3).
            let point = [vec![4], part("x"), part("y")].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature).is_ok()
        }
        _ => false,
    }
}

fn decoded(part: &str) -> Result<Value, Refused> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Form)?;
    serde_json::from_slice(&bytes).map_err(|_| Refused::Form)
}

/// Returns a document that the API server publishes.
async fn published(client: &Client, path: &str) -> Value {
    client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}
