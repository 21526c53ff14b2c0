//! The webhooks of a cluster that ask Pillion about new Pods, and the Pods that they leave out.

use std::collections::BTreeSet;

use pillion_cluster::{Kind, Reader, Trouble};
use pillion_documents::manifest::Manifest;
use pillion_explain::finding::{Finding, Kind as Reason};
use pillion_explain::labels::{Labelled, POD};
use pillion_install::rendering::answers::leaves_out_mirror_pods;
use pillion_install::rendering::document::{PART_OF, PILLION};
use pillion_install::settings::names_module;
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::selector::Selector;
use pillion_sidecarset::names;
use pillion_terminal::Terminal;
use serde_json::{Value, json};

use super::cluster::Manifests;
use super::policy::{cover_new_pods, uses_labels};

const CONFIGURATION: &str = "MutatingWebhookConfiguration";
const REGISTRATION: &str = "admissionregistration.k8s.io/v1";
const KUBEWARDEN: &str = "policies.kubewarden.io/v1";
/// The annotation of the mirror of a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The end of the names of Pillion's own webhooks.
const OWN: &str = ".pillion.dev";

/// The webhooks that ask Pillion about new Pods. Only the mutating ones decide about injection. Without any, every Pod
/// counts as asked about: the user may want to know what Pillion will do once it is installed.
#[derive(Debug, Default)]
pub struct Webhooks(Vec<Webhook>);

/// A webhook that asks Pillion about new Pods.
#[derive(Debug)]
struct Webhook {
    /// The webhook, as in `webhook pods.pillion.dev`, or the policy of which Kubewarden made it, as in `policy logs`.
    name: String,
    /// The configuration and the webhook, as in `MutatingWebhookConfiguration pillion (webhook pods.pillion.dev)`.
    label: String,
    /// The position in the configuration.
    index: usize,
    /// The webhook as the configuration has it.
    value: Value,
    /// The Kubewarden policy behind it, if its mode lets it only log.
    only_logs: Option<String>,
}

/// Why a Pod stays as it is, although Pillion is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAsked {
    /// The main reason, as in `not asked: namespace "kube-system" is excluded by …`.
    pub summary: String,
    /// Every requirement of the webhooks that the Pod does not meet.
    pub findings: Vec<Finding>,
}

impl Webhooks {
    /// [Finds](Self::find) the webhooks of a cluster. Says on `stderr` if the cluster does not allow to read them, and if it has none. Without a reader there are none.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer.
    pub fn read<'a>(
        given: impl IntoIterator<Item = &'a Manifest>,
        reader: Option<&Reader>,
        terminal: &mut Terminal,
    ) -> Result<Self, Trouble> {
        let Some(reader) = reader else { return Ok(Self::default()) };
        let found = match Self::find(given, reader) {
            Ok(found) => found,
            Err(forbidden @ Trouble::Forbidden { .. }) => {
                note(terminal, &format!("whether the API server asks Pillion about a Pod is not known: {forbidden}"));
                return Ok(Self::default());
            }
            Err(trouble) => return Err(trouble),
        };
        if found.0.is_empty() {
            note(terminal, "no webhook of the cluster asks Pillion about new Pods; this shows what one would answer");
        }
        Ok(found)
    }

    /// Reads the webhooks of a cluster; a configuration among the manifests replaces the cluster's of the same name.
    ///
    /// # Errors
    /// [`Trouble`] if the cluster does not answer, or does not allow it.
    pub fn find<'a>(given: impl IntoIterator<Item = &'a Manifest>, reader: &Reader) -> Result<Self, Trouble> {
        let is_one = |object: &&Value| {
            json::text(object, &["apiVersion"]) == REGISTRATION && json::text(object, &["kind"]) == CONFIGURATION
        };
        let mut configurations: Vec<Value> =
            given.into_iter().map(|manifest| &manifest.value).filter(is_one).cloned().collect();
        let known: BTreeSet<String> = configurations.iter().map(|one| name(one).to_owned()).collect();
        let of_cluster = reader.try_list(Kind(REGISTRATION, CONFIGURATION), None, None)?.unwrap_or_default();
        configurations.extend(of_cluster.into_iter().filter(|one| !known.contains(name(one))));
        let is_kubewarden =
            |one: &Value| ["clusterwide-", "namespaced-"].iter().any(|start| name(one).starts_with(start));
        let policies = if configurations.iter().any(is_kubewarden) { policies(reader)? } else { Vec::new() };
        Ok(Self::among(&configurations, &policies))
    }

    /// Returns the webhooks of Pillion among configurations: its own, and those that Kubewarden makes of its policies.
    pub fn among(configurations: &[Value], policies: &[Value]) -> Self {
        let of_configuration = |configuration: &Value| {
            let policy = policies.iter().find(|policy| unique_name(policy) == name(configuration));
            let is_own = json::text(configuration, &["metadata", "labels", PART_OF]) == PILLION;
            let is_ours = |webhook: &Value| {
                let asks = is_own || policy.is_some() || json::text(webhook, &["name"]).ends_with(OWN);
                asks && json::at(webhook, &["rules"]).is_some_and(cover_new_pods)
            };
            let logging = policy.filter(|policy| json::text(policy, &["spec", "mode"]) == "monitor");
            let webhooks = json::items(configuration, &["webhooks"]).iter().enumerate();
            let ours = webhooks.filter(|(_, webhook)| is_ours(webhook)).map(|(index, webhook)| Webhook {
                name: match policy {
                    Some(policy) => format!("policy {}", name(policy)),
                    None => format!("webhook {}", json::text(webhook, &["name"])),
                },
                label: format!("{CONFIGURATION} {} (webhook {})", name(configuration), json::text(webhook, &["name"])),
                index,
                value: webhook.clone(),
                only_logs: logging.map(|policy| format!("{} {}", json::text(policy, &["kind"]), name(policy))),
            });
            ours.collect::<Vec<_>>()
        };
        Self(configurations.iter().flat_map(of_configuration).collect())
    }

    /// Whether nothing asks Pillion about new Pods.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the webhooks if none of them is for a Namespace with these labels; `None` if one is, or if
    /// there is none.
    pub fn that_exclude(&self, labels: Option<&Object>) -> Option<Vec<&str>> {
        let is_excluded = |webhook: &Webhook| {
            !webhook.selector("namespaceSelector").map(Selector::parse_known).unwrap_or_default().matches_labels(labels)
        };
        (!self.is_empty() && self.0.iter().all(is_excluded)).then(|| self.0.iter().map(|it| it.name.as_str()).collect())
    }

    /// Returns the names of the webhooks, with the selectors by which they leave namespaces out.
    pub fn namespace_selectors(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().filter_map(|webhook| Some((webhook.name.as_str(), webhook.selector("namespaceSelector")?)))
    }

    /// Returns the names of the webhooks after whose failure a Pod is created without sidecars.
    pub fn that_fail_open(&self) -> impl Iterator<Item = &str> {
        let fails_open = |webhook: &&Webhook| json::text(&webhook.value, &["failurePolicy"]) == "Ignore";
        self.0.iter().filter(fails_open).map(|webhook| webhook.name.as_str())
    }

    /// Returns why none of the webhooks asks Pillion about a Pod of `namespace`, or heeds its answer; `None` if one does,
    /// or if no webhook is known.
    pub fn leave_out(&self, pod: &Value, namespace: &str, cluster: &Manifests) -> Option<NotAsked> {
        let reasons: Option<Vec<NotAsked>> =
            self.0.iter().map(|webhook| webhook.leaves_out(pod, namespace, cluster)).collect();
        let mut reasons = reasons?;
        if reasons.len() > 1 {
            // The paths do not say which configuration they are about.
            for (reason, webhook) in reasons.iter_mut().zip(&self.0) {
                reason.findings.iter_mut().for_each(|it| it.problem = format!("{}: {}", webhook.label, it.problem));
            }
        }
        reasons.into_iter().reduce(|mut all, mut next| {
            all.findings.append(&mut next.findings);
            all
        })
    }

    /// Returns warnings about conditions that are not evaluated.
    pub fn doubts(&self) -> Vec<String> {
        let of_webhook = |webhook: &Webhook| {
            let conditions = json::items(&webhook.value, &["matchConditions"]).iter();
            let unknown = conditions.filter(|one| !leaves_out_mirror_pods(json::text(one, &["expression"])));
            let names: Vec<String> = unknown.map(|one| format!("\"{}\"", json::text(one, &["name"]))).collect();
            (!names.is_empty()).then(|| {
                format!(
                    "{}: matchConditions {} are not looked at; they may leave Pods out",
                    webhook.label,
                    names.join(", ")
                )
            })
        };
        self.0.iter().filter_map(of_webhook).collect()
    }
}

impl Webhook {
    fn leaves_out(&self, pod: &Value, namespace: &str, cluster: &Manifests) -> Option<NotAsked> {
        let webhooks = FieldPath::new("webhooks");
        let at = webhooks.index(self.index);
        let selector = self.selector("namespaceSelector");
        let labels = match selector {
            Some(selector) if uses_labels(selector) => cluster.namespace_labels(namespace, true),
            _ => json!({names::NAMESPACE_NAME_LABEL: namespace}).as_object().cloned(),
        };
        let who = format!("Namespace \"{namespace}\"");
        let by_namespace = unmet(selector, &at.child("namespaceSelector"), &who, labels.as_ref());
        let labels = json::object(pod, &["metadata", "labels"]);
        let by_labels = unmet(self.selector("objectSelector"), &at.child("objectSelector"), POD, labels);
        let by_condition = self.mirror(pod, &at);
        let by_mode = self.only_logs.as_ref().map(|policy| Finding {
            path: "spec.mode".to_owned(),
            wanted: "protect".to_owned(),
            found: Some("monitor".to_owned()),
            ..reason(format!("{policy} injects nothing and refuses nothing, it only logs"), "set mode to protect")
        });
        let label = &self.label;
        let summary = match (by_namespace.is_empty(), by_labels.is_empty(), &by_condition, &self.only_logs) {
            (false, ..) => format!("not asked: namespace \"{namespace}\" is excluded by {label}"),
            (_, false, ..) => format!("not asked: the labels of the Pod are excluded by {label}"),
            (_, _, Some(_), _) => format!("not asked: mirror Pods are excluded by {label}"),
            (.., Some(policy)) => format!("not heeded: {policy} has mode monitor"),
            _ => return None,
        };
        let findings = by_namespace.into_iter().chain(by_labels).chain(by_condition).chain(by_mode).collect();
        Some(NotAsked { summary, findings })
    }

    fn selector(&self, key: &str) -> Option<&Value> {
        json::at(&self.value, &[key]).filter(|selector| !selector.is_null())
    }

    fn mirror(&self, pod: &Value, at: &FieldPath<'_>) -> Option<Finding> {
        json::at(pod, &["metadata", "annotations", MIRROR])?;
        let conditions = json::items(&self.value, &["matchConditions"]).iter();
        let mut expressions = conditions.map(|condition| json::text(condition, &["expression"]));
        let index = expressions.position(leaves_out_mirror_pods)?;
        let problem = "the Pod is the mirror of a static Pod, which admission cannot change";
        Some(Finding { path: at.child("matchConditions").index(index).to_string(), ..reason(problem, "") })
    }
}

/// Returns the requirements of a selector that labels do not meet.
fn unmet(selector: Option<&Value>, path: &FieldPath<'_>, name: &str, labels: Option<&Object>) -> Vec<Finding> {
    let selector = selector.map(Selector::parse_known).unwrap_or_default();
    Labelled { name, labels, kind: Reason::NotAsked }.unsatisfied(&selector, path)
}

fn reason(problem: impl Into<String>, remedy: &str) -> Finding {
    Finding {
        kind: Reason::NotAsked,
        path: String::new(),
        wanted: String::new(),
        found: None,
        problem: problem.into(),
        remedy: remedy.to_owned(),
    }
}

fn name(object: &Value) -> &str {
    json::text(object, &["metadata", "name"])
}

/// Returns the Kubewarden policies of the cluster that run this module.
fn policies(reader: &Reader) -> Result<Vec<Value>, Trouble> {
    let mut policies = Vec::new();
    for kind in ["ClusterAdmissionPolicy", "AdmissionPolicy"] {
        policies.extend(reader.try_list(Kind(KUBEWARDEN, kind), None, None)?.unwrap_or_default());
    }
    policies.retain(|policy| names_module(json::at(policy, &["spec"]).unwrap_or(&Value::Null)));
    Ok(policies)
}

/// Returns the name that Kubewarden gives to the webhook configuration of a policy.
fn unique_name(policy: &Value) -> String {
    match json::text(policy, &["metadata", "namespace"]) {
        "" => format!("clusterwide-{}", name(policy)),
        namespace => format!("namespaced-{namespace}-{}", name(policy)),
    }
}

/// Prints a note to `stderr`. Ignores write errors: there is no other stream to report them.
fn note(terminal: &mut Terminal, text: &str) {
    let _ = writeln!(terminal.err(), "note: {text}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pillion_install::rendering::answers::Part;
    use pillion_install::rendering::answers::running::Listed;
    use rstest::rstest;

    use super::*;

    fn rules() -> Value {
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}])
    }

    /// The configuration `name` with one webhook for Pods, which leaves out `kube-system`, the label `pillion=off` and
    /// mirror Pods.
    fn configuration(name: &str, part_of: &str) -> Value {
        let expression = Part::Pods.conditions(&Listed::default())[0].expression.clone();
        let not_in = |key: &str, value: &str| json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]});
        json!({
            "apiVersion": REGISTRATION, "kind": CONFIGURATION, "metadata": {"name": name, "labels": {PART_OF: part_of}},
            "webhooks": [
                {"name": "sidecarsets.example.com", "rules": []},
                {"name": "pods.example.com", "rules": rules(),
                 "namespaceSelector": not_in(names::NAMESPACE_NAME_LABEL, "kube-system"),
                 "objectSelector": not_in("pillion", "off"),
                 "matchConditions": [{"name": "is-no-mirror-pod", "expression": expression}]}
            ]
        })
    }

    fn policy(mode: &str) -> Value {
        json!({
            "kind": "ClusterAdmissionPolicy", "metadata": {"name": "logs"},
            "spec": {"module": "registry://registry.example.com/pillion:v1", "mode": mode}
        })
    }

    fn cluster() -> Manifests {
        let shop =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "a"}}});
        Manifests::new([shop], "default", BTreeMap::new())
    }

    fn left_out(webhooks: &Webhooks, metadata: &Value, namespace: &str) -> Option<NotAsked> {
        webhooks.leave_out(&json!({"metadata": metadata}), namespace, &cluster())
    }

    #[rstest]
    #[case::asked(json!({"labels": {"app": "web"}}), "shop", None, &[])]
    #[case::namespace(json!({}), "kube-system",
        Some("not asked: namespace \"kube-system\" is excluded by MutatingWebhookConfiguration pillion (webhook pods.example.com)"),
        &["webhooks[1].namespaceSelector.matchExpressions[0]: Namespace \"kube-system\" has kubernetes.io/metadata.name=\"kube-system\", wanted not \"kube-system\""])]
    #[case::label(json!({"labels": {"pillion": "off"}}), "shop",
        Some("not asked: the labels of the Pod are excluded by MutatingWebhookConfiguration pillion (webhook pods.example.com)"),
        &["webhooks[1].objectSelector.matchExpressions[0]: Pod has pillion=\"off\", wanted not \"off\""])]
    #[case::mirror(json!({"annotations": {MIRROR: "x"}}), "shop",
        Some("not asked: mirror Pods are excluded by MutatingWebhookConfiguration pillion (webhook pods.example.com)"),
        &["webhooks[1].matchConditions[0]: the Pod is the mirror of a static Pod, which admission cannot change"])]
    fn pods_that_the_webhook_leaves_out(
        #[case] metadata: Value,
        #[case] namespace: &str,
        #[case] summary: Option<&str>,
        #[case] findings: &[&str],
    ) {
        let webhooks = Webhooks::among(&[configuration("pillion", PILLION)], &[]);
        let found = left_out(&webhooks, &metadata, namespace);
        assert_eq!(found.as_ref().map(|found| found.summary.as_str()), summary);
        let said: Vec<String> = found.iter().flat_map(|found| &found.findings).map(ToString::to_string).collect();
        assert_eq!(said, findings);
    }

    #[test]
    fn webhooks_of_others_and_no_webhooks_leave_nothing_out() {
        for configurations in [&[configuration("istio", "istio")][..], &[]] {
            let webhooks = Webhooks::among(configurations, &[policy("protect")]);
            assert_eq!(left_out(&webhooks, &json!({}), "kube-system"), None);
        }
    }

    #[test]
    fn one_of_two_webhooks_is_enough_and_otherwise_each_has_its_reasons() {
        let mut other = configuration("other", PILLION);
        let both = [configuration("pillion", PILLION), other.clone()];
        let found = left_out(&Webhooks::among(&both, &[]), &json!({}), "kube-system").unwrap();
        assert!(found.findings[1].problem.starts_with("MutatingWebhookConfiguration other (webhook "), "{found:?}");
        other["webhooks"][1]["namespaceSelector"] = Value::Null;
        let both = [configuration("pillion", PILLION), other];
        assert_eq!(left_out(&Webhooks::among(&both, &[]), &json!({}), "kube-system"), None);
    }

    #[test]
    fn labels_of_the_namespace_count() {
        let mut configuration = configuration("pillion", PILLION);
        configuration["webhooks"][1]["namespaceSelector"] = json!({"matchLabels": {"team": "b"}});
        let found = left_out(&Webhooks::among(&[configuration], &[]), &json!({}), "shop").unwrap();
        let path = "webhooks[1].namespaceSelector.matchLabels[team]";
        assert_eq!(found.findings[0].to_string(), format!("{path}: Namespace \"shop\" has \"a\", wanted \"b\""));
    }

    #[test]
    fn the_webhook_that_kubewarden_makes_of_a_policy_counts_with_the_mode_of_the_policy() {
        let made = [configuration("clusterwide-logs", "kubewarden")];
        let protecting = Webhooks::among(&made, &[policy("protect")]);
        assert!(left_out(&protecting, &json!({}), "kube-system").is_some());
        assert_eq!(left_out(&protecting, &json!({}), "shop"), None);
        let logging = Webhooks::among(&made, &[policy("monitor")]);
        let found = left_out(&logging, &json!({}), "shop").unwrap();
        assert_eq!(found.summary, "not heeded: ClusterAdmissionPolicy logs has mode monitor");
    }

    #[test]
    fn conditions_that_are_not_evaluated_are_told() {
        let mut configuration = configuration("pillion", PILLION);
        assert_eq!(Webhooks::among(std::slice::from_ref(&configuration), &[]).doubts(), [] as [&str; 0]);
        configuration["webhooks"][1]["matchConditions"] = json!([{"name": "mine", "expression": "false"}]);
        let doubts = Webhooks::among(&[configuration], &[]).doubts();
        assert!(doubts[0].contains("matchConditions \"mine\" are not looked at"), "{doubts:?}");
    }
}
