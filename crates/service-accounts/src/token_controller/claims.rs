//! Reads the claims of a token, without verifying them. Verification is up to the recipient of the token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::token_controller::{Life, Token};
use serde::Deserialize;

#[derive(Deserialize)]
struct Claims {
    iat: i64,
    exp: i64,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
struct Kubernetes {
    secret: Reference,
    serviceaccount: Reference,
}

#[derive(Deserialize)]
struct Reference {
    uid: String,
}

/// Returns the kind of a token in the Secret with this UID. The controller only ever replaces tokens that came from
/// TokenRequest and are bound to the Secret.
pub(super) fn token(token: &[u8], uid: &str) -> Token {
    if token.is_empty() {
        return Token::Absent;
    }
    match read(token) {
        Some(claims) if claims.kubernetes.secret.uid == uid => Token::Bound(Life {
            issued: Timestamp(claims.iat),
            expires: Timestamp(claims.exp),
            account_uid: claims.kubernetes.serviceaccount.uid,
        }),
        _ => Token::Lasting,
    }
}

fn read(token: &[u8]) -> Option<Claims> {
    let claims = token.split(|byte| *byte == b'.').nth(1)?;
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn jwt(claims: &Value) -> Vec<u8> {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string())).into_bytes()
    }

    fn bound(secret: &str) -> Value {
        json!({
            "iat": 10, "exp": 20, "nbf": 10, "aud": ["a"], "iss": "i",
            "kubernetes.io": {"namespace": "shop", "secret": {"name": "s", "uid": secret}, "serviceaccount": {"name": "bot", "uid": "1"}}
        })
    }

    #[test]
    fn tok6_a_token_that_is_bound_to_the_secret_ends() {
        let life = Life { issued: Timestamp(10), expires: Timestamp(20), account_uid: "1".to_owned() };
        assert_eq!(token(&jwt(&bound("s1")), "s1"), Token::Bound(life));
    }

    #[rstest]
    #[case::bound_to_another(jwt(&bound("s2")))]
    #[case::legacy(jwt(&json!({"iss": "kubernetes/serviceaccount", "sub": "system:serviceaccount:shop:bot"})))]
    #[case::bound_to_a_pod(jwt(&json!({"iat": 1, "exp": 2, "kubernetes.io": {"pod": {"uid": "s1"}, "serviceaccount": {"uid": "1"}}})))]
    #[case::no_jwt(b"secret".to_vec())]
    #[case::not_text(vec![0xff, b'.', 0xff, b'.'])]
    fn tkn6_any_other_token_stays(#[case] other: Vec<u8>) {
        assert_eq!(token(&other, "s1"), Token::Lasting);
    }

    #[test]
    fn tkn6_an_empty_token_is_none() {
        assert_eq!(token(b"", "s1"), Token::Absent);
    }
}
