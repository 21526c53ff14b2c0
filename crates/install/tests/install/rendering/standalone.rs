//! Pillion's own server.

use std::collections::BTreeSet;

use pillion_install::rendering::answers::Part;
use pillion_install::rendering::answers::running::Listed;
use rstest::rstest;
use serde_json::{Value, json};

use super::{
    RULE, Rendered, combinations, everything, excluded, for_kubewarden, granted, identities, metadata, object, plain,
    rendered_from, standalone, titles,
};

fn webhooks(settings: &Value, flags: &[&str]) -> Vec<(String, Value)> {
    let rendered = standalone(settings, flags);
    let configurations = rendered.documents.iter().filter(|it| it.object["webhooks"].is_array());
    configurations
        .flat_map(|it| {
            let kind = it.object["kind"].as_str().unwrap().to_owned();
            it.object["webhooks"].as_array().unwrap().iter().map(move |webhook| (kind.clone(), webhook.clone()))
        })
        .collect()
}

#[test]
fn objects_are_in_the_order_in_which_they_are_applied() {
    insta::assert_snapshot!(titles(&standalone(&identities(), &[])).join("\n"), @r"
    Namespace pillion-system
    ServiceAccount pillion-system/pillion
    ClusterRole pillion
    ClusterRoleBinding pillion
    Role kruise-system/pillion
    RoleBinding kruise-system/pillion
    ClusterRole pillion-certificates
    ClusterRoleBinding pillion-certificates
    Role pillion-system/pillion-certificates
    RoleBinding pillion-system/pillion-certificates
    ClusterRole pillion-sidecarsets-view
    ConfigMap pillion-system/pillion-settings
    Service pillion-system/pillion
    Deployment pillion-system/pillion
    PodDisruptionBudget pillion-system/pillion
    NetworkPolicy pillion-system/pillion
    CustomResourceDefinition sidecarsets.apps.kruise.io
    MutatingWebhookConfiguration pillion
    ValidatingWebhookConfiguration pillion
    ");
}

#[test]
fn a_whole_rendering() {
    let rendered = standalone(&identities(), &["--no-crd"]);
    insta::assert_snapshot!(pillion_install::rendering::document::to_yaml(&rendered.documents).unwrap());
}

#[test]
fn certificates_of_cert_manager() {
    let rendered = standalone(&plain(), &["--certificates", "cert-manager", "--no-crd"]);
    let certificates = rendered.documents.iter().filter(|it| it.file == "04-certificates");
    insta::assert_snapshot!(pillion_install::rendering::document::to_yaml(certificates).unwrap());
    let webhooks = object(&rendered, "MutatingWebhookConfiguration pillion");
    assert_eq!(
        webhooks["metadata"]["annotations"],
        json!({"cert-manager.io/inject-ca-from": "pillion-system/pillion"})
    );
}

/// The webhooks cover every request that the module handles, each with the right path, and no other request.
#[test]
fn webhooks_have_the_rules_of_the_metadata() {
    let webhooks = webhooks(&everything(), &[]);
    let asked: BTreeSet<_> = webhooks.iter().flat_map(|(_, it)| combinations(&it["rules"], &RULE)).collect();
    assert_eq!(asked, combinations(&metadata()["rules"], &RULE));
    let paths: Vec<_> = webhooks
        .iter()
        .map(|(kind, it)| {
            format!("{} {} {}", kind, it["name"].as_str().unwrap(), it["clientConfig"]["service"]["path"])
        })
        .collect();
    insta::assert_snapshot!(paths.join("\n"), @r#"
    MutatingWebhookConfiguration pods.pillion.dev "/mutate"
    MutatingWebhookConfiguration sidecarsets.pillion.dev "/mutate"
    MutatingWebhookConfiguration token-secrets.pillion.dev "/mutate"
    ValidatingWebhookConfiguration assert.pillion.dev "/assert"
    ValidatingWebhookConfiguration guards.pillion.dev "/validate"
    ValidatingWebhookConfiguration exec.pillion.dev "/validate"
    ValidatingWebhookConfiguration images.pillion.dev "/validate"
    ValidatingWebhookConfiguration token-requests.pillion.dev "/validate"
    ValidatingWebhookConfiguration shoots.pillion.dev "/validate"
    "#);
}

/// The server's webhooks have the same conditions as Kubewarden's policies.
#[test]
fn conditions_are_those_of_the_policies() {
    let settings = everything();
    let policies = for_kubewarden(&settings, &[]);
    for (_, webhook) in webhooks(&settings, &[]) {
        let part = webhook["name"].as_str().unwrap().strip_suffix(".pillion.dev").unwrap();
        let policy = &object(&policies, &format!("ClusterAdmissionPolicy pillion-{part}"))["spec"];
        for field in ["rules", "matchConditions", "failurePolicy", "timeoutSeconds"] {
            assert_eq!(webhook[field], policy[field], "{part}: {field}");
        }
    }
}

#[test]
fn the_cluster_starts_without_the_server() {
    for (_, webhook) in webhooks(&everything(), &["--namespace", "p", "--exclude-namespaces", "cert-manager"]) {
        let namespaces = &webhook["namespaceSelector"]["matchExpressions"][0];
        let left_out = match webhook["name"].as_str().unwrap() {
            "pods.pillion.dev"
            | "assert.pillion.dev"
            | "exec.pillion.dev"
            | "images.pillion.dev"
            | "token-requests.pillion.dev" => excluded(&["cert-manager", "p"]),
            "guards.pillion.dev" => json!(["p"]),
            _ => Value::Null,
        };
        assert_eq!(namespaces["values"], left_out, "{webhook}");
        assert!(left_out.is_null() || namespaces["operator"] == "NotIn");
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["matchPolicy"], "Equivalent");
    }
}

/// Both ways, people may be allowed to read SidecarSets, and nobody is allowed to write them.
#[rstest]
#[case::standalone(standalone(&plain(), &[]))]
#[case::kubewarden(for_kubewarden(&plain(), &[]))]
fn view_includes_reading_sidecar_sets(#[case] rendered: Rendered) {
    let role = object(&rendered, "ClusterRole pillion-sidecarsets-view");
    assert_eq!(role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"], "true");
    assert_eq!(
        role["rules"],
        json!([{"apiGroups": ["apps.kruise.io"], "resources": ["sidecarsets"], "verbs": ["get", "list", "watch"]}])
    );
    let binds = |role: &str| rendered.documents.iter().any(|it| it.object["roleRef"]["name"] == role);
    assert!(!binds("pillion-sidecarsets-view"), "the cluster's administrators say who reads all SidecarSets");
}

/// The server may read what the look-ups need, and change its own objects.
#[rstest]
#[case::self_signed(&[], true)]
#[case::cert_manager(&["--certificates", "cert-manager"], false)]
#[case::files(&["--certificates", "files"], false)]
fn rights_are_for_look_ups_and_for_what_is_its_own(#[case] flags: &[&str], #[case] keeps_certificates: bool) {
    let reads = |verb: &str| verb == "list" || verb == "watch";
    let rendered = standalone(&identities(), flags);
    let mut looks: BTreeSet<Vec<String>> = granted(&rendered);
    looks.retain(|grant| !reads(&grant[2]));
    let policies = granted(&for_kubewarden(&identities(), &[]));
    let own: Vec<String> = looks.difference(&policies).map(|grant| grant.join(" ")).collect();
    let wanted: &[&str] = if keeps_certificates {
        &[
            " secrets create",
            " secrets get",
            " secrets update",
            "admissionregistration.k8s.io mutatingwebhookconfigurations get",
            "admissionregistration.k8s.io mutatingwebhookconfigurations patch",
            "admissionregistration.k8s.io validatingwebhookconfigurations get",
            "admissionregistration.k8s.io validatingwebhookconfigurations patch",
            "apiextensions.k8s.io customresourcedefinitions get",
            "apiextensions.k8s.io customresourcedefinitions patch",
        ]
    } else {
        &[]
    };
    assert_eq!(own, wanted);
    assert!(policies.is_subset(&looks));
    // The server watches the kinds that most Pods need.
    let watched: BTreeSet<String> =
        granted(&rendered).into_iter().filter(|grant| reads(&grant[2])).map(|grant| grant[1].clone()).collect();
    assert_eq!(watched, BTreeSet::from(["namespaces", "serviceaccounts"].map(str::to_owned)));
    // Permissions to change are limited to names. Only permissions to create are not.
    for document in rendered.documents.iter().filter(|it| it.object["rules"].is_array()) {
        for rule in document.object["rules"].as_array().unwrap() {
            let verbs = rule["verbs"].to_string();
            assert!(
                !verbs.contains("update") && !verbs.contains("patch") || rule["resourceNames"].is_array(),
                "{rule}"
            );
        }
    }
}

/// The server's flags: what it watches, and where it writes its CA.
#[rstest]
#[case::nothing_is_read(plain(), &[], &[
    "--cache-max-staleness=0s", "--certificates=self-signed", "--tls-secret=pillion-serve-tls",
    "--mutating-webhook-configuration=pillion", "--custom-resource-definition=sidecarsets.apps.kruise.io",
])]
#[case::identities(identities(), &["--no-crd", "--tls-secret", "own"], &[
    "--cache-watch=v1/Namespace,v1/ServiceAccount", "--certificates=self-signed", "--tls-secret=own",
    "--mutating-webhook-configuration=pillion", "--validating-webhook-configuration=pillion",
])]
#[case::files(plain(), &["--certificates", "files"], &[
    "--cache-max-staleness=0s", "--certificates=files", "--tls-cert-file=/etc/pillion-tls/tls.crt",
    "--tls-key-file=/etc/pillion-tls/tls.key",
])]
fn the_server_is_told_what_concerns_it(#[case] settings: Value, #[case] flags: &[&str], #[case] wanted: &[&str]) {
    let rendered = standalone(&settings, flags);
    let container =
        &object(&rendered, "Deployment pillion-system/pillion")["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    let always = [
        "serve",
        "--settings=/etc/pillion/settings.yaml",
        "--listen=0.0.0.0:8443",
        "--health-listen=0.0.0.0:8080",
        "--namespace=pillion-system",
        "--service-name=pillion",
    ];
    assert_eq!(arguments, [&always[..], wanted].concat());
    // The server may list what it watches.
    let watches = |resource: &str| granted(&rendered).contains(["", resource, "watch"].map(str::to_owned).as_slice());
    let is_watched = |kind: &str| arguments.iter().any(|it| it.starts_with("--cache-watch=") && it.contains(kind));
    assert_eq!(watches("namespaces"), is_watched("v1/Namespace"));
    assert_eq!(watches("serviceaccounts"), is_watched("v1/ServiceAccount"));
}

/// The Pod satisfies the Pod Security level `restricted`, which the namespace enforces.
#[test]
fn the_server_is_restricted() {
    let rendered = standalone(&plain(), &[]);
    let pod = &object(&rendered, "Deployment pillion-system/pillion")["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"], json!({"type": "RuntimeDefault"}));
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux"}));
    let namespace = object(&rendered, "Namespace pillion-system");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
}

/// Such a control plane reaches the nodes, and not the Pods.
#[test]
fn a_server_in_the_network_of_its_nodes() {
    let flags = ["--host-network", "--port=9443", "--health-port=9080"];
    let rendered = standalone(&plain(), &flags);
    let spec = &object(&rendered, "Deployment pillion-system/pillion")["spec"];
    // A second server on the same node would wait for the ports for ever.
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxSurge": 0, "maxUnavailable": 1}));
    let pod = &spec["template"]["spec"];
    assert_eq!((&pod["hostNetwork"], &pod["dnsPolicy"]), (&json!(true), &json!("ClusterFirstWithHostNet")));
    let ports = json!([
        {"name": "https", "containerPort": 9443, "protocol": "TCP"},
        {"name": "health", "containerPort": 9080, "protocol": "TCP"},
    ]);
    assert_eq!(pod["containers"][0]["ports"], ports);
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    for argument in ["--listen=0.0.0.0:9443", "--health-listen=0.0.0.0:9080"] {
        assert!(arguments.contains(&json!(argument)), "{arguments:?}");
    }
    let namespace = object(&rendered, "Namespace pillion-system");
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "privileged");
    assert!(!titles(&rendered).iter().any(|title| title.starts_with("NetworkPolicy")));
    assert!(rendered.notes.iter().any(|note| note.contains("metrics are open on port 9080")), "{:?}", rendered.notes);
    // The API server and Prometheus call the Service, which stays the same.
    let service = object(&rendered, "Service pillion-system/pillion");
    assert_eq!(service, object(&standalone(&plain(), &[]), "Service pillion-system/pillion"));
}

#[test]
fn the_time_limit_of_calls_and_the_nodes_are_options() {
    let rendered = standalone(&identities(), &["--webhook-timeout=25", "--node-selector=pool=system,zone=a"]);
    for kind in ["Mutating", "Validating"] {
        let configuration = object(&rendered, &format!("{kind}WebhookConfiguration pillion"));
        let webhooks = configuration["webhooks"].as_array().unwrap();
        assert!(webhooks.iter().all(|webhook| webhook["timeoutSeconds"] == 25), "{webhooks:?}");
    }
    let pod = &object(&rendered, "Deployment pillion-system/pillion")["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({"kubernetes.io/os": "linux", "pool": "system", "zone": "a"}));
}

#[test]
fn two_ports_are_two_numbers() {
    let options = super::options::<pillion_install::rendering::options::Standalone>(&["--port=8080"]);
    let error = pillion_install::rendering::standalone::render(&plain(), &options).unwrap_err();
    assert_eq!(error.to_string(), "--port and --health-port are both 8080: give them different ports");
}

#[rstest]
#[case::self_signed(&[], json!({"admissions.enforcer/disabled": "true", "team": "a"}))]
#[case::beside_that_of_cert_manager(
    &["--certificates=cert-manager"],
    json!({
        "admissions.enforcer/disabled": "true", "team": "a",
        "cert-manager.io/inject-ca-from": "pillion-system/pillion",
    })
)]
fn webhook_configurations_have_annotations_of_their_own(#[case] flags: &[&str], #[case] expected: Value) {
    let annotations = ["--webhook-annotations", "admissions.enforcer/disabled=true,team=a"];
    let rendered = standalone(&identities(), &[flags, &annotations].concat());
    for kind in ["Mutating", "Validating"] {
        let object = object(&rendered, &format!("{kind}WebhookConfiguration pillion"));
        assert_eq!(object["metadata"]["annotations"], expected);
    }
    let definition = object(&rendered, "CustomResourceDefinition sidecarsets.apps.kruise.io");
    assert_eq!(definition["metadata"]["annotations"].get("team"), None);
}

/// Every selector matches the server's Pods, and every referenced object exists.
#[test]
fn the_parts_find_each_other() {
    let rendered = standalone(&plain(), &["--name", "injector", "--namespace", "ns"]);
    let deployment = object(&rendered, "Deployment ns/injector");
    let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
    let selectors = [
        &deployment["spec"]["selector"]["matchLabels"],
        &object(&rendered, "Service ns/injector")["spec"]["selector"],
        &object(&rendered, "PodDisruptionBudget ns/injector")["spec"]["selector"]["matchLabels"],
        &object(&rendered, "NetworkPolicy ns/injector")["spec"]["podSelector"]["matchLabels"],
    ];
    for selector in selectors {
        assert!(selector.as_object().unwrap().iter().all(|(key, value)| labels.get(key) == Some(value)), "{selector}");
        // An upgrade changes the version label, and a selector is immutable.
        assert!(selector.get("app.kubernetes.io/version").is_none());
    }
    let pod = &deployment["spec"]["template"]["spec"];
    let named = |value: &Value| value.as_str().unwrap().to_owned();
    object(&rendered, &format!("ServiceAccount ns/{}", named(&pod["serviceAccountName"])));
    object(&rendered, &format!("ConfigMap ns/{}", named(&pod["volumes"][0]["configMap"]["name"])));
    let ports: Vec<String> =
        pod["containers"][0]["ports"].as_array().unwrap().iter().map(|port| named(&port["name"])).collect();
    for port in object(&rendered, "Service ns/injector")["spec"]["ports"].as_array().unwrap() {
        assert!(ports.contains(&named(&port["targetPort"])), "{port}");
    }
    for (_, webhook) in webhooks(&plain(), &["--name", "injector", "--namespace", "ns"]) {
        let service = &webhook["clientConfig"]["service"];
        assert_eq!((&service["name"], &service["namespace"]), (&json!("injector"), &json!("ns")));
    }
}

#[test]
fn the_server_has_the_settings_without_a_role() {
    let mut settings = identities();
    settings["role"] = json!("Inject");
    let rendered = standalone(&settings, &[]);
    let text =
        object(&rendered, "ConfigMap pillion-system/pillion-settings")["data"]["settings.yaml"].as_str().unwrap();
    assert_eq!(super::objects("settings.yaml", text), [rendered_from(identities())]);
}

#[rstest]
#[case::one_server(&["--replicas", "1"], "PodDisruptionBudget")]
#[case::a_namespace_that_is_there(&["--no-namespace"], "Namespace ")]
#[case::a_definition_that_is_there(&["--no-crd"], "CustomResourceDefinition")]
#[case::no_network_policy(&["--no-network-policy"], "NetworkPolicy")]
#[case::no_system_namespace(&["--no-system-role"], "Role kruise-system")]
#[case::no_guards(&["--without", "guards,assert"], "ValidatingWebhookConfiguration")]
fn what_is_not_wanted_is_left_out(#[case] flags: &[&str], #[case] title: &str) {
    let has = |flags: &[&str]| titles(&standalone(&identities(), flags)).iter().any(|it| it.starts_with(title));
    assert!(has(&[]) && !has(flags));
}

#[test]
fn a_certificate_from_files_is_mounted_and_trusted() {
    let mut options = super::options::<pillion_install::rendering::options::Standalone>(&["--certificates", "files"]);
    options.ca_bundle = Some("Q0E=".to_owned());
    let rendered = pillion_install::rendering::standalone::render(&plain(), &options).unwrap();
    let pod = &object(&rendered, "Deployment pillion-system/pillion")["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][1], json!({"name": "tls", "secret": {"secretName": "pillion-serve-tls"}}));
    let webhook = &object(&rendered, "MutatingWebhookConfiguration pillion")["webhooks"][0];
    assert_eq!(webhook["clientConfig"]["caBundle"], "Q0E=");
    let definition = object(&rendered, "CustomResourceDefinition sidecarsets.apps.kruise.io");
    assert_eq!(definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"], "Q0E=");
    assert!(!rendered.notes.iter().any(|note| note.contains("--ca-bundle")));
    let untrusted = standalone(&plain(), &["--certificates", "files"]);
    assert!(untrusted.notes.iter().any(|note| note.contains("--ca-bundle")));
}

#[test]
fn settings_that_no_config_map_takes_are_refused() {
    let sets: Vec<Value> = (0..400)
        .map(|index| {
            super::set(
                &format!("set-{index}"),
                &json!({"containers": [{"name": "c", "image": "i", "args": ["x".repeat(3000)]}]}),
            )
        })
        .collect();
    let options = super::options::<pillion_install::rendering::options::Standalone>(&[]);
    let error = pillion_install::rendering::standalone::render(&json!({"sidecarSets": sets}), &options).unwrap_err();
    assert!(error.to_string().contains("pillion bundle"), "{error}");
}

/// Another test evaluates the CEL expressions on an API server. This one checks that they name the kinds of the rules.
#[test]
fn conditions_speak_of_every_kind_that_is_guarded() {
    let conditions = Part::Guards.conditions(&Listed::places());
    let template = &conditions.iter().find(|it| it.name == "is-a-template-with-a-merged-account").unwrap().expression;
    let guarded: BTreeSet<String> = Part::Guards
        .rules()
        .iter()
        .flat_map(|rule| combinations(&json!([rule.to_value()]), &["resources"]))
        .flatten()
        .collect();
    let with_template = [
        "deployments",
        "statefulsets",
        "daemonsets",
        "replicasets",
        "replicationcontrollers",
        "podtemplates",
        "jobs",
        "cronjobs",
        "clonesets",
        "broadcastjobs",
        "advancedcronjobs",
        "uniteddeployments",
    ];
    let others: Vec<&str> =
        guarded.iter().map(String::as_str).filter(|resource| !with_template.contains(resource)).collect();
    assert_eq!(
        others,
        ["configmaps", "pods/ephemeralcontainers", "rolebindings", "roles", "serviceaccounts", "services"]
    );
    for kind in ["'Pod'", "'RoleBinding'", "'Role'", "'ServiceAccount'", "'ConfigMap'", "'Service'"] {
        assert!(template.split("||").next().unwrap().contains(kind), "{kind}");
    }
    for condition in Part::ALL.iter().flat_map(|part| part.conditions(&Listed::places())) {
        assert!(condition.expression.matches('(').count() == condition.expression.matches(')').count());
        assert!(condition.name.len() <= 63 && condition.why.ends_with('.'));
    }
}
