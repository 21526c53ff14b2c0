//! The Pods and the stored revisions of a SidecarSet, read from the cluster.

use std::collections::BTreeMap;

use pillion_inject::matching::opt_out::{self, By, OPT_OUT_OF};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_plan::restored::restored;
use pillion_rollout::consistency::is_candidate;
use pillion_rollout::history::{Revision, ascending};
use pillion_rollout::pod::Pod;
use pillion_rollout::target::RolloutTarget;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::hash::revision_data;
use pillion_sidecarset::names;
use pillion_sidecarset::opt_out::OptOut;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde_json::Value;

use super::standing;
use crate::cluster::{Kind, Reader, Trouble};

/// Returns the stored revisions of SidecarSets with this name, or of all, in the order in which the API server lists
/// them.
///
/// # Errors
/// [`Trouble`] if the cluster does not answer, or does not allow the request.
pub fn revisions(reader: &Reader, system_namespace: &str, set: Option<&str>) -> Result<Vec<Revision>, Trouble> {
    let label = names::SIDECAR_SET_NAME_LABEL;
    let labels = set.map_or_else(|| label.to_owned(), |set| format!("{label}={set}"));
    let found = reader.list(Kind("apps/v1", "ControllerRevision"), Some(system_namespace), Some(&labels))?;
    let decoded = found.unwrap_or_default().into_iter().filter_map(|object| ControllerRevision::decode(object).ok());
    Ok(decoded.map(|revision| Revision::from_controller_revision(&revision)).collect())
}

/// Returns the revisions of one SidecarSet of the cluster, ascending.
pub fn revisions_of<'a>(set: &SidecarSet, revisions: &'a [Revision]) -> Vec<&'a Revision> {
    let is_named =
        |revision: &&Revision| revision.head.label(names::SIDECAR_SET_NAME_LABEL).is_none_or(|name| name == set.name());
    ascending(json::text(set.as_value(), &["metadata", "uid"]), revisions.iter().filter(is_named))
}

/// Returns the version of a SidecarSet that new Pods get, and its revision if that is stored. The status names the
/// revision: it is another one than that of the custom resource if the bundle keeps an older version, or after the way
/// back from a rollout that failed.
pub fn in_force<'a>(set: &SidecarSet, revisions: &[&'a Revision]) -> (SidecarSet, Option<&'a Revision>) {
    let version = prepared(set);
    let (generation, observed) = standing::generations(set.as_value());
    let latest = json::text(set.as_value(), &["status", "latestRevision"]);
    let data = revision_data(version.spec(&[]).unwrap_or(&Value::Null));
    let named = revisions.iter().copied().find(|revision| revision.name() == latest && observed == Some(generation));
    let revision = named.or_else(|| revisions.iter().copied().rfind(|revision| revision.data == data));
    let other =
        revision.filter(|revision| revision.data != data).and_then(|revision| restored(set, &revision.whole()).ok());
    (other.unwrap_or(version), revision)
}

/// The Pods of a cluster or of one namespace, as far as SidecarSets may have been injected into them, and the labels of
/// namespaces.
pub struct Pods<'a> {
    reader: &'a Reader,
    namespace: Option<&'a str>,
    /// Those with a sidecar, sorted by namespace and name.
    all: Vec<Pod>,
    /// Those that leave SidecarSets out themselves, or may do so by their Namespace; sorted alike.
    without: Vec<Pod>,
}

impl<'a> Pods<'a> {
    /// Reads the Pods of all namespaces, or of one. Given a SidecarSet, asks only for the Pods that match its selector.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow the request.
    pub fn read(reader: &'a Reader, namespace: Option<&'a str>, set: Option<&SidecarSet>) -> Result<Self, Trouble> {
        let labels = set.and_then(|set| set.spec(&["selector"])).and_then(query);
        let found = reader.list(Kind("v1", "Pod"), namespace, labels.as_deref())?.unwrap_or_default();
        let mut all: Vec<Pod> = found.iter().filter_map(|object| Pod::decode(object).ok()).collect();
        let place = |pod: &Pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        all.sort_by_cached_key(place);
        let may_leave_out = set.is_some_and(|set| OptOut::from_sidecar_set(set) == Ok(OptOut::Allowed));
        let is_without = |pod: &&Pod| !set.is_some_and(|set| pod.injected().any(|name| name == set.name()));
        let without = all.iter().filter(is_without).cloned().collect();
        all.retain(|pod| pod.injected().next().is_some());
        Ok(Self { reader, namespace, all, without: if may_leave_out { without } else { Vec::new() } })
    }

    /// Returns the Pods that a SidecarSet selects and that go without it, since they or their Namespace leave it out
    /// (OPT-2); sorted by namespace and name. `set` must be the one with which the Pods were read.
    ///
    /// # Errors
    /// If the namespaces cannot be read, or a selector cannot be read.
    pub fn opted_out(&self, set: &SidecarSet) -> anyhow::Result<Vec<(&Pod, By)>> {
        if self.without.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.namespaces()?;
        let selector = set.spec(&["selector"]).map(Selector::parse).transpose();
        let namespaces = set.spec(&["namespaceSelector"]).map(Selector::parse).transpose();
        let (Ok(Some(selector)), Ok(namespaces)) = (selector, namespaces) else { return Ok(Vec::new()) };
        let asks = |pod: &Pod| {
            let namespace = known.get(&pod.metadata.namespace)?;
            let labels = json::object(namespace, &["metadata", "labels"]);
            let is_selected = selector.matches(|key| pod.label(key))
                && namespaces.as_ref().is_none_or(|selector| selector.matches_labels(labels));
            let of_pod = pod.metadata.annotations.get(OPT_OUT_OF).map(String::as_str);
            let of_namespace = json::text(namespace, &["metadata", "annotations", OPT_OUT_OF]);
            let by = if opt_out::is_left_out(set, of_pod) {
                By::Pod
            } else if opt_out::is_left_out(set, [of_namespace]) {
                By::Namespace
            } else {
                return None;
            };
            is_selected.then_some(by)
        };
        Ok(self.without.iter().filter(|pod| pod.is_active()).filter_map(|pod| Some((pod, asks(pod)?))).collect())
    }

    /// Returns the Pods of a SidecarSet (ROLL-10), sorted by namespace and name.
    ///
    /// # Errors
    /// If the namespaces cannot be read, or a selector cannot be read.
    pub fn selected_by(&self, target: &RolloutTarget<'_>) -> anyhow::Result<Vec<&Pod>> {
        let unreadable = |field: &str, errors: Vec<pillion_kubernetes::field::FieldError>| {
            let errors: Vec<_> = errors.into_iter().map(|error| error.below(field)).collect();
            anyhow::anyhow!("SidecarSet \"{}\": {}", target.name(), joined(&errors))
        };
        let Some(selector) = target.version.spec(&["selector"]) else { return Ok(Vec::new()) };
        let selector = Selector::parse(selector).map_err(|errors| unreadable("spec.selector", errors))?;
        let namespaces = target.version.spec(&["namespaceSelector"]).map(Selector::parse).transpose();
        let namespaces = namespaces.map_err(|errors| unreadable("spec.namespaceSelector", errors))?;
        let selected = namespaces.map(|selector| Ok::<_, Trouble>((self.namespaces()?, selector))).transpose()?;
        let is_selected = |pod: &Pod| {
            selected.as_ref().is_none_or(|(namespaces, selector)| {
                let found = namespaces.get(&pod.metadata.namespace);
                found.is_some_and(|found| selector.matches_labels(json::object(found, &["metadata", "labels"])))
            })
        };
        let is_of =
            |pod: &&Pod| selector.matches(|key| pod.label(key)) && is_selected(pod) && is_candidate(target, pod);
        Ok(self.all.iter().filter(is_of).collect())
    }

    /// Returns the namespaces of the Pods by their names.
    fn namespaces(&self) -> Result<BTreeMap<String, Value>, Trouble> {
        let kind = Kind("v1", "Namespace");
        let found = match self.namespace {
            Some(name) => self.reader.get(kind, None, name)?.into_iter().collect(),
            None => self.reader.list(kind, None, None)?.unwrap_or_default(),
        };
        let named = |namespace: Value| (json::text(&namespace, &["metadata", "name"]).to_owned(), namespace);
        Ok(found.into_iter().map(named).collect())
    }
}

/// Returns a selector in the syntax of `kubectl get --selector`; `None` if it has every object, or cannot be read.
fn query(selector: &Value) -> Option<String> {
    let equal = json::string_map(selector, &["matchLabels"]).map(|(key, value)| format!("{key}={value}"));
    let set = json::items(selector, &["matchExpressions"]).iter().map(|expression| {
        let (key, values) = (json::text(expression, &["key"]), json::texts(expression, &["values"]).join(","));
        match json::text(expression, &["operator"]) {
            "In" => Some(format!("{key} in ({values})")),
            "NotIn" => Some(format!("{key} notin ({values})")),
            "Exists" => Some(key.to_owned()),
            "DoesNotExist" => Some(format!("!{key}")),
            _ => None,
        }
    });
    let all: Option<Vec<String>> = equal.map(Some).chain(set).collect();
    all.map(|all| all.join(",")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::all(json!({}), None)]
    #[case::labels(json!({"matchLabels": {"app": "web", "tier": "a"}}), Some("app=web,tier=a"))]
    #[case::expressions(
        json!({"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["1", "2"]}, {"key": "b", "operator": "NotIn", "values": ["3"]},
            {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"},
        ]}),
        Some("a in (1,2),b notin (3),c,!d")
    )]
    #[case::unreadable(json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Near"}]}), None)]
    fn selectors_are_sent_in_the_syntax_of_kubectl(#[case] selector: Value, #[case] expected: Option<&str>) {
        assert_eq!(query(&selector).as_deref(), expected);
    }
}
