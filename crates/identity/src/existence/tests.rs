use pillion_kubernetes::lookup::{Answer, Failure};
use pillion_samples::lookups::FakeObjects;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn asked(answer: Answer) -> Existence {
    let cluster = FakeObjects::new().with("ServiceAccount web/log-agent", answer);
    exists("log-agent", "web", &cluster)
}

#[rstest]
#[case::says_nothing(json!({}), true)]
#[case::null(json!({"automountServiceAccountToken": null}), true)]
#[case::on(json!({"automountServiceAccountToken": true}), true)]
#[case::off(json!({"automountServiceAccountToken": false}), false)]
fn idv3_an_account_that_is_there(#[case] object: Value, #[case] automount: bool) {
    assert_eq!(asked(Ok(Some(object))), Existence::There { automount });
}

#[test]
fn idv3_an_account_that_is_not_there() {
    let missing = "ServiceAccount \"log-agent\" does not exist in namespace \"web\"";
    assert_eq!(asked(Ok(None)), Existence::Missing(missing.to_owned()));
}

#[test]
fn sap11_a_terminating_account_is_missing() {
    let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let missing = "ServiceAccount \"log-agent\" is being deleted in namespace \"web\"";
    assert_eq!(asked(Ok(Some(object))), Existence::Missing(missing.to_owned()));
}

#[rstest]
#[case::timeout(Failure::Timeout, "no answer in time", "try again")]
#[case::unavailable(Failure::Unavailable, "no usable answer", "try again")]
#[case::forbidden(
    Failure::Forbidden,
    "not allowed",
    "allow the policy to read it: its server's ServiceAccount needs \"get\" on it, and under Kubewarden \
     contextAwareResources must list v1 ServiceAccount and hostCapabilities kubernetes/get_resource"
)]
fn set7_could_not_ask_is_never_missing(#[case] failure: Failure, #[case] why: &str, #[case] remedy: &str) {
    let problem = format!("ServiceAccount \"log-agent\" could not be read in namespace \"web\": {why}");
    assert_eq!(asked(Err(failure)), Existence::Unknown(problem, remedy.to_owned()));
}
