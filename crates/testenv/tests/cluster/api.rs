//! The API server is a real one: its effects on Pods, its authorization, and its storage.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use pillion_testenv::{Cluster, Error, Options, apply, kubernetes, until};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

/// One cluster for all tests of this file; each creates its own clients and namespaces.
async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await
}

fn pod(name: &str) -> Pod {
    let pod = json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "app", "image": "app:1" }] } });
    serde_json::from_value(pod).unwrap()
}

/// Returns user name and groups that the API server sees for a client.
async fn whoami(client: Client) -> (String, Vec<String>) {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    let user = review.status.unwrap().user_info.unwrap();
    (user.username.unwrap(), user.groups.unwrap())
}

/// Returns the status code of a refusal.
fn code(error: kube::Error) -> u16 {
    let kube::Error::Api(status) = error else { panic!("not refused: {error}") };
    status.code
}

#[tokio::test]
async fn the_version_is_the_one_that_clients_choose_by() {
    if std::env::var_os("KUBEBUILDER_ASSETS").is_some() {
        eprintln!("skipped: the servers in KUBEBUILDER_ASSETS have the version that they have");
        return;
    }
    let version = cluster().await.admin().await.unwrap().apiserver_version().await.unwrap();

    let expected = kubernetes();
    assert_eq!(format!("{}.{}", version.major, version.minor), expected);
    assert!(version.git_version.starts_with(&format!("v{expected}.")), "{}", version.git_version);
}

#[tokio::test]
async fn a_pod_gets_the_token_volume_of_the_serviceaccount_plugin() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("token-volume").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.admin().await.unwrap(), &namespace);

    pods.create(&PostParams::default(), &pod("app")).await.unwrap();
    let stored = serde_json::to_value(pods.get("app").await.unwrap()).unwrap();

    let volume = &stored["spec"]["volumes"][0];
    let name = volume["name"].as_str().unwrap();
    assert!(name.starts_with("kube-api-access-"), "{name}");
    assert_eq!(
        volume["projected"],
        json!({
            "defaultMode": 0o644,
            "sources": [
                { "serviceAccountToken": { "expirationSeconds": 3607, "path": "token" } },
                { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                {
                    "downwardAPI": {
                        "items": [{
                            "path": "namespace",
                            "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" },
                        }],
                    },
                },
            ],
        })
    );
    assert_eq!(
        stored["spec"]["containers"][0]["volumeMounts"],
        json!([{ "name": name, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true }])
    );
    assert_eq!(stored["spec"]["serviceAccountName"], "default");
}

#[tokio::test]
async fn a_requested_token_shows_whose_it_is() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("token").await.unwrap();

    let (user, groups) = whoami(cluster.service_account(&namespace, "default").await.unwrap()).await;

    assert_eq!(user, format!("system:serviceaccount:{namespace}:default"));
    assert!(groups.contains(&format!("system:serviceaccounts:{namespace}")), "{groups:?}");
}

#[tokio::test]
async fn a_token_for_another_audience_is_not_let_in() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("audience").await.unwrap();
    let other = TokenRequestSpec { audiences: Some(vec!["vault".to_owned()]), ..TokenRequestSpec::default() };

    let token = cluster.token(&namespace, "default", &other).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.as_bearer(&token).client().await.unwrap(), &namespace);

    assert_eq!(code(pods.list(&ListParams::default()).await.unwrap_err()), 401);
}

#[rstest]
#[case::alone(None, &["system:authenticated"])]
#[case::in_a_group(Some("platform"), &["platform", "system:authenticated"])]
#[tokio::test]
async fn a_user_is_who_the_certificate_says(#[case] group: Option<&str>, #[case] groups: &[&str]) {
    let client = cluster().await.user("jane", group).await.unwrap();

    assert_eq!(whoami(client).await, ("jane".to_owned(), groups.iter().map(|group| (*group).to_owned()).collect()));
}

#[tokio::test]
async fn a_user_may_do_what_a_role_says_and_nothing_else() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("rights").await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.user("tom", None).await.unwrap(), &namespace);

    assert_eq!(code(pods.list(&ListParams::default()).await.unwrap_err()), 403);

    let roles = format!(
        r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reader, namespace: {namespace}}}
rules: [{{apiGroups: [""], resources: [pods], verbs: [list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reader, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: tom}}]
"#
    );
    apply(&cluster.admin().await.unwrap(), &roles, "test").await.unwrap();
    until("the right to list Pods", Duration::from_secs(10), async || pods.list(&ListParams::default()).await.ok())
        .await
        .unwrap();
    assert_eq!(code(pods.create(&PostParams::default(), &pod("app")).await.unwrap_err()), 403);
}

#[tokio::test]
async fn a_second_field_manager_does_not_take_a_field_away() {
    let cluster = cluster().await;
    let namespace = cluster.namespace("apply").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let map = |value: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: {namespace}}}\ndata: {{key: {value}}}\n"
        )
    };

    let first = apply(&client, &map("one"), "test").await.unwrap();
    let again = apply(&client, &map("one"), "test").await.unwrap();
    let conflict = apply(&client, &map("two"), "another").await.unwrap_err().to_string();

    assert_eq!(first[0].resource_version(), again[0].resource_version());
    assert!(conflict.contains("ConfigMap \"a\"") && conflict.contains("conflict"), "{conflict}");
}

#[rstest]
#[case::no_kind("metadata: {name: a}", "document 1 of the manifest: it has no apiVersion and kind")]
#[case::no_name("apiVersion: v1\nkind: Pod\nmetadata: {}", "document 1 of the manifest: it has no name")]
#[tokio::test]
async fn a_manifest_that_is_no_object_is_named(#[case] manifest: &str, #[case] message: &str) {
    let client = cluster().await.admin().await.unwrap();

    assert_eq!(apply(&client, manifest, "test").await.unwrap_err().to_string(), message);
}

#[tokio::test]
async fn a_definition_and_its_objects_come_in_one_manifest() {
    let client = cluster().await.admin().await.unwrap();
    let manifest = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: seats.example.pillion.dev}
spec:
  group: example.pillion.dev
  names: {kind: Seat, plural: seats, singular: seat, listKind: SeatList}
  scope: Cluster
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {spec: {type: object, properties: {row: {type: integer}}}}
---
apiVersion: example.pillion.dev/v1
kind: Seat
metadata: {name: pillion}
spec: {row: 2}
";

    let applied = apply(&client, manifest, "test").await.unwrap();

    assert_eq!(applied[1].data["spec"], json!({ "row": 2 }));
}

#[tokio::test]
async fn a_restarted_api_server_has_its_address_and_objects_and_knows_its_tokens() {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let namespace = cluster.namespace("restart").await.unwrap();
    let client = cluster.admin().await.unwrap();
    let account = cluster.service_account(&namespace, "default").await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let map: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "kept" }, "data": { "key": "value" } })).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();

    cluster.stop_api_server().await.unwrap();
    maps.get("kept").await.unwrap_err();
    cluster.start_api_server().await.unwrap();

    assert_eq!(maps.get("kept").await.unwrap().data, map.data);
    assert_eq!(whoami(account).await.0, format!("system:serviceaccount:{namespace}:default"));
}

#[tokio::test]
async fn a_kubeconfig_is_there_for_other_programs() {
    let cluster = cluster().await;

    let text = std::fs::read_to_string(cluster.admin_kubeconfig_file()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&text).unwrap();

    assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], cluster.url());
}

#[rstest]
#[case::flag(Options::new().api_server_flag("--no-such-flag=1"), "unknown flag: --no-such-flag")]
#[case::gate(Options::new().feature_gate("NoSuchGate", true), "unrecognized feature gate: NoSuchGate")]
#[tokio::test]
async fn a_server_that_does_not_start_says_why(#[case] options: Options, #[case] why: &str) {
    let Err(error) = Cluster::start(options).await else { panic!("it started") };

    assert!(matches!(&error, Error::Ended { server, .. } if server == "kube-apiserver"), "{error}");
    assert!(error.to_string().contains(why), "{error}");
}

#[tokio::test]
async fn a_program_of_the_test_runs_beside_the_servers() {
    let cluster = cluster().await;
    let (shell, script) = (Path::new("/bin/sh"), ["-c".to_owned(), "pwd; exec sleep 600".to_owned()]);

    cluster.start_program("sleeper", shell, &script).await.unwrap();
    let twice = cluster.start_program("sleeper", shell, &script).await.unwrap_err().to_string();
    let said = async || Some(cluster.log("sleeper")).filter(|log| !log.is_empty());
    let said = until("its first words", Duration::from_secs(10), said).await.unwrap();
    cluster.still_runs("sleeper").unwrap();
    cluster.stop_program("sleeper", 5).await.unwrap();
    let gone = cluster.still_runs("sleeper").unwrap_err().to_string();

    assert_eq!(Path::new(&said), cluster.folder());
    assert_eq!(twice, "\"sleeper\" could not be started: it is running already");
    assert!(gone.starts_with("\"sleeper\" ended with signal: terminated"), "{gone}");
}
