//! `pillion inject` and `explain`: tokens for services other than the API server.

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};

use super::{WEB, accounts, merging, set};
use crate::support::{Run, pillion};

const TOKENS: &str =
    "  serviceAccountName: log-agent\n  serviceAccountTokens: [{audience: sts.amazonaws.com, path: aws-token}]\n";
const ALLOWED: &str = "serviceAccounts: {allowedAudiences: [sts.amazonaws.com]}\n";
const GATE: &str = "featureGates: {SidecarSetServiceAccountInjection: true}\n";

/// Runs a command on the Deployment with these SidecarSets, accounts and settings.
fn preview(command: &str, web: &str, others: &str, settings: &str, args: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("web.yaml", web), ("others.yaml", others), ("settings.yaml", settings)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let given = [command, "web.yaml", "--sidecar-sets", "others.yaml", "--settings", "settings.yaml"];
    pillion(folder.path(), &[&given, args].concat(), "")
}

/// Returns what is said of logins.
fn logins(run: &Run) -> Vec<&str> {
    run.out.lines().map(str::trim_start).filter(|line| line.contains(" log in to ")).collect()
}

const CAN: &str = "agent can log in to sts.amazonaws.com as system:serviceaccount:shop:log-agent with \
                   /var/run/secrets/kubernetes.io/serviceaccount/aws-token";

#[rstest]
#[case::from_the_kubelet("", "default", CAN)]
#[case::from_a_secret("  serviceAccountMode: Isolate\n", "own", CAN)]
#[case::beside_the_apps_own("", "log-agent", CAN)]
#[case::kept(
    "",
    "own",
    "agent cannot log in to sts.amazonaws.com: the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the \
     sidecars theirs beside it"
)]
fn explain_says_who_can_log_in_where(#[case] mode: &str, #[case] account: &str, #[case] expected: &str) {
    let web = WEB.replace(
        "    spec:\n      containers",
        &format!("    spec:\n      serviceAccountName: {account}\n      containers"),
    );
    let others = set("agent", &format!("{TOKENS}{mode}")) + &accounts(&["log-agent", "own"]);
    let run = preview("explain", &web, &others, &format!("{GATE}{ALLOWED}"), &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(logins(&run), [expected], "{}", run.out);
}

#[rstest]
#[case::explain("explain")]
#[case::inject("inject")]
fn a_sidecar_set_with_an_audience_that_is_not_allowed_is_an_error(#[case] command: &str) {
    let others = set("agent", TOKENS) + &accounts(&["log-agent"]);
    let run = preview(command, WEB, &others, GATE, &[]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
    assert!(run.err.contains("the audience \"sts.amazonaws.com\" is not allowed"), "{}", run.err);
}

#[test]
fn explain_says_why_nobody_can_log_in() {
    let others = set("agent", TOKENS) + &accounts(&["log-agent"]);
    let run = preview("explain", WEB, &others, ALLOWED, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let why = "agent cannot log in to sts.amazonaws.com: the feature gate SidecarSetServiceAccountInjection is off";
    assert_eq!(logins(&run), [why], "{}", run.out);
}

#[test]
fn aud6_explain_says_that_a_merged_account_logs_in_nowhere() {
    let tokens = "  serviceAccountTokens: [{audience: sts.amazonaws.com, path: aws-token}]\n";
    let others = merging().replacen(
        "  serviceAccountName: log-agent\n",
        &format!("  serviceAccountName: log-agent\n{tokens}"),
        1,
    );
    let run = preview("explain", WEB, &others, &format!("{GATE}{ALLOWED}"), &["--assume-service-accounts"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let why = "agent cannot log in to sts.amazonaws.com: the Pod runs under a merged ServiceAccount, which has no tokens for other audiences";
    assert_eq!(logins(&run), [why], "{}", run.out);
}

#[test]
fn explain_tells_machines_where_a_sidecar_can_log_in() {
    let others = set("agent", &TOKENS.replace("aws-token", "aws-token, expirationSeconds: 86400"));
    let settings = format!("{GATE}{ALLOWED}");
    let run = preview("explain", WEB, &others, &settings, &["--assume-service-accounts", "-o", "json"]);
    assert_eq!(
        run.json()[0]["sidecarSets"][0]["serviceAccount"]["logins"],
        json!([{
            "audience": "sts.amazonaws.com", "subject": "system:serviceaccount:shop:log-agent",
            "file": "/var/run/secrets/kubernetes.io/serviceaccount/aws-token", "expirationSeconds": 86_400,
            "given": true, "message": null,
        }])
    );
}

/// AUD-4: the names that are told are those of the objects.
#[rstest]
fn the_volume_and_the_secret_of_a_set_are_told_by_their_names(#[values("SidecarsOnly", "Isolate")] mode: &str) {
    let others = set("agent", &format!("{TOKENS}  serviceAccountMode: {mode}\n"));
    let settings = format!("{GATE}{ALLOWED}");
    let of =
        |command: &str| preview(command, WEB, &others, &settings, &["--assume-service-accounts", "-o", "json"]).json();
    let told = of("explain")[0]["sidecarSets"][0]["serviceAccount"]["token"].clone();
    let spec = of("inject")["spec"]["template"]["spec"].clone();
    let volumes = spec["volumes"].as_array().unwrap();
    let volume =
        volumes.iter().find(|volume| volume["name"] == told["volume"]).unwrap_or_else(|| panic!("{told} {spec:#}"));
    let sources = volume["projected"]["sources"].as_array().unwrap();
    if mode == "Isolate" {
        assert!(sources.iter().any(|source| source["secret"]["name"] == told["secret"]), "{told} {sources:?}");
    } else {
        assert_eq!(told["secret"], Value::Null);
        let token = json!({"audience": "sts.amazonaws.com", "expirationSeconds": 3600, "path": "aws-token"});
        assert!(sources.iter().any(|source| source["serviceAccountToken"] == token), "{sources:?}");
    }
}
