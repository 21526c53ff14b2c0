//! Which `caBundle`s are ours, and how they are written.

use std::collections::BTreeSet;

use rstest::rstest;
use serde_json::{Value, json};

use super::{NOW, crd, hooks};
use crate::authority::{self, Lifetimes};
use crate::bundle::{CaBundleTarget, Service, held, patch, places};
use crate::names::ServerNames;
use crate::pem;
use crate::x509::Id;

fn found(target: &CaBundleTarget, object: &Value) -> usize {
    let service = Service { name: "pillion".to_owned(), namespace: "sys".to_owned() };
    let names = ServerNames::of_service("pillion", "sys").unwrap().and("localhost").unwrap().and("::1").unwrap();
    places(target, object, &service, &names).len()
}

fn hook(config: &Value) -> Value {
    json!({"webhooks": [{"name": "a", "clientConfig": config}]})
}

#[rstest]
#[case::ours(json!({"service": {"name": "pillion", "namespace": "sys", "port": 8443}}), 1)]
#[case::another_service(json!({"service": {"name": "x", "namespace": "sys"}}), 0)]
#[case::another_namespace(json!({"service": {"name": "pillion", "namespace": "x"}}), 0)]
#[case::a_url(json!({"url": "https://localhost:8443/mutate"}), 1)]
#[case::a_url_without_a_port(json!({"url": "https://LOCALHOST/mutate"}), 1)]
#[case::a_url_with_an_address(json!({"url": "https://[::1]:8443/mutate"}), 1)]
#[case::another_url(json!({"url": "https://example.com/localhost"}), 0)]
#[case::a_url_without_tls(json!({"url": "http://localhost/mutate"}), 0)]
#[case::nothing(json!({}), 0)]
#[case::nonsense(json!(7), 0)]
fn a_webhook_is_ours_where_it_calls_us(#[case] config: Value, #[case] expected: usize) {
    assert_eq!(found(&CaBundleTarget::Mutating("m".to_owned()), &hook(&config)), expected);
    assert_eq!(found(&CaBundleTarget::Validating("m".to_owned()), &hook(&config)), expected);
}

#[rstest]
#[case::a_webhook(crd(), 1)]
#[case::none(json!({"spec": {"conversion": {"strategy": "None"}}}), 0)]
#[case::nothing(json!({"spec": {}}), 0)]
fn a_resource_is_ours_where_we_convert_it(#[case] crd: Value, #[case] expected: usize) {
    assert_eq!(found(&CaBundleTarget::Conversion("c".to_owned()), &crd), expected);
}

#[test]
fn only_what_differs_is_patched_and_only_in_the_version_that_was_read() {
    let service = Service { name: "pillion".to_owned(), namespace: "sys".to_owned() };
    let target = CaBundleTarget::Mutating("pillion".to_owned());
    let mut object = hooks();
    object["metadata"]["resourceVersion"] = json!("7");
    let found = |object: &Value| places(&target, object, &service, &ServerNames::default());
    let expected = json!([
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "UEVN"},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "UEVN"},
    ]);
    assert_eq!(patch(&object, &found(&object), "PEM"), Some(expected));
    object["webhooks"][0]["clientConfig"]["caBundle"] = json!("UEVN");
    // kubectl and GitOps tools write this for an empty bundle.
    object["webhooks"][2]["clientConfig"]["caBundle"] = json!("Cg==");
    let patched = patch(&object, &found(&object), "PEM").unwrap();
    assert_eq!(patched.pointer("/1/path"), Some(&json!("/webhooks/2/clientConfig/caBundle")));
    assert_eq!(patched.as_array().unwrap().len(), 2);
    object["webhooks"][2]["clientConfig"]["caBundle"] = json!("UEVN");
    assert_eq!(patch(&object, &found(&object), "PEM"), None);
    assert_eq!(patch(&object, &[], "PEM"), None);
}

#[test]
fn an_authority_is_everywhere_only_where_each_webhook_has_it() {
    let life = Lifetimes::default();
    let [one, two] = [(); 2].map(|()| authority::create(NOW, &life).unwrap().certificate);
    let service = Service { name: "pillion".to_owned(), namespace: "sys".to_owned() };
    let config = |bundle: &str| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(bundle);
        json!({"clientConfig": {"service": {"name": "pillion", "namespace": "sys"}, "caBundle": text}})
    };
    let both = config(&pem::shown([&one, &two]));
    let held = |webhooks: &[&Value]| {
        let object = json!({"webhooks": webhooks});
        held(&places(&CaBundleTarget::Validating("v".to_owned()), &object, &service, &ServerNames::default()))
    };
    let ids = |certificates: &[_]| Some(certificates.iter().map(Id::from_certificate).collect::<BTreeSet<_>>());
    assert_eq!(held(&[]), None);
    assert_eq!(held(&[&both, &both]), ids(&[one.clone(), two.clone()]));
    assert_eq!(held(&[&both, &config(&pem::shown([&two]))]), ids(&[two]));
    assert_eq!(held(&[&both, &config("junk")]), ids(&[]));
}
