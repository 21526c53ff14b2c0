//! User story 2: two sidecars of one Pod log in to two services, each with the files of its own container alone, in each
//! mode. The policy injects, the controller and the kubelet get the tokens, and each service knows only what the issuer
//! publishes (AUD-1, AUD-3, AUD-9).

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use pillion_identity::names::TOKEN_SECRET_PREFIX;
use pillion_plan::credential::Credential;
use pillion_testenv::faults::Faults;
use pillion_testenv::{Cluster, Options, until};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{Controller, namespace_in};
use crate::support::accounts::name_of;
use crate::support::kubelet::{now, secret, token_directory};
use crate::support::namespace::TestNamespace;
use crate::support::verifier::{Refused, Verifier};
use crate::support::{Installation, SOON, pod, web};

const MODES: [&str; 3] = ["SidecarsOnly", "Isolate", "Pod"];
/// The sidecars, each with the service that it logs in to, the file for that, and the lifetime of the token.
const SIDECARS: [(&str, &str, &str, i64); 2] =
    [("aws", "sts.amazonaws.com", "aws-token", 7200), ("vault", "https://vault.example.com", "vault-token", 600)];

/// Returns settings with two SidecarSets for each mode, all with the account `logs`.
fn settings() -> Value {
    let mut sets = Vec::new();
    for mode in MODES {
        sets.extend(SIDECARS.map(|(name, audience, path, lifetime)| {
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
                "metadata": {"name": format!("{name}-{}", mode.to_lowercase())},
                "spec": {
                    "selector": {"matchLabels": {"mode": mode}},
                    "containers": [{"name": name, "image": format!("{name}:1")}],
                    "serviceAccountName": "logs", "serviceAccountMode": mode,
                    "serviceAccountTokens": [{"audience": audience, "path": path, "expirationSeconds": lifetime}],
                },
            })
        }));
    }
    json!({
        "sidecarSets": sets,
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "serviceAccounts": {"allowPodMode": true, "allowedAudiences": ["sts.amazonaws.com", "https://vault.*"]},
    })
}

async fn installation() -> &'static Installation<'static> {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static INSTALLATION: OnceCell<Installation<'_>> = OnceCell::const_new();
    let cluster = CLUSTER.get_or_init(async || Cluster::start(Options::new()).await.unwrap()).await;
    let live = ["--cache-max-staleness=0s"];
    INSTALLATION.get_or_init(async || Installation::start(cluster, &settings(), &[], &live).await).await
}

/// Creates a Pod. Returns what is stored, and the warnings of the API server.
async fn created(place: &TestNamespace, pod: &Value) -> (Value, Vec<String>) {
    let pods: Api<Pod> = place.api();
    let request = http::Request::post(pods.resource_url()).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(pod.to_string().into_bytes())).unwrap();
    let answer = place.client.send(request).await.unwrap();
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|warning| String::from_utf8_lossy(warning.as_bytes()).into_owned()).collect();
    let body = answer.into_body().collect_bytes().await.unwrap();
    let stored: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(stored["kind"], "Pod", "{stored}");
    (stored, warnings)
}

#[rstest]
#[tokio::test]
async fn aud1_aud9_each_sidecar_logs_in_to_its_own_service(#[values("SidecarsOnly", "Isolate", "Pod")] mode: &str) {
    let installation = installation().await;
    let cluster = installation.cluster;
    let place = namespace_in(cluster).await;
    let account = place.account().await;
    let config = cluster.as_admin().config().await.unwrap();
    let _controller = Controller::start(config, Faults::none(), settings(), Some(&[&place.name]), 0);

    let (pod, warnings) = created(&place, &web(mode, |_| {})).await;

    assert_eq!(warnings, [""; 0], "{mode}");
    let own = |name: &str| Credential::own("logs", &format!("{name}-{}", mode.to_lowercase())).secret();
    if mode == "Isolate" {
        for (name, ..) in SIDECARS {
            let filled = async || secret(&place.client, &place.name, &own(name)).await.filter(|data| data.len() == 2);
            until("the tokens of the set", SOON, filled).await.unwrap();
        }
    }
    let services = [Verifier::new(cluster, SIDECARS[0].1).await, Verifier::new(cluster, SIDECARS[1].1).await];
    for (index, (name, audience, path, lifetime)) in SIDECARS.into_iter().enumerate() {
        let files = token_directory(cluster, &pod, name).await.unwrap();
        // Not every cluster of the tests has the ConfigMap with the certificate.
        let mut there: Vec<&str> = files.keys().map(String::as_str).filter(|file| *file != "ca.crt").collect();
        there.sort_by_key(|file| *file == path);
        assert_eq!(there, ["namespace", "token", path], "{mode} {name}");

        let bearer = services[index].verify(&files[path], now()).unwrap();
        assert_eq!((&bearer.subject, &bearer.audiences), (&place.username(), &vec![audience.to_owned()]));
        assert_eq!(bearer.expires - bearer.issued, lifetime, "{mode} {name}");
        assert_eq!(bearer.kubernetes["namespace"], place.name.as_str());
        assert_eq!(bearer.kubernetes["serviceaccount"]["uid"], account["metadata"]["uid"]);
        if mode == "Isolate" {
            assert_eq!(bearer.kubernetes["secret"]["name"], own(name));
        } else {
            assert_eq!(bearer.kubernetes["pod"]["uid"], pod["metadata"]["uid"]);
        }
        let refused = services[1 - index].verify(&files[path], now());
        assert_eq!(refused, Err(Refused::Audience(vec![audience.to_owned()])));
        assert_eq!(name_of(cluster, &files["token"]).await.unwrap(), place.username(), "{mode} {name}");
        assert!(name_of(cluster, &files[path]).await.is_err(), "the API server accepts no token for {audience}");
        assert!(services[index].verify(&files["token"], now()).is_err(), "nor the service that of the API server");
    }

    // The app has neither of the two files; in mode Pod it has the token of the account for the API server, as that
    // mode says.
    let app = token_directory(cluster, &pod, "app").await.unwrap_or_default();
    assert!(SIDECARS.iter().all(|(_, _, path, _)| !app.contains_key(*path)), "{mode}: {:?}", app.keys());
    let holder = match app.get("token") {
        Some(token) => Some(name_of(cluster, token).await.unwrap()),
        None => None,
    };
    let default = format!("system:serviceaccount:{}:default", place.name);
    let expected = match mode {
        "SidecarsOnly" => None,
        "Isolate" => Some(default),
        _ => Some(place.username()),
    };
    assert_eq!(holder, expected, "{mode}");
    let mentioned = pod["spec"]["volumes"].to_string().matches(TOKEN_SECRET_PREFIX).count();
    assert_eq!(mentioned, if mode == "Isolate" { 4 } else { 0 }, "two sources of each Secret");
}

/// What `created` returns as warnings: otherwise a Pod with two sources of one Secret would pass unnoticed.
#[tokio::test]
async fn warnings_of_the_api_server_are_seen() {
    let place = namespace_in(installation().await.cluster).await;
    let old = json!({"metadata": {"name": "old"}, "spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}});

    let (_, warnings) = created(&place, &pod(&old)).await;

    assert!(warnings.iter().any(|warning| warning.contains("beta.kubernetes.io/os")), "{warnings:?}");
}
