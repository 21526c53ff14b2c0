//! Explanations agree with admission on every Pod and every choice of `SidecarSet`s.

use pillion_admission::settings::Settings;
use pillion_inject::matching::Sources;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::native::NativeSidecars;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select as one_of, subsequence};
use serde_json::{Map, Value, json};

use super::tests::{Cluster, context, settings, stored};
use super::*;

const KEYS: [&str; 3] = ["app", "tier", "kubernetes.io/metadata.name"];
const VALUES: [&str; 4] = ["web", "api", "prod", "dev"];

fn labels() -> impl Strategy<Value = Value> {
    subsequence(KEYS.to_vec(), 0..=3)
        .prop_flat_map(|keys| {
            let values = vec(one_of(VALUES.to_vec()), keys.len());
            values.prop_map(move |values| {
                keys.iter().zip(values).map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>()
            })
        })
        .prop_map(Value::Object)
}

fn selector() -> impl Strategy<Value = Value> {
    let operator = one_of(vec!["In", "In", "NotIn", "Exists", "DoesNotExist", "Like"]);
    let expression = (one_of(KEYS.to_vec()), operator, vec(one_of(VALUES.to_vec()), 0..3))
        .prop_map(|(key, operator, values)| json!({"key": key, "operator": operator, "values": values}));
    prop_oneof![
        3 => Just(json!({"matchLabels": {"app": "web"}})),
        2 => (labels(), vec(expression, 0..3))
            .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions})),
        1 => Just(Value::Null),
    ]
}

fn set(name: &'static str) -> impl Strategy<Value = SidecarSet> {
    let container = one_of(vec![name, name, name, "main", "shared"]);
    let revision = option::weighted(0.3, (one_of(vec!["s-1", "gone"]), one_of(vec!["Always", "Partial"])));
    let partition = one_of(vec![json!(null), json!(2), json!("40%"), json!("100%"), json!("x")]);
    let base = option::weighted(0.3, one_of(vec!["s", "t", "u"]));
    let parts = (selector(), option::of(selector()), prop::bool::weighted(0.1), container, revision, partition, base);
    parts.prop_map(move |(selector, namespaces, paused, container, revision, partition, base)| {
        let mut set = json!({
            "metadata": {"name": name, "annotations": {}},
            "spec": {
                "selector": selector, "containers": [{"name": container, "image": "i:1"}],
                "injectionStrategy": {"paused": paused}, "updateStrategy": {"partition": partition},
            }
        });
        if let Some(namespaces) = namespaces {
            set["spec"]["namespaceSelector"] = namespaces;
        }
        if let Some((revision, policy)) = revision {
            set["spec"]["injectionStrategy"]["revision"] = json!({"revisionName": revision, "policy": policy});
        }
        if let Some(base) = base {
            set["metadata"]["annotations"] =
                json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": base});
        }
        SidecarSet::from_decoded(set)
    })
}

fn sets() -> impl Strategy<Value = Vec<SidecarSet>> {
    (set("s"), set("t"), set("u")).prop_flat_map(|(s, t, u)| subsequence(vec![s, t, u], 0..=3).prop_shuffle())
}

fn pod() -> impl Strategy<Value = Value> {
    let annotation = option::weighted(0.1, one_of(vec!["[", "{}", r#"{"s":{"hash":"h","sidecarList":["s"]}}"#]));
    let phase = one_of(vec!["", "", "", "Running", "Failed"]);
    (labels(), annotation, phase, prop::bool::weighted(0.05)).prop_map(|(labels, annotation, phase, broken)| {
        let mut pod = json!({
            "metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": phase}
        });
        if let Some(annotation) = annotation {
            pod["metadata"]["annotations"] = json!({"kruise.io/sidecarset-hash": annotation});
        }
        if broken {
            pod["spec"]["containers"] = json!("none");
        }
        pod
    })
}

/// Returns the names of the sets that selection puts into effect.
fn selected(request: PodRequest<'_>, sets: &[SidecarSet], revisions: &[ControllerRevision]) -> Vec<String> {
    let Ok(pod) = Pod::decode(request.object) else { return Vec::new() };
    if !pod.is_injectable() {
        return Vec::new();
    }
    let compiled: Vec<CompiledSet<'_>> = sets.iter().map(CompiledSet::new).collect();
    let query = Query { pod, namespace: request.namespace_of(pod), uid: request.uid };
    let sources = Sources {
        revisions,
        system_namespace: "kruise-system",
        lookup: &Cluster,
        native_sidecars: NativeSidecars::Off,
    };
    pillion_inject::matching::select(&compiled, query, sources).sets.iter().map(|set| set.name().to_owned()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_sets_in_effect_are_those_of_selection_in_that_order(
        pod in pod(), sets in sets(), namespace in one_of(vec!["prod", "dev", "gone", "broken"]), uid in "[a-z]"
    ) {
        let revisions = [stored()];
        let request = PodRequest { uid: &uid, namespace, object: &pod };
        let settings = settings(&revisions);
        let explanation = explain(request, context(&settings, &sets));
        let outcome = admission::admit(request, context(&settings, &sets));
        prop_assert_eq!(&explanation.outcome, &outcome);

        let refused: Vec<&str> = match &outcome.verdict {
            Verdict::Refused(refusal) => refusal.reasons().filter_map(|reason| reason.sidecar_set.as_deref()).collect(),
            _ => Vec::new(),
        };
        let in_effect: Vec<String> =
            selected(request, &sets, &revisions).into_iter().filter(|name| !refused.contains(&name.as_str())).collect();
        let mut explained = Vec::new();
        for set in &explanation.sets {
            match &set.decision {
                Decision::Injected(injection) => {
                    prop_assert!(!matches!(outcome.verdict, Verdict::Refused(_)));
                    prop_assert_eq!(injection.parts.containers.len(), 1);
                    explained.push(set.name.clone());
                }
                Decision::Withheld(_) => {
                    prop_assert!(matches!(outcome.verdict, Verdict::Refused(_)));
                    explained.push(set.name.clone());
                }
                Decision::NotInjected(findings) => {
                    prop_assert!(!findings.is_empty(), "{} has no reason", set.name);
                    prop_assert!(!refused.contains(&set.name.as_str()));
                }
                Decision::Refused(findings) => {
                    prop_assert!(!findings.is_empty());
                    prop_assert!(refused.contains(&set.name.as_str()));
                }
            }
        }
        prop_assert_eq!(explained, in_effect);
        let decodable = Pod::decode(&pod).is_ok();
        prop_assert_eq!(explanation.sets.len(), if decodable { sets.len() } else { 0 });
    }

    #[test]
    fn a_label_that_a_finding_asks_for_cures_it(
        pod in pod(), sets in sets(), namespace in one_of(vec!["prod", "dev"])
    ) {
        let settings = Settings::default();
        let explained =
            |pod: &Value| explain(PodRequest { uid: "u", namespace, object: pod }, context(&settings, &sets));
        for (index, set) in explained(&pod).sets.iter().enumerate() {
            let Decision::NotInjected(findings) = &set.decision else { continue };
            for finding in findings.iter().filter(|finding| finding.kind == finding::Kind::PodLabel) {
                let Some((key, value)) = finding.wanted.split_once('=') else { continue };
                let mut cured = pod.clone();
                cured["metadata"]["labels"][key] = json!(value);
                let after = explained(&cured).sets.swap_remove(index).decision;
                let still = match &after {
                    Decision::NotInjected(findings) => findings.iter().any(|other| other.path == finding.path),
                    _ => false,
                };
                prop_assert!(!still, "{finding}");
            }
        }
    }
}
