use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, container, of_container, paths, under, with};

fn check(context: &Value, expected: &str) {
    assert_paths(&of_container(&json!({"securityContext": context})), &under("securityContext", expected), context);
}

#[rstest]
#[case(json!({}), "")]
#[case(json!({"privileged": true, "runAsUser": 0, "runAsGroup": 2_147_483_647}), "")]
#[case(json!({"runAsUser": -1, "runAsGroup": 2_147_483_648_i64}), "runAsGroup runAsUser")]
#[case(json!({"procMount": "Default"}), "")]
#[case(json!({"procMount": "Unmasked"}), "procMount")]
#[case(json!({"procMount": ""}), "procMount")]
#[case(json!({"allowPrivilegeEscalation": false}), "")]
#[case(json!({"allowPrivilegeEscalation": false, "privileged": true}), ".")]
#[case(json!({"allowPrivilegeEscalation": true, "privileged": true}), "")]
#[case(json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["CAP_SYS_ADMIN"]}}), ".")]
#[case(json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["SYS_ADMIN"]}}), "")]
#[case(json!({"seLinuxOptions": {"level": "any"}}), "")]
fn val12_security_contexts(#[case] context: Value, #[case] expected: &str) {
    check(&context, expected);
}

#[rstest]
#[case(json!({"type": "RuntimeDefault"}), "", "")]
#[case(json!({"type": "Unconfined", "localhostProfile": "p"}), "localhostProfile", "localhostProfile")]
#[case(json!({"type": "Localhost", "localhostProfile": "p"}), "", "")]
#[case(json!({"type": "Localhost"}), "localhostProfile", "localhostProfile")]
#[case(json!({"type": "Localhost", "localhostProfile": ""}), "", "localhostProfile")]
#[case(json!({"type": "Localhost", "localhostProfile": "/p"}), "localhostProfile", "")]
#[case(json!({"type": "Localhost", "localhostProfile": "../p"}), "localhostProfile", "")]
#[case(json!({"type": "Localhost", "localhostProfile": "p "}), "", "localhostProfile")]
#[case(json!({"type": "Localhost", "localhostProfile": "p".repeat(4096)}), "", "localhostProfile")]
#[case(json!({}), "type", "type")]
#[case(json!({"type": "x", "localhostProfile": "p"}), "localhostProfile type", "type")]
fn val12_profiles(#[case] profile: Value, #[case] seccomp: &str, #[case] app_armor: &str) {
    for (kind, expected) in [("seccompProfile", seccomp), ("appArmorProfile", app_armor)] {
        check(&json!({kind: profile}), &under(kind, expected));
    }
}

#[rstest]
#[case("u v", true)]
#[case("D\\u", true)]
#[case("d_e\\u", true)]
#[case("abcdefghijklmno\\u", true)]
#[case("a-long.dns.domain\\u", true)]
#[case("a_long_netbios_name\\u", false)]
#[case(".D\\u", false)]
#[case("", false)]
#[case("\\u", false)]
#[case("D\\", false)]
#[case("a\\b\\c", false)]
#[case("...", false)]
#[case(". .", false)]
#[case("u/x", false)]
#[case("u@x", false)]
#[case("u\t", false)]
#[case(&"u".repeat(104), true)]
#[case(&"u".repeat(105), false)]
#[case(&format!("{}\\u", ["d"; 128].join(".")), true)]
#[case(&format!("{}\\u", ["d"; 129].join(".")), false)]
fn val12_windows_users(#[case] name: &str, #[case] fine: bool) {
    let expected = if fine { "" } else { "windowsOptions.runAsUserName" };
    check(&json!({"windowsOptions": {"runAsUserName": name}}), expected);
}

#[test]
fn val12_credential_specs_are_checked_and_never_shown() {
    check(&json!({"windowsOptions": {"gmsaCredentialSpecName": "a.b", "gmsaCredentialSpec": "x"}}), "");
    check(
        &json!({"windowsOptions": {"gmsaCredentialSpecName": "A", "gmsaCredentialSpec": ""}}),
        "windowsOptions.gmsaCredentialSpec windowsOptions.gmsaCredentialSpecName",
    );
    let long = json!({"securityContext": {"windowsOptions": {"gmsaCredentialSpec": "secret".repeat(20_000)}}});
    let errors = super::super::validate(&[], &[with("c", &long)], &[]);
    assert_eq!(errors.len(), 1);
    assert!(errors.iter().all(|error| !error.to_string().contains("secretsecret")));
}

#[test]
fn val12_host_process_containers_need_the_network_of_the_host() {
    let host_process = with("h", &json!({"securityContext": {"windowsOptions": {"hostProcess": true}}}));
    assert_eq!(paths(&[], std::slice::from_ref(&host_process), &[]), ["spec.hostNetwork"]);
    assert_eq!(paths(&[host_process], &[container("c")], &[]), ["spec", "spec.hostNetwork"]);
}
