//! The tokens for other audiences in a Secret: how the Secret states its list (AUD-8), and which tokens may be in it
//! (AUD-5).

use pillion_identity::audience::AudienceToken;
use pillion_identity::rules::Rules;
use pillion_kubernetes::json;
use serde_json::Value;

/// Returns the value of the annotation that states a list, which is in the order of the files.
pub(super) fn stated(tokens: &[AudienceToken]) -> String {
    Value::from(sorted(tokens).into_iter().map(AudienceToken::to_json).collect::<Vec<_>>()).to_string()
}

/// Reads that annotation. What cannot be read is left out: the checksum tells that it was edited.
pub(super) fn read(stated: &str) -> Vec<AudienceToken> {
    let list = json::parse(stated.as_bytes()).unwrap_or_default();
    let entries = list.as_array().into_iter().flatten();
    let tokens = entries.filter_map(|entry| {
        let text = |field| Some(json::text(entry, &[field]).to_owned()).filter(|text| !text.is_empty());
        let expiration_seconds = entry.get("expirationSeconds").and_then(Value::as_u64)?;
        Some(AudienceToken { audience: text("audience")?, path: text("path")?, expiration_seconds })
    });
    tokens.collect()
}

/// Whether two lists ask for the same tokens in the same files.
pub(super) fn are_same(one: &[AudienceToken], other: &[AudienceToken]) -> bool {
    sorted(one) == sorted(other)
}

/// Returns those of the tokens that the rules allow, and the first objection.
pub(super) fn allowed(tokens: &[AudienceToken], rules: &Rules) -> (Vec<AudienceToken>, Option<String>) {
    let mut objection = None;
    let mut allowed = Vec::new();
    for token in tokens {
        match rules.objects_to(token) {
            None => allowed.push(token.clone()),
            Some(found) => {
                objection.get_or_insert_with(|| format!("{}; {}", found.problem, found.remedy));
            }
        }
    }
    (allowed, objection)
}

fn sorted(tokens: &[AudienceToken]) -> Vec<&AudienceToken> {
    let mut tokens: Vec<&AudienceToken> = tokens.iter().collect();
    tokens.sort_unstable_by_key(|token| &token.path);
    tokens
}
