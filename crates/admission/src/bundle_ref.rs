//! Which SidecarSets a request is judged by, and what happens where those cannot be had that a controller keeps for the
//! policy.
//!
//! Where they are needed, they are looked up before anything else.

use std::borrow::Cow;

use pillion_bundle::BundleError;
use pillion_bundle::config_map::{self, Choice, Unavailable};
use pillion_bundle::source::OnUnavailable;
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal};
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::audit;
use crate::settings::BorrowedSettings;

/// Whom a request is for.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// Whose SidecarSets are wanted; `None`: those of the index alone.
    pub namespace: Option<&'a str>,
    /// Whether it may go on without them, whatever the settings say.
    pub is_exempt: bool,
}

/// A request that was answered without the bundle.
#[must_use]
#[derive(Debug, Default)]
pub struct Notice(Option<Unavailable>);

impl Notice {
    /// Says so beside the answer.
    pub fn add_to(self, mut outcome: Outcome, settings: &BorrowedSettings<'_>) -> Outcome {
        if let Some((unavailable, at)) = self.0.zip(settings.bundle_source.config_map.as_ref()) {
            outcome.warnings.push([&unavailable.says(at), "; judged by the SidecarSets of the settings"].concat());
            outcome.audit.insert(audit::BUNDLE_UNAVAILABLE, unavailable.fault.as_str().to_owned());
        }
        outcome
    }
}

/// The SidecarSets that a request is judged by: those of the settings, of their bundle those that `choose` takes, and those
/// that are kept in the cluster for `asker`, of which `choose` takes the same. Without an asker nothing is looked up.
///
/// What starts in the namespace of the ConfigMap is exempt from waiting for the bundle: the controller that has to write
/// it starts there.
///
/// # Errors
/// The refusal, where the settings' bundle is damaged, or the other one cannot be had and `onBundleUnavailable` is `Deny`.
pub fn sidecar_sets<'a>(
    settings: &'a BorrowedSettings<'_>,
    asker: Option<Asker<'_>>,
    world: World<'_>,
    choose: Choice<'_>,
) -> Result<(Cow<'a, [SidecarSet]>, Notice), Outcome> {
    let mut sets = settings.sidecar_sets(choose).map_err(|error| damaged(&error))?;
    let source = &settings.bundle_source;
    let Some((asker, at)) = asker.zip(source.config_map.as_ref()) else { return Ok((sets, Notice::default())) };
    match config_map::sets(at, source, asker.namespace, (world.lookup, world.now), choose) {
        Ok(mut more) => {
            if !more.is_empty() {
                sets.to_mut().append(&mut more);
            }
            Ok((sets, Notice::default()))
        }
        Err(unavailable)
            if asker.is_exempt
                || source.on_unavailable == OnUnavailable::UseSettings
                || asker.namespace == Some(&at.namespace) =>
        {
            Ok((sets, Notice(Some(unavailable))))
        }
        Err(unavailable) => {
            let remedy = [unavailable.fault.remedy(), ", or set onBundleUnavailable to UseSettings"].concat();
            let reason = Reason::new(Code::Unavailable, "settings.bundleRef", unavailable.says(at), &remedy);
            let mut outcome = Outcome::from(Refusal::from(reason));
            outcome.audit.insert(audit::BUNDLE_UNAVAILABLE, unavailable.fault.as_str().to_owned());
            Err(outcome)
        }
    }
}

/// A bundle that cannot be used: a policy server refuses it when it starts, so only other hosts get here.
fn damaged(error: &BundleError) -> Outcome {
    Refusal::from(Reason::new(Code::Undecodable, "settings.bundle", error.to_string(), "")).into()
}

#[cfg(test)]
mod tests;
