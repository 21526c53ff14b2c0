//! Whether the containers of the app still stand behind the sidecars that go before them (ORDER-7).
//!
//! An injection puts each sidecar where it belongs. A webhook that runs later may move it. The twin, which changes
//! nothing, cannot tell a container of the app that was moved to the front from one that another injector put there,
//! unless it knows which containers the Pod had. So the first injection records them in a Pod with an identity.

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::made;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::container;

/// Annotation of a Pod with an identity: the containers that were its own when sidecars were first put before them,
/// `{"containers": [...], "initContainers": [...]}`.
pub const OWN_CONTAINERS: &str = "pillion.dev/own-containers";
/// Annotation in which Istio lists the containers that it adds. If its webhook is called again, it puts them to the front
/// again.
const OF_ISTIO: &str = "sidecar.istio.io/status";

/// What the twin says about the order of a Pod's containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// A reason for each container of the app that stands before a sidecar which goes before it.
    pub reasons: Vec<Reason>,
    /// A warning for each other container that stands there. It may come from another injector.
    pub warnings: Vec<String>,
}

/// Returns the value of [`OWN_CONTAINERS`] for a Pod that gets sidecars before its containers for the first time. `None`
/// if it has the annotation already, or no sidecar goes before its containers.
pub(crate) fn record(pod: Pod<'_>, sets: &[SidecarSet]) -> Option<String> {
    if pod.annotations().is_some_and(|annotations| annotations.contains_key(OWN_CONTAINERS)) {
        return None;
    }
    let mut record = Object::new();
    for list in List::ALL {
        let sidecars = Sidecars::new(sets, list);
        if !sidecars.first.is_empty() {
            let own = list.containers(pod).iter().filter(|container| sidecars.is_foreign(container));
            record.insert(list.key().to_owned(), own.map(pod::name).collect());
        }
    }
    (!record.is_empty()).then(|| Value::Object(record).to_string())
}

/// Compares the order of a Pod's containers with that of an injection. Judges only the sidecars that the Pod has.
pub fn check(pod: Pod<'_>, sets: &[SidecarSet]) -> Order {
    let (own, of_istio) = (Listed::read(pod, OWN_CONTAINERS), Listed::read(pod, OF_ISTIO));
    let mut order = Order::default();
    for list in List::ALL {
        let sidecars = Sidecars::new(sets, list);
        // From the end: the nearest sidecar behind a container that goes before it.
        let mut behind = None;
        for container in list.containers(pod).iter().rev() {
            let name = pod::name(container);
            behind = sidecars.first.get(name).map(|set| (name, *set)).or(behind);
            let Some((sidecar, set)) = behind.filter(|_| sidecars.is_foreign(container)) else { continue };
            if of_istio.has(list, name) {
                continue;
            }
            let problem = format!(
                "container \"{name}\" of the Pod stands before the sidecar \"{sidecar}\", which BeforeAppContainer places \
                 before all containers of the Pod"
            );
            if own.has(list, name) {
                let remedy = "find the webhook that moved it, or the injecting policy that did not run";
                order.reasons.push(Reason::forbidden(format!("spec.{}", list.key()), problem, remedy).about(set));
            } else {
                order.warnings.push(format!("SidecarSet \"{set}\": {problem}"));
            }
        }
    }
    order
}

/// The names of containers that an annotation lists.
#[derive(Default)]
struct Listed {
    init_containers: BTreeSet<String>,
    containers: BTreeSet<String>,
}

impl Listed {
    /// Reads an annotation, `{"containers": [...], "initContainers": [...]}`. A value of another form lists none.
    fn read(pod: Pod<'_>, key: &str) -> Self {
        let text = pod.annotations().and_then(|annotations| annotations.get(key)).and_then(Value::as_str);
        let Some(value) = text.and_then(|text| json::parse(text.as_bytes()).ok()) else {
            return Self::default();
        };
        let names = |list: List| {
            json::items(&value, &[list.key()]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self { init_containers: names(List::Init), containers: names(List::Containers) }
    }

    fn has(&self, list: List, name: &str) -> bool {
        match list {
            List::Init => self.init_containers.contains(name),
            List::Containers => self.containers.contains(name),
        }
    }
}

/// The containers of SidecarSets in one list of a Pod.
struct Sidecars<'a> {
    names: BTreeSet<String>,
    /// Those that go before the containers of the Pod, each with its SidecarSet.
    first: BTreeMap<String, &'a str>,
}

impl<'a> Sidecars<'a> {
    fn new(sets: &'a [SidecarSet], list: List) -> Self {
        let mut sidecars = Self { names: BTreeSet::new(), first: BTreeMap::new() };
        for set in sets {
            for (_, _, sidecar) in made::sidecars(set).filter(|(of, _, _)| *of == list) {
                for name in sidecar::names_in_pod(sidecar, list) {
                    if container::goes_before(sidecar) {
                        sidecars.first.insert(name.clone(), set.name());
                    }
                    sidecars.names.insert(name);
                }
            }
        }
        sidecars
    }

    /// Whether a container is neither a sidecar of these sets nor marked as injected by another policy.
    fn is_foreign(&self, container: &Value) -> bool {
        !self.names.contains(pod::name(container)) && !pod::is_injected(container)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn set() -> SidecarSet {
        SidecarSet::from_decoded(json!({"metadata": {"name": "s"}, "spec": {
            "initContainers": [
                {"name": "guard", "podInjectPolicy": "BeforeAppContainer"},
                {"name": "last", "podInjectPolicy": "AfterAppContainer"},
            ],
            "containers": [{"name": "agent", "podInjectPolicy": "AfterAppContainer"}],
        }}))
    }

    fn pod(init: &[&str], annotations: &Value) -> Value {
        let container = |name: &&str| {
            let env = if name.starts_with("injected") {
                json!([{"name": "IS_INJECTED", "value": "true"}])
            } else {
                json!([])
            };
            json!({"name": name, "env": env})
        };
        let init: Vec<Value> = init.iter().map(container).collect();
        json!({
            "metadata": {"annotations": annotations},
            "spec": {"initContainers": init, "containers": [{"name": "app"}, {"name": "agent"}]},
        })
    }

    #[test]
    fn order7_the_record_holds_the_containers_of_lists_that_sidecars_precede() {
        let of = |annotations: Value| {
            let pod = pod(&["guard", "setup", "injected-1", "last"], &annotations);
            record(Pod::decode(&pod).unwrap(), &[set()])
        };
        assert_eq!(of(json!({})).as_deref(), Some(r#"{"initContainers":["setup"]}"#));
        assert_eq!(of(json!({OWN_CONTAINERS: "{}"})), None, "it is written once");
        assert_eq!(record(Pod::decode(&pod(&[], &json!({}))).unwrap(), &[]), None);
    }

    /// Cases are the init containers, those of the record, and how many of them are refused and warned of.
    #[rstest]
    #[case::as_injected(&["guard", "setup", "last"], &["setup"], (0, 0))]
    #[case::moved(&["setup", "guard"], &["setup"], (1, 0))]
    #[case::of_another_injector(&["wait", "guard", "setup"], &["setup"], (0, 1))]
    #[case::both(&["wait", "setup", "guard"], &["setup"], (1, 1))]
    #[case::nothing_is_recorded(&["setup", "guard"], &[], (0, 1))]
    #[case::of_istio(&["istio-init", "guard", "setup"], &["istio-init", "setup"], (0, 0))]
    #[case::of_another_policy(&["injected-1", "guard", "setup"], &["setup"], (0, 0))]
    #[case::a_sidecar_that_goes_last(&["last", "guard"], &[], (0, 0))]
    #[case::without_the_sidecar(&["setup"], &["setup"], (0, 0))]
    fn order7_containers_before_a_sidecar(
        #[case] init: &[&str],
        #[case] recorded: &[&str],
        #[case] (reasons, warnings): (usize, usize),
    ) {
        let pod = pod(
            init,
            &json!({
                OWN_CONTAINERS: json!({"initContainers": recorded, "containers": ["app"]}).to_string(),
                OF_ISTIO: r#"{"version":"1","initContainers":["istio-init"],"containers":["istio-proxy"]}"#,
            }),
        );
        let order = check(Pod::decode(&pod).unwrap(), &[set()]);
        assert_eq!((order.reasons.len(), order.warnings.len()), (reasons, warnings), "{order:?}");
        let expected = "SidecarSet \"s\": spec.initContainers: container \"setup\" of the Pod stands before the sidecar \
                        \"guard\", which BeforeAppContainer places before all containers of the Pod; find the webhook that moved \
                        it, or the injecting policy that did not run";
        assert!(order.reasons.iter().all(|reason| reason.to_string() == expected), "{order:?}");
    }

    #[rstest]
    #[case("")]
    #[case("no JSON")]
    #[case("[]")]
    #[case(r#"{"initContainers":"setup"}"#)]
    #[case(r#"{"initContainers":[{"name":"setup"},null]}"#)]
    fn order7_a_record_of_another_form_lists_nothing(#[case] text: &str) {
        let pod = pod(&["setup", "guard"], &json!({OWN_CONTAINERS: text}));
        let order = check(Pod::decode(&pod).unwrap(), &[set()]);
        assert_eq!((order.reasons.len(), order.warnings.len()), (0, 1));
    }
}
