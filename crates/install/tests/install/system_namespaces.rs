//! The system namespaces are one list, wherever they are written down (SET-6): in the code, in what is rendered, in the
//! chart, in the forms and in the documents. A namespace whose Pods no policy sees has to be a protected one.

use std::collections::BTreeSet;

use pillion_identity::rules::{Rules, SYSTEM_NAMESPACES};
use pillion_install::rendering::answers::Part;
use pillion_samples::repository::text;
use rstest::rstest;
use serde_json::{Value, json};

use crate::kustomize::content as kustomize;
use crate::support::objects;

fn listed(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn yaml(path: &str) -> Value {
    objects(path, &text(path)).remove(0)
}

#[test]
fn set6_they_are_the_default_of_the_setting() {
    assert_eq!(Rules::default().protected_namespaces, SYSTEM_NAMESPACES);
}

/// The lists that the chart's templates read.
#[rstest]
#[case::that_are_protected("protectedNamespaces")]
#[case::without_injection("systemNamespaces")]
fn set6_the_chart_has_them(#[case] key: &str) {
    assert_eq!(listed(&yaml("charts/pillion/files/settings.yaml")[key]), SYSTEM_NAMESPACES);
    let settings = text("charts/pillion/templates/_settings.tpl");
    let templates = [&settings, &text("charts/pillion/templates/_controller.tpl")];
    assert!(templates.iter().any(|template| template.contains(&format!(".{key}"))), "no template reads {key}");
    // A name in the template would be a second list. The word "kubewarden" is also that of values.
    let names = SYSTEM_NAMESPACES.iter().filter(|name| name.contains('-'));
    assert_eq!(names.filter(|name| settings.contains(**name)).count(), 0, "{settings}");
}

/// Returns what selects the requests of each policy and webhook for Pods: its name and `namespaceSelector`.
fn selectors(object: &Value) -> Vec<(String, &Value)> {
    let is_about_pods = |name: &str| {
        Part::ALL
            .iter()
            .filter(|part| part.is_about_pods())
            .any(|part| name == format!("pillion-{}", part.name()) || name == format!("{}.pillion.dev", part.name()))
    };
    let webhooks = object["webhooks"].as_array().into_iter().flatten();
    let webhooks = webhooks.map(|webhook| (webhook["name"].as_str().unwrap(), &webhook["namespaceSelector"]));
    let policy = (object["metadata"]["name"].as_str().unwrap_or_default(), &object["spec"]["namespaceSelector"]);
    let all = webhooks.chain((object["kind"] == "ClusterAdmissionPolicy").then_some(policy));
    all.filter(|(name, _)| is_about_pods(name)).map(|(name, selector)| (name.to_owned(), selector)).collect()
}

/// Every policy and webhook for Pods in the repository leaves out exactly these, since the namespace of the installation
/// is among them; the component for cert-manager also leaves out that of cert-manager.
#[test]
fn set6_the_rendered_policies_for_pods_leave_them_out() {
    let wanted: BTreeSet<&str> = SYSTEM_NAMESPACES.into();
    let mut seen = BTreeSet::new();
    let deploy =
        ["deploy/policy-pods.yaml", "deploy/policy-assert.yaml", "examples/kubewarden/policies/policy-pods.yaml"];
    let mut rendered: Vec<(String, Value)> = deploy.map(|path| (path.to_owned(), yaml(path))).into();
    for build in kustomize::builds() {
        let name = build.name();
        rendered.extend(build.objects.into_iter().map(|object| (name.clone(), object)));
    }
    for (place, object) in &rendered {
        for (name, selector) in selectors(object) {
            let expression = &selector["matchExpressions"][0];
            let of = json!({"key": expression["key"], "operator": expression["operator"]});
            assert_eq!(of, json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn"}), "{place}: {name}");
            let mut values: BTreeSet<&str> = listed(&expression["values"]).into_iter().collect();
            assert!(!values.remove("cert-manager") || place.contains("cert-manager"), "{place}: {name}");
            assert_eq!(values, wanted, "{place}: {name}");
            seen.insert(name);
        }
    }
    let names = ["assert.pillion.dev", "pillion-assert", "pillion-pods", "pods.pillion.dev"];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), names);
}

#[rstest]
#[case::of_the_policy("questions-ui.yml")]
#[case::of_the_twin("artifacts/assert/questions-ui.yml")]
#[case::of_the_guards("artifacts/guards/questions-ui.yml")]
fn set6_the_forms_have_them(#[case] form: &str) {
    let form = yaml(form);
    let questions = form["questions"].as_array().unwrap();
    let question = questions.iter().find(|it| it["variable"] == "serviceAccounts.protectedNamespaces").unwrap();
    assert_eq!(listed(&question["default"]), SYSTEM_NAMESPACES);
}

#[test]
fn set6_the_documents_name_them() {
    assert!(text("docs/settings.md").contains(&json!(SYSTEM_NAMESPACES).to_string()));
    for path in ["docs/spec/policy.md", "docs/deploying.md"] {
        let text = text(path);
        for name in SYSTEM_NAMESPACES {
            assert!(text.contains(&format!("`{name}`")), "{path}: {name}");
        }
    }
}

/// The SidecarSet of `deploy` names an account, and says that it matches none of them.
#[test]
fn set6_the_settings_of_deploy_exclude_them() {
    let settings = yaml("deploy/settings/settings.yaml");
    let expressions = settings.pointer("/sidecarSets/0/spec/namespaceSelector/matchExpressions").unwrap();
    let names = expressions.as_array().unwrap().iter().find(|it| it["operator"] == "NotIn").unwrap();
    assert_eq!(listed(&names["values"]), SYSTEM_NAMESPACES);
}
