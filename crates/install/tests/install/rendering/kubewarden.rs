//! Kubewarden policies.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use pillion_admission::settings::Settings;
use pillion_install::rendering::access::{self, Reader};
use pillion_install::rendering::needs::{Needs, Read};
use pillion_install::rendering::options::Kubewarden;
use pillion_install::rendering::{Rendered, document, kubewarden};
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    RULE, combinations, everything, excluded, for_kubewarden, granted, identities, metadata, object, plain,
    rendered_from, set, text, titles,
};

/// The schema that the policy SDK generates (tools/kubewarden-crd).
static POLICY: LazyLock<Validator> = LazyLock::new(|| {
    let text = text("crates/install/tests/install/rendering/cluster-admission-policy.schema.json");
    let mut schema: Value = serde_json::from_str(&text).unwrap();
    // k8s-openapi-derive 0.28 turns the definition's `subresources` into a required field of the object.
    schema["required"].as_array_mut().unwrap().retain(|field| field != "subresources");
    jsonschema::draft202012::new(&schema).unwrap()
});

/// Returns the errors by the schema of Kubewarden's types; none for other objects.
pub fn problems(object: &Value) -> Vec<String> {
    if object["kind"] != "ClusterAdmissionPolicy" {
        return Vec::new();
    }
    POLICY.iter_errors(object).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// The schema is a file next to the tests, since generating it would turn on a feature of k8s-openapi for everything.
#[test]
fn the_schema_is_of_the_sdk_that_the_tests_have() {
    let line = |file: &str| {
        let text = text(file);
        let line = text.lines().find(|line| line.starts_with("kubewarden-policy-sdk = ")).unwrap().to_owned();
        line.split('"').nth(1).unwrap().to_owned()
    };
    assert_eq!(line("Cargo.toml"), line("tools/kubewarden-crd/Cargo.toml"), "generate the schema again");
}

#[test]
fn the_schema_knows_a_wrong_policy() {
    let mut policy = object(&for_kubewarden(&plain(), &[]), "ClusterAdmissionPolicy pillion-pods").clone();
    assert_eq!(problems(&policy), Vec::<String>::new());
    policy["spec"]["failurePolicy"] = json!("Fial");
    policy["spec"]["timeoutEvalSecond"] = json!(5);
    assert_eq!(problems(&policy).len(), 2, "{:?}", problems(&policy));
}

#[rstest]
#[case::sidecars_alone(plain(), &["pods", "sidecarsets"])]
#[case::nothing_yet(json!({}), &["pods", "sidecarsets"])]
#[case::identities(identities(), &["pods", "assert", "sidecarsets", "guards", "token-secrets"])]
#[case::shoots(json!({"shoots": {"enabled": true}}), &["pods", "sidecarsets", "shoots"])]
#[case::shoots_that_are_off(json!({"shoots": {"enabled": false}}), &["pods", "sidecarsets"])]
#[case::the_default_account(
    json!({"serviceAccounts": {"protectDefault": true}}), &["pods", "sidecarsets", "guards"]
)]
#[case::aft1_exec(json!({"serviceAccounts": {"guards": {"exec": true}}}), &["pods", "sidecarsets", "exec"])]
#[case::aft1_images(json!({"serviceAccounts": {"guards": {"images": true}}}), &["pods", "sidecarsets", "images"])]
#[case::aft1_requested_tokens(
    json!({"serviceAccounts": {"guards": {"tokenRequests": true}}}), &["pods", "sidecarsets", "token-requests"]
)]
#[case::aft1_guards_that_are_off(
    json!({"serviceAccounts": {"guards": {"exec": false, "execUsers": ["a"]}}}), &["pods", "sidecarsets"]
)]
#[case::tokens_of_the_old_kind(
    json!({"serviceAccounts": {"legacyTokenSecrets": "Deny"}}), &["pods", "sidecarsets", "token-secrets"]
)]
fn only_what_the_settings_need_is_rendered(#[case] settings: Value, #[case] parts: &[&str]) {
    let rendered = for_kubewarden(&settings, &[]);
    let policies: Vec<String> = titles(&rendered)
        .into_iter()
        .filter_map(|it| it.strip_prefix("ClusterAdmissionPolicy ").map(str::to_owned))
        .collect();
    let wanted: Vec<String> = parts.iter().map(|part| format!("pillion-{part}")).collect();
    assert_eq!(policies, wanted);
}

#[rstest]
#[case::nothing(json!({}), &[])]
#[case::a_namespace_selector(
    json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}), &["v1/Namespace"]
)]
#[case::a_revision(
    json!({"injectionStrategy": {"revision": {"revisionName": "a-1"}}}), &["apps/v1/ControllerRevision"]
)]
#[case::an_account(json!({"serviceAccountName": "x"}), &["v1/ServiceAccount"])]
#[case::one_that_would_be_merged(
    json!({"serviceAccountName": "x", "behaviorWhenServiceAccountInjection": "Merge"}), &["v1/ServiceAccount"]
)]
#[case::an_isolated_account(
    json!({"serviceAccountName": "x", "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountMode": "Isolate"}),
    &["v1/ServiceAccount"]
)]
fn the_policy_for_pods_reads_what_its_sets_need(#[case] spec: Value, #[case] reads: &[&str]) {
    let settings = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": [set("a", &spec)]
    });
    let rendered = for_kubewarden(&settings, &[]);
    for name in ["pods", "assert"] {
        let spec = &object(&rendered, &format!("ClusterAdmissionPolicy pillion-{name}"))["spec"];
        let read: Vec<String> = spec["contextAwareResources"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| format!("{}/{}", it["apiVersion"].as_str().unwrap(), it["kind"].as_str().unwrap()))
            .collect();
        assert_eq!(read, reads, "{name}");
    }
}

#[rstest]
#[case::opt3_it_may_be_left_out("Allowed", true)]
#[case::opt3_it_may_not("Denied", false)]
fn the_namespace_is_read_for_a_set_that_it_may_leave_out(#[case] value: &str, #[case] is_read: bool) {
    let mut set = set("a", &json!({}));
    set["metadata"]["annotations"] = json!({"pillion.dev/opt-out": value});
    let rendered = for_kubewarden(&json!({"sidecarSets": [set]}), &[]);
    let reads = &object(&rendered, "ClusterAdmissionPolicy pillion-pods")["spec"]["contextAwareResources"];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace"});
    assert_eq!(reads.as_array().is_some_and(|all| all.contains(&namespace)), is_read, "{reads}");
}

/// The policy compares merged accounts with their Role and RoleBinding. A single account or an isolated one is never
/// merged.
#[rstest]
#[case::two(&["SidecarsOnly", "Pod"], true)]
#[case::one_and_an_isolated_one(&["SidecarsOnly", "Isolate"], false)]
fn roles_are_read_for_merged_accounts(#[case] modes: &[&str], #[case] are_read: bool) {
    let sets: Vec<Value> = modes
        .iter()
        .map(|mode| {
            let spec = json!({
                "serviceAccountName": format!("of-{}", mode.to_lowercase()), "serviceAccountMode": mode,
                "behaviorWhenServiceAccountInjection": "Merge"
            });
            set(&mode.to_lowercase(), &spec)
        })
        .collect();
    let settings = json!({"featureGates": {"SidecarSetServiceAccountInjection": true}, "sidecarSets": sets});
    let granted = granted(&for_kubewarden(&settings, &[]));
    let is_granted = |resource: &str| granted.iter().any(|grant| grant[1] == resource);
    assert_eq!((is_granted("roles"), is_granted("rolebindings")), (are_read, are_read));
}

/// A revision in the settings is not looked up, and without the feature gate, neither is an account.
#[test]
fn what_the_settings_have_is_not_read() {
    let labels = json!({"kruise.io/sidecarset-name": "a"});
    let settings = json!({
        "sidecarSets": [set("a", &json!({
            "injectionStrategy": {"revision": {"revisionName": "a-1"}}, "serviceAccountName": "x"
        }))],
        "controllerRevisions": [{
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {"name": "a-1", "namespace": "kruise-system", "labels": labels}, "data": {}, "revision": 1
        }],
        "patchPodMetadataWhitelist": {"rules": []},
    });
    let rendered = for_kubewarden(&settings, &["--without", "sidecarsets"]);
    assert_eq!(titles(&rendered), ["ClusterRole pillion-sidecarsets-view", "ClusterAdmissionPolicy pillion-pods"]);
    assert!(object(&rendered, "ClusterAdmissionPolicy pillion-pods")["spec"].get("contextAwareResources").is_none());
}

/// All parts that can be rendered together have exactly the rules of the metadata.
#[test]
fn all_parts_together_have_the_rules_of_the_metadata() {
    let rendered = for_kubewarden(&everything(), &["--any-sidecar-sets"]);
    let policies = || rendered.documents.iter().filter(|it| it.object["spec"]["rules"].is_array());
    let asked: BTreeSet<_> = policies().flat_map(|it| combinations(&it.object["spec"]["rules"], &RULE)).collect();
    assert_eq!(asked, combinations(&metadata()["rules"], &RULE));

    let read: BTreeSet<String> = policies()
        .flat_map(|it| it.object["spec"]["contextAwareResources"].as_array().cloned().unwrap_or_default())
        .map(|it| it.to_string())
        .collect();
    let wanted = metadata()["contextAwareResources"].as_array().unwrap().iter().map(Value::to_string).collect();
    assert_eq!(read, wanted);
}

/// The policy server may read what some policy lists, and ask what the module can ask.
#[rstest]
#[case::sidecars_alone(plain(), &[])]
#[case::identities(identities(), &[])]
#[case::any(identities(), &["--any-sidecar-sets"])]
#[case::without_the_sets(identities(), &["--without", "sidecarsets"])]
#[case::authors(json!({"serviceAccounts": {"requireCreatePods": true}}), &[])]
#[case::aft5_everything(everything(), &["--any-sidecar-sets"])]
#[case::aft5_connections(json!({"serviceAccounts": {"guards": {"exec": true}}}), &["--without", "sidecarsets"])]
#[case::any_author(json!({"serviceAccounts": {"requireCreatePods": false}}), &[])]
fn rights_are_those_of_the_look_ups(#[case] settings: Value, #[case] flags: &[&str]) {
    let rendered = for_kubewarden(&settings, flags);
    let mut wanted = BTreeSet::new();
    for document in &rendered.documents {
        for read in document.object["spec"]["contextAwareResources"].as_array().into_iter().flatten() {
            let (group, _) = read["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
            let plural = format!("{}s", read["kind"].as_str().unwrap().to_lowercase());
            wanted.insert(vec![group.to_owned(), plural, "get".to_owned()]);
        }
    }
    let asks = settings["featureGates"].is_object() || settings["serviceAccounts"]["requireCreatePods"] != false;
    let opens = settings["serviceAccounts"]["guards"]["exec"] == true;
    if opens || asks && !flags.contains(&"sidecarsets") {
        wanted.insert(["authorization.k8s.io", "subjectaccessreviews", "create"].map(str::to_owned).into());
    }
    assert_eq!(granted(&rendered), wanted);
}

/// The module's own default is off. A rendering is a new installation.
#[rstest]
#[case::unsaid(json!({}), true)]
#[case::other_rules(json!({"serviceAccounts": {"protectInUse": true}}), true)]
#[case::null(json!({"serviceAccounts": {"requireCreatePods": null}}), true)]
#[case::no_rules(json!({"serviceAccounts": null}), true)]
#[case::on(json!({"serviceAccounts": {"requireCreatePods": true}}), true)]
#[case::off(json!({"serviceAccounts": {"requireCreatePods": false}}), false)]
fn diff33_set12_new_installations_ask_whether_authors_may_create_pods(#[case] settings: Value, #[case] is_on: bool) {
    assert!(!Settings::decode(json!({})).unwrap().service_accounts.require_create_pods);
    let rendered = for_kubewarden(&settings, &[]);
    let policy = &object(&rendered, "ClusterAdmissionPolicy pillion-sidecarsets")["spec"];
    assert_eq!(policy["settings"]["serviceAccounts"]["requireCreatePods"], json!(is_on));
    assert_eq!(policy["timeoutEvalSeconds"], json!(if is_on { 10 } else { 5 }));
    assert_eq!(granted(&rendered).iter().any(|grant| grant[1] == "subjectaccessreviews"), is_on);
}

/// Cases are the option, the time limit of the call, and those of evaluations without and with questions about authors.
#[rstest]
#[case::by_default(&[], 10, [5, 10])]
#[case::longer(&["--webhook-timeout=30"], 30, [5, 10])]
#[case::shorter(&["--webhook-timeout=3"], 3, [3, 3])]
fn a_policy_is_not_evaluated_for_longer_than_the_api_server_waits(
    #[case] flags: &[&str],
    #[case] call: u8,
    #[case] evaluations: [u8; 2],
) {
    let rendered = for_kubewarden(&json!({}), flags);
    for (name, evaluation) in ["pods", "sidecarsets"].into_iter().zip(evaluations) {
        let policy = &object(&rendered, &format!("ClusterAdmissionPolicy pillion-{name}"))["spec"];
        assert_eq!(
            (&policy["timeoutSeconds"], &policy["timeoutEvalSeconds"]),
            (&json!(call), &json!(evaluation)),
            "{name}"
        );
    }
}

#[test]
fn a_bundle_in_the_cluster_is_read_by_everybody_who_knows_sidecar_sets() {
    let mut settings = identities();
    settings["bundleRef"] = json!({"namespace": "pillion-system", "name": "pillion-sidecarsets"});
    let decoded = Settings::decode(settings.clone()).unwrap();
    let needs = Needs::from_settings(&settings, &decoded, false).unwrap();
    let reading: Vec<&str> =
        needs.parts.iter().filter(|(_, reads)| reads.contains(&Read::ConfigMap)).map(|(part, _)| part.name()).collect();
    assert_eq!(reading, ["pods", "assert", "sidecarsets", "guards"]);
    // The content of the bundle is unknown.
    assert!(needs.reads(Read::Role) && needs.reads(Read::Namespace));
    let subject = ("kubewarden", "policy-server");
    let reader = Reader { instance: "pillion", subject, watches: false, has_system_namespace: false };
    let documents = access::for_settings("rbac", &needs, reader);
    let role = documents.iter().find(|it| it.title() == "Role pillion-system/pillion-bundle").unwrap();
    assert_eq!(role.object["rules"], json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]));
}

#[test]
fn each_part_has_its_settings() {
    let mut settings = identities();
    settings["shoots"] = json!({"enabled": true, "migration": "Deny"});
    settings["role"] = json!("Inject");
    settings["serviceAccounts"] =
        json!({"protectInUse": true, "legacyTokenSecrets": "Deny", "legacyTokenExempt": ["ci/*"]});
    let rendered = for_kubewarden(&settings, &["--sidecar-sets", "manifests"]);
    let of = |part: &str| &object(&rendered, &format!("ClusterAdmissionPolicy pillion-{part}"))["spec"]["settings"];
    settings.as_object_mut().unwrap().remove("role");
    settings = rendered_from(settings);
    for part in ["pods", "sidecarsets", "guards"] {
        assert_eq!(of(part), &settings, "{part}");
    }
    let mut twin = of("assert").clone();
    assert_eq!(twin.as_object_mut().unwrap().remove("role"), Some(json!("Assert")));
    assert_eq!(twin, settings);
    let secrets = json!({"serviceAccounts": {"legacyTokenSecrets": "Deny", "legacyTokenExempt": ["ci/*"]}});
    assert_eq!(of("token-secrets"), &secrets);
    assert_eq!(of("shoots"), &json!({"shoots": {"enabled": true, "migration": "Deny"}}));
}

/// A policy server copies the settings for each request, and one text is cheap to copy.
#[test]
fn policies_that_know_sidecar_sets_have_them_as_one_text_and_say_which() {
    let mut settings = identities();
    settings["sidecarSets"].as_array_mut().unwrap().insert(0, set("b", &json!({})));
    let rendered = for_kubewarden(&settings, &[]);
    let of = |part: &str| object(&rendered, &format!("ClusterAdmissionPolicy pillion-{part}"));
    for part in ["pods", "assert", "sidecarsets", "guards"] {
        let (policy, settings) = (of(part), &of(part)["spec"]["settings"]);
        let text = settings["bundle"].as_str().unwrap();
        assert_eq!(settings.get("sidecarSets"), None, "{part}");
        assert_eq!(policy["metadata"]["annotations"], json!({"pillion.dev/sidecarsets": "a,b"}), "{part}");
        let sets = pillion_bundle::Bundle::read(text.as_bytes()).unwrap().verify().unwrap();
        assert_eq!(
            sets.iter().map(pillion_sidecarset::sidecar_set::SidecarSet::name).collect::<Vec<_>>(),
            ["a", "b"],
            "{part}"
        );
    }
    assert_eq!(of("token-secrets")["metadata"].get("annotations"), None);
    // The settings that have the bundle render to the same policies, and so do both forms together.
    let compiled = of("pods")["spec"]["settings"].clone();
    let yaml = |rendered: &Rendered| document::to_yaml(&rendered.documents).unwrap();
    assert_eq!(yaml(&for_kubewarden(&compiled, &[])), yaml(&rendered));
    let mut both = compiled;
    both["sidecarSets"] = json!([set("c", &json!({}))]);
    let more = for_kubewarden(&both, &[]);
    let pods = object(&more, "ClusterAdmissionPolicy pillion-pods");
    assert_eq!(pods["metadata"]["annotations"]["pillion.dev/sidecarsets"], "a,b,c");
}

/// SidecarSets of the settings trust each other, in whichever form the policies have them.
#[rstest::rstest]
#[case::compiled(&[])]
#[case::manifests(&["--sidecar-sets", "manifests"])]
fn trust1_trust2_sidecar_sets_of_the_settings_merge_in_policies_too(#[case] flags: &[&str]) {
    let merging = |name: &str, account: &str| {
        set(name, &json!({"serviceAccountName": account, "behaviorWhenServiceAccountInjection": "Merge"}))
    };
    let settings = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "sidecarSets": [merging("a", "logs"), merging("b", "metrics")],
    });
    // One policy with settings that are not valid ends the whole policy server.
    let rendered = for_kubewarden(&settings, flags);
    for part in ["pods", "assert", "sidecarsets", "guards"] {
        let policy = object(&rendered, &format!("ClusterAdmissionPolicy pillion-{part}"));
        let settings = Settings::decode(policy["spec"]["settings"].clone()).unwrap();
        assert_eq!(settings.validate(), [], "{part}");
    }
}

#[test]
fn sidecar_sets_stay_manifests_or_are_left_out_on_demand() {
    let pods = |settings: &Value, flags: &[&str]| {
        object(&for_kubewarden(settings, flags), "ClusterAdmissionPolicy pillion-pods").clone()
    };
    let kept = pods(&plain(), &["--sidecar-sets", "manifests"]);
    assert_eq!(kept["spec"]["settings"], rendered_from(plain()));
    assert_eq!(kept["metadata"].get("annotations"), None);

    let mut settings = plain();
    settings["bundleRef"] = json!({"namespace": "pillion-system", "name": "pillion-bundle"});
    let left_out = pods(&settings, &["--sidecar-sets", "bundle-ref"]);
    assert_eq!(left_out["spec"]["settings"], rendered_from(json!({"bundleRef": settings["bundleRef"]})));
    let options = super::options::<Kubewarden>(&["--sidecar-sets", "bundle-ref"]);
    let error = kubewarden::render(&plain(), &options).unwrap_err().to_string();
    assert!(error.contains("the settings have no bundleRef; add it, or use --sidecar-sets bundle"), "{error}");
}

#[test]
fn a_long_list_of_names_is_cut() {
    let sets: Vec<Value> = (0..300).map(|index| set(&format!("an-agent-of-a-team-{index:03}"), &json!({}))).collect();
    let rendered = for_kubewarden(&json!({"sidecarSets": sets}), &[]);
    let policy = object(&rendered, "ClusterAdmissionPolicy pillion-pods");
    let names = policy["metadata"]["annotations"]["pillion.dev/sidecarsets"].as_str().unwrap();
    assert!(names.starts_with("an-agent-of-a-team-000,an-agent") && names.len() < 4200, "{}", names.len());
    let (listed, more) = names.rsplit_once(" and ").unwrap();
    let more: usize = more.strip_suffix(" more").unwrap().parse().unwrap();
    assert_eq!(listed.split(',').count() + more, 300);
}

#[test]
fn options_reach_the_policies() {
    let flags = [
        "--name",
        "second",
        "--policy-server",
        "reserved",
        "--namespace",
        "kw",
        "--service-account",
        "server",
        "--module",
        "registry://registry.example.com/p:v1",
        "--mode",
        "monitor",
        "--exclude-namespaces",
        "ingress,dns",
        "--opt-out-label",
        "pillion.dev/injection=off",
        "--crd",
    ];
    let rendered = for_kubewarden(&identities(), &flags);
    let binding = object(&rendered, "ClusterRoleBinding second");
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "server", "namespace": "kw"}]));
    let pods = &object(&rendered, "ClusterAdmissionPolicy second-pods")["spec"];
    assert_eq!(pods["policyServer"], "reserved");
    assert_eq!(pods["module"], "registry://registry.example.com/p:v1");
    assert_eq!((&pods["mode"], &pods["failurePolicy"]), (&json!("monitor"), &json!("Ignore")));
    let namespaces = &pods["namespaceSelector"]["matchExpressions"][0];
    assert_eq!(namespaces["values"], excluded(&["dns", "ingress"]));
    let label = json!([{"key": "pillion.dev/injection", "operator": "NotIn", "values": ["off"]}]);
    assert_eq!(pods["objectSelector"]["matchExpressions"], label);
    // The twin excludes the same Pods as the injecting policy.
    let twin = &object(&rendered, "ClusterAdmissionPolicy second-assert")["spec"];
    for field in ["rules", "namespaceSelector", "objectSelector", "matchConditions", "contextAwareResources"] {
        assert_eq!(twin[field], pods[field], "{field}");
    }
    let guards = &object(&rendered, "ClusterAdmissionPolicy second-guards")["spec"];
    assert_eq!(guards["failurePolicy"], "Ignore");
    assert!(guards.get("objectSelector").is_none() && guards.get("namespaceSelector").is_none());
    let definition = object(&rendered, "CustomResourceDefinition sidecarsets.apps.kruise.io");
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(rendered.notes.len(), 6, "{:?}", rendered.notes);
}

/// A policy that only monitors accepts every request while the policy server is down, unless the user asks for `Fail`.
#[rstest]
#[case::protect(&[], ["Fail", "Fail"], false)]
#[case::monitor(&["--mode=monitor"], ["Ignore", "Ignore"], false)]
#[case::protect_that_fails_open(&["--failure-policy=Ignore"], ["Ignore", "Fail"], false)]
#[case::monitor_that_refuses(&["--mode=monitor", "--failure-policy=Fail"], ["Fail", "Ignore"], true)]
fn e12_a_trial_refuses_nothing(#[case] flags: &[&str], #[case] expected: [&str; 2], #[case] noted: bool) {
    let rendered = for_kubewarden(&identities(), flags);
    let of = |part: &str| {
        object(&rendered, &format!("ClusterAdmissionPolicy pillion-{part}"))["spec"]["failurePolicy"].clone()
    };
    assert_eq!([of("pods"), of("guards")], expected);
    let notes = &rendered.notes;
    assert_eq!(notes.iter().any(|note| note.contains("with Fail they refuse requests")), noted, "{notes:?}");
}
