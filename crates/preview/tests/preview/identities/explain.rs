//! `pillion explain`: the token of each container, and the reasons.

use std::fs;

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::pillion;

use super::{SETTINGS, WEB, accounts, merging, preview, preview_on, set};

#[test]
fn explain_tells_who_gets_which_token_and_who_loses_one() {
    let others = set("agent", "  serviceAccountName: log-agent\n")
        + &set("iso", "  serviceAccountName: other\n  serviceAccountMode: Isolate\n")
        + &set("plain", "")
        + &accounts(&["log-agent", "other"]);
    let run = preview("explain", &others, &[]);
    assert_eq!(run.code, 0, "{}", run.err);
    insta::assert_snapshot!(run.out, @r#"
    Deployment shop/web: 3 of 3 SidecarSets injected
      it runs under ServiceAccount "log-agent" instead of "default"
      containers that lose the token of "default": web, plain
      agent  injected: Pods with app=web
               container agent: added, at place 2 of 4 in containers
               ServiceAccount log-agent (SidecarsOnly): its token from the kubelet, in volume sidecarset-sa-b077d031c6eaa197
      iso    injected: Pods with app=web
               container iso: added, at place 3 of 4 in containers
               ServiceAccount other (Isolate): its token from Secret sidecarset-token-d9298a10d1b07358, without which the Pod does not start, in volume sidecarset-sa-d9298a10d1b07358
      plain  injected: Pods with app=web
               container plain: added, at place 4 of 4 in containers
      warning: sidecar "plain" of SidecarSet "plain" loses the token of the Pod's ServiceAccount
    "#);
}

#[test]
fn explain_tells_of_a_merged_account_whether_it_is_ready() {
    let ready = preview("explain", &merging(), &["--assume-service-accounts"]);
    assert_eq!(ready.code, 0, "{}", ready.err);
    insta::assert_snapshot!(ready.out, @r#"
    Deployment shop/web: 2 of 2 SidecarSets injected
      it runs under ServiceAccount "sidecarset-merged-c1c364c813e3611b" instead of "default"
      ServiceAccount sidecarset-merged-c1c364c813e3611b is merged for agent, metrics: ready
      containers that lose the token of "default": web
      agent    injected: Pods with app=web
                 container agent: added, at place 2 of 3 in containers
                 ServiceAccount log-agent (SidecarsOnly, Merge): a token of sidecarset-merged-c1c364c813e3611b from the kubelet, in volume sidecarset-sa-d2c429048c77f5de
      metrics  injected: Pods with app=web
                 container metrics: added, at place 3 of 3 in containers
                 ServiceAccount metrics (SidecarsOnly, Merge): a token of sidecarset-merged-c1c364c813e3611b from the kubelet, in volume sidecarset-sa-d2c429048c77f5de
    "#);
    let missing = preview("explain", &(merging() + &accounts(&["log-agent", "metrics"])), &[]);
    assert_eq!(missing.code, 1, "{}", missing.err);
    insta::assert_snapshot!(missing.out, @r#"
    Deployment shop/web: the policy refuses it (503)
      spec.serviceAccountName: ServiceAccount "sidecarset-merged-c1c364c813e3611b" in namespace "shop", merged for the SidecarSets agent,metrics, is not there yet
        to do: the controller prepares it; try again
      ServiceAccount sidecarset-merged-c1c364c813e3611b is merged for agent, metrics: not ready
      agent    would be injected (Pods with app=web), but the Pod is refused
                 asks for ServiceAccount log-agent (SidecarsOnly, Merge)
      metrics  would be injected (Pods with app=web), but the Pod is refused
                 asks for ServiceAccount metrics (SidecarsOnly, Merge)
    "#);
    insta::assert_snapshot!(missing.err, @"
    warning: the merged ServiceAccount shop/sidecarset-merged-c1c364c813e3611b, its Role or its RoleBinding is in no manifest; give all three, or assume that they exist with --assume-service-accounts
    ");
}

#[rstest]
#[case::skipped(
    "{onMissing: Skip}",
    "default",
    "left out, ServiceAccount \"log-agent\" does not exist in namespace \"shop\""
)]
#[case::kept(
    "{}",
    "own",
    "left out, the Pod has the ServiceAccount \"own\" of its own; mode Isolate gives the sidecars theirs beside it"
)]
#[case::automounted("{}", "log-agent", "the Pod runs under it, and the API server mounts its token")]
#[case::isolated(
    "{onAppServiceAccount: Isolate}",
    "own",
    "its token from Secret sidecarset-token-b077d031c6eaa197, without which the Pod does not start, in volume sidecarset-sa-b077d031c6eaa197"
)]
fn explain_says_why_an_identity_is_given_or_not(#[case] rules: &str, #[case] account: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("settings.yaml"), format!("{SETTINGS}serviceAccounts: {rules}\n")).unwrap();
    let web = WEB.replace(
        "    spec:\n      containers",
        &format!("    spec:\n      serviceAccountName: {account}\n      containers"),
    );
    let given = if rules.contains("Skip") { String::new() } else { accounts(&["log-agent"]) };
    fs::write(path("all.yaml"), web + &set("agent", "  serviceAccountName: log-agent\n") + &given).unwrap();
    let explain = |args: &[&str]| {
        let given = ["explain", "all.yaml", "--settings", "settings.yaml"];
        let run = pillion(folder.path(), &[&given, args].concat(), "");
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    let text = explain(&[]);
    let line = format!("ServiceAccount log-agent (SidecarsOnly): {expected}\n");
    assert!(text.contains(&line), "{text}");
    let told: Value = serde_json::from_str(&explain(&["-o", "json"])).unwrap();
    let identity = &told[0]["sidecarSets"][0]["serviceAccount"];
    assert_eq!((&identity["name"], &identity["mode"]), (&json!("log-agent"), &json!("SidecarsOnly")));
    match identity["message"].as_str() {
        Some(why) => assert_eq!(format!("left out, {why}"), expected),
        None => assert!(matches!(identity["result"].as_str(), Some("Token" | "Automounted")), "{identity}"),
    }
}

#[test]
fn explain_tells_machines_the_same() {
    let others = set("agent", "  serviceAccountName: log-agent\n");
    let run = preview("explain", &others, &["--assume-service-accounts", "-o", "json"]);
    let told = &run.json()[0];
    assert_eq!(
        told["serviceAccount"],
        json!({
            "original": "default", "name": "log-agent", "merged": null, "losing": ["web"], "sharedWithApp": false,
            "tokenContainers": null, "exposed": []
        })
    );
    assert_eq!(
        told["sidecarSets"][0]["serviceAccount"],
        json!({
            "name": "log-agent", "mode": "SidecarsOnly", "onConflict": "Refuse", "result": "Token", "message": null,
            "logins": [],
            "token": {
                "serviceAccount": "log-agent", "source": "Kubelet", "secret": null,
                "volume": "sidecarset-sa-b077d031c6eaa197"
            }
        })
    );
}

#[test]
fn explain_warns_of_what_can_read_the_token_all_the_same() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: {app: web}}, spec: {hostPID: true, containers: [{name: web, image: 'i:1'}]}}\n";
    let others = set("agent", "  serviceAccountName: log-agent\n");
    let run = preview_on(pod, "explain", &others, &["--assume-service-accounts"]);
    let careful =
        "  careful: spec.hostPID lets every container of the Pod read the tokens of its sidecars through /proc\n";
    assert!(run.out.contains(careful), "{}", run.out);
}
