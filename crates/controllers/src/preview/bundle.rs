//! The bundle of the cluster, for a preview of controllers that depend on it.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pillion_bundle::config_map::TIME;
use pillion_kubernetes::time::Timestamp;
use pillion_runtime::context::Context;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The bundle that the settings name, as it is in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A controller keeps it: a change of a SidecarSet gets into it.
    Kept,
    /// Nobody has renewed it for longer than policies accept, so it stays as it is. The text says so.
    Old(String),
    /// There is none, or it cannot be read.
    None,
}

/// Looks for the bundle.
pub(super) async fn found(context: &Context) -> Found {
    let settings = context.settings();
    let source = &settings.bundle_source;
    let Some(at) = &source.config_map else { return Found::None };
    let api = Api::<ConfigMap>::namespaced(context.client.clone(), &at.namespace);
    // A controller that reads the bundle reports by itself that it cannot.
    let Ok(Some(index)) = api.get_opt(&at.name).await else { return Found::None };
    let written = index.metadata.annotations.as_ref().and_then(|annotations| annotations.get(TIME));
    // A controller that creates the ConfigMap fills it in the next moment.
    let Some(written) = written else { return Found::Kept };
    let longest = i64::try_from(source.max_age.0.unsigned_abs() / SECOND).unwrap_or(i64::MAX);
    let age = Timestamp::parse(written).map(|time| context.clock.now().0.saturating_sub(time.0));
    if age.is_some_and(|age| age <= longest) {
        return Found::Kept;
    }
    Found::Old(format!(
        "ConfigMap \"{}/{}\" with the bundle was last renewed at {written}, so no controller keeps it and a changed \
         SidecarSet does not get into it; run the controller \"bundle\"",
        at.namespace, at.name
    ))
}
