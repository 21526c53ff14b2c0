//! The Helm chart renders the objects of `pillion manifest`, and a real API server accepts them.

use std::collections::BTreeSet;
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams, ValidationDirective};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use pillion_testenv::{Cluster, Options, apply, stand_in, until};
use rstest::rstest;
use serde_json::{Value, json};

use super::matrix::{self, Case};
use super::{folder, helm, normalised, objects, template};

const SOON: Duration = Duration::from_secs(20);

/// Returns a case for what `pillion manifest` has no flags.
fn case(values: Value) -> Case {
    let mut case = matrix::all().swap_remove(0);
    case.values = values;
    case
}

#[test]
fn the_chart_renders_what_manifest_renders() {
    let cases = matrix::all();
    assert!(cases.len() >= 20);
    for case in cases {
        let found = normalised(objects(&case));
        let wanted = normalised(case.manifest());
        let titles = |objects: &std::collections::BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(titles(&found), titles(&wanted), "{}", case.name);
        for (title, wanted) in &wanted {
            let difference = json_patch::diff(wanted, &found[title]);
            assert!(difference.0.is_empty(), "{}: {title}: the chart differs by {difference}", case.name);
        }
    }
}

#[test]
fn lint_finds_nothing() {
    for case in matrix::all() {
        let chart = folder();
        let output = helm(&["lint", "--strict", "--quiet", chart.to_str().unwrap()], &case.values);
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(output.status.success() && text.trim().is_empty(), "{}: {text}", case.name);
    }
}

/// A value without an effect is a promise that the chart does not keep. `chart::every_value_of_the_schema_has_a_default`
/// of the command line's tests adds that the schema allows no other value.
#[test]
fn every_value_has_an_effect() {
    let rendered = |values: Value| template(&case(values), &[]);
    let changed = super::values::changed();
    assert!(changed.len() > 95, "{}", changed.len());
    let without: Vec<String> = changed
        .into_iter()
        .filter(|(path, base, changed)| {
            let base = rendered(base.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
            let changed = rendered(changed.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
            base == changed
        })
        .map(|(path, ..)| path)
        .collect();
    assert_eq!(without, [""; 0]);
}

#[rstest]
#[case::unknown(json!({"replicas": 3}), "additional properties 'replicas' not allowed")]
#[case::unknown_setting(json!({"settings": {"sidecarSet": []}}), "additional properties 'sidecarSet' not allowed")]
#[case::setting_of_another_type(json!({"settings": {"shoots": {"enabled": "yes"}}}), "/settings/shoots/enabled")]
#[case::no_replicas(json!({"server": {"replicas": 0}}), "/server/replicas': minimum: got 0, want 1")]
#[case::unknown_source(json!({"server": {"certificates": {"source": "vault"}}}), "'self-signed', 'cert-manager', 'files'")]
#[case::unknown_part(json!({"without": ["guard"]}), "'guards'")]
#[case::unknown_controller(json!({"controller": {"controllers": ["tokens"]}}), "'sidecar-tokens'")]
#[case::role(json!({"settings": {"role": "Assert"}}), "settings.role is set; remove it")]
#[case::both_ways(
    json!({"kubewarden": {"enabled": true}, "server": {"certificates": {"source": "files", "secretName": "a"}}}),
    "kubewarden.enabled is true, and server.certificates.source is \"files\""
)]
#[case::files_of_nowhere(json!({"server": {"certificates": {"source": "files"}}}), "Set server.certificates.secretName")]
#[case::bundle_without_files(
    json!({"server": {"certificates": {"caBundle": matrix::PEM}}}),
    "server.certificates.source is \"self-signed\", which writes caBundle itself"
)]
#[case::no_certificate(
    json!({"server": {"certificates": {"source": "files", "secretName": "a", "caBundle": "MA=="}}}),
    "use --set-file server.certificates.caBundle=ca.crt"
)]
#[case::issuer_without_cert_manager(
    json!({"server": {"certificates": {"issuer": {"kind": "Issuer", "name": "a"}}}}),
    "Set the source to cert-manager, or remove the issuer"
)]
#[case::half_an_issuer(
    json!({"server": {"certificates": {"source": "cert-manager", "issuer": {"name": "a"}}}}),
    "server.certificates.issuer needs both kind and name"
)]
#[case::no_secret(json!({"server": {"certificates": {"secretName": ""}}}), "server.certificates.secretName is empty")]
#[case::tokens_without_identities(
    json!({"controller": {"tokenNamespaces": ["shop"]}}),
    "Set settings.featureGates.SidecarSetServiceAccountInjection to true"
)]
#[case::rollouts_by_name(
    json!({"controller": {"controllers": ["*", "sidecarset-rollout"]}}), "use controller.rollouts.enabled"
)]
#[case::no_label(json!({"optOutLabel": "pillion.dev/injection"}), "write KEY=VALUE, such as pillion.dev/injection=disabled")]
#[case::one_port_for_two(json!({"server": {"port": 8080}}), "server.port and server.healthPort are both 8080")]
#[case::port_of_a_privileged_process(json!({"server": {"port": 443}}), "/server/port")]
#[case::long_name(json!({"fullnameOverride": "a".repeat(45)}), "Set fullnameOverride to a name of at most 44")]
#[case::name_that_begins_with_a_digit(json!({"fullnameOverride": "1st"}), "that begins with a letter")]
#[case::large_settings(
    json!({"settings": {"bundle": format!("pillion-bundle-3:{}", "a".repeat(1_000_000))}}), "takes less than 1 MiB"
)]
#[case::no_module(json!({"kubewarden": {"enabled": true, "module": "ftp://a"}}), "write registry://REGISTRY/NAME:TAG")]
#[case::policy_server_without_kubewarden(json!({"kubewarden": {"policyServer": "a"}}), "Set kubewarden.enabled to true")]
#[case::registry_with_a_scheme(json!({"global": {"imageRegistry": "https://a.example"}}), "/global/imageRegistry")]
#[case::unknown_level(json!({"server": {"logLevel": "verbose"}}), "/server/logLevel")]
#[case::two_levels(
    json!({"controller": {"logLevel": "debug", "extraArgs": ["--log-level=warn"]}}), "Remove it from extraArgs"
)]
#[case::unknown_reader(json!({"rbac": {"sidecarSetReaders": [{"kind": "Team", "name": "a"}]}}), "'Group', 'ServiceAccount'")]
#[case::account_of_nowhere(
    json!({"rbac": {"sidecarSetReaders": [{"kind": "ServiceAccount", "name": "ci"}]}}), "\"ci\" without a namespace"
)]
#[case::two_budgets(
    json!({"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}}), "a PodDisruptionBudget takes one of them"
)]
#[case::budget_that_stops_drains(
    json!({"server": {"replicas": 5}, "podDisruptionBudget": {"minAvailable": 3}}),
    "podDisruptionBudget.minAvailable is 3, and controller.replicas is 2: no node with such a Pod could be drained"
)]
#[case::budget_that_stops_drains_of_autoscaled_servers(
    json!({"server": {"replicas": 5, "autoscaling": {"enabled": true}}, "controller": {"enabled": false},
        "podDisruptionBudget": {"minAvailable": 2}}),
    "server.autoscaling.minReplicas is 2"
)]
#[case::no_percentage(json!({"podDisruptionBudget": {"maxUnavailable": "some"}}), "/podDisruptionBudget/maxUnavailable")]
#[case::autoscaling_downwards(
    json!({"server": {"autoscaling": {"enabled": true, "minReplicas": 6}}}), "set maxReplicas to at least minReplicas"
)]
#[case::autoscaling_of_nothing(
    json!({"server": {"autoscaling": {"enabled": true}, "resources": {"requests": {"cpu": null}}}}),
    "Set server.resources.requests.cpu"
)]
fn wrong_values_are_refused(#[case] values: Value, #[case] message: &str) {
    let error = template(&case(values), &[]).unwrap_err();
    assert!(error.contains(message), "{error}");
}

/// No policy sees the Pods of an excluded namespace, so it should be a protected one. The system namespaces are.
#[rstest]
#[case::of_the_release("pillion-system", json!({}), None)]
#[case::another_of_the_release("elsewhere", json!({}), Some("elsewhere"))]
#[case::excluded("pillion-system", json!({"excludeNamespaces": ["ci", "dns"]}), Some("ci, dns"))]
#[case::a_list_without_one(
    "pillion-system",
    json!({"settings": {"serviceAccounts": {"protectedNamespaces": ["kube-system"]}}}),
    Some("cattle-kubewarden-system, kruise-system, kube-node-lease, kube-public, kubewarden, pillion-system, suse-sec-adm-controller")
)]
fn set6_the_notes_name_excluded_namespaces_that_are_not_protected(
    #[case] namespace: &str,
    #[case] values: Value,
    #[case] named: Option<&str>,
) {
    let notes = |has_identities: bool| {
        let mut all = values.clone();
        all["settings"]["featureGates"]["SidecarSetServiceAccountInjection"] = json!(has_identities);
        let chart = folder();
        let install = ["install", "pillion", chart.to_str().unwrap(), "--namespace", namespace, "--dry-run=client"];
        let output = helm(&install, &all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split_once("NOTES:").unwrap().1.to_owned()
    };
    let said = notes(true);
    match named {
        Some(named) => assert!(said.contains(&format!("No policy sees the Pods of {named}: add")), "{said}"),
        None => assert!(!said.contains("No policy sees"), "{said}"),
    }
    assert!(!notes(false).contains("No policy sees"), "no sidecar has an identity");
}

/// A policy server copies the settings for each request, so the notes say where the SidecarSets of the values are.
#[rstest]
#[case::in_the_bundle(json!({}), "The controller keeps settings.sidecarSets in the bundle, ConfigMap pillion-system/pillion-bundle.")]
#[case::no_bundle(json!({"settings": {"bundleRef": null}}), "Or let the controller put them into the bundle")]
#[case::no_controller(json!({"controller": {"enabled": false}}), "100 take five times as long. Compile them")]
#[case::without_the_bundle(json!({"settings": {"onBundleUnavailable": "UseSettings"}}), "  pillion bundle sidecarsets/")]
fn the_notes_say_what_sidecar_sets_in_the_values_cost(#[case] values: Value, #[case] expected: &str) {
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"logs": "collect"}}, "containers": [{"name": "a", "image": "i:1"}]}
    });
    let notes = |values: &Value| {
        let mut all = values.clone();
        all["settings"]["sidecarSets"] = json!([set]);
        let chart = folder();
        let install =
            ["install", "pillion", chart.to_str().unwrap(), "--namespace", "pillion-system", "--dry-run=client"];
        let output = helm(&install, &all);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split_once("NOTES:").unwrap().1.to_owned()
    };
    let mut with_kubewarden = values.clone();
    with_kubewarden["kubewarden"]["enabled"] = json!(true);
    let said = notes(&with_kubewarden);
    assert!(said.contains(expected), "{said}");
    assert!(said.lines().all(|line| line.len() <= 120), "{said}");
    // Pillion's own server compiles them.
    assert!(!notes(&values).contains("sidecarSets"));
}

#[rstest]
#[case::of_the_chart("1.27.9", json!({}), "chart requires kubeVersion: >=1.28.0-0")]
#[case::of_rollouts("1.29.9", json!({"controller": {"rollouts": {"enabled": true}}}), "needs 1.30. Upgrade the cluster")]
fn old_clusters_are_refused(#[case] version: &str, #[case] values: Value, #[case] message: &str) {
    let error = template(&case(values.clone()), &["--kube-version", version]).unwrap_err();
    assert!(error.contains(message), "{error}");
    template(&case(values), &["--kube-version", "1.30.0"]).unwrap();
}

async fn create_namespace(client: &Client, name: &str) {
    let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
    let created = Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await;
    assert!(created.is_ok() || name == "kube-system", "{created:?}");
}

/// Applies an object as a dry run, and returns what is wrong with it.
async fn refusal(client: &Client, object: &Value) -> Option<String> {
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
    let (resource, capabilities) = pinned_kind(client, &kind).await.unwrap();
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace, &resource),
    };
    let params = PatchParams { field_validation: Some(ValidationDirective::Strict), ..PatchParams::apply("chart") };
    let name = object.metadata.name.clone().unwrap();
    api.patch(&name, &params.dry_run(), &Patch::Apply(&object)).await.err().map(|error| error.to_string())
}

/// Creates the Pods of a Deployment as a dry run, in a namespace that enforces a Pod Security Standard.
async fn insecurity(client: &Client, deployment: &Value) -> Option<String> {
    let mut pod = deployment["spec"]["template"].clone();
    pod["metadata"]["name"] = json!("pod");
    // Its ServiceAccount is not there in a dry run.
    pod["spec"]["serviceAccountName"] = json!("default");
    let namespace = deployment["metadata"]["namespace"].as_str().unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    pods.create(&params, &serde_json::from_value(pod).unwrap()).await.err().map(|error| error.to_string())
}

#[tokio::test]
async fn the_api_server_accepts_every_object() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    for (api_version, kind, scope) in [
        ("policies.kubewarden.io/v1", "ClusterAdmissionPolicy", "Cluster"),
        ("cert-manager.io/v1", "Certificate", "Namespaced"),
        ("cert-manager.io/v1", "Issuer", "Namespaced"),
        ("monitoring.coreos.com/v1", "ServiceMonitor", "Namespaced"),
        ("monitoring.coreos.com/v1", "PodMonitor", "Namespaced"),
        ("monitoring.coreos.com/v1", "PrometheusRule", "Namespaced"),
    ] {
        apply(&client, &stand_in(api_version, kind, scope).to_string(), "chart").await.unwrap();
        let (group, version) = api_version.split_once('/').unwrap();
        let is_served = async || pinned_kind(&client, &GroupVersionKind::gvk(group, version, kind)).await.ok();
        until("the kind being served", SOON, is_served).await.unwrap();
    }
    for namespace in ["pillion-system", "elsewhere", "kruise-system", "bundles", "shop", "news", "kube-system"] {
        create_namespace(&client, namespace).await;
        create_account(&client, namespace).await;
    }
    let monitored = json!({"monitoring": {
        "serviceMonitor": {"enabled": true}, "prometheusRule": {"enabled": true}, "dashboard": {"enabled": true}}});
    let mut seen = BTreeSet::new();
    let others = [case(monitored), case(super::extras::everything())];
    for case in matrix::all().into_iter().chain(others) {
        for object in objects(&case) {
            if !seen.insert(object.to_string()) {
                continue;
            }
            let refusal = refusal(&client, &object).await;
            assert_eq!(refusal, None, "{}: {object}", case.name);
            if object["kind"] == "Deployment" {
                let insecurity = insecurity(&client, &object).await;
                if object["spec"]["template"]["spec"]["hostNetwork"] == true {
                    // The network of the node is all that the standard holds against such Pods.
                    let expected = "violates PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true), hostPort \
                                    (container \"pillion\" uses hostPorts 9080, 9443): Forbidden";
                    assert!(insecurity.as_ref().is_some_and(|text| text.contains(expected)), "{insecurity:?}");
                } else {
                    assert_eq!(insecurity, None, "{}: {object}", case.name);
                }
            }
        }
    }
    assert!(seen.len() > 100, "{}", seen.len());
}

/// Runs Helm on the cluster.
fn run_helm_on(cluster: &Cluster, arguments: &[&str], values: &Value) -> Output {
    let kubeconfig = cluster.admin_kubeconfig_file();
    helm(&[arguments, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat(), values)
}

/// Runs Helm on the cluster. It does what it is asked.
fn helm_on(cluster: &Cluster, arguments: &[&str], values: &Value) {
    let output = run_helm_on(cluster, arguments, values);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Returns an object of the cluster.
async fn stored(client: &Client, api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let (group, version) = api_version.split_once('/').unwrap();
    let (resource, _) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await.unwrap();
    let api: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

const DEFINITION: &str = "sidecarsets.apps.kruise.io";

/// Whether the server of a release looks after the SidecarSet definition.
async fn looks_after_the_definition(client: &Client, namespace: &str, release: &str) -> bool {
    let deployment = stored(client, "apps/v1", "Deployment", namespace, release).await;
    let arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    arguments.contains(&json!(format!("--custom-resource-definition={DEFINITION}")))
}

/// The objects that have a `caBundle`, and where.
const WITH_BUNDLE: [(&str, &str, &str, &str); 2] = [
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "pillion", "/webhooks/0/clientConfig"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION, "/spec/conversion/webhook/clientConfig"),
];

/// Writes every `caBundle` as the server does, and returns it.
async fn write_bundles(client: &Client, cluster: &Cluster) -> Value {
    let bundle = json!(k8s_openapi::ByteString(cluster.authority_certificate().into_bytes()));
    for (api_version, kind, name, pointer) in WITH_BUNDLE {
        let (group, version) = api_version.split_once('/').unwrap();
        let (resource, _) = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await.unwrap();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let change = json!([{"op": "add", "path": format!("{pointer}/caBundle"), "value": bundle}]);
        let patch: Patch<()> = Patch::Json(serde_json::from_value(change).unwrap());
        api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    bundle
}

/// Others write `caBundle`: the server, or cert-manager. An upgrade that took it away would stop all new Pods. Helm 3
/// merges three ways, as Helm 4 does with `--server-side=false`.
#[rstest]
#[case::as_helm_4("--server-side=true", "--server-side=auto")]
#[case::as_helm_3("--server-side=false", "--server-side=false")]
#[tokio::test]
async fn an_upgrade_leaves_alone_what_others_wrote(#[case] install: &str, #[case] upgrade: &str) {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let chart = folder();
    let chart = chart.to_str().unwrap();
    let first = ["install", "pillion", chart, "--namespace", "pillion-system", "--create-namespace", install];
    helm_on(&cluster, &first, &json!({}));
    let bundle = write_bundles(&client, &cluster).await;
    // Everything that has a caBundle changes.
    let values = json!({
        "failurePolicy": "Ignore", "commonLabels": {"new": "label"}, "server": {"replicas": 3},
        "settings": {"shoots": {"enabled": true}},
    });
    helm_on(&cluster, &["upgrade", "pillion", chart, "--namespace", "pillion-system", upgrade], &values);
    for (api_version, kind, name, pointer) in WITH_BUNDLE {
        let stored = stored(&client, api_version, kind, "", name).await;
        assert_eq!(stored["metadata"]["labels"]["new"], "label", "{kind}");
        assert_eq!(stored.pointer(&format!("{pointer}/caBundle")), Some(&bundle), "{kind}");
    }
    assert!(looks_after_the_definition(&client, "pillion-system", "pillion").await);
}

/// The definition converts with a webhook only while there is a server.
#[rstest]
#[case::as_helm_4("--server-side=auto")]
#[case::as_helm_3("--server-side=false")]
#[tokio::test]
async fn a_release_can_change_its_way(#[case] apply_as: &str) {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let policy = stand_in("policies.kubewarden.io/v1", "ClusterAdmissionPolicy", "Cluster");
    apply(&client, &policy.to_string(), "chart").await.unwrap();
    let chart = folder();
    let chart = chart.to_str().unwrap();
    let first = apply_as.replace("auto", "true");
    let install = ["install", "pillion", chart, "--namespace", "pillion-system", "--create-namespace", &first];
    helm_on(&cluster, &install, &json!({}));
    write_bundles(&client, &cluster).await;
    let conversion = async || {
        let definition = stored(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", DEFINITION).await;
        definition["spec"]["conversion"]["strategy"].clone()
    };
    let upgrade = ["upgrade", "pillion", chart, "--namespace", "pillion-system", apply_as];
    let policies = json!({"kubewarden": {"enabled": true}});
    let refused = run_helm_on(&cluster, &upgrade, &policies);
    let message = String::from_utf8(refused.stderr).unwrap();
    let patch = message.split_once("--patch '").unwrap().1.split_once('\'').unwrap().0;
    let definitions: Api<DynamicObject> = {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::all_with(client.clone(), &pinned_kind(&client, &kind).await.unwrap().0)
    };
    let patch: Patch<Value> = Patch::Merge(serde_json::from_str(patch).unwrap());
    definitions.patch(DEFINITION, &PatchParams::default(), &patch).await.unwrap();
    helm_on(&cluster, &upgrade, &policies);
    assert_eq!(conversion().await, "None");
    let force = if apply_as.ends_with("auto") { "--force-conflicts" } else { apply_as };
    let mut forced = upgrade;
    forced[5] = force;
    helm_on(&cluster, &forced, &json!({"kubewarden": {"enabled": false}}));
    assert_eq!(conversion().await, "Webhook");
}

/// Of two releases, the first one made the definition, and the other one leaves it alone.
#[tokio::test]
async fn a_definition_of_others_is_left_alone() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let chart = folder();
    let install = |release: &'static str| {
        let arguments = ["install", release, chart.to_str().unwrap(), "--namespace", release, "--create-namespace"];
        helm_on(&cluster, &arguments, &json!({}));
    };
    install("pillion");
    let before = stored(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", DEFINITION).await;
    assert_eq!(before["metadata"]["annotations"]["meta.helm.sh/release-name"], "pillion");
    install("second");
    let after = stored(&client, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "", DEFINITION).await;
    assert_eq!(
        [&after["metadata"]["annotations"], &after["spec"]],
        [&before["metadata"]["annotations"], &before["spec"]]
    );
    assert!(looks_after_the_definition(&client, "pillion", "pillion").await);
    assert!(!looks_after_the_definition(&client, "second", "second").await);
}

/// Creates the account that Pods have by default. No controller does it in this cluster.
async fn create_account(client: &Client, namespace: &str) {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}});
    apply(client, &account.to_string(), "chart").await.unwrap();
}
