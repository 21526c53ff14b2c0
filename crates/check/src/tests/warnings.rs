//! WARN-2: whatever `check` says of a SidecarSet and the one before it, admission says, too.

use std::time::Duration;

use pillion_admission::request::Request;
use pillion_identity::warnings::unread;
use pillion_kubernetes::authorizer::{Authorizer, Question};
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::world::World;
use pillion_sidecarset::sidecar_set::decode::{Decoded, decode};
use pillion_sidecarset::upgrades::RolloutSettings;
use pillion_sidecarset::warnings::{Rule, Written, about_values};
use rstest::rstest;

use super::super::files::Files;
use super::*;

/// The longest warning that the API server passes on, in characters.
const LENGTH_MAX: usize = 256;

/// Allows everything to people, and nothing to ServiceAccounts.
struct People;

impl Authorizer for People {
    fn allows(&self, question: &Question) -> Result<bool, String> {
        Ok(!question.user.starts_with("system:serviceaccount:"))
    }
}

fn set(version: &str, annotations: &Value, spec: &Value) -> Value {
    let mut set = json!({
        "apiVersion": format!("apps.kruise.io/{version}"), "kind": "SidecarSet",
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "containers": [{"name": "c", "image": "i:1"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

/// Returns a SidecarSet of which a rule warns, and the one before the update, if the rule needs it. A new rule does not
/// compile until it has one here.
fn sample(rule: Rule) -> (Value, Option<Value>) {
    let alone = |spec: &Value| (set("v1beta1", &json!({}), spec), None);
    let annotated = |annotation: &str| (set("v1beta1", &json!({annotation: "true"}), &json!({})), None);
    let container = |fields: &Value| {
        let mut container = json!({"name": "c", "image": "i:1"});
        json_patch::merge(&mut container, fields);
        json!({"containers": [container]})
    };
    match rule {
        Rule::UnknownField => alone(&json!({
            "namespace": "prod", "strategy": {}, "podInjectPolicy": "x", "serviceAcountName": "x",
            "injectionStrategy": {"revisionName": "x"}, "volumes": [{"name": "v", "new": 1}],
            "containers": [{"name": "c", "image": "i:1", "new": 1, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        })),
        Rule::UnknownAnnotation => annotated("pillion.dev/service-account-injected"),
        Rule::UnknownValue => alone(&json!({
            "initContainers": [
                {"name": "i", "image": "i:1", "shareVolumePolicy": {"type": "Enabled"}, "podInjectPolicy": "BeforeApp"}
            ],
            "containers": [{
                "name": "c", "image": "i:1", "shareVolumeDevicePolicy": {"type": "disabled | enabled"},
                "upgradeStrategy": {"upgradeType": "hotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
            }],
            "patchPodMetadata": [{"patchPolicy": "overwrite", "annotations": {"a": "b"}}],
        })),
        Rule::EmptyTransferEnv => {
            alone(&container(&json!({"transferEnv": [{"sourceContainerName": "app"}, {"envName": "A"}, {}]})))
        }
        Rule::ReplacedSelector => {
            let spec = json!({"namespace": "staging", "namespaceSelector": {"matchLabels": {"on": "yes"}}});
            (set("v1alpha1", &json!({}), &spec), None)
        }
        Rule::Paused => alone(&json!({"injectionStrategy": {"paused": true}})),
        Rule::Contradiction => {
            let key = "kubernetes.io/metadata.name";
            alone(&json!({
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
                "namespaceSelector": {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]},
            }))
        }
        Rule::UnusedVolume => alone(&json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
        Rule::ChangedPullPolicy => {
            let (old, _) = alone(&container(&json!({"image": "i"})));
            (alone(&container(&json!({"image": "i:1"}))).0, Some(old))
        }
        Rule::LaunchPriority => {
            let mut spec = container(&json!({"env": [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}]}));
            let annotations = json!({"apps.kruise.io/container-launch-priority": "Ordered"});
            spec["patchPodMetadata"] = json!([{"patchPolicy": "Retain", "annotations": annotations}]);
            alone(&spec)
        }
        Rule::NoProgressDeadline => annotated("pillion.dev/rollback"),
        Rule::NativeWithoutUpgrade => (set("v1beta1", &json!({"pillion.dev/native": "Always"}), &json!({})), None),
    }
}

fn document(name: &str, value: &Value, role: Role) -> Document {
    let source = Arc::new(Source::new(name, value.to_string()));
    Document { manifest: manifest::parse(&source).unwrap().pop().unwrap(), role }
}

/// Returns the SidecarSet and OpenKruise's whitelist, which allows everything.
fn documents(set: &Value) -> Vec<Document> {
    let whitelist = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kruise-configuration", "namespace": "kruise-system"},
        "data": {"SidecarSet_PatchPodMetadata_WhiteList": "{\"rules\": [{\"allowedAnnotationKeyExprs\": [\".*\"]}]}"},
    });
    vec![document("a.json", set, Role::SidecarSet), document("w.json", &whitelist, Role::Whitelist)]
}

fn checked(documents: &[Document], old: Option<&Value>) -> Vec<Finding> {
    let before: Vec<Manifest> =
        old.into_iter().map(|old| document("old.json", old, Role::SidecarSet).manifest).collect();
    let mut findings = check(documents, &before, None).findings;
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning), "{findings:#?}");
    // Admission does not know the rules that `--disable` turns off.
    findings.retain(|finding| finding.rule.is_none());
    findings
}

fn admitted(settings: &Value, documents: &[Document], set: &Value, old: Option<&Value>) -> Vec<String> {
    let outcome = outcome(settings, documents, set, old);
    assert!(!matches!(outcome.verdict, Verdict::Refused(_)), "{set}: {:?}", outcome.verdict);
    outcome.warnings
}

fn outcome(settings: &Value, documents: &[Document], set: &Value, old: Option<&Value>) -> Outcome {
    let version = set["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
    let mut request = Request::decode(json!({
        "uid": "1", "kind": {"group": "apps.kruise.io", "version": version, "kind": "SidecarSet"},
        "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
        "name": "a", "object": set, "oldObject": old, "userInfo": {"username": "ann"},
    }))
    .unwrap();
    let world =
        World { lookup: &Files(documents), authorizer: &People, now: Timestamp(0), elapsed: &Duration::default };
    pillion_admission::admit(&mut request, &Settings::decode(settings.clone()).unwrap(), world)
}

#[test]
fn warn2_admission_warns_of_what_check_warns_of() {
    // The policy knows this SidecarSet, so that it does not say that it will not inject it.
    let settings = json!({"sidecarSets": [set("v1beta1", &json!({}), &json!({}))]});
    for rule in Rule::ALL {
        let (set, old) = sample(*rule);
        let documents = documents(&set);
        let findings = checked(&documents, old.as_ref());
        let mut said: Vec<String> = findings
            .iter()
            .map(|Finding { path, message, remedy, .. }| format!("{path}: {message}; {remedy}"))
            .collect();
        let mut expected = admitted(&settings, &documents, &set, old.as_ref());
        said.sort();
        expected.sort();
        assert_eq!(said, expected, "{rule:?}");
        assert!(expected.iter().all(|text| text.chars().count() <= LENGTH_MAX), "{expected:#?}");
    }
}

#[test]
fn warn2_every_rule_has_a_sample_of_which_it_warns() {
    for rule in Rule::ALL {
        let (set, old) = sample(*rule);
        let decoded = decode(set).unwrap();
        let old = old.map(|old| decode(old).unwrap()).map(Decoded::into_sidecar_set);
        let rollouts = [RolloutSettings::default()];
        let written =
            Written { object: decoded.object(), version: decoded.version(), old: old.as_ref(), rollouts: &rollouts };
        let mut found = unread(written.object, written.version);
        found.extend(about_values(&written));
        assert!(found.iter().any(|warning| warning.rule == *rule), "{rule:?}: {found:#?}");
        assert!(found.iter().all(|warning| warning.rule == *rule), "a sample is of one rule: {found:#?}");
    }
}

/// The words before warnings about what `check` cannot know, and before those that admission refuses.
const OF_CHECK: [&str; 5] = [
    "not checked whether ",
    "as far as these files tell: ",
    "with the default settings: ",
    "as SidecarSets of the cluster: ",
    "the hash is not that of these containers",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A warning that `check` gets from elsewhere than the module is found here, if a generated SidecarSet has it.
    #[test]
    fn warn2_admission_warns_of_any_sidecar_set_as_check_does(sets in naming_sidecar_sets()) {
        let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}});
        for set in sets {
            let source = Arc::new(Source::new("a.json", set.to_string()));
            // YAML does not take every JSON number.
            let Some(manifest) = manifest::parse(&source).ok().and_then(|mut all| all.pop()) else { continue };
            let documents = [Document { manifest, role: Role::SidecarSet }];
            let answer = outcome(&settings, &documents, &set, None).warnings;
            let findings = check(&documents, &[], None).findings;
            for Finding { path, message, remedy, .. } in warnings_in(&findings) {
                prop_assert!(
                    answer.iter().any(|text| text.contains(message.as_str()) && text.contains(remedy.as_str())),
                    "{}: {}; {} is not among {:#?}", path, message, remedy, answer
                );
            }
        }
    }
}

fn warnings_in(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|finding| {
        finding.severity == Severity::Warning
            && finding.rule.is_none()
            && !OF_CHECK.iter().any(|words| finding.message.starts_with(words))
    })
}

/// Warnings about identities need the feature gate, and admission has more of them: it can look accounts up.
#[rstest]
#[case::permissions_without_merging(json!({"serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}))]
#[case::merging_without_permissions(json!({"behaviorWhenServiceAccountInjection": "Merge"}))]
#[case::names_nothing(json!({
    "behaviorWhenServiceAccountInjection": "Merge",
    "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"], "resourceNames": ["a"]}],
}))]
#[case::a_verb(json!({
    "behaviorWhenServiceAccountInjection": "Merge",
    "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["pods", "pods"], "verbs": ["Get"]}],
}))]
#[case::no_namespace(json!({
    "behaviorWhenServiceAccountInjection": "Merge",
    "serviceAccountPermissions": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}],
}))]
fn warn2_admission_warns_of_identities_as_check_does(#[case] mut spec: Value) {
    spec["serviceAccountName"] = json!("logs");
    spec["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": "team"}});
    let set = set("v1beta1", &json!({}), &spec);
    let settings = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"allowed": [{"namespaces": ["*"], "names": ["*"]}]},
    });
    let mut documents = documents(&set);
    documents.push(document("settings.json", &settings, Role::Settings));
    let findings = checked(&documents, None);
    assert!(!findings.is_empty());
    let answer = admitted(&settings, &documents, &set, None);
    for Finding { message, remedy, .. } in findings {
        assert!(answer.iter().any(|text| text.contains(&message) && text.contains(&remedy)), "{message}: {answer:#?}");
    }
}
