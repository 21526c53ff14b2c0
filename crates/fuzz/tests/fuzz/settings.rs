//! Settings: each gets an answer within the bounds, and valid settings can be used (E18).

use pillion_fuzz::corpus;
use pillion_fuzz::document::documents;
use pillion_fuzz::policy::{Answer, Policy};
use pillion_fuzz::pool::Pool;
use pillion_fuzz::run::FuzzTarget;
use serde_json::{Map, Value, json};

/// The code for requests and settings that cannot be decoded.
const UNDECODABLE: u16 = 400;
/// Part of the message for inputs that cost too much to read. The request adds to the cost of the settings.
const TOO_DENSE: &str = "costs too much to read";

/// Returns a request that creates a Pod.
fn pod() -> Value {
    json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "operation": "CREATE", "namespace": "shop",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
        },
    })
}

/// Returns the document with this request.
fn with_pod(document: &Value) -> Value {
    let members = document.as_object().cloned().unwrap_or_default();
    members.into_iter().chain([("request".to_owned(), pod())]).collect::<Map<_, _>>().into()
}

#[test]
fn e18_settings_get_an_answer_within_the_bounds_and_valid_ones_are_decoded() -> anyhow::Result<()> {
    let policy = Policy::load()?;
    let inputs = [corpus::read("settings")?, policy.samples("validate_settings")?].concat();
    let pool = Pool::new(inputs.iter().map(|named| &named.input));
    FuzzTarget("settings").run(&inputs, documents(&inputs, &pool), |document| {
        let Answer::Settings(validity) = policy.answer(document)? else { return Ok(()) };
        if !validity.valid || document.get("bytes").is_some() {
            return Ok(());
        }
        let Answer::Validate(response) = policy.answer(&with_pod(document))? else { return Ok(()) };
        let message = response.message.unwrap_or_default();
        anyhow::ensure!(
            response.code != Some(UNDECODABLE) || message.contains(TOO_DENSE),
            "valid settings are refused with a Pod: {message}"
        );
        Ok(())
    })
}
