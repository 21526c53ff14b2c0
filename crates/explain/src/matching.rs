//! Finds all reasons why a `SidecarSet` does not match a Pod (MATCH-4 to MATCH-6). [`pillion_inject::matching`] stops
//! at the first reason.

use pillion_admission::pod_identity;
use pillion_inject::matching::opt_out::{OPT_OUT_OF, OptedOut};
use pillion_inject::matching::precedence::GivesWay;
use pillion_inject::matching::{self, Query};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::selector::{Op, Selector};
use pillion_sidecarset::names;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Namespaces, Scope};
use serde_json::Value;

use super::finding::{Finding, Kind};
use super::labels::{Labelled, POD};

/// Returns every reason why `set`, compiled from `manifest`, does not match. Empty if it matches, or if that cannot be
/// decided and the Pod is refused for it.
pub fn blockers(set: &CompiledSet<'_>, manifest: &SidecarSet, query: Query<'_>, lookup: &dyn Lookup) -> Vec<Finding> {
    let mut findings = Vec::new();
    if set.paused {
        findings.push(Finding {
            kind: Kind::Paused,
            path: "spec.injectionStrategy.paused".to_owned(),
            wanted: "false".to_owned(),
            found: Some("true".to_owned()),
            problem: "injection is paused".to_owned(),
            remedy: "set it to false".to_owned(),
        });
    }
    findings.extend(namespace(set, manifest, query, lookup));
    if let Ok(selector) = &set.selector {
        findings.extend(labels(selector, query));
    }
    findings
}

fn labels(selector: &Selector<'_>, query: Query<'_>) -> Vec<Finding> {
    let path = FieldPath::new("spec.selector");
    if selector.is_empty() {
        return vec![Finding {
            kind: Kind::SelectorEmpty,
            path: path.to_string(),
            wanted: String::new(),
            found: None,
            problem: "is empty, which selects no Pod".to_owned(),
            remedy: "select Pods by at least one label".to_owned(),
        }];
    }
    Labelled { name: POD, labels: query.pod.labels(), kind: Kind::PodLabel }.unsatisfied(selector, &path)
}

fn namespace(set: &CompiledSet<'_>, manifest: &SidecarSet, query: Query<'_>, lookup: &dyn Lookup) -> Vec<Finding> {
    let path = FieldPath::new("spec.namespaceSelector");
    let mut findings = Vec::new();
    let elsewhere = match &set.scope {
        Scope::Namespaces(names) if !set.is_candidate(query.namespace) => {
            Some(other_namespace(names, name_requirement(manifest, &path), query))
        }
        _ => None,
    };
    match &set.namespaces {
        Namespaces::All => {}
        Namespaces::None => findings.extend(unparsable(manifest, &path)),
        Namespaces::Matching(selector) => {
            // A missing or unreadable Namespace says nothing about labels. If the name does not match already, the
            // missing Namespace is not reported.
            match matching::namespace_labels(selector, query.namespace, lookup) {
                Ok(Some(labels)) => {
                    let name = format!("Namespace \"{}\"", query.namespace);
                    let labelled = Labelled { name: &name, labels: Some(&labels), kind: Kind::NamespaceLabel };
                    let failing = labelled.unsatisfied(selector, &path);
                    let is_said =
                        |finding: &Finding| elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.path == finding.path);
                    findings.extend(failing.into_iter().filter(|finding| !is_said(finding)));
                }
                Ok(None) if elsewhere.is_none() => findings.push(not_found(selector, &path, query)),
                Ok(None) | Err(_) => {}
            }
        }
    }
    elsewhere.into_iter().chain(findings).collect()
}

/// Returns the path of the requirement in which the namespace selector names namespaces, as [`Scope`] finds it.
fn name_requirement(manifest: &SidecarSet, selector: &FieldPath<'_>) -> String {
    let spec = |path: &[&str]| manifest.spec(path);
    if spec(&["namespaceSelector", "matchLabels", names::NAMESPACE_NAME_LABEL]).is_some_and(Value::is_string) {
        return selector.child("matchLabels").key(names::NAMESPACE_NAME_LABEL).to_string();
    }
    let expressions = spec(&["namespaceSelector", "matchExpressions"]).and_then(Value::as_array);
    let index = expressions.into_iter().flatten().position(|expression| {
        json::text(expression, &["key"]) == names::NAMESPACE_NAME_LABEL
            && json::text(expression, &["operator"]) == Op::In.as_str()
    });
    let list = selector.child("matchExpressions");
    index.map_or_else(|| list.to_string(), |index| list.index(index).to_string())
}

fn other_namespace(names: &[&str], path: String, query: Query<'_>) -> Finding {
    let wanted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let wanted = match wanted.as_slice() {
        [] => "no namespace at all".to_owned(),
        [one] => one.clone(),
        _ => format!("one of {}", wanted.join(", ")),
    };
    Finding {
        kind: Kind::OtherNamespace,
        path,
        wanted: format!("{} in ({})", names::NAMESPACE_NAME_LABEL, names.join(",")),
        found: Some(query.namespace.to_owned()),
        problem: format!("the namespace is \"{}\", wanted {wanted}", query.namespace),
        remedy: "create the Pod there, or change the selector".to_owned(),
    }
}

fn unparsable(manifest: &SidecarSet, path: &FieldPath<'_>) -> Vec<Finding> {
    let errors = manifest.spec(&["namespaceSelector"]).map(Selector::parse).and_then(Result::err).unwrap_or_default();
    let finding = |error: pillion_kubernetes::field::FieldError| {
        let error = error.below(path);
        Finding {
            kind: Kind::NamespaceSelectorInvalid,
            path: error.path,
            wanted: String::new(),
            found: error.value,
            problem: format!("cannot be understood, which selects no namespace: {}", error.detail),
            remedy: "correct the selector".to_owned(),
        }
    };
    errors.into_iter().map(finding).collect()
}

fn not_found(selector: &Selector<'_>, path: &FieldPath<'_>, query: Query<'_>) -> Finding {
    Finding {
        kind: Kind::NamespaceNotFound,
        path: path.to_string(),
        wanted: selector.to_string(),
        found: None,
        problem: format!("Namespace \"{}\" is not known, wanted one with {selector}", query.namespace),
        remedy: "create the Namespace, or change the selector".to_owned(),
    }
}

/// Returns the selectors of a matching `SidecarSet` in the syntax of `kubectl -l`: for Pods and, if it has one, for
/// namespaces.
pub fn selects(manifest: &SidecarSet) -> (String, Option<String>) {
    let shown = |path: &[&str]| {
        manifest
            .spec(path)
            .filter(|selector| !selector.is_null())
            .map(|selector| Selector::parse_known(selector).to_string())
    };
    (shown(&["selector"]).unwrap_or_default(), shown(&["namespaceSelector"]).filter(|text| !text.is_empty()))
}

/// Returns why a base is replaced by its canary (MATCH-8).
pub fn canary(base: &str, canary: &str) -> Finding {
    Finding {
        kind: Kind::Canary,
        path: "metadata.name".to_owned(),
        wanted: String::new(),
        found: Some(canary.to_owned()),
        problem: format!("its canary \"{canary}\" matches the Pod too and takes its place"),
        remedy: format!("pause or delete SidecarSet \"{canary}\", or narrow its selector, to get \"{base}\""),
    }
}

/// Returns why a matching `SidecarSet` is left out (OPT-2).
pub fn opted_out(OptedOut { sidecar_set, by, .. }: &OptedOut) -> Finding {
    Finding {
        kind: Kind::OptedOut,
        path: FieldPath::new("metadata.annotations").key(OPT_OUT_OF).to_string(),
        wanted: String::new(),
        found: Some(sidecar_set.clone()),
        problem: format!("of the {by} leaves \"{sidecar_set}\" out, which the SidecarSet allows"),
        remedy: format!("remove the name from the annotation of the {by} to get \"{sidecar_set}\""),
    }
}

/// Returns why a matching `SidecarSet` of the cluster gives way to one of the settings (TRUST-3, TRUST-4).
pub fn gives_way(set: &str, why: &GivesWay) -> Finding {
    let (path, found, problem) = match why {
        GivesWay::Name => {
            ("metadata.name".to_owned(), set, "the policy's settings have a SidecarSet of this name".to_owned())
        }
        GivesWay::Base(base) => (
            FieldPath::new("metadata.annotations").key(names::BASE).to_string(),
            base.as_str(),
            format!(
                "its base \"{base}\" is one of the policy's settings, which only a canary of the settings replaces"
            ),
        ),
    };
    Finding {
        kind: Kind::GivesWay,
        path,
        wanted: String::new(),
        found: Some(found.to_owned()),
        problem,
        remedy: "rename the SidecarSet of the cluster, or write it into the settings".to_owned(),
    }
}

/// Returns why sidecars are not injected into the Pod at all; `None` if they can be (MATCH-2).
pub(crate) fn inactive(pod: pillion_sidecarset::pod::Pod<'_>) -> Option<Finding> {
    if pod_identity::is_mirror(pod.as_value()) {
        return Some(Finding {
            kind: Kind::MirrorPod,
            path: FieldPath::new("metadata.annotations").key("kubernetes.io/config.mirror").to_string(),
            wanted: String::new(),
            found: None,
            problem: "the Pod is the mirror of a static Pod, which admission cannot change".to_owned(),
            remedy: "write the sidecar into the static Pod's file on its node".to_owned(),
        });
    }
    if pod.is_injectable() {
        return None;
    }
    let time = json::at(pod.as_value(), &["metadata", "deletionTimestamp"]);
    let time = time.and_then(Value::as_str).unwrap_or("set").to_owned();
    Some(Finding {
        kind: Kind::PodNotActive,
        path: "metadata.deletionTimestamp".to_owned(),
        wanted: String::new(),
        found: Some(time),
        problem: "the Pod is being deleted, which leaves it as it is".to_owned(),
        remedy: "create a new Pod".to_owned(),
    })
}
