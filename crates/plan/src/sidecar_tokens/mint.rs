//! The requests for the tokens of a Secret, and the write of what they answer (TOK-5, AUD-7).

use pillion_identity::audience::AudienceToken;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::hash;
use serde_json::{Map, Value, json};

use super::super::Step;
use super::audiences;
use super::secret::{
    ACCOUNT, ACCOUNT_UID, AUDIENCES, CHECKSUM, EXPIRES, RENEW_AFTER, SIDECAR_SET, Secret, Stated, TOKEN,
};
use super::{LIFE_MIN, LIFETIME_MIN, PERIOD_MAX};

/// Returns the TokenRequest for a token of the ServiceAccount with this UID, bound to the Secret, with a lifetime in
/// seconds (TOK-5). Without an audience, the token is for the API server. The API server may grant a shorter lifetime.
pub fn request(secret: &Secret, account_uid: &str, lifetime: u64, audience: Option<&str>) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        // Kubernetes 1.34 and later refuse the request if another account has the name now.
        "metadata": {"uid": account_uid},
        "spec": {
            "audiences": audience.into_iter().collect::<Vec<_>>(),
            "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid},
            "expirationSeconds": lifetime.max(LIFETIME_MIN.into()),
        },
    })
}

/// A token from the API server. The type has no `Debug`, so that the token cannot get into a log.
pub struct Minted {
    /// The token in Base64, as in `data` of the Secret.
    pub data: String,
    /// `status.expirationTimestamp` (TOK-7).
    pub expires: Timestamp,
    /// `spec.expirationSeconds` of the answer, in seconds.
    pub lifetime: i64,
}

/// The tokens for a Secret.
pub struct Tokens<'a> {
    /// The token for the API server.
    pub api_server: Minted,
    /// The tokens for other audiences, each with its entry.
    pub audiences: Vec<(&'a AudienceToken, Minted)>,
}

impl Tokens<'_> {
    fn all(&self) -> impl Iterator<Item = &Minted> {
        std::iter::once(&self.api_server).chain(self.audiences.iter().map(|(_, minted)| minted))
    }
}

/// Returns the step that writes all tokens into the Secret, and removes what else is in it, if it has not changed since
/// it was observed. `asked_at` is the time of the first request, by the clock of the plans.
pub fn fill(secret: &Secret, account_uid: &str, tokens: &Tokens<'_>, asked_at: Timestamp) -> Step {
    let first = tokens.all().map(|minted| minted.expires).min().unwrap_or(asked_at);
    let renewals = tokens.all().map(|minted| renew_after(&secret.uid, minted, asked_at));
    let (expires, renew_after) = (first.to_string(), renewals.min().unwrap_or(asked_at).to_string());
    let list: Vec<AudienceToken> = tokens.audiences.iter().map(|(token, _)| (*token).clone()).collect();
    // A Secret that sets share says nothing of audiences: it never has one.
    let list = secret.credential.sidecar_set.as_ref().map(|_| audiences::stated(&list));
    let stated = Stated {
        uid: &secret.uid,
        account: &secret.credential.account,
        account_uid,
        expires: &expires,
        renew_after: &renew_after,
        sidecar_set: secret.credential.sidecar_set.as_deref(),
        audiences: list.as_deref().unwrap_or_default(),
    };
    let written = tokens.audiences.iter().map(|(token, minted)| (token.path.clone(), json!(minted.data)));
    let mut data: Map<String, Value> = written.collect();
    data.insert(TOKEN.to_owned(), json!(tokens.api_server.data));
    let checksum = stated.checksum(&data);
    for key in &secret.keys {
        data.entry(key).or_insert(Value::Null);
    }
    let mut annotations = json!({
        ACCOUNT: stated.account,
        ACCOUNT_UID: account_uid,
        EXPIRES: expires,
        RENEW_AFTER: renew_after,
        CHECKSUM: checksum,
    });
    if let (Some(set), Some(annotations)) = (stated.sidecar_set, annotations.as_object_mut()) {
        annotations.insert(SIDECAR_SET.to_owned(), set.into());
        annotations.insert(AUDIENCES.to_owned(), stated.audiences.into());
    }
    secret.patch(json!({"metadata": {"annotations": annotations}, "data": data}))
}

/// Returns when the token is due for renewal: after four fifths of its life or after a day, whichever is shorter, less
/// up to an eighth of that time. The variation spreads the renewals of tokens that were requested together (TOK-7).
///
/// The time counts from `asked_at`, so it holds for a clock that differs from the API server's.
pub(super) fn renew_after(uid: &str, minted: &Minted, asked_at: Timestamp) -> Timestamp {
    let left = minted.expires.0.saturating_sub(asked_at.0);
    let life = left.min(minted.lifetime).max(LIFE_MIN);
    let period = (life / 5).saturating_mul(4).min(PERIOD_MAX);
    Timestamp(asked_at.0.saturating_add(period - jitter(uid, period / 8)))
}

/// Returns a number from 0 to `most`, always the same for the same UID.
fn jitter(uid: &str, most: i64) -> i64 {
    let drawn = hash::sha256(uid.as_bytes()).bytes().take(8).fold(0_i64, |drawn, digit| {
        let digit = char::from(digit).to_digit(16).unwrap_or_default();
        drawn * 16 + i64::from(digit)
    });
    drawn % (most.max(0) + 1)
}
