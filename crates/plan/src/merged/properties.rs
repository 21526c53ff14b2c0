//! Simulates a namespace with random events: no account is deleted while a Pod runs under it, and the final state is
//! always the same.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::tests::{NAME, World, settings};
use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A workload is created (`true`) or deleted.
    Workload(bool),
    /// The SidecarSet `b` exists (`true`) or is missing.
    Set(bool),
    /// A Pod is created if the policy admits it (`true`), or all Pods are deleted.
    Pod(bool),
    Later(i64),
    /// The controller makes a plan and is killed after this many writes.
    Look(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(Event::Workload),
        any::<bool>().prop_map(Event::Set),
        any::<bool>().prop_map(Event::Pod),
        select(&[30, 61, 601][..]).prop_map(Event::Later),
        select(&[0, 1, 2, 3, 5, 99][..]).prop_map(Event::Look),
    ]
}

struct Namespace {
    world: World,
    pods: usize,
    has_workload: bool,
    version: u64,
}

impl Namespace {
    fn new() -> Self {
        let mut world = World::new(&["a", "b"]);
        world.pods.clear();
        Self { world, pods: 0, has_workload: false, version: 0 }
    }

    fn place(&mut self, kind: &str) -> &mut Option<Arc<Value>> {
        let index = KINDS.iter().position(|known| known.kind == kind).unwrap();
        &mut self.world.objects.entry(NAME.to_owned()).or_default()[index]
    }

    /// Whether the policy gives a Pod the account: all objects exist and none is marked.
    fn is_ready(&self) -> bool {
        let trio = self.world.objects.get(NAME);
        let is_fine = |object: &Option<Arc<Value>>| object.as_ref().is_some_and(|one| objects::mark(one).is_empty());
        self.has_workload && trio.is_some_and(|trio| trio.iter().all(is_fine))
    }

    fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Workload(is_there) => self.has_workload = is_there,
            Event::Set(is_there) => self.world.settings = settings(if is_there { &["a", "b"] } else { &["a"] }),
            Event::Pod(true) if self.is_ready() => self.pods += 1,
            Event::Pod(true) => {}
            Event::Pod(false) => self.pods = 0,
            Event::Later(seconds) => self.world.now.0 += seconds,
            Event::Look(writes) => self.look(writes)?,
        }
        Ok(())
    }

    fn look(&mut self, writes: usize) -> Result<(), TestCaseError> {
        let pod =
            |account: &str| json!({"metadata": {"labels": {"app": "web"}}, "spec": {"serviceAccountName": account}});
        let running = std::iter::repeat_n(pod(NAME), self.pods);
        self.world.pods = running.chain(self.has_workload.then(|| pod("default"))).collect();
        let plan = self.world.plan();
        self.world.idle = plan.idle;
        let mut steps = Vec::new();
        for group in plan.groups {
            steps.extend(group.steps);
            steps.extend(if self.pods > 0 { group.if_used } else { group.if_unused });
        }
        for step in steps.into_iter().take(writes) {
            self.write(step)?;
        }
        Ok(())
    }

    fn write(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.version += 1;
        let version = self.version.to_string();
        match step {
            Step::Create(mut object) => {
                object["metadata"]["uid"] = version.as_str().into();
                object["metadata"]["resourceVersion"] = version.into();
                let kind = json::text(&object, &["kind"]).to_owned();
                let place = self.place(&kind);
                prop_assert!(place.is_none(), "{kind} is there");
                *place = Some(Arc::new(object));
            }
            Step::Apply(wanted) => {
                let place = self.place(json::text(&wanted, &["kind"]));
                let object = Arc::make_mut(place.as_mut().unwrap());
                object["metadata"]["finalizers"] = wanted["metadata"]["finalizers"].clone();
                for field in ["rules", "subjects"] {
                    object[field] = wanted[field].clone();
                }
                object["metadata"]["resourceVersion"] = version.into();
            }
            Step::Patch { object, patch, .. } => {
                let stored = Arc::make_mut(self.place(object.kind).as_mut().unwrap());
                if let Some(finalizers) = patch["metadata"].get("finalizers") {
                    stored["metadata"]["finalizers"] = finalizers.clone();
                }
                if let Some(mark) = patch["metadata"]["annotations"].get(names::GC_PENDING) {
                    stored["metadata"]["annotations"][names::GC_PENDING] = mark.clone();
                }
                stored["metadata"]["resourceVersion"] = version.into();
            }
            Step::JsonPatch { .. } | Step::Evict { .. } | Step::RequestToken { .. } => {
                prop_assert!(false, "no plan has such a step");
            }
            Step::Delete { object, resource_version, .. } => {
                prop_assert_eq!(self.pods, 0, "deleted under a Pod");
                let place = self.place(object.kind);
                let stored = place.take().unwrap();
                prop_assert_eq!(resource_version.as_deref(), stored["metadata"]["resourceVersion"].as_str());
                let (own, _) = objects::finalizers(&stored);
                prop_assert!(own.is_empty(), "deleted with finalizers");
            }
        }
        Ok(())
    }

    fn objects(&self) -> usize {
        self.world.objects.values().flatten().flatten().count()
    }
}

proptest! {
    #[test]
    fn mrg10_mrg11_whatever_happens_no_account_goes_under_a_pod_and_the_end_is_the_same(events in vec(event(), 0..40)) {
        let mut namespace = Namespace::new();
        for event in events {
            namespace.happen(event)?;
        }
        let look = |namespace: &mut Namespace| (0..3).try_for_each(|_| namespace.happen(Event::Look(99)));
        // The needed objects exist, and nothing more is written.
        namespace.happen(Event::Set(true))?;
        namespace.happen(Event::Workload(true))?;
        look(&mut namespace)?;
        prop_assert!(namespace.is_ready());
        let version = namespace.version;
        look(&mut namespace)?;
        prop_assert_eq!(namespace.version, version);
        // The unneeded objects are deleted.
        namespace.happen(Event::Workload(false))?;
        namespace.happen(Event::Pod(false))?;
        for _ in 0..3 {
            look(&mut namespace)?;
            namespace.happen(Event::Later(601))?;
        }
        look(&mut namespace)?;
        prop_assert_eq!(namespace.objects(), 0);
    }
}
