use std::time::Duration;

use pillion_bundle::source::ConfigMapName;
use pillion_kubernetes::time::Timestamp;
use pillion_plan::merged::Notice;
use pillion_plan::sidecar_tokens::{Foreign, Lack};
use pillion_runtime::metrics::{Kind, Metrics};
use pillion_testkit::metrics::{ANY, Catalogue};

use crate::bundle::metrics::BundleMetrics;
use crate::merged;
use crate::registry;
use crate::rollout::metrics::RolloutMetrics;
use crate::sidecar_tokens::Trouble;
use crate::sidecar_tokens::metrics::{Measured, TokenMetrics};

/// The reasons of the Events about problems, by controller.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let (kind, name, sets, why) = ("Role", String::new(), Vec::new(), String::new());
    let notices = [
        Notice::Foreign { kind, name: name.clone(), sets: sets.clone() },
        Notice::AccountLost { name: name.clone(), sets },
        Notice::Denied { set: name, why: why.clone() },
        Notice::TooMany { merging: 5 },
    ];
    let merged = notices.iter().map(Notice::reason).chain(merged::REASONS);
    let audience = Lack::AudienceNotAllowed(String::new());
    let lacks =
        [Lack::Missing, Lack::Terminating, Lack::NotAllowed, audience, Lack::SecretTerminating].map(Trouble::Lack);
    let others = [
        Trouble::Foreign(Foreign::Label),
        Trouble::ApiServerAudience(String::new()),
        Trouble::NotGiven,
        Trouble::NotListed(why.clone()),
        Trouble::Forbidden(why.clone()),
        Trouble::Invalid(why),
    ];
    let tokens = lacks.iter().chain(&others).map(Trouble::reason);
    let name = registry::Name::as_str;
    let merged = merged.map(|reason| (name(registry::Name::MergedServiceAccounts), reason));
    let accounts =
        (name(registry::Name::AccountPermissions), pillion_plan::account_permissions::DENIED_PERMISSION_HELD);
    merged.chain(tokens.map(|reason| (name(registry::Name::SidecarTokens), reason))).chain([accounts]).collect()
}

/// Alerts, dashboards and documents are compared with this list.
#[test]
fn the_list_of_metrics_is_what_a_scrape_gives() {
    let metrics = Metrics::new();
    metrics.leads(ANY, true);
    for verb in ["watch", "read", "create", "update", "patch", "delete", "other"] {
        metrics.request(verb);
    }
    metrics.reconciled(registry::Name::ServiceAccountToken.as_str(), "waiting", Duration::ZERO);
    let mut raised = Vec::new();
    for controller in registry::ALL.iter().map(|name| name.as_str()) {
        for result in ["ok", "error"] {
            metrics.reconciled(controller, result, Duration::ZERO);
        }
        raised.push(metrics.failing(controller));
    }
    raised.extend(reasons().into_iter().map(|(controller, reason)| metrics.problem(controller, reason)));
    for kind in ["Role", "RoleBinding", "Secret"] {
        metrics.kept().get_or_create(&Kind { kind }).set(1);
    }
    let tokens = TokenMetrics::new(&metrics);
    for has_audience in [false, true] {
        tokens.requested(has_audience, true);
        tokens.requested(has_audience, false);
    }
    tokens.measured(Measured { count: 1, ..Measured::default() });
    let at = ConfigMapName { namespace: ANY.to_owned(), name: String::new() };
    BundleMetrics::new(&metrics).written(&at, &[], 1, true, Timestamp(1));
    RolloutMetrics::new(&metrics).fill(ANY);
    let text = metrics.encoded().replace(env!("CARGO_PKG_VERSION"), ANY).replace("\"*/\"", "\"*\"");
    Catalogue::of_text(&text).is_listed("controller");
}
