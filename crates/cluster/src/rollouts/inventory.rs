//! The Pods and the stored revisions of a SidecarSet, read from the cluster.

use std::cell::OnceCell;
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
use crate::{Kind, Reader, Trouble};

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
    /// Sorted by namespace and name.
    all: Vec<Pod>,
    /// The namespaces by their names, read when they are first needed.
    namespaces: OnceCell<BTreeMap<String, Value>>,
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
        // A Pod without any sidecar tells nothing, unless it may have left the SidecarSet out.
        if !set.is_some_and(OptOut::is_allowed_by) {
            all.retain(|pod| pod.injected().next().is_some());
        }
        Ok(Self { reader, namespace, all, namespaces: OnceCell::new() })
    }

    /// Returns the Pods that a SidecarSet selects and that go without it, since they or their Namespace leave it out
    /// (OPT-2); sorted by namespace and name. `set` must be the one with which the Pods were read.
    ///
    /// # Errors
    /// If the namespaces cannot be read, or a selector cannot be read.
    pub fn opted_out(&self, set: &SidecarSet) -> anyhow::Result<Vec<(&Pod, By)>> {
        if !OptOut::is_allowed_by(set) {
            return Ok(Vec::new());
        }
        let namespaces = self.namespaces()?;
        let is_selected = self.selection(set)?;
        let by = |pod: &Pod| {
            let of_pod = pod.annotation(OPT_OUT_OF);
            let namespace = namespaces.get(&pod.metadata.namespace)?;
            opt_out::left_out_by(set, of_pod, json::text(namespace, &["metadata", "annotations", OPT_OUT_OF]))
        };
        let is_without =
            |pod: &&Pod| pod.is_active() && pod.injected().all(|name| name != set.name()) && is_selected(pod);
        Ok(self.all.iter().filter(is_without).filter_map(|pod| Some((pod, by(pod)?))).collect())
    }

    /// Returns the Pods of a SidecarSet (ROLL-10), sorted by namespace and name.
    ///
    /// # Errors
    /// If the namespaces cannot be read, or a selector cannot be read.
    pub fn selected_by(&self, target: &RolloutTarget<'_>) -> anyhow::Result<Vec<&Pod>> {
        let is_selected = self.selection(target.version)?;
        Ok(self.all.iter().filter(|pod| is_selected(pod) && is_candidate(target, pod)).collect())
    }

    /// Returns whether a SidecarSet selects a Pod, by its labels and by its namespace. One without a selector selects none.
    ///
    /// # Errors
    /// If the namespaces cannot be read, or a selector cannot be read.
    fn selection<'s>(&'s self, set: &'s SidecarSet) -> anyhow::Result<impl Fn(&Pod) -> bool + 's> {
        let parsed = |field: &str| {
            let selector = set.spec(&[field]).map(Selector::parse).transpose();
            selector.map_err(|errors| {
                let below = format!("spec.{field}");
                let errors: Vec<_> = errors.into_iter().map(|error| error.below(below.as_str())).collect();
                anyhow::anyhow!("SidecarSet \"{}\": {}", set.name(), joined(&errors))
            })
        };
        let (selector, namespaces) = (parsed("selector")?, parsed("namespaceSelector")?);
        let selected = match namespaces.filter(|_| selector.is_some()) {
            Some(namespaces) => Some((self.namespaces()?, namespaces)),
            None => None,
        };
        Ok(move |pod: &Pod| {
            let is_in_namespace = || {
                selected.as_ref().is_none_or(|(namespaces, selector)| {
                    let found = namespaces.get(&pod.metadata.namespace);
                    found.is_some_and(|found| selector.matches_labels(json::object(found, &["metadata", "labels"])))
                })
            };
            selector.as_ref().is_some_and(|selector| selector.matches(|key| pod.label(key))) && is_in_namespace()
        })
    }

    /// Returns the namespaces of the Pods by their names.
    fn namespaces(&self) -> Result<&BTreeMap<String, Value>, Trouble> {
        if let Some(known) = self.namespaces.get() {
            return Ok(known);
        }
        let kind = Kind("v1", "Namespace");
        let found = match self.namespace {
            Some(name) => self.reader.get(kind, None, name)?.into_iter().collect(),
            None => self.reader.list(kind, None, None)?.unwrap_or_default(),
        };
        let named = |namespace: Value| (json::text(&namespace, &["metadata", "name"]).to_owned(), namespace);
        Ok(self.namespaces.get_or_init(|| found.into_iter().map(named).collect()))
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
