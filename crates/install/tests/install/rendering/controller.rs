//! `pillion manifest controller`.

use pillion_install::rendering::{self, Rendered, options};
use rstest::rstest;
use serde_json::{Value, json};

use super::{identities, object, options as options_of, plain, set, titles};

fn controller(settings: &Value, flags: &[&str]) -> Rendered {
    rendering::controller::render(settings, &options_of::<options::Controller>(flags)).unwrap()
}

/// Returns settings with two SidecarSets that merge.
fn merging() -> Value {
    let rule = |verb: &str| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
    let set = |name: &str, verb: &str| {
        let spec = json!({
            "serviceAccountName": name, "behaviorWhenServiceAccountInjection": "Merge",
            "serviceAccountPermissions": rule(verb)
        });
        set(name, &spec)
    };
    json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "sidecarSets": [set("a", "get"), set("b", "list")],
        "bundleRef": {"namespace": "pillion-system", "name": "pillion-bundle"}
    })
}

fn arguments(rendered: &Rendered) -> Vec<String> {
    let deployment = object(rendered, "Deployment pillion-system/pillion-controller");
    let arguments = deployment.pointer("/spec/template/spec/containers/0/args").and_then(Value::as_array).unwrap();
    arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_whole_rendering() {
    let rendered = controller(&merging(), &["--token-namespaces", "shop,news"]);
    insta::assert_snapshot!(rendering::document::to_yaml(&rendered.documents).unwrap());
}

#[rstest]
#[case::nothing_to_do(plain(), &[], "")]
#[case::identities_without_a_namespace_for_tokens(identities(), &[], "merged-serviceaccounts")]
#[case::all(merging(), &["--token-namespaces", "shop"], "merged-serviceaccounts,sidecar-tokens,bundle")]
#[case::one_less(merging(), &["--token-namespaces", "shop", "--controllers", "*,-bundle"], "merged-serviceaccounts,sidecar-tokens")]
#[case::one_of_the_loops(plain(), &["--controllers", "serviceaccount"], "serviceaccount")]
fn what_has_nothing_to_do_does_not_run(#[case] settings: Value, #[case] flags: &[&str], #[case] running: &str) {
    let rendered = controller(&settings, flags);
    assert_eq!(arguments(&rendered)[1], format!("--controllers={running}"));
}

/// OpenKruise's namespace need not exist: no Role is in it, and its Lease is read by name.
#[test]
fn rollouts_read_the_lease_of_openkruise_wherever_pillion_is() {
    let settings = json!({"systemNamespace": "pillion-system"});
    let rendered = controller(&settings, &["--controllers", "*,sidecarset-rollout"]);
    let title = "ClusterRole pillion-controller-rollout";
    let rules = object(&rendered, title)["rules"].as_array().unwrap();
    let lease = rules.iter().find(|rule| rule["resources"] == json!(["leases"])).unwrap();
    assert_eq!(lease["resourceNames"], json!(["kruise-manager"]));
    assert_eq!(lease["verbs"], json!(["list", "watch"]));
    let namespaces: std::collections::BTreeSet<&str> =
        rendered.documents.iter().filter_map(|it| it.object["metadata"]["namespace"].as_str()).collect();
    assert_eq!(namespaces, ["pillion-system"].into());
    assert!(rendered.notes.iter().all(|note| !note.contains("to exist")), "{:?}", rendered.notes);
}

/// A holder of these verbs can grant any permission to anyone.
#[test]
fn e15_esc6_no_role_escalates_or_binds() {
    let every = "*,serviceaccount,serviceaccount-token,root-ca-publisher,legacy-token-cleaner,account-permissions";
    let rendered = controller(&merging(), &["--token-namespaces", "shop", "--controllers", every]);
    for document in &rendered.documents {
        for rule in document.object["rules"].as_array().into_iter().flatten() {
            let verbs = rule["verbs"].as_array().unwrap();
            for verb in ["escalate", "bind", "impersonate", "*"] {
                assert!(!verbs.contains(&json!(verb)), "{}: {rule}", document.title());
            }
        }
    }
}

#[rstest]
#[case::isolated_sidecars("*", &["Role news/pillion-controller-tokens", "Role shop/pillion-controller-tokens"])]
#[case::token_secrets("serviceaccount-token", &["ClusterRole pillion-controller-token-secrets"])]
#[case::old_token_secrets("legacy-token-cleaner", &["ClusterRole pillion-controller-token-secrets"])]
#[case::merged_accounts("merged-serviceaccounts", &[])]
fn secrets_are_read_everywhere_only_by_those_that_cannot_do_without(#[case] controllers: &str, #[case] roles: &[&str]) {
    let rendered = controller(&merging(), &["--token-namespaces", "shop,news", "--controllers", controllers]);
    let reads_secrets = |rules: &Value| rules.as_array().unwrap().iter().any(|rule| rule["resources"][0] == "secrets");
    let found: Vec<String> = rendered
        .documents
        .iter()
        .filter(|document| document.object.get("rules").is_some_and(reads_secrets))
        .map(rendering::document::Document::title)
        .collect();
    assert_eq!(found, roles);
}

#[test]
fn esc6_merged_accounts_get_what_the_settings_give_and_what_labelled_roles_allow() {
    let rendered = controller(&merging(), &[]);
    let granted = object(&rendered, "ClusterRole pillion-controller-settings");
    assert_eq!(granted["rules"], json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]));
    assert_eq!(granted["metadata"]["labels"]["pillion.dev/merged-ceiling"], "true");
    let ceiling = object(&rendered, "ClusterRole pillion-controller-ceiling");
    assert_eq!(
        ceiling["aggregationRule"]["clusterRoleSelectors"],
        json!([{"matchLabels": {"pillion.dev/merged-ceiling": "true"}}])
    );
    assert!(titles(&rendered).contains(&"ClusterRoleBinding pillion-controller-ceiling".to_owned()));
}

#[test]
fn the_controller_is_the_one_that_the_policy_lets_write() {
    let rendered = controller(&identities(), &[]);
    let account = object(&rendered, "ServiceAccount pillion-system/pillion-controller");
    let (namespace, name) = (account["metadata"]["namespace"].as_str(), account["metadata"]["name"].as_str());
    let user = format!("system:serviceaccount:{}:{}", namespace.unwrap(), name.unwrap());
    assert_eq!(user, pillion_admission::settings::Settings::default().service_accounts.controller_user);
}

/// It may patch Pods, which the others must not.
#[test]
fn e24_rollouts_have_an_account_of_their_own() {
    let settings = json!({"patchPodMetadataWhitelist": {"rules": [{"allowedAnnotationKeyExprs": ["^team\\."]}]}});
    let rendered = controller(&settings, &["--controllers", "sidecarset-rollout,root-ca-publisher"]);
    insta::assert_snapshot!(titles(&rendered).join("\n"));
    let patches_pods = |document: &&rendering::document::Document| {
        let rules = document.object["rules"].as_array();
        rules
            .into_iter()
            .flatten()
            .any(|rule| rule["resources"][0] == "pods" && rule["verbs"].to_string().contains("patch"))
    };
    let patching: Vec<String> =
        rendered.documents.iter().filter(patches_pods).map(rendering::document::Document::title).collect();
    assert_eq!(patching, ["ClusterRole pillion-controller-rollout"]);
    let guard = object(&rendered, "ValidatingAdmissionPolicy pillion-controller-rollout");
    insta::assert_snapshot!(serde_json::to_string_pretty(&guard["spec"]).unwrap());
}

/// The bundle may be in the controllers' own namespace or in another one. The controllers write it in both.
#[rstest]
#[case::own_namespace("pillion-system", "Role pillion-system/pillion-controller")]
#[case::another_namespace("bundles", "Role bundles/pillion-controller-bundle")]
fn the_namespace_of_the_bundle_has_the_right_to_write_it(#[case] namespace: &str, #[case] role: &str) {
    let mut settings = merging();
    settings["bundleRef"]["namespace"] = namespace.into();
    let rendered = controller(&settings, &[]);
    let roles: Vec<String> = titles(&rendered).into_iter().filter(|title| title.starts_with("Role ")).collect();
    let writes_config_maps = |title: &&String| {
        let rules = object(&rendered, title)["rules"].as_array().unwrap();
        rules.iter().any(|rule| {
            rule["resources"] == json!(["configmaps"]) && rule["verbs"].as_array().unwrap().contains(&json!("patch"))
        })
    };
    let writing: Vec<&String> = roles.iter().filter(writes_config_maps).collect();
    assert_eq!(writing, [role], "{roles:?}");
}

/// The namespaces of the settings may be the controller's own. Of two Roles of one name, the API server keeps the last.
#[rstest]
fn every_object_is_rendered_once(
    #[values("kruise-system", "pillion-system")] system: &str,
    #[values("kruise-system", "pillion-system", "elsewhere")] bundle: &str,
) {
    let mut settings = merging();
    settings["systemNamespace"] = json!(system);
    settings["bundleRef"]["namespace"] = json!(bundle);
    let rendered = controller(&settings, &["--token-namespaces", "shop", "--controllers", "*,sidecarset-rollout"]);
    let mut titles = titles(&rendered);
    let all = titles.len();
    titles.sort();
    titles.dedup();
    assert_eq!(titles.len(), all);
}

/// The policies of `manifest kubewarden --sidecar-sets bundle-ref` have no SidecarSets of their own.
#[rstest]
#[case::asked_for(&["--bundle-settings"], true)]
#[case::not_asked_for(&[], false)]
#[case::nothing_keeps_a_bundle(&["--bundle-settings", "--controllers", "*,-bundle"], false)]
fn the_bundle_has_the_settings_sidecar_sets_on_demand(#[case] flags: &[&str], #[case] expected: bool) {
    let rendered = controller(&merging(), flags);
    let deployment = object(&rendered, "Deployment pillion-system/pillion-controller");
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    assert_eq!(arguments.contains(&json!("--bundle-settings")), expected, "{arguments:?}");
}
