//! Bundles of changed SidecarSets, and damaged bundles: a written bundle can be read, a damaged one is refused.

use pillion_fuzz::policy::{Answer, Policy, Response};
use pillion_fuzz::pool::Pool;
use pillion_fuzz::run::FuzzTarget;
use pillion_fuzz::{bundle, corpus};
use serde_json::Value;

/// Codes of refusals because of settings or look-ups, not because of the Pod.
const OTHERS: [u16; 2] = [400, 503];

fn response(policy: &Policy, document: &Value) -> anyhow::Result<Option<Response>> {
    Ok(match policy.answer(document)? {
        Answer::Validate(response) if !response.code.is_some_and(|code| OTHERS.contains(&code)) => Some(response),
        _ => None,
    })
}

#[test]
fn e18_a_bundle_does_what_its_sidecar_sets_do_or_is_refused() -> anyhow::Result<()> {
    let policy = Policy::load()?;
    let inputs = corpus::read("bundle")?;
    let pool = Pool::new(inputs.iter().map(|named| &named.input));
    FuzzTarget("bundle").run(&inputs, bundle::documents(&inputs, &pool), |document| {
        bundle::check(document)?;
        let Some([bundled, unbundled]) = bundle::both_ways(document) else { return policy.answer(document).map(drop) };
        let Some(bundled) = response(&policy, &bundled)? else { return Ok(()) };
        let Some(unbundled) = response(&policy, &unbundled)? else { return Ok(()) };
        anyhow::ensure!(
            bundled.mutated_object == unbundled.mutated_object && bundled.code == unbundled.code,
            "in the settings the SidecarSets do something else: {unbundled:?}, not {bundled:?}"
        );
        Ok(())
    })
}
