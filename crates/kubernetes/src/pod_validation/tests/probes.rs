use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, of_container, of_init_container, under};

/// Returns `probe` with the fields that defaulting sets.
fn filled(probe: &Value) -> Value {
    let mut full = json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    for (key, value) in probe.as_object().unwrap() {
        full.as_object_mut().unwrap().insert(key.clone(), value.clone());
    }
    full
}

#[rstest]
#[case(json!({"exec": {"command": ["x"]}}), "")]
#[case(json!({"exec": {}}), "exec.command")]
#[case(json!({}), ".")]
#[case(json!({"exec": {"command": ["x"]}, "grpc": {"port": 1}, "tcpSocket": {"port": 0}}), "grpc tcpSocket")]
#[case(json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}}), "")]
#[case(json!({"httpGet": {"path": "/", "port": "http", "scheme": "HTTPS"}}), "")]
#[case(json!({"httpGet": {"path": "/", "port": "80", "scheme": "HTTP"}}), "httpGet.port")]
#[case(json!({"httpGet": {"path": "/", "port": "", "scheme": "HTTP"}}), "httpGet.port")]
#[case(json!({"httpGet": {}}), "httpGet.path httpGet.port httpGet.scheme")]
#[case(json!({"httpGet": {"path": "/", "port": 1, "scheme": "http"}}), "httpGet.scheme")]
#[case(json!({"httpGet": {"path": "/", "port": 1, "scheme": "HTTP", "httpHeaders": [{"name": "X-A"}]}}), "")]
#[case(
    json!({"httpGet": {"path": "/", "port": 1, "scheme": "HTTP", "httpHeaders": [{"name": "X-A"}, {"name": "X_A"}]}}),
    "httpGet.httpHeaders"
)]
#[case(json!({"tcpSocket": {"port": 65536}}), "tcpSocket.port")]
#[case(json!({"tcpSocket": {"port": "a-b"}}), "")]
#[case(json!({"grpc": {"port": 0, "service": ""}}), "grpc.port")]
#[case(json!({"grpc": {"port": 9000, "service": "s"}}), "")]
#[case(json!({"tcpSocket": {"port": 1}, "initialDelaySeconds": -1}), "initialDelaySeconds")]
#[case(json!({"tcpSocket": {"port": 1}, "timeoutSeconds": -1, "periodSeconds": 0}), "timeoutSeconds")]
#[case(json!({"tcpSocket": {"port": 1}, "periodSeconds": -1, "failureThreshold": -1}), "failureThreshold periodSeconds")]
// The only action is one that a probe cannot have.
#[case(json!({"sleep": {"seconds": 1}}), ".")]
fn val12_probes(#[case] probe: Value, #[case] expected: &str) {
    let probe = filled(&probe);
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let expected = under(kind, expected);
        assert_paths(&of_container(&json!({kind: probe})), &expected, &probe);
        let native = json!({kind: probe, "restartPolicy": "Always"});
        assert_paths(&of_init_container(&native), &expected, &native);
        let plain_init = json!({kind: probe});
        assert_paths(&of_init_container(&plain_init), kind, &plain_init);
    }
}

#[rstest]
#[case(json!({"successThreshold": 2}), "", "successThreshold")]
#[case(json!({"successThreshold": 0}), "", "successThreshold")]
#[case(json!({"successThreshold": -1}), "successThreshold", "successThreshold")]
#[case(json!({"terminationGracePeriodSeconds": 5}), "terminationGracePeriodSeconds", "")]
#[case(json!({"terminationGracePeriodSeconds": 0}), "terminationGracePeriodSeconds", "terminationGracePeriodSeconds")]
fn val12_readiness_probes_differ(#[case] fields: Value, #[case] readiness: &str, #[case] others: &str) {
    let mut probe = filled(&fields);
    probe.as_object_mut().unwrap().insert("tcpSocket".to_owned(), json!({"port": 1}));
    for (kind, expected) in [("livenessProbe", others), ("readinessProbe", readiness), ("startupProbe", others)] {
        assert_paths(&of_container(&json!({kind: probe})), &under(kind, expected), &probe);
    }
}

#[test]
fn val12_a_probe_without_a_success_threshold_is_refused_where_it_must_be_1() {
    let probe = json!({"tcpSocket": {"port": 1}});
    assert_paths(&of_container(&json!({"startupProbe": probe})), "startupProbe.successThreshold", &probe);
    assert_paths(&of_container(&json!({"readinessProbe": probe})), "", &probe);
}

#[rstest]
#[case(json!({}), ".")]
#[case(json!({"exec": {"command": ["x"]}}), "")]
#[case(json!({"sleep": {"seconds": 1}}), "")]
#[case(json!({"sleep": {"seconds": 30}}), "")]
#[case(json!({"sleep": {"seconds": 0}}), "sleep")]
#[case(json!({"sleep": {"seconds": 31}}), "sleep")]
#[case(json!({"sleep": {"seconds": 1}, "tcpSocket": {"port": 1}}), "sleep")]
#[case(json!({"httpGet": {"path": "/", "port": 1, "scheme": ""}}), "httpGet.scheme")]
// The only action is one that a hook cannot have.
#[case(json!({"grpc": {"port": 1}}), ".")]
fn val12_hooks(#[case] hook: Value, #[case] expected: &str) {
    for kind in ["postStart", "preStop"] {
        let expected = under(&format!("lifecycle.{kind}"), expected);
        let fields = json!({"lifecycle": {kind: hook}});
        assert_paths(&of_container(&fields), &expected, &fields);
        let native = json!({"lifecycle": {kind: hook}, "restartPolicy": "Always"});
        assert_paths(&of_init_container(&native), &expected, &native);
    }
}
