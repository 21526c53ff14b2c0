use rstest::rstest;

use super::*;

const FULL: &str = r#"
rules:
  - apiGroups: [""]
    apiVersions: ["v1"]
    resources: ["pods"]
    operations: ["CREATE", "UPDATE"]
mutating: true
backgroundAudit: false
contextAwareResources:
  - {apiVersion: v1, kind: Namespace}
  - {apiVersion: apps/v1, kind: Deployment}
hostCapabilities: [kubernetes/get_resource]
minimumKubewardenVersion: 1.35.0
annotations: {io.kubewarden.policy.title: a}
"#;

fn metadata(yaml: &str) -> Metadata {
    let (mut metadata, unknown) = Metadata::from_yaml(yaml).unwrap();
    assert_eq!(unknown, Vec::<String>::new());
    metadata.protocol_version = Some("v1".to_owned());
    metadata
}

fn rule(fields: &str) -> String {
    let field =
        |name: &str, value: &str| if fields.contains(name) { String::new() } else { format!("{name}: {value}, ") };
    format!(
        "rules: [{{{}{}{}{}{fields}}}]\nmutating: false",
        field("apiGroups", "['']"),
        field("apiVersions", "[v1]"),
        field("resources", "[pods]"),
        field("operations", "[CREATE]")
    )
}

#[test]
fn the_section_has_the_fields_and_the_order_of_kwctl() {
    let mut metadata = metadata(FULL);
    metadata.set_usage("read me");
    metadata.validate().unwrap();
    let module = metadata.write_into(b"\0asm\x01\0\0\0").unwrap();
    let section = wasm::custom_section(&module, SECTION).unwrap().unwrap();
    assert_eq!(
        std::str::from_utf8(section).unwrap(),
        r#"{"protocolVersion":"v1","rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE","UPDATE"]}],"annotations":{"io.kubewarden.policy.title":"a","io.kubewarden.policy.usage":"read me"},"mutating":true,"backgroundAudit":false,"executionMode":"kubewarden-wapc","policyType":"kubernetes","contextAwareResources":[{"apiVersion":"apps/v1","kind":"Deployment"},{"apiVersion":"v1","kind":"Namespace"}],"hostCapabilities":["kubernetes/get_resource"],"minimumKubewardenVersion":"1.35.0"}"#
    );
    assert_eq!(Metadata::of_module(&module).unwrap(), Some(metadata));
}

#[test]
fn a_module_without_the_section_has_none_and_a_broken_one_is_an_error() {
    assert_eq!(Metadata::of_module(b"\0asm\x01\0\0\0").unwrap(), None);
    let broken = wasm::with_custom_section(b"\0asm\x01\0\0\0", SECTION, b"{").unwrap();
    let message = Metadata::of_module(&broken).unwrap_err().to_string();
    assert!(message.starts_with("the module's section \"io.kubewarden.metadata\" is broken: "), "{message}");
}

#[test]
fn keys_that_nobody_knows_are_named() {
    let (_, unknown) = Metadata::from_yaml("rules: []\nmutating: true\ncontextAwareResource: []\n").unwrap();
    assert_eq!(unknown, ["contextAwareResource"]);
}

#[rstest]
#[case::no_rules("mutating: true", "rules")]
#[case::no_mutating("rules: []", "mutating")]
#[case::unknown_operation(
    "rules: [{apiGroups: [a], apiVersions: [v1], resources: [b], operations: [CRAETE]}]\nmutating: true",
    "CRAETE"
)]
#[case::broken_yaml("rules: [", "1")]
#[case::null_rules("rules: null\nmutating: true", "rules: must not be null")]
#[case::null_resources("rules: []\nmutating: true\ncontextAwareResources:", "contextAwareResources: must not be null")]
#[case::yes("rules: []\nmutating: yes", "mutating")]
fn what_is_no_metadata_is_refused_with_its_place(#[case] yaml: &str, #[case] named: &str) {
    let message = Metadata::from_yaml(yaml).unwrap_err().to_string();
    assert!(message.contains(named), "{message}");
}

#[rstest]
#[case::empty_groups("apiGroups: []", &["rules[0].apiGroups: Required value"])]
#[case::star_and_more(
    "apiVersions: ['*', v1]",
    &["rules[0].apiVersions: Invalid value: \"*\" stands alone; remove it or everything else"]
)]
#[case::star_operation(
    "operations: ['*', CREATE]",
    &["rules[0].operations: Invalid value: \"*\" stands alone; remove it or everything else"]
)]
#[case::no_operation("operations: []", &["rules[0].operations: Required value"])]
#[case::no_resource("resources: []", &["rules[0].resources: Required value"])]
#[case::empty_resource("resources: ['']", &["rules[0].resources[0]: Required value"])]
#[case::all_and_one(
    "resources: ['*', pods]",
    &["rules[0].resources[1]: Invalid value: \"pods\": \"*\" covers it; remove one of them"]
)]
#[case::everything_and_one(
    "resources: ['*/*', pods]",
    &["rules[0].resources[1]: Invalid value: \"pods\": \"*/*\" covers it; remove one of them"]
)]
#[case::all_parts_and_one(
    "resources: [pods/*, pods/status]",
    &["rules[0].resources[1]: Invalid value: \"pods/status\": \"pods/*\" covers it; remove one of them"]
)]
#[case::part_of_all_and_one(
    "resources: ['*/status', pods/status]",
    &["rules[0].resources[1]: Invalid value: \"pods/status\": \"*/status\" covers it; remove one of them"]
)]
#[case::everything_after_one(
    "resources: [pods, '*/*']",
    &["rules[0].resources[0]: Invalid value: \"pods\": \"*/*\" covers it; remove one of them"]
)]
#[case::the_same_parts(
    "resources: [pods/*, pods/*]",
    &["rules[0].resources[1]: Invalid value: \"pods/*\": \"pods/*\" covers it; remove one of them"]
)]
#[case::all_parts_after_one("resources: [pods/status, pods/*]", &[])]
#[case::all_and_a_part("resources: ['*', pods/status]", &[])]
#[case::several_at_once(
    "apiGroups: [], operations: []",
    &["rules[0].apiGroups: Required value", "rules[0].operations: Required value"]
)]
fn rules_are_checked_as_kubewarden_checks_them(#[case] fields: &str, #[case] expected: &[&str]) {
    assert_eq!(validate::problems(&metadata(&rule(fields))), expected);
}

#[test]
fn a_policy_speaks_version_1() {
    let mut policy = metadata(FULL);
    policy.protocol_version = None;
    assert_eq!(
        policy.validate().unwrap_err().to_string(),
        "protocolVersion: Required value: the module does not say which one it speaks"
    );
    policy.protocol_version = Some("v2".to_owned());
    assert_eq!(
        policy.validate().unwrap_err().to_string(),
        "protocolVersion: Unsupported value: \"v2\": a policy speaks \"v1\""
    );
}

#[rstest]
#[case("1.35.0", Some((1, 35)))]
#[case("1.36.0-beta.1", Some((1, 36)))]
#[case("1.36.0-beta.1+build.01", Some((1, 36)))]
#[case("1.36.0+build-a", Some((1, 36)))]
#[case("1.36.0-0.a-b", Some((1, 36)))]
#[case("1.36.0-01", None)]
#[case("1.36.0-a..b", None)]
#[case("1.36.0+", None)]
#[case("1.36.0+a+b", None)]
#[case("1.35", None)]
#[case("1.35.0.1", None)]
#[case("v1.35.0", None)]
#[case("1.035.0", None)]
#[case("1.35.0-", None)]
#[case("1.35.0-ä", None)]
#[case("", None)]
fn versions_are_semantic(#[case] text: &str, #[case] expected: Option<(u64, u64)>) {
    assert_eq!(validate::minor_version(text), expected);
    let yaml = format!("rules: []\nmutating: true\nminimumKubewardenVersion: '{text}'");
    assert_eq!(validate::problems(&metadata(&yaml)).is_empty(), expected.is_some());
}

#[rstest]
#[case::the_same("minimumKubewardenVersion: 1.36.9", None)]
#[case::older("minimumKubewardenVersion: 1.9.0", None)]
#[case::newer(
    "minimumKubewardenVersion: 1.37.0",
    Some("minimumKubewardenVersion: the policy needs Kubewarden 1.37.0, this host is like 1.36")
)]
#[case::other_mode(
    "executionMode: gatekeeper",
    Some("executionMode: Unsupported value: \"gatekeeper\": only waPC modules run here, use kwctl for the others")
)]
fn what_this_host_cannot_run_is_refused(#[case] line: &str, #[case] expected: Option<&str>) {
    let policy = metadata(&format!("rules: []\nmutating: true\n{line}"));
    assert_eq!(policy.has_known_mode().is_err(), line.starts_with("executionMode"));
    assert_eq!(policy.runs_here().err().map(|error| error.to_string()).as_deref(), expected);
}

#[test]
fn capabilities_are_guessed_from_the_texts_of_the_module() {
    let data = b"kubernetes..get_resource..oci..v1/oci_manifest_config";
    let mut module = b"\0asm\x01\0\0\0\x0b".to_vec();
    module.push(u8::try_from(data.len()).unwrap());
    module.extend_from_slice(data);
    let mut policy = metadata(FULL);
    let of = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect());
    policy.host_capabilities = of(&["kubernetes/get_resource", "oci/v1/oci_manifest_config"]);
    assert_eq!(policy.capability_mismatch(&module).unwrap(), CapabilityMismatch::default());
    policy.host_capabilities = of(&["kubernetes/can_i", "oci/v1/oci_manifest_config"]);
    let expected = CapabilityMismatch {
        undeclared: vec!["kubernetes/get_resource".to_owned()],
        unused: vec!["kubernetes/can_i".to_owned()],
    };
    assert_eq!(policy.capability_mismatch(&module).unwrap(), expected);
}
