//! The SidecarSets for a request, and the answer if the bundle of `bundleRef` is unavailable.
//!
//! If a request needs that bundle, it is looked up before anything else.

use std::borrow::Cow;

use pillion_bundle::BundleError;
use pillion_bundle::config_map::{BundleReader, Choice, Unavailable};
use pillion_bundle::source::OnUnavailable;
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal};
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::audit;
use crate::settings::BorrowedSettings;

/// The part of the bundle that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    /// The namespace whose SidecarSets are needed; `None` for only those of the index.
    pub namespace: Option<&'a str>,
    /// Whether the request may proceed without the bundle, whatever the settings say.
    pub is_exempt: bool,
}

/// A notice that a request was answered without the bundle, if it was.
#[must_use]
#[derive(Debug, Default)]
pub struct Notice(Option<Unavailable>);

impl Notice {
    /// Adds the notice to the answer, as a warning and an audit annotation.
    pub(crate) fn add_to(self, mut outcome: Outcome, settings: &BorrowedSettings<'_>) -> Outcome {
        if let Some((unavailable, at)) = self.0.zip(settings.bundle_source.config_map.as_ref()) {
            outcome.warnings.push(format!("{}; judged by the SidecarSets of the settings", unavailable.says(at)));
            outcome.audit.insert(audit::BUNDLE_UNAVAILABLE, unavailable.fault.as_str().to_owned());
        }
        outcome
    }
}

/// Returns the SidecarSets for a request: those of the settings, those that `choose` returns from their bundle, and
/// those that `choose` returns from the bundle in the cluster. Without `asker`, looks nothing up.
///
/// Requests for the namespace of the ConfigMap may proceed without the bundle: the controller that writes it starts
/// there.
///
/// # Errors
/// The refusal, if the settings' bundle is damaged, or if the bundle in the cluster is unavailable and
/// `onBundleUnavailable` is `Deny`.
pub fn sidecar_sets<'a>(
    settings: &'a BorrowedSettings<'_>,
    asker: Option<Asker<'_>>,
    world: World<'_>,
    choose: Choice<'_>,
) -> Result<(Cow<'a, [SidecarSet]>, Notice), Outcome> {
    let mut sets = settings.sidecar_sets(choose).map_err(|error| damaged(&error))?;
    let source = &settings.bundle_source;
    let reader = BundleReader::new(source, world.lookup, world.now);
    let Some((asker, reader)) = asker.zip(reader) else {
        return Ok((sets, Notice::default()));
    };
    match reader.sets(asker.namespace, choose) {
        Ok(mut more) => {
            if !more.is_empty() {
                sets.to_mut().append(&mut more);
            }
            Ok((sets, Notice::default()))
        }
        Err(unavailable)
            if asker.is_exempt
                || source.on_unavailable == OnUnavailable::UseSettings
                || asker.namespace == Some(&reader.at.namespace) =>
        {
            Ok((sets, Notice(Some(unavailable))))
        }
        Err(unavailable) => {
            let remedy = format!("{}, or set onBundleUnavailable to UseSettings", unavailable.fault.remedy());
            let reason = Reason::new(Code::Unavailable, "settings.bundleRef", unavailable.says(reader.at), &remedy);
            let mut outcome = Outcome::from(Refusal::from(reason));
            outcome.audit.insert(audit::BUNDLE_UNAVAILABLE, unavailable.fault.as_str().to_owned());
            Err(outcome)
        }
    }
}

/// Returns the refusal for a damaged bundle in the settings. A policy server refuses such settings when it starts, so
/// only other hosts get here.
fn damaged(error: &BundleError) -> Outcome {
    Refusal::from(Reason::new(Code::Undecodable, "settings.bundle", error.to_string(), "")).into()
}

#[cfg(test)]
mod tests;
