//! Descriptions, for `kubectl explain`, of fields that the JSON Schema of the settings leaves to Kubernetes.

use crate::schema::fields;

/// Returns the description of a field, or an empty text.
pub(super) fn of_field(owner: &str, name: &str) -> &'static str {
    let documented = fields::of_field(owner, name).map(|field| field.text);
    documented.or_else(|| find(owner, name)).unwrap_or_default()
}

fn find(owner: &str, name: &str) -> Option<&'static str> {
    FIELDS.iter().find(|(of, field, _)| (*of, *field) == (owner, name)).map(|(_, _, text)| *text)
}

/// The description of `nonResourceURLs` in `serviceAccountPermissions`. The schema has the field so that the API server
/// does not prune it silently: the webhook refuses it.
pub(super) const URLS: &str = "Refused: permissions in a namespace cannot name URLs.";

/// Type, field, description.
const FIELDS: [(&str, &str, &str); 35] = [
    ("SidecarContainer", "command", "Replaces the image's entrypoint."),
    ("SidecarContainer", "args", "Arguments of the command."),
    ("SidecarContainer", "workingDir", "Where the command is started; absent: as the image says."),
    ("SidecarContainer", "ports", "Ports on which it listens."),
    ("SidecarContainer", "envFrom", "ConfigMaps and Secrets that become variables."),
    ("SidecarContainer", "resizePolicy", "Whether it restarts when its resources are resized."),
    ("SidecarContainer", "livenessProbe", "When it is restarted. Init containers: native sidecars only."),
    ("SidecarContainer", "readinessProbe", "When it counts as ready. Init containers: native sidecars only."),
    ("SidecarContainer", "startupProbe", "When it counts as started. Init containers: native sidecars only."),
    ("SidecarContainer", "lifecycle", "What is done after its start and before its end."),
    ("SidecarContainer", "securityContext", "What it may do on its node."),
    ("SidecarContainer", "stdin", "Whether it has a standard input."),
    ("SidecarContainer", "stdinOnce", "Whether the standard input is closed after the first client."),
    ("SidecarContainer", "tty", "Whether it has a terminal; needs `stdin`."),
    ("UpdatePriorityStrategy", "orderPriority", "By the value of a label, each entry where those before are equal."),
    ("UpdatePriorityStrategy", "weightPriority", "By the sum of the weights whose selectors match."),
    ("UpdatePriorityOrderTerm", "orderedKey", "The key of the label; a number at the end of its value counts."),
    ("UpdatePriorityWeightTerm", "weight", "0 to 100."),
    ("UpdatePriorityWeightTerm", "matchSelector", "The labels of the Pods that it counts for."),
    ("UpdateScatterTerm", "key", "The key of the label."),
    ("UpdateScatterTerm", "value", "The value of the label; `*` is any."),
    ("LabelSelectorRequirement", "key", "The key of the label."),
    ("LabelSelectorRequirement", "operator", "`In`, `NotIn`, `Exists` or `DoesNotExist`."),
    ("LabelSelectorRequirement", "values", "The values, for `In` and `NotIn`."),
    ("LocalObjectReference", "name", "The name of the Secret, in the namespace of each Pod."),
    ("ObjectFieldSelector", "apiVersion", "`v1`, which is also the default."),
    ("ObjectFieldSelector", "fieldPath", "The path of the field in the Pod."),
    ("SidecarSetStatus", "observedGeneration", "The generation that the controller has seen."),
    ("SidecarSetStatus", "matchedPods", "How many Pods it was injected into."),
    ("SidecarSetStatus", "updatedPods", "How many of them have its latest version."),
    ("SidecarSetStatus", "readyPods", "How many of them are ready."),
    ("SidecarSetStatus", "updatedReadyPods", "How many of them have its latest version and are ready."),
    ("SidecarSetStatus", "latestRevision", "The ControllerRevision of its latest version."),
    ("SidecarSetStatus", "conditions", "The conditions that Pillion's controller writes."),
    ("SidecarSetStatus", "collisionCount", "How often the name of a revision was taken already."),
];
