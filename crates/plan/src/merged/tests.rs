use std::sync::Arc;

use pillion_admission::settings::Settings;
use pillion_kubernetes::lookup::ObjectRef;
use rstest::rstest;
use serde_json::json;

use super::objects::wanted;
use super::*;
use crate::demand::PreparedSets;

pub(super) const NAME: &str = "sidecarset-merged-7e18f737311b2dc3";
const START: Timestamp = Timestamp(1_767_323_045);

/// Returns settings with SidecarSets of these names that merge, for Pods with the label `app: web`.
pub(super) fn settings(sets: &[&str]) -> Settings {
    let sets: Vec<Value> = sets
        .iter()
        .map(|name| {
            let rules = json!([{"apiGroups": [""], "resources": [format!("{name}s")], "verbs": ["get"]}]);
            json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": name, "image": "i:1"}],
                    "serviceAccountName": format!("{name}-account"),
                    "behaviorWhenServiceAccountInjection": "Merge", "serviceAccountPermissions": rules
                }
            })
        })
        .collect();
    Settings::decode(json!({"sidecarSets": sets, "featureGates": {"SidecarSetServiceAccountInjection": true}})).unwrap()
}

/// A namespace and its observed state.
#[derive(Clone)]
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) namespace: Value,
    pub(super) pods: Vec<Value>,
    pub(super) objects: BTreeMap<String, Trio>,
    pub(super) unknown: Vec<String>,
    pub(super) idle: BTreeMap<String, Timestamp>,
    pub(super) now: Timestamp,
}

impl World {
    pub(super) fn new(sets: &[&str]) -> Self {
        Self {
            settings: settings(sets),
            namespace: json!({"metadata": {"name": "shop", "labels": {}}, "status": {"phase": "Active"}}),
            pods: vec![json!({"metadata": {"labels": {"app": "web"}}, "spec": {"serviceAccountName": "default"}})],
            objects: BTreeMap::new(),
            unknown: Vec::new(),
            idle: BTreeMap::new(),
            now: START,
        }
    }

    /// Returns a namespace with all three objects of the sets `a` and `b` in their wanted state.
    fn made(sets: &[&str]) -> Self {
        let mut world = Self::new(sets);
        let made = settings(&["a", "b"]);
        let prepared = PreparedSets::from_sets(&made.sidecar_sets);
        let demands = Demands::new(&prepared, &made, &world.namespace);
        let merging: Vec<&Asking> = ["a", "b"].iter().filter_map(|name| demands.merging(name)).collect();
        let trio = wanted(&merging, "shop").map(|mut object| {
            object["metadata"]["uid"] = "1".into();
            object["metadata"]["resourceVersion"] = "7".into();
            Some(Arc::new(object))
        });
        world.objects.insert(NAME.to_owned(), trio);
        world
    }

    fn edit(mut self, index: usize, edit: impl FnOnce(&mut Value)) -> Self {
        let object = self.objects.get_mut(NAME).unwrap()[index].as_mut().unwrap();
        edit(Arc::make_mut(object));
        self
    }

    fn without(mut self, index: usize) -> Self {
        self.objects.get_mut(NAME).unwrap()[index] = None;
        self
    }

    fn idle_for(mut self, seconds: i64) -> Self {
        self.pods.clear();
        self.idle.insert(NAME.to_owned(), Timestamp(self.now.0 - seconds));
        self
    }

    fn marked_for(self, seconds: i64) -> Self {
        let time = Timestamp(self.now.0 - seconds).to_string();
        (0..3).fold(self.idle_for(700), |world, index| {
            world.edit(index, |object| {
                object["metadata"]["annotations"]["pillion.dev/gc-pending"] = time.as_str().into();
                object["metadata"]["finalizers"] = json!([]);
            })
        })
    }

    fn used(mut self) -> Self {
        self.pods.push(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"serviceAccountName": NAME}}));
        self
    }

    pub(super) fn plan(&self) -> Plan {
        let prepared = PreparedSets::from_sets(&self.settings.sidecar_sets);
        let demands = Demands::new(&prepared, &self.settings, &self.namespace);
        let needed = needed(&demands, &self.namespace, self.pods.iter(), &|_| true);
        let account = |pod: &Value| json::text(pod, &["spec", "serviceAccountName"]).to_owned();
        let seen = MergedInput {
            namespace: &self.namespace,
            demands: &demands,
            needed: &needed,
            used: &self.pods.iter().map(account).filter(|name| names::is_merged(name)).collect(),
            objects: &self.objects,
            is_unknown: &|name| self.unknown.iter().any(|unknown| unknown == name),
            rules: &self.settings.service_accounts,
            idle: &self.idle,
            now: self.now,
            times: Times::default(),
        };
        plan(&seen)
    }
}

fn shown(step: &Step) -> String {
    let of = |object: &ObjectRef| object.kind.to_owned();
    match step {
        Step::Create(object) => format!("create {}", json::text(object, &["kind"])),
        Step::Apply(object) => format!("apply {}", json::text(object, &["kind"])),
        Step::Patch { object, patch, .. } => {
            let has = |path: &[&str]| json::at(patch, path).is_some();
            let mark = json::at(patch, &["metadata", "annotations", names::GC_PENDING]);
            let finalizers = if has(&["metadata", "finalizers"]) {
                format!("finalizers [{}] ", json::texts(patch, &["metadata", "finalizers"]).join(","))
            } else {
                String::new()
            };
            let mark = match mark {
                None => "",
                Some(Value::Null) => "unmark ",
                Some(_) => "mark ",
            };
            finalizers + mark + &of(object)
        }
        Step::Delete { object, .. } => format!("delete {}", of(object)),
        Step::JsonPatch { .. } | Step::Evict { .. } | Step::RequestToken { .. } => panic!("{step:?}"),
    }
}

fn texts_of(steps: &[Step]) -> Vec<String> {
    steps.iter().map(shown).collect()
}

/// Returns the only group of a plan, as `steps`, `if unused`, `if used`.
fn group(plan: &Plan) -> [Vec<String>; 3] {
    match plan.groups.as_slice() {
        [] => Default::default(),
        [group] => [&group.steps, &group.if_unused, &group.if_used].map(|steps| texts_of(steps)),
        groups => panic!("{groups:?}"),
    }
}

const NOTHING: &[&str] = &[];
const MAKE: &[&str] = &[
    "create ServiceAccount",
    "apply ServiceAccount",
    "create Role",
    "apply Role",
    "create RoleBinding",
    "apply RoleBinding",
];
const STRIP: &[&str] = &["finalizers [] ServiceAccount", "finalizers [] Role", "finalizers [] RoleBinding"];
const MARK: &[&str] =
    &["finalizers [] mark ServiceAccount", "finalizers [] mark Role", "finalizers [] mark RoleBinding"];
const UNMARK: &[&str] = &["unmark ServiceAccount", "unmark Role", "unmark RoleBinding"];
const DELETE: &[&str] = &["delete RoleBinding", "delete Role", "delete ServiceAccount"];
const LATER: fn(&mut Value) = |object| object["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();

#[rstest]
#[case::mrg4_made_in_order_where_no_pod_uses_the_name(World::new(&["a", "b"]), [NOTHING, MAKE, NOTHING])]
#[case::as_it_should_be(World::made(&["a", "b"]), [NOTHING, NOTHING, NOTHING])]
#[case::mrg3_rules_are_followed(
    World::made(&["a", "b"]).edit(1, |role| role["rules"] = json!([])), [&["apply Role"], NOTHING, NOTHING]
)]
#[case::mrg5_a_subject_more(
    World::made(&["a", "b"]).edit(2, |binding| {
        binding["subjects"] = json!([binding["subjects"][0], {"kind": "Group", "name": "all"}]);
    }),
    [&["apply RoleBinding"], NOTHING, NOTHING]
)]
#[case::mrg7_a_finalizer_is_missing(
    World::made(&["a", "b"]).edit(0, |account| account["metadata"]["finalizers"] = json!(["sa.pillion.dev/a"])),
    [&["apply ServiceAccount"], NOTHING, NOTHING]
)]
#[case::mrg8_a_finalizer_of_a_stranger(
    World::made(&["a", "b"]).edit(0, |account| {
        account["metadata"]["finalizers"] = json!(["sa.pillion.dev/a", "sa.pillion.dev/z", "sa.pillion.dev/b", "x/y"]);
    }),
    [&["finalizers [sa.pillion.dev/a,sa.pillion.dev/b,x/y] ServiceAccount"], NOTHING, NOTHING]
)]
#[case::a_deleted_role_is_made_anew(
    World::made(&["a", "b"]).without(1), [&["create Role", "apply Role"], NOTHING, NOTHING]
)]
#[case::a_role_on_its_way_out_goes(
    World::made(&["a", "b"]).edit(1, LATER), [&["finalizers [] Role"], NOTHING, NOTHING]
)]
#[case::mrg13_an_account_on_its_way_out_goes_where_nobody_uses_it(
    World::made(&["a", "b"]).edit(0, LATER), [NOTHING, &["finalizers [] ServiceAccount"], NOTHING]
)]
#[case::mrg11_new_demand_removes_the_mark(
    { let mut world = World::made(&["a", "b"]).marked_for(30); world.pods = World::new(&[]).pods; world },
    [
        &[
            "apply ServiceAccount", "unmark ServiceAccount", "apply Role", "unmark Role", "apply RoleBinding",
            "unmark RoleBinding",
        ],
        NOTHING,
        NOTHING
    ]
)]
#[case::mrg8_a_set_is_gone(World::made(&["a"]), [STRIP, NOTHING, NOTHING])]
#[case::mrg8_a_set_is_gone_and_pods_remain(World::made(&["a"]).used(), [STRIP, NOTHING, NOTHING])]
#[case::needed_by_a_pod_that_has_it(
    { let mut world = World::made(&["a", "b", "c"]).used(); world.pods.remove(0); world }, [NOTHING, NOTHING, NOTHING]
)]
#[case::mrg10_not_needed_for_nine_minutes(World::made(&["a", "b"]).idle_for(599), [NOTHING, NOTHING, NOTHING])]
#[case::mrg10_not_needed_for_ten_minutes(World::made(&["a", "b"]).idle_for(600), [NOTHING, MARK, NOTHING])]
#[case::mrg11_marked_for_less_than_a_minute(World::made(&["a", "b"]).marked_for(59), [NOTHING, NOTHING, NOTHING])]
#[case::mrg11_marked_for_a_minute(World::made(&["a", "b"]).marked_for(60), [NOTHING, DELETE, UNMARK])]
#[case::mrg11_a_pod_came_after_the_mark(World::made(&["a"]).marked_for(60).used(), [UNMARK, NOTHING, NOTHING])]
#[case::mrg11_a_mark_that_is_no_time_is_written_anew(
    World::made(&["a"]).marked_for(60).edit(1, |role| {
        role["metadata"]["annotations"]["pillion.dev/gc-pending"] = "soon".into();
    }),
    [NOTHING, &["finalizers [] mark Role"], NOTHING]
)]
#[case::mrg10_what_has_a_finalizer_again_is_not_deleted(
    World::made(&["a"]).marked_for(60).edit(1, |role| role["metadata"]["finalizers"] = json!(["sa.pillion.dev/a"])),
    [&["finalizers [] Role"], NOTHING, NOTHING]
)]
#[case::mrg11_the_rest_of_a_deletion(World::made(&["a"]).marked_for(60).without(2), [NOTHING, &DELETE[1..], &UNMARK[..2]])]
#[case::what_nobody_knows_stays(
    { let mut world = World::made(&["a"]).idle_for(600); world.unknown.push("b".to_owned()); world },
    [NOTHING, NOTHING, NOTHING]
)]
#[case::mrg9_a_terminating_namespace_keeps_nothing(
    { let mut world = World::made(&["a", "b"]).used(); world.namespace["status"]["phase"] = "Terminating".into(); world },
    [STRIP, NOTHING, NOTHING]
)]
#[case::mrg9_a_terminating_namespace_gets_nothing(
    { let mut world = World::new(&["a", "b"]); LATER(&mut world.namespace); world }, [NOTHING, NOTHING, NOTHING]
)]
fn each_state_has_its_steps(#[case] world: World, #[case] steps: [&[&str]; 3]) {
    assert_eq!(
        group(&world.plan()),
        steps.map(|steps| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>())
    );
}

#[test]
fn mrg4_an_object_begins_with_what_can_never_shrink() {
    let plan = World::new(&["a", "b"]).plan();
    let Step::Create(binding) = &plan.groups[0].if_unused[4] else { panic!("{plan:?}") };
    assert_eq!(
        binding,
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {
                "name": NAME, "namespace": "shop", "annotations": {"pillion.dev/sidecarsets": "a,b"},
                "labels": {"app.kubernetes.io/managed-by": "pillion"}
            },
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
        })
    );
    let lost = plan.groups[0].notice_if_used.clone();
    assert_eq!(lost.map(|notice| notice.reason()), Some("MergedAccountLost"));
}

#[rstest]
#[case::another_annotation(0, |object: &mut Value| object["metadata"]["annotations"] = json!({"pillion.dev/sidecarsets": "a,c"}))]
#[case::no_annotation(1, |object: &mut Value| object["metadata"]["annotations"] = json!({}))]
#[case::another_role(2, |object: &mut Value| object["roleRef"]["name"] = "admin".into())]
#[case::a_cluster_role(2, |object: &mut Value| object["roleRef"]["kind"] = "ClusterRole".into())]
fn mrg2_what_is_not_ours_is_left_alone_and_told(#[case] index: usize, #[case] edit: fn(&mut Value)) {
    let plan = World::made(&["a", "b"]).edit(index, edit).plan();
    assert_eq!(plan.groups, []);
    let sets = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(plan.notices, [Notice::Foreign { kind: KINDS[index].kind, name: NAME.to_owned(), sets }]);
}

#[test]
fn esc4_nobody_is_granted_what_nobody_may_grant() {
    let mut world = World::new(&["a", "b"]);
    world.settings.sidecar_sets[1].as_value_mut()["spec"]["serviceAccountPermissions"] =
        json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let plan = world.plan();
    assert_eq!(plan.groups, []);
    let [Notice::Denied { set, why }] = plan.notices.as_slice() else { panic!("{plan:?}") };
    assert_eq!(set, "b");
    assert!(why.contains("secrets"), "{why}");
}

#[test]
fn mrg6_a_prepared_namespace_needs_no_pod() {
    let mut world = World::new(&["a", "b", "c", "d", "e"]);
    world.pods.clear();
    assert_eq!(world.plan(), Plan::default());
    world.namespace["metadata"]["labels"]["pillion.dev/prepare-merged"] = "true".into();
    let plan = world.plan();
    assert_eq!(plan.groups.len(), 11);
    assert_eq!(plan.notices, [Notice::TooMany { merging: 5 }]);
}

#[rstest]
#[case::not_idle_yet(World::made(&["a", "b"]).idle_for(0), Some(600))]
#[case::idle(World::made(&["a", "b"]).idle_for(590), Some(10))]
#[case::marked(World::made(&["a", "b"]).marked_for(45), Some(15))]
#[case::needed(World::made(&["a", "b"]), None)]
fn mrg10_it_is_looked_again_when_the_time_has_come(#[case] world: World, #[case] seconds: Option<i64>) {
    assert_eq!(world.plan().look_again, seconds);
}
