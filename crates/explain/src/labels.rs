//! Finds the requirements of a selector that labels do not meet.

use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json::Object;
use pillion_kubernetes::selector::{Op, Requirement, Selector, Values, label_of};
use pillion_sidecarset::names;
use serde_json::Value;

use super::finding::{Finding, Kind};

/// The maximum number of existing labels that a message lists if a label is missing.
const SHOWN: usize = 8;

/// Labels that controllers write into the Pods that they create.
const OF_CONTROLLERS: [&str; 10] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
];

/// The name of a Pod in messages.
pub const POD: &str = "Pod";

/// An object with labels.
#[derive(Clone, Copy, Debug)]
pub struct Labelled<'a> {
    /// Its name at the start of a sentence: [`POD`], or `Namespace "shop"`.
    pub name: &'a str,
    /// Its labels.
    pub labels: Option<&'a Object>,
    /// The kind of the finding for an unmet requirement.
    pub kind: Kind,
}

impl Labelled<'_> {
    /// Returns a finding for each requirement of the selector at `path` that the labels do not meet, in the order of
    /// the selector.
    pub fn unsatisfied(self, selector: &Selector<'_>, path: &FieldPath<'_>) -> Vec<Finding> {
        places(selector, path)
            .filter(|(_, requirement)| !requirement.admits(label_of(self.labels, requirement.key)))
            .map(|(path, requirement)| self.failing(path, requirement))
            .collect()
    }

    fn failing(self, path: String, requirement: &Requirement<'_>) -> Finding {
        let found = label_of(self.labels, requirement.key);
        let wanted = wanted(requirement);
        let key = requirement.key;
        let is_expression = matches!(requirement.values, Values::Many(_));
        let problem = match found {
            Some(value) if is_expression => format!("{} has {key}=\"{value}\", wanted {wanted}", self.name),
            Some(value) => format!("{} has \"{value}\", wanted {wanted}", self.name),
            None => format!("{} has no label \"{key}\"{}, wanted {wanted}", self.name, self.others()),
        };
        let is_pod = self.name == POD;
        let who = if is_pod { "the Pod or its template" } else { "the Namespace" };
        // The API server sets this label on every Namespace.
        let is_name = !is_pod && key == names::NAMESPACE_NAME_LABEL;
        let remedy = match (requirement.op, requirement.values.iter().next()) {
            (Op::In, Some(value)) if is_name => {
                format!("create the Pod in Namespace \"{value}\", or change the selector")
            }
            _ if is_name => "create the Pod in another Namespace, or change the selector".to_owned(),
            _ if is_pod && OF_CONTROLLERS.contains(&key) => {
                format!("change the selector: {key} is the label of the controller that makes the Pod")
            }
            (Op::In, Some(value)) => format!("label {who} {key}={value}, or change the selector"),
            (Op::NotIn | Op::DoesNotExist, _) => format!("take label {key} from {who}, or change the selector"),
            (Op::In | Op::Exists, _) => format!("label {who} with {key}, or change the selector"),
        };
        Finding {
            kind: self.kind,
            path,
            wanted: requirement.to_string(),
            found: found.map(str::to_owned),
            problem,
            remedy,
        }
    }

    /// Lists the existing labels: the missing one may be among them under another name. Labels that controllers write
    /// are left out, since nobody misspells them.
    fn others(self) -> String {
        let own = |(key, _): &(&String, &Value)| self.name != POD || !OF_CONTROLLERS.contains(&key.as_str());
        let labels: Vec<_> = self.labels.into_iter().flatten().filter(own).collect();
        let shown: Vec<String> = labels
            .iter()
            .take(SHOWN)
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        match labels.len().saturating_sub(SHOWN) {
            _ if shown.is_empty() && self.labels.is_none_or(Object::is_empty) => " (it has none)".to_owned(),
            _ if shown.is_empty() => " (it has only those of its controller)".to_owned(),
            0 => format!(" (it has {})", shown.join(", ")),
            more => format!(" (it has {} and {more} more)", shown.join(", ")),
        }
    }
}

/// Describes a requirement in words.
fn wanted(requirement: &Requirement<'_>) -> String {
    let values: Vec<String> = requirement.values.iter().map(|value| format!("\"{value}\"")).collect();
    match (requirement.op, values.as_slice()) {
        (Op::Exists, _) => "any value".to_owned(),
        (Op::DoesNotExist, _) => "no such label".to_owned(),
        (Op::In, [value]) => value.clone(),
        (Op::In, _) => format!("one of {}", values.join(", ")),
        (Op::NotIn, [value]) => format!("not {value}"),
        (Op::NotIn, _) => format!("none of {}", values.join(", ")),
    }
}

/// Returns the requirements with their paths below `path`: `matchLabels` by key, then `matchExpressions` by index.
fn places<'s, 'a>(
    selector: &'s Selector<'a>,
    path: &'s FieldPath<'s>,
) -> impl Iterator<Item = (String, &'s Requirement<'a>)> {
    let (labels, expressions) = (path.child("matchLabels"), path.child("matchExpressions"));
    let mut next = 0;
    selector.requirements().iter().map(move |requirement| {
        let place = match requirement.values {
            Values::One(_) => labels.key(requirement.key).to_string(),
            Values::Many(_) => {
                next += 1;
                expressions.index(next - 1).to_string()
            }
        };
        (place, requirement)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::none(json!({}), " (it has none)")]
    #[case::its_own(json!({"app": "b", "job-name": "preview"}), " (it has app=b)")]
    #[case::only_of_its_controller(json!({"job-name": "preview"}), " (it has only those of its controller)")]
    fn labels_of_controllers_are_not_listed(#[case] labels: Value, #[case] expected: &str) {
        let labelled = Labelled { name: POD, labels: labels.as_object(), kind: Kind::PodLabel };
        assert_eq!(labelled.others(), expected);
    }

    #[rstest]
    #[case::label(POD, "app", "In", "label the Pod or its template app=a, or change the selector")]
    #[case::no_such_label(POD, "app", "NotIn", "take label app from the Pod or its template, or change the selector")]
    #[case::label_of_a_controller(
        POD,
        "pod-template-hash",
        "In",
        "change the selector: pod-template-hash is the label of the controller that makes the Pod"
    )]
    #[case::label_of_the_namespace(
        "Namespace \"x\"",
        "team",
        "NotIn",
        "take label team from the Namespace, or change the selector"
    )]
    #[case::name_of_the_namespace(
        "Namespace \"x\"",
        names::NAMESPACE_NAME_LABEL,
        "In",
        "create the Pod in Namespace \"a\", or change the selector"
    )]
    #[case::name_of_another_namespace(
        "Namespace \"x\"",
        names::NAMESPACE_NAME_LABEL,
        "NotIn",
        "create the Pod in another Namespace, or change the selector"
    )]
    fn remedies_can_be_carried_out(
        #[case] name: &str,
        #[case] key: &str,
        #[case] operator: &str,
        #[case] remedy: &str,
    ) {
        let found = if operator == "In" { "b" } else { "a" };
        let labels = json!({ key: found });
        let selector = json!({"matchExpressions": [{"key": key, "operator": operator, "values": ["a"]}]});
        let labelled = Labelled { name, labels: labels.as_object(), kind: Kind::PodLabel };
        let findings = labelled.unsatisfied(&Selector::parse_known(&selector), &FieldPath::new("spec.selector"));
        assert_eq!(findings.iter().map(|finding| finding.remedy.as_str()).collect::<Vec<_>>(), [remedy]);
    }
}
