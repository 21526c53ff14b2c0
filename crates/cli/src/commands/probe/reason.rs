//! Why a Pod does not get its sidecar, as far as the cluster tells it to the user of the kubeconfig.

use pillion_admission::settings::Settings;
use pillion_cluster::rollouts::sets;
use pillion_cluster::{Kind, NO_DEFINITION, Reader, Trouble};
use pillion_install::installation::Installation;
use pillion_kubernetes::json;
use pillion_kubernetes::selector::Selector;
use pillion_plan::bundle::CONDITION;
use pillion_preview::Webhooks;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::enforcer;

/// What the cluster says about a Pod that lacks a container. What may not be read is `None`.
#[derive(Debug, Default)]
pub struct Facts {
    /// The SidecarSets of the cluster.
    sets: Option<Vec<Value>>,
    /// Whether the cluster does not serve SidecarSets.
    has_no_definition: bool,
    /// The SidecarSets of the settings, and the object with the settings.
    installed: Option<Installed>,
    /// The webhooks that ask about new Pods.
    webhooks: Option<Webhooks>,
    /// The namespace of the Pod.
    namespace: Option<Value>,
    /// What could not be read.
    unknown: Vec<String>,
}

/// The settings that decide on new Pods.
#[derive(Debug)]
struct Installed {
    source: String,
    sets: Vec<Value>,
    reads_bundle: bool,
}

/// The Pod that lacks the container.
#[derive(Clone, Copy, Debug)]
pub struct Lack<'a> {
    pub container: &'a str,
    pub namespace: &'a str,
    pub pod: &'a Value,
}

impl Facts {
    /// Reads what the user may read.
    pub fn read(reader: &Reader, namespace: &str) -> Self {
        let mut facts = Self::default();
        let all = sets::all(reader, None);
        match all {
            Ok((sets, _)) => facts.sets = Some(sets),
            Err(error) if matches!(error.downcast_ref(), Some(Trouble::NoDefinition)) => {
                facts.sets = Some(Vec::new());
                facts.has_no_definition = true;
            }
            Err(error) => facts.unknown.push(error.to_string()),
        }
        match Installation::find(reader).and_then(|found| Ok(found.as_ref().map(of_settings).transpose()?.flatten())) {
            Ok(installed) => facts.installed = installed,
            Err(error) => facts.unknown.push(error.to_string()),
        }
        match Webhooks::find([], reader) {
            Ok(webhooks) => facts.webhooks = Some(webhooks),
            Err(trouble) => facts.unknown.push(trouble.to_string()),
        }
        match reader.try_get(Kind("v1", "Namespace"), None, namespace) {
            Ok(found) => facts.namespace = found,
            Err(trouble) => facts.unknown.push(trouble.to_string()),
        }
        facts
    }

    /// Returns the reasons, and what is not known. Never nothing.
    pub fn reasons(&self, lack: Lack<'_>) -> Vec<String> {
        let mut reasons = self.of_webhooks(lack.namespace);
        reasons.extend(self.of_sets(lack));
        if reasons.is_empty() && self.unknown.is_empty() {
            reasons.push(
                "the SidecarSet, its namespace and the webhooks fit the Pod, so the server may not have read the SidecarSet yet; \
                 `pillion explain --cluster` tells more about a Pod"
                    .to_owned(),
            );
            reasons.extend(self.of_failures());
        }
        let unknown = self.unknown.iter().map(|problem| format!("not all is known: {problem}"));
        reasons.into_iter().chain(unknown).collect()
    }

    fn labels(&self) -> Option<&json::Object> {
        self.namespace.as_ref().and_then(|namespace| json::object(namespace, &["metadata", "labels"]))
    }

    fn of_webhooks(&self, namespace: &str) -> Vec<String> {
        let Some(webhooks) = &self.webhooks else { return Vec::new() };
        if webhooks.is_empty() {
            return vec!["no webhook and no policy of Pillion is asked about new Pods: it is not installed".to_owned()];
        }
        let Some(names) = self.namespace.as_ref().and_then(|_| webhooks.that_exclude(self.labels())) else {
            return Vec::new();
        };
        let excluded = format!(
            "Pillion is not asked about Pods of namespace {namespace}: the namespaceSelector of {} leaves it out",
            names.join(" and ")
        );
        let selectors = webhooks.namespace_selectors();
        let enforced = selectors.filter_map(|(name, selector)| enforcer::reason(name, selector, self.labels()));
        std::iter::once(excluded).chain(enforced).collect()
    }

    /// Returns that a failed call could be the reason. The API server says nothing about one that it ignores.
    fn of_failures(&self) -> Option<String> {
        let names: Vec<&str> = self.webhooks.iter().flat_map(Webhooks::that_fail_open).collect();
        (!names.is_empty()).then(|| {
            format!(
                "or no server answers: the failurePolicy of {} is Ignore, so the API server then creates the Pod without \
                 sidecars, and only its audit log and the metric apiserver_admission_webhook_fail_open_count tell of it",
                names.join(" and ")
            )
        })
    }

    fn of_sets(&self, lack: Lack<'_>) -> Vec<String> {
        let of_settings = || self.installed.iter().flat_map(|installed| &installed.sets);
        let own: Vec<&Value> = of_settings().filter(|set| has(set, lack.container)).collect();
        let Some(sets) = &self.sets else {
            return own.into_iter().flat_map(|set| self.of_set(set, lack)).collect();
        };
        let of_cluster: Vec<&Value> = sets.iter().filter(|set| has(set, lack.container)).collect();
        if own.is_empty() && of_cluster.is_empty() {
            if self.has_no_definition {
                return vec![NO_DEFINITION.to_owned()];
            }
            let mut known: Vec<&str> = sets.iter().chain(of_settings()).flat_map(containers).collect();
            known.sort_unstable();
            known.dedup();
            let there = if known.is_empty() {
                "there are no SidecarSets".to_owned()
            } else {
                format!("SidecarSets have {}", known.join(", "))
            };
            return vec![format!("no SidecarSet has a container named {}; {there}", lack.container)];
        }
        let unread = self.installed.as_ref().filter(|installed| own.is_empty() && !installed.reads_bundle);
        let unread = unread.map(|installed| {
            format!(
                "SidecarSets of the cluster do not count: the settings in {} have no bundleRef, and not this SidecarSet",
                installed.source
            )
        });
        let reasons = own.into_iter().chain(of_cluster).flat_map(|set| self.of_set(set, lack));
        unread.into_iter().chain(reasons).collect()
    }

    /// Returns why a SidecarSet with the container is not injected into the Pod.
    fn of_set(&self, set: &Value, lack: Lack<'_>) -> Vec<String> {
        let name = json::text(set, &["metadata", "name"]);
        let mut reasons = Vec::new();
        let labels = json::object(lack.pod, &["metadata", "labels"]);
        let selector = json::at(set, &["spec", "selector"]).and_then(|selector| Selector::parse(selector).ok());
        if !selector.is_some_and(|selector| selector.selects(labels)) {
            let shown: Vec<String> = labels
                .into_iter()
                .flatten()
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            let shown = if shown.is_empty() { "has no labels".to_owned() } else { format!("has {}", shown.join(", ")) };
            reasons.push(format!("SidecarSet {name} does not select the Pod, which {shown}; --label gives it others"));
        }
        let named = json::text(set, &["spec", "namespace"]);
        let namespaces = json::at(set, &["spec", "namespaceSelector"]).filter(|selector| !selector.is_null());
        let is_out = self.namespace.is_some() && namespaces.is_some_and(|selector| !selects(selector, self.labels()));
        if is_out || (!named.is_empty() && named != lack.namespace) {
            reasons.push(format!("SidecarSet {name} does not select namespace {}", lack.namespace));
        }
        if json::flag(set, &["spec", "injectionStrategy", "paused"]) {
            reasons.push(format!("the injection of SidecarSet {name} is paused (spec.injectionStrategy.paused)"));
        }
        let conditions = json::items(set, &["status", "conditions"]).iter();
        for condition in conditions.filter(|condition| json::text(condition, &["type"]) == CONDITION) {
            let text = |key: &str| json::text(condition, &[key]);
            if text("status") != "True" {
                reasons.push(format!(
                    "SidecarSet {name} is not in the bundle: {}: {}",
                    text("reason"),
                    text("message")
                ));
            }
        }
        reasons
    }
}

fn of_settings(found: &Installation) -> Result<Option<Installed>, pillion_install::installation::Unknown> {
    let Some(part) = found.of_admission()? else { return Ok(None) };
    let settings = Settings::decode(part.settings.clone()).ok().and_then(|settings| settings.unbundled().ok());
    Ok(settings.map(|settings| Installed {
        source: part.source.clone(),
        sets: settings.sidecar_sets.iter().map(SidecarSet::as_value).cloned().collect(),
        reads_bundle: settings.bundle_source.config_map.is_some(),
    }))
}

/// Whether a selector of namespaces selects one with these labels. An absent one, and one that cannot be read, does.
fn selects(selector: &Value, labels: Option<&json::Object>) -> bool {
    selector.is_null() || Selector::parse(selector).map_or(true, |selector| selector.matches_labels(labels))
}

/// Returns the names of all containers of a Pod or a SidecarSet.
pub fn containers(object: &Value) -> impl Iterator<Item = &str> {
    let lists = ["initContainers", "containers"].into_iter();
    lists.flat_map(|list| json::items(object, &["spec", list])).map(|container| json::text(container, &["name"]))
}

/// Whether a Pod or a SidecarSet has a container of this name.
pub fn has(object: &Value, container: &str) -> bool {
    containers(object).any(|name| name == container)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set(more: &Value) -> Value {
        let mut set = json!({
            "metadata": {"name": "logs"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "agent"}]},
        });
        json_patch::merge(&mut set, more);
        set
    }

    fn other() -> Value {
        json!({"metadata": {"name": "other"}, "spec": {"containers": [{"name": "tracer"}]}})
    }

    /// Webhooks for every namespace but kube-system.
    fn webhooks() -> Value {
        let others = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]});
        json!({"metadata": {"name": "pillion"}, "webhooks": [{
            "name": "pods.pillion.dev",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "namespaceSelector": {"matchExpressions": [others]},
        }]})
    }

    fn not_in_bundle() -> Value {
        let condition = json!({"type": "InBundle", "status": "False", "reason": "Invalid", "message": "no image"});
        json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, condition]}})
    }

    #[rstest]
    #[case::no_such_container(vec![other()], true, "no SidecarSet has a container named agent; SidecarSets have tracer")]
    #[case::no_sets(vec![], true, "no SidecarSet has a container named agent; there are no SidecarSets")]
    #[case::other_labels(
        vec![set(&json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}}))], true,
        "SidecarSet logs does not select the Pod, which has app=web; --label gives it others"
    )]
    #[case::another_namespace(
        vec![set(&json!({"spec": {"namespaceSelector": {"matchLabels": {"team": "b"}}}}))], true,
        "SidecarSet logs does not select namespace shop"
    )]
    #[case::one_namespace(vec![set(&json!({"spec": {"namespace": "other"}}))], true, "SidecarSet logs does not select namespace shop")]
    #[case::paused(
        vec![set(&json!({"spec": {"injectionStrategy": {"paused": true}}}))], true,
        "the injection of SidecarSet logs is paused (spec.injectionStrategy.paused)"
    )]
    #[case::not_in_the_bundle(vec![set(&not_in_bundle())], true, "SidecarSet logs is not in the bundle: Invalid: no image")]
    #[case::no_bundle_ref(
        vec![set(&json!({}))], false,
        "SidecarSets of the cluster do not count: the settings in ConfigMap p/s have no bundleRef, and not this SidecarSet"
    )]
    #[case::nothing_is_wrong(
        vec![set(&json!({}))], true,
        "the SidecarSet, its namespace and the webhooks fit the Pod, so the server may not have read the SidecarSet yet; \
         `pillion explain --cluster` tells more about a Pod"
    )]
    fn the_reason_is_told(#[case] sets: Vec<Value>, #[case] reads_bundle: bool, #[case] expected: &str) {
        let facts = facts(sets, reads_bundle);
        assert_eq!(reasons(&facts, "shop"), [expected]);
    }

    fn facts(sets: Vec<Value>, reads_bundle: bool) -> Facts {
        let labels = json!({"kubernetes.io/metadata.name": "shop", "team": "a"});
        Facts {
            sets: Some(sets),
            installed: Some(Installed { source: "ConfigMap p/s".to_owned(), sets: Vec::new(), reads_bundle }),
            webhooks: Some(Webhooks::among(&[webhooks()], &[])),
            namespace: Some(json!({"metadata": {"name": "shop", "labels": labels}})),
            ..Facts::default()
        }
    }

    fn reasons(facts: &Facts, namespace: &str) -> Vec<String> {
        let pod = json!({"metadata": {"labels": {"app": "web"}}});
        facts.reasons(Lack { container: "agent", namespace, pod: &pod })
    }

    #[test]
    fn a_namespace_that_the_enforcer_of_aks_excludes_is_told() {
        let mut facts = facts(vec![set(&json!({}))], true);
        facts.namespace = Some(json!({"metadata": {"labels": {"control-plane": "true"}}}));
        let mut edited = webhooks();
        let selector = &mut edited["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        *selector = json!([{"key": "control-plane", "operator": "DoesNotExist"}]);
        facts.webhooks = Some(Webhooks::among(&[edited], &[]));
        let reasons = reasons(&facts, "shop");
        assert!(reasons[0].starts_with("Pillion is not asked about Pods of namespace shop"), "{reasons:?}");
        assert!(reasons[1].starts_with("the admissions enforcer of AKS has added control-plane"), "{reasons:?}");
    }

    #[test]
    fn a_call_whose_failure_is_ignored_may_be_the_reason() {
        let mut facts = facts(vec![set(&json!({}))], true);
        let mut open = webhooks();
        open["webhooks"][0]["failurePolicy"] = "Ignore".into();
        facts.webhooks = Some(Webhooks::among(&[open], &[]));
        let reasons = reasons(&facts, "shop");
        let told = "or no server answers: the failurePolicy of webhook pods.pillion.dev is Ignore";
        assert!(reasons.len() == 2 && reasons[1].starts_with(told), "{reasons:?}");
    }

    #[test]
    fn an_excluded_namespace_and_a_missing_installation_are_told() {
        let mut facts = facts(vec![set(&json!({}))], true);
        facts.namespace = Some(json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}}));
        let excluded = "Pillion is not asked about Pods of namespace kube-system: the namespaceSelector of webhook \
                        pods.pillion.dev leaves it out";
        assert_eq!(reasons(&facts, "kube-system"), [excluded]);
        facts.webhooks = Some(Webhooks::default());
        let missing = "no webhook and no policy of Pillion is asked about new Pods: it is not installed";
        assert_eq!(reasons(&facts, "kube-system"), [missing]);
        let bare = Facts { sets: Some(Vec::new()), has_no_definition: true, ..Facts::default() };
        assert_eq!(reasons(&bare, "shop"), [NO_DEFINITION]);
    }

    #[test]
    fn what_may_not_be_read_is_told() {
        let facts = Facts { unknown: vec!["no right".to_owned()], ..Facts::default() };
        assert_eq!(reasons(&facts, "shop"), ["not all is known: no right"]);
    }
}
