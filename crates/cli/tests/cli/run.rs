//! `pillion run`, as users and test suites run it.

use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Run, policy};

/// The metadata: the policy may read Namespaces, and uses version 1 of the protocol.
const METADATA: &str = "
protocolVersion: v1
rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
mutating: true
contextAwareResources: [{apiVersion: v1, kind: Namespace}]
";

/// Returns the path of a file in `test_data`.
fn data(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "test_data", name].iter().collect();
    path.display().to_string()
}

fn data_json(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(data(name)).unwrap()).unwrap()
}

fn folder() -> tempfile::TempDir {
    policy::folder(METADATA)
}

fn pillion(folder: &Path, args: &[&str], stdin: &str) -> Run {
    policy::run(folder, "no-kubeconfig", args, stdin)
}

/// Runs the policy with the creation of a Pod as the request.
fn on_pod(folder: &Path, args: &[&str]) -> Run {
    let request = data("pod-create-review.json");
    pillion(folder, &[&["--request-path", request.as_str()], args].concat(), "")
}

#[test]
fn the_response_is_one_line_with_the_keys_and_nulls_of_kwctl() {
    let folder = folder();
    let run = on_pod(folder.path(), &["policy.wasm"]);
    let expected =
        r#"{"uid":"f17673be-7a98-4683-be54-610a5b8e1f5c","allowed":true,"auditAnnotations":null,"warnings":null}"#;
    assert_eq!((run.code, run.out.trim_end(), run.err.as_str()), (0, expected, ""));

    let run = on_pod(folder.path(), &["--settings-path", &data("settings-log-agent.json"), "policy.wasm"]);
    let keys = ["\"uid\":", "\"allowed\":true", "\"patchType\":\"JSONPatch\"", "\"patch\":", "\"auditAnnotations\":{"];
    let places: Vec<_> = keys.iter().map(|key| run.out.find(key)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}", run.out);
    let paths: Vec<_> = run.patch().as_array().unwrap().iter().map(|change| change["path"].clone()).collect();
    assert_eq!(paths, ["/metadata/annotations", "/spec/containers/1", "/spec/volumes/1"]);
}

#[test]
fn a_refusal_is_an_answer() {
    let folder = folder();
    let run = on_pod(folder.path(), &["-s", &data("settings-clash.json"), "policy.wasm"]);
    assert_eq!(run.code, 0);
    assert_eq!(run.response()["allowed"], false);
    assert_eq!(run.response()["status"]["code"], 403);
    assert_eq!(run.response().get("patch"), None);
}

#[rstest]
#[case::a_review("pod-create-review.json")]
#[case::a_request("pod-create-request.json")]
fn requests_come_from_files_and_from_stdin(#[case] name: &str) {
    let folder = folder();
    let settings = data("settings-log-agent.json");
    let file = pillion(folder.path(), &["-r", &data(name), "-s", &settings, "policy.wasm"], "");
    let text = fs::read_to_string(data(name)).unwrap();
    let stdin = pillion(folder.path(), &["-r", "-", "-s", &settings, "policy.wasm"], &text);
    assert_eq!((file.code, stdin.code), (0, 0), "{}{}", file.err, stdin.err);
    assert_eq!(file.patch()[1], stdin.patch()[1]);
}

#[rstest]
#[case::json(&["--settings-json", r#"{"systemNamespace": "a"}"#], "", true)]
#[case::json_null(&["--settings-json", "null"], "", true)]
#[case::yaml(&["-s", "s"], "systemNamespace: a\n", true)]
#[case::empty_file(&["-s", "s"], "", true)]
#[case::yaml_null(&["-s", "s"], "null\n", true)]
#[case::json_file(&["-s", "s"], r#"{"systemNamespace": "a"}"#, true)]
#[case::invalid_yaml(&["-s", "s"], "nope: true\n", false)]
#[case::invalid_json(&["--settings-json", r#"{"nope": true}"#], "", false)]
fn settings_are_yaml_json_or_nothing(#[case] args: &[&str], #[case] file: &str, #[case] valid: bool) {
    let folder = folder();
    fs::write(folder.path().join("s"), file).unwrap();
    let run = on_pod(folder.path(), &[args, &["policy.wasm"]].concat());
    if valid {
        assert_eq!((run.code, run.response()["allowed"].clone()), (0, json!(true)), "{}", run.err);
    } else {
        assert_eq!((run.code, run.out.as_str()), (1, ""));
        assert!(run.err.contains("Provided settings are not valid: "), "{}", run.err);
        assert!(run.err.contains("nope: "), "{}", run.err);
    }
}

#[rstest]
#[case::list(&["--settings-json", "[]"], "", "settings are an object, this is a")]
#[case::list_file(&["-s", "s"], "- a\n", "s:1: settings are an object, this is a")]
#[case::no_json(&["--settings-json", "{"], "", "--settings-json: not JSON: ")]
#[case::no_yaml(&["-s", "s"], "a: [\n", "settings: s: ")]
#[case::key_twice(&["-s", "s"], "a: 1\na: 2\n", "settings: s: ")]
#[case::two_documents(&["-s", "s"], "a: 1\n---\nb: 2\n", "s:3: settings are one document, this is a second one")]
#[case::no_file(&["-s", "gone.yml"], "", "settings: gone.yml: ")]
fn settings_that_cannot_be_read_exit_with_1(#[case] args: &[&str], #[case] file: &str, #[case] message: &str) {
    let folder = folder();
    fs::write(folder.path().join("s"), file).unwrap();
    let run = on_pod(folder.path(), &[args, &["policy.wasm"]].concat());
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.starts_with("error: ") && run.err.contains(message), "{}", run.err);
}

#[test]
fn a_settings_file_wins_over_settings_in_the_arguments() {
    let folder = folder();
    fs::write(folder.path().join("s"), "").unwrap();
    let run = on_pod(folder.path(), &["-s", "s", "--settings-json", r#"{"nope": 1}"#, "policy.wasm"]);
    assert_eq!(run.code, 0);
    assert_eq!(run.err, "warning: --settings-json is ignored: there is a --settings-path\n");
}

#[rstest]
#[case::no_request_file(&["-r", "gone.json", "policy.wasm"], "", "request: gone.json: ")]
#[case::no_json(&["-r", "-", "policy.wasm"], "hello", "request: <stdin>: not JSON: ")]
#[case::empty(&["-r", "-", "policy.wasm"], "", "request: <stdin>: not JSON: ")]
#[case::no_object(&["-r", "-", "policy.wasm"], "[]", "not an admission request: ")]
#[case::no_request(&["-r", "-", "policy.wasm"], r#"{"kind": "AdmissionReview"}"#, "invalid AdmissionReview object")]
#[case::a_pod(
    &["-r", "-", "policy.wasm"], r#"{"kind": "Pod"}"#,
    "request: not an admission request but a Pod: must be an AdmissionReview or its request"
)]
#[case::half_a_request(
    &["-r", "-", "policy.wasm"], r#"{"uid": "u"}"#,
    "cannot build AdmissionRequest object from given input: missing field `kind`"
)]
#[case::no_module(&["-r", "-", "gone.wasm"], "{}", "Cannot find policy with uri: gone.wasm: there is no such file")]
#[case::a_folder(&["-r", "-", "."], "{}", "error: .: ")]
#[case::no_wasm(&["-r", "-", "text.wasm"], "{}", "text.wasm: not a WebAssembly module: ")]
#[case::registry(
    &["-r", "-", "registry://registry.example.com/pillion:v1"], "{}",
    "nothing is pulled here; save the module to a file first: `kwctl pull --output-path policy.wasm registry://"
)]
#[case::https(&["-r", "-", "https://example.com/policy.wasm"], "{}", "kwctl pull --output-path policy.wasm https://")]
#[case::unknown_capability(
    &["-r", "-", "policy.wasm", "--allowed-host-capabilities", "moon/*"], "{}",
    "invalid host capabilities pattern \"moon/*\": unknown, known are "
)]
#[case::rego(&["-r", "-", "-e", "gatekeeper", "policy.wasm"], "{}", "--execution-mode gatekeeper: only waPC modules run here")]
#[case::key(&["-r", "-", "-k", "cosign.pub", "policy.wasm"], "{}", "--verification-key: signatures are not verified")]
#[case::identity(&["-r", "-", "--cert-email", "a@example.com", "policy.wasm"], "{}", "--cert-email: signatures are not")]
#[case::no_session(
    &["-r", "-", "--replay-host-capabilities-interactions", "gone.yml", "policy.wasm"], "{}", "gone.yml: "
)]
#[case::no_exchanges(
    &["-r", "-", "--replay-host-capabilities-interactions", "text.wasm", "policy.wasm"], "{}",
    "not a session of host capabilities: "
)]
fn what_cannot_be_done_exits_with_1_and_says_why(#[case] args: &[&str], #[case] stdin: &str, #[case] message: &str) {
    let folder = folder();
    fs::write(folder.path().join("text.wasm"), "hello: world\n").unwrap();
    let run = pillion(folder.path(), args, stdin);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{}", run.err);
    assert!(run.err.contains("error: ") && run.err.contains(message), "{}", run.err);
}

#[rstest]
#[case::no_request(&["policy.wasm"])]
#[case::no_module(&["-r", "-"])]
#[case::unknown_flag(&["-r", "-", "--nope", "policy.wasm"])]
#[case::unknown_mode(&["-r", "-", "-e", "lua", "policy.wasm"])]
#[case::record_and_replay(&[
    "-r", "-", "--record-host-capabilities-interactions", "a", "--replay-host-capabilities-interactions", "b",
    "policy.wasm",
])]
fn wrong_arguments_exit_with_2(#[case] args: &[&str]) {
    let run = pillion(folder().path(), args, "{}");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("For more information, try '--help'"), "{}", run.err);
}

#[rstest]
#[case::pulling(&["--sources-path", "s", "--docker-config-json-path", "d", "--sigstore-trust-config", "t"])]
#[case::cache(&["--disable-wasmtime-cache"])]
#[case::mode(&["-e", "kubewarden"])]
#[case::modes_other_name(&["--execution-mode", "kubewarden-wapc"])]
fn flags_that_change_nothing_here_are_taken(#[case] flags: &[&str]) {
    let run = on_pod(folder().path(), &[flags, &["policy.wasm"]].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn a_module_may_be_a_url() {
    let folder = folder();
    let url = format!("file://{}", folder.path().join("policy.wasm").display());
    assert_eq!(on_pod(folder.path(), &[&url]).code, 0);
}

#[test]
fn a_module_that_is_no_policy_gives_no_answer() {
    let folder = folder();
    fs::write(folder.path().join("empty.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let run = on_pod(folder.path(), &["empty.wasm"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.starts_with("error: ") && run.err.contains("the policy could not check them"), "{}", run.err);
}

#[rstest]
#[case::found("session-namespace-found.yml", true, true, None)]
#[case::gone("session-namespace-missing.yml", true, false, None)]
#[case::forbidden("session-namespace-forbidden.yml", false, false, Some(503))]
fn look_ups_are_replayed(
    #[case] session: &str,
    #[case] allowed: bool,
    #[case] injected: bool,
    #[case] code: Option<u16>,
) {
    let folder = folder();
    let (settings, session) = (data("settings-namespace-selector.json"), data(session));
    let args = ["-s", &settings, "--allow-context-aware", "--replay-host-capabilities-interactions", &session];
    let run = on_pod(folder.path(), &[&args, ["annotated.wasm"].as_slice()].concat());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let response = run.response();
    assert_eq!(response["allowed"], allowed);
    assert_eq!(response.get("patch").is_some(), injected);
    assert_eq!(response["status"]["code"], json!(code));
}

/// Runs the policy with settings that look up the Namespace, and with a session that has the answer.
fn replay(folder: &Path, flags: &[&str], module: &str) -> Run {
    let (settings, session) = (data("settings-namespace-selector.json"), data("session-namespace-found.yml"));
    let args = ["-s", &settings, "--replay-host-capabilities-interactions", &session, module];
    on_pod(folder, &[flags, &args].concat())
}

#[test]
fn a_policy_may_read_what_it_was_allowed_to_read() {
    let folder = folder();
    let run = replay(folder.path(), &[], "annotated.wasm");
    assert_eq!(run.response()["status"]["code"], 503);
    let warning =
        "warning: the policy may not read what it wants to read (v1/Namespace); --allow-context-aware lets it\n";
    assert!(run.err.starts_with(warning), "{}", run.err);
    assert!(run.err.contains("1 of the recorded exchanges have not been replayed"), "{}", run.err);

    let run = replay(folder.path(), &["--allow-context-aware"], "policy.wasm");
    assert_eq!(run.response()["status"]["code"], 503, "no metadata, no kinds");
    assert!(run.err.contains("warning: the module has no metadata"), "{}", run.err);

    let run = replay(folder.path(), &["--allow-context-aware", "--allowed-host-capabilities=oci/*"], "annotated.wasm");
    assert_eq!(run.response()["status"]["code"], 503, "no capability");
    let allowed = ["--allow-context-aware", "--allowed-host-capabilities=kubernetes/*"];
    assert_eq!(replay(folder.path(), &allowed, "annotated.wasm").response()["allowed"], true);

    policy::write_annotated(folder.path(), &METADATA.replace("kind: Namespace", "kind: ConfigMap"));
    let run = replay(folder.path(), &["--allow-context-aware"], "annotated.wasm");
    assert_eq!(run.response()["status"]["code"], 503, "another kind");
}

#[test]
fn without_a_cluster_there_is_nothing_to_allow() {
    let folder = folder();
    fs::write(folder.path().join("config"), "kind: Config\n").unwrap();
    let args = ["--allow-context-aware", "-r", &data("pod-create-review.json"), "annotated.wasm"];
    let run = policy::run(folder.path(), "config", &args, "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.starts_with("error: no cluster to ask: "), "{}", run.err);
}

/// Starts a cluster with one Namespace on a loopback address, and returns its kubeconfig.
fn cluster() -> String {
    use std::io::{BufRead as _, BufReader, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let answer = match head.first().map(String::as_str) {
                Some("GET /api/v1 HTTP/1.1") => {
                    let namespaces = json!({
                        "name": "namespaces", "singularName": "", "kind": "Namespace", "namespaced": false,
                        "verbs": ["get"],
                    });
                    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [namespaces]})
                }
                Some("GET /api/v1/namespaces/default HTTP/1.1") => {
                    let metadata = json!({"name": "default", "labels": {"team": "a"}});
                    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
                }
                other => panic!("{other:?}"),
            };
            let answer = answer.to_string();
            let length = answer.len();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            write!(stream, "{head}\r\nContent-Length: {length}\r\n\r\n{answer}").unwrap();
        }
    });
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    })
    .to_string()
}

#[test]
fn what_a_cluster_says_is_recorded_and_can_be_replayed() {
    let folder = folder();
    fs::write(folder.path().join("config"), cluster()).unwrap();
    let (request, settings) = (data("pod-create-review.json"), data("settings-namespace-selector.json"));
    let common = ["-r", request.as_str(), "-s", settings.as_str(), "--allow-context-aware", "annotated.wasm"];
    let recording = [&["--record-host-capabilities-interactions", "s.yml"], common.as_slice()].concat();
    let live = policy::run(folder.path(), "config", &recording, "");
    assert_eq!((live.code, live.err.as_str()), (0, ""));
    assert!(live.response()["patch"].is_string(), "{}", live.out);
    assert_eq!(
        fs::read_to_string(folder.path().join("s.yml")).unwrap(),
        r#"- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Namespace
    name: default
    namespace: null
    disable_cache: true
    field_masks: null
  response:
    type: Success
    payload: '{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"team":"a"},"name":"default"}}'
"#
    );
    let replayed = pillion(
        folder.path(),
        &[&["--replay-host-capabilities-interactions", "s.yml"], common.as_slice()].concat(),
        "",
    );
    assert_eq!(replayed.response()["auditAnnotations"], live.response()["auditAnnotations"]);
    assert_eq!(replayed.err, "");
}

#[test]
fn a_session_that_cannot_be_written_is_an_error_after_the_answer() {
    let folder = folder();
    let run = on_pod(folder.path(), &["--record-host-capabilities-interactions", "no/such/s.yml", "policy.wasm"]);
    assert_eq!((run.code, run.response()["allowed"].clone()), (1, json!(true)));
    assert!(run.err.contains("no/such/s.yml: "), "{}", run.err);
}

#[test]
fn nothing_asked_is_an_empty_session() {
    let folder = folder();
    let run = on_pod(folder.path(), &["--record-host-capabilities-interactions", "s.yml", "policy.wasm"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(fs::read_to_string(folder.path().join("s.yml")).unwrap(), "[]\n");
}

#[test]
fn warn3_a_sidecar_set_that_is_written_is_told_what_nothing_reads() {
    let request = json!({
        "uid": "u", "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "SidecarSet"},
        "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "sidecarsets"},
        "operation": "CREATE", "name": "tail", "userInfo": {"username": "dev", "groups": ["system:authenticated"]},
        "object": {
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "tail"},
            "spec": {
                "namespace": "prod", "selector": {"matchLabels": {"app": "web"}},
                "containers": [{"name": "tail", "image": "tail:1"}],
            },
        },
    });
    let run = pillion(folder().path(), &["-r", "-", "policy.wasm"], &request.to_string());
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        run.response()["warnings"][1],
        "spec.namespace: unknown field; nothing reads it; v1beta1 has no such field: without it every namespace is meant; \
         use namespaceSelector with matchLabels kubernetes.io/metadata.name"
    );
}

#[test]
fn any_json_is_a_raw_request() {
    let folder = folder();
    let raw = r#"{"uid": "r", "kind": {"version": "v1", "kind": "Node"}, "operation": "CREATE"}"#;
    let run = pillion(folder.path(), &["--raw", "-r", "-", "policy.wasm"], raw);
    assert_eq!((run.code, run.response()["uid"].clone()), (0, json!("r")), "{}", run.err);
    assert_eq!(pillion(folder.path(), &["-r", "-", "policy.wasm"], raw).code, 1, "it is no admission request");
    policy::write_annotated(folder.path(), &format!("{METADATA}policyType: raw\n"));
    let run = pillion(folder.path(), &["-r", "-", "annotated.wasm"], raw);
    assert_eq!((run.code, run.response()["uid"].clone()), (0, json!("r")), "{}", run.err);
}

#[rstest]
#[case::newer("minimumKubewardenVersion: 9.0.0", "the policy needs Kubewarden 9.0.0")]
#[case::other_mode("executionMode: wasi", "only waPC modules run here")]
fn policies_that_this_host_cannot_run_are_refused(#[case] line: &str, #[case] message: &str) {
    let folder = folder();
    policy::write_annotated(folder.path(), &format!("{METADATA}{line}\n"));
    let run = on_pod(folder.path(), &["annotated.wasm"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains(message), "{}", run.err);
}

/// Returns a ClusterAdmissionPolicy with the log agent, and with these fields in its spec.
fn policy(name: &str, spec: &Value) -> Value {
    let mut policy = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "module": "annotated.wasm", "mutating": true, "settings": data_json("settings-log-agent.json"),
            "rules": [],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    policy
}

#[test]
fn the_policies_of_a_file_get_the_same_request() {
    let folder = folder();
    let policies = [
        policy("a", &json!({})),
        policy("b", &json!({"mode": "monitor"})),
        policy("c", &json!({"settings": data_json("settings-clash.json"), "message": "ask us"})),
        policy("d", &json!({"mutating": false})),
    ];
    let documents: Vec<String> = policies.iter().map(ToString::to_string).collect();
    fs::write(folder.path().join("policies.yaml"), documents.join("\n---\n")).unwrap();
    let run = on_pod(folder.path(), &["policies.yaml"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(run.err, "warning: 4 policies, one after the other, on the same request\n");
    let responses: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(responses[0]["patch"].is_string());
    assert_eq!((&responses[1]["allowed"], responses[1].get("patch")), (&json!(true), None), "monitor");
    assert_eq!(responses[2]["status"]["message"], "ask us");
    let cause = responses[2]["status"]["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(cause.contains("sidecar \"p-strip\""), "{cause}");
    let message = responses[3]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("Request rejected by policy d. "), "{message}");
}

#[test]
fn a_policy_reads_what_its_resource_allows() {
    let folder = folder();
    let session = data("session-namespace-found.yml");
    let run = |resources: &Value| {
        let settings = data_json("settings-namespace-selector.json");
        let spec = json!({"settings": settings, "contextAwareResources": resources});
        fs::write(folder.path().join("p.yml"), policy("a", &spec).to_string()).unwrap();
        on_pod(folder.path(), &["--replay-host-capabilities-interactions", &session, "p.yml"]).response()
    };
    assert!(run(&json!([{"apiVersion": "v1", "kind": "Namespace"}]))["patch"].is_string());
    assert_eq!(run(&json!([]))["status"]["code"], 503);
}

#[rstest]
#[case::no_module("spec", json!({"settings": {}}), "p.yaml:1: spec: missing field `module`")]
#[case::misspelt("spec", json!({"module": "policy.wasm", "setings": {}}), "unknown field `setings`")]
#[case::no_spec("spec", json!(null), "p.yaml:1: spec: Required value")]
#[case::no_policy("kind", json!("Pod"), "unknown kind \"Pod\": not a Kubewarden policy")]
#[case::group("kind", json!("AdmissionPolicyGroup"), "groups of policies do not run here")]
#[case::version("apiVersion", json!("v1"), "invalid apiVersion \"v1\"")]
#[case::mode("spec", json!({"module": "policy.wasm", "mode": "watch"}), "unknown variant `watch`")]
#[case::list_settings(
    "spec", json!({"module": "policy.wasm", "settings": []}), "spec.settings: settings are an object, this is a"
)]
#[case::remote(
    "spec", json!({"module": "registry://registry.example.com/a:v1"}),
    "spec.module: registry://registry.example.com/a:v1: nothing is pulled here"
)]
#[case::reads("kind", json!("AdmissionPolicy"), "spec.contextAwareResources: Forbidden")]
fn policies_that_are_none_are_refused_with_their_place(#[case] key: &str, #[case] value: Value, #[case] message: &str) {
    let folder = folder();
    let mut policy = policy("a", &json!({"contextAwareResources": []}));
    policy[key] = value;
    fs::write(folder.path().join("p.yaml"), policy.to_string()).unwrap();
    let run = on_pod(folder.path(), &["p.yaml"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains(message), "{}", run.err);
}

#[test]
fn flags_that_a_file_of_policies_has_itself_are_ignored_or_refused() {
    let folder = folder();
    fs::write(folder.path().join("p.yaml"), policy("a", &json!({})).to_string()).unwrap();
    let run = on_pod(folder.path(), &["--settings-json", "{}", "--allow-context-aware", "p.yaml"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.response()["patch"].is_string(), "the settings are the policy's");
    assert_eq!(run.err.lines().filter(|line| line.contains("ignored")).count(), 2, "{}", run.err);
    assert_eq!(on_pod(folder.path(), &["--raw", "p.yaml"]).code, 1);
    fs::write(folder.path().join("none.yaml"), "# nothing\n").unwrap();
    assert!(on_pod(folder.path(), &["none.yaml"]).err.contains("none.yaml: no policy in it"));
}

/// A home folder that is not writable causes no message: the module is compiled again.
#[rstest]
#[case::no_folder("/proc/nowhere")]
#[case::a_file("policy.wasm")]
fn a_cache_that_cannot_be_used_stops_nothing(#[case] home: &str) {
    let folder = folder();
    let output = assert_cmd::Command::new(env!("CARGO_BIN_EXE_pillion"))
        .args(["run", "-r", &data("pod-create-review.json"), "policy.wasm"])
        .current_dir(folder.path())
        .env("HOME", folder.path().join(home))
        .env("XDG_CACHE_HOME", folder.path().join(home))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
