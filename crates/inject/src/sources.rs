//! The parts that sidecars copy from the Pod's own containers: mounts, devices and environment variables (INJ-15,
//! INJ-16, INJ-19).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use pillion_identity::decision::Asking;
use pillion_identity::drivers::Drivers;
use pillion_identity::paths::{self, Relation};
use pillion_identity::sharing::Used;
use pillion_identity::tokens::Volumes;
use pillion_kubernetes::downward_api;
use pillion_kubernetes::json;
use pillion_kubernetes::name_validation;
use pillion_kubernetes::unique;
use pillion_sidecarset::made;
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar::{self, List};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

/// Settings for a Pod with an identity, which shares less with its sidecars (IDC-8, E19, E21).
#[derive(Clone, Copy, Debug)]
pub struct Hidden<'a> {
    /// The sets that name an account. Their sidecars share nothing at, above or below the token directory.
    pub asking: &'a [Asking],
    /// CSI drivers whose volumes contain no credential of the Pod's account.
    pub trusted: &'a Drivers,
}

/// The containers from which sidecars may copy: the plain containers of the Pod that were not injected.
#[derive(Clone, Debug)]
pub struct Own<'a> {
    pod: Pod<'a>,
    containers: Vec<Source<'a>>,
    sets: &'a [SidecarSet],
    /// The names of the sets whose sidecars get a token.
    owners: BTreeSet<&'a str>,
    /// The parts that sidecars without a token share, and those that sidecars with a token share.
    offers: [OnceCell<Offer<'a>>; 2],
    /// The variables by container and name. Of several with one name, the last counts.
    variables: OnceCell<BTreeMap<&'a str, BTreeMap<&'a str, &'a Value>>>,
}

/// The parts that every sharing sidecar gets, computed once for all of them (E18).
#[derive(Clone, Debug, Default)]
struct Offer<'a> {
    /// The first mount of each path.
    mounts: Vec<&'a Value>,
    /// The first device of each path.
    devices: Vec<&'a Value>,
    /// The devices whose path is not that of a mount. A sidecar that also gets the mounts gets only these (INJ-19).
    devices_beside_mounts: Vec<&'a Value>,
    /// The variables that the mounts' `subPathExpr`s need, without duplicates.
    variables: Vec<&'a Value>,
}

/// The parts of the Pod's own containers that one sidecar copies. Lists that are the same for all sidecars are borrowed
/// from [`Own`], because there may be thousands of sidecars and thousands of mounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken<'o, 'a> {
    /// Volume mounts (INJ-15).
    pub mounts: &'o [&'a Value],
    /// Volume devices (INJ-19).
    pub devices: &'o [&'a Value],
    /// The environment variables that the sidecar names (INJ-16).
    named: Vec<&'a Value>,
    /// The environment variables that the mounts need.
    needed: &'o [&'a Value],
    /// The parts that the sidecar names and that the Pod does not have.
    pub missing: Vec<Missing>,
}

impl<'a> Taken<'_, 'a> {
    /// Returns the environment variables: those that the sidecar names (INJ-16), then those that its mounts need.
    pub fn variables(&self) -> impl Iterator<Item = &'a Value> {
        self.named.iter().chain(self.needed).copied()
    }

    /// Returns the number of mounts, devices and variables.
    pub fn count(&self) -> usize {
        self.mounts.len() + self.devices.len() + self.named.len() + self.needed.len()
    }

    /// Returns an upper bound of the length as JSON, in bytes. Stops counting above `limit` and returns `limit + 1`
    /// then.
    pub fn length(&self, limit: usize) -> usize {
        let mut left = limit;
        for item in self.mounts.iter().chain(self.devices).copied().chain(self.variables()) {
            match left.checked_sub(json::length(item, left)) {
                Some(less) => left = less,
                None => return limit.saturating_add(1),
            }
        }
        limit - left
    }
}

/// A container, with the parts that may be shared.
#[derive(Clone, Debug)]
struct Source<'a> {
    container: &'a Value,
    mounts: Vec<Shared<'a>>,
    devices: Vec<Shared<'a>>,
}

/// A mount or a device.
#[derive(Clone, Copy, Debug)]
struct Shared<'a> {
    item: &'a Value,
    /// Whether its path is at, above or below the token directory.
    is_in_the_way: bool,
    /// Whether a set with an identity defines its volume.
    is_of_owner: bool,
}

impl<'a> Source<'a> {
    fn new(container: &'a Value, hidden: Option<&Volumes<'_>>, of_owners: &BTreeSet<&str>) -> Self {
        let list = |list: &str, path: &str| -> Vec<Shared<'a>> {
            let items = json::items(container, &[list]).iter().map(|item| {
                let place = hidden.and_then(|_| paths::relation(json::text(item, &[path])));
                (item, place)
            });
            let gives_token = |item: &Value, place| {
                place == Some(Relation::At) || hidden.is_some_and(|volumes| volumes.gives_account(pod::name(item)))
            };
            let shared = items.filter(|(item, place)| !gives_token(item, *place));
            let shared = shared.map(|(item, place)| Shared {
                item,
                is_in_the_way: place.is_some(),
                is_of_owner: of_owners.contains(pod::name(item)),
            });
            shared.collect()
        };
        Self { container, mounts: list("volumeMounts", "mountPath"), devices: list("volumeDevices", "devicePath") }
    }
}

impl<'a> Own<'a> {
    /// Collects the Pod's own containers. Leaves out containers that are marked as injected, and those with the name of
    /// a sidecar of `sets`: they exist because the Pod is admitted again, and the sidecar replaces them. Parts that
    /// `hidden` excludes are not shared.
    ///
    /// `volumes` are those that the sets bring. An app may mount them by name, and what they hold counts now: when the
    /// Pod is admitted again, they are among its own (ORDER-3).
    pub fn new(pod: Pod<'a>, sets: &'a [SidecarSet], volumes: &[(&str, &Value)], hidden: Option<Hidden<'a>>) -> Self {
        let containers = sets.iter().flat_map(SidecarSet::containers);
        let sidecars: BTreeSet<_> =
            containers.flat_map(|sidecar| sidecar::names_in_pod(sidecar, List::Containers)).collect();
        // Of several volumes with one name, the first counts, which is the Pod's own (INJ-26).
        let all = || pod.volumes().iter().chain(volumes.iter().map(|(_, volume)| *volume));
        let volumes = hidden.map(|hidden| Volumes::among(all(), hidden.trusted));
        let is_own = |container: &&Value| !pod::is_injected(container) && !sidecars.contains(pod::name(container));
        let own = pod.containers().iter().filter(is_own);
        let asking = hidden.map_or(&[][..], |hidden| hidden.asking);
        let owners: BTreeSet<&str> = asking.iter().map(|set| set.sidecar_set.as_str()).collect();
        let used: Vec<Used<'_>> =
            sets.iter().filter(|set| owners.contains(set.name())).map(Used::from_sidecar_set).collect();
        let of_owners: BTreeSet<&str> = used.iter().flat_map(Used::defined).collect();
        let containers = own.map(|container| Source::new(container, volumes.as_ref(), &of_owners)).collect();
        Self { pod, containers, sets, owners, offers: Default::default(), variables: OnceCell::new() }
    }

    /// Returns the parts that a sidecar of this set copies.
    pub(crate) fn taken_by(&self, set: &str, sidecar: &Value) -> Taken<'_, 'a> {
        let [without_token, with_token] = &self.offers;
        let is_owner = self.owners.contains(set);
        let offer = || if is_owner { with_token } else { without_token }.get_or_init(|| Offer::new(self, is_owner));
        let mut taken = Taken::default();
        taken.named = transferred(sidecar, self, &mut taken.missing);
        let gets_mounts = shares(sidecar, "shareVolumePolicy");
        if gets_mounts {
            taken.mounts = &offer().mounts;
            taken.needed = &offer().variables;
        }
        if shares(sidecar, "shareVolumeDevicePolicy") {
            taken.devices = if gets_mounts { &offer().devices_beside_mounts } else { &offer().devices };
        }
        taken
    }

    /// Returns the variables in the containers of this name, by name; the last of a name counts. `None` if there is no
    /// such container.
    fn variables_of(&self, name: &str) -> Option<&BTreeMap<&'a str, &'a Value>> {
        let by_container = self.variables.get_or_init(|| {
            let mut all: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
            for Source { container, .. } in &self.containers {
                let variables = json::items(container, &["env"]).iter().map(|variable| (pod::name(variable), variable));
                let known = all.entry(pod::name(container)).or_default();
                // Collecting into a map sorts the variables, which is quicker than inserting them one by one.
                if known.is_empty() {
                    *known = variables.collect();
                } else {
                    known.extend(variables);
                }
            }
            all
        });
        by_container.get(name)
    }
}

impl Own<'_> {
    /// Returns why no container of this name is a source.
    fn why_not(&self, name: &str) -> Missing {
        let is_it = |container: &&Value| pod::name(container) == name;
        let is_sidecar = self.sets.iter().flat_map(made::containers).any(|made| made.name == name);
        let init_container = self.pod.init_containers().iter().find(is_it);
        if is_sidecar
            || self.pod.containers().iter().any(|it| is_it(&it))
            || init_container.is_some_and(pod::is_injected)
        {
            Missing::Injected(name.to_owned())
        } else if init_container.is_some() {
            Missing::InitContainer(name.to_owned())
        } else {
            Missing::Container(name.to_owned())
        }
    }
}

impl<'a> Offer<'a> {
    /// Collects the parts that sidecars share. Sidecars with a token share nothing at, above or below its directory. A
    /// volume that a set with an identity defines is shared with no other set (IDC-11). Of several parts with one path or
    /// name, the first counts, because a sidecar gets that one.
    fn new(own: &Own<'a>, is_owner: bool) -> Self {
        let mut offer = Self::default();
        let (mut all_mounts, mut all_devices, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        for Source { container, mounts, devices } in &own.containers {
            // One offer serves all sets with a token. If there is one such set, the volume is its own.
            let is_the_owner = is_owner && own.owners.len() == 1;
            let offered =
                |shared: &&Shared<'a>| (!is_owner || !shared.is_in_the_way) && (is_the_owner || !shared.is_of_owner);
            let mounts = mounts.iter().filter(offered).map(|mount| mount.item);
            let mut wanted = Vec::new();
            for mount in mounts.clone() {
                expansions(json::text(mount, &["subPathExpr"]), &mut wanted);
            }
            all_mounts.extend(mounts);
            all_devices.extend(devices.iter().filter(offered).map(|device| device.item));
            if wanted.is_empty() {
                continue;
            }
            // Of several variables with one name, the first counts.
            let env = json::items(container, &["env"]).iter().rev();
            let env: BTreeMap<_, _> = env.map(|variable| (pod::name(variable), variable)).collect();
            let found = wanted.into_iter().filter_map(|name| env.get(name).copied());
            offer.variables.extend(found.filter(|variable| names.insert(pod::name(variable))));
        }
        offer.mounts = first_of_each(&all_mounts, "mountPath");
        offer.devices = first_of_each(&all_devices, "devicePath");
        if !offer.devices.is_empty() {
            let paths: BTreeSet<&str> = offer.mounts.iter().map(|mount| json::text(mount, &["mountPath"])).collect();
            let is_beside = |device: &&&Value| !paths.contains(json::text(device, &["devicePath"]));
            offer.devices_beside_mounts = offer.devices.iter().filter(is_beside).copied().collect();
        }
        offer
    }
}

/// Returns the first item for each text at `key`, in the order of the items.
fn first_of_each<'a>(items: &[&'a Value], key: &str) -> Vec<&'a Value> {
    let first = unique::are_first(items.iter().map(|item| json::text(item, &[key])));
    items.iter().zip(first).filter(|(_, is_first)| *is_first).map(|(item, _)| *item).collect()
}

/// Whether a sharing policy of a sidecar is on.
pub(super) fn shares(sidecar: &Value, policy: &str) -> bool {
    json::text(sidecar, &[policy, "type"]) == "enabled"
}

/// Adds the names in the `$(NAME)` expansions of a `subPathExpr`. A name begins with a letter, `-`, `.` or `_`; these
/// and digits may follow. As in the reference implementation, `$$(NAME)` counts as an expansion.
fn expansions<'t>(text: &'t str, names: &mut Vec<&'t str>) {
    let mut left = text;
    while let Some((_, rest)) = left.split_once("$(") {
        left = rest;
        let is_outside = |byte: u8| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'.' | b'_');
        let end = rest.bytes().position(is_outside);
        if let Some((name, after)) = end.and_then(|end| rest.split_at_checked(end))
            && after.starts_with(')')
            && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        {
            names.push(name);
        }
    }
}

/// A part that a transferEnv entry names and that the Pod does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The Pod has no container of this name.
    Container(String),
    /// The container of this name is an init container, and those are no sources.
    InitContainer(String),
    /// The container of this name was injected, or is injected now.
    Injected(String),
    /// The container does not set this variable.
    Variable {
        /// The container.
        container: String,
        /// The variable.
        variable: String,
    },
    /// The Pod has no name yet: the API server generates it from `generateName` later (DIFF-17).
    PodName,
    /// The label or the annotation that should contain the container's name is missing, or the field path is not
    /// allowed.
    Field(String),
    /// More than [`MISSING_MAX`] parts are missing.
    More,
}

/// The most missing parts of a sidecar that are listed (E18).
const MISSING_MAX: usize = 100;

/// Returns the variables that a sidecar copies, in the order of its transferEnv entries and by name within each
/// (INJ-16). Adds missing parts to `missing`; the reference implementation omits them silently.
fn transferred<'a>(sidecar: &Value, own: &Own<'a>, missing: &mut Vec<Missing>) -> Vec<&'a Value> {
    let mut variables = Vec::new();
    let mut miss = |thing: &dyn Fn() -> Missing| match missing.len() {
        ..MISSING_MAX => missing.push(thing()),
        MISSING_MAX => missing.push(Missing::More),
        _ => {}
    };
    for entry in json::items(sidecar, &["transferEnv"]) {
        let mut wanted: BTreeSet<&str> = json::items(entry, &["envNames"]).iter().filter_map(Value::as_str).collect();
        let one = json::text(entry, &["envName"]);
        if !one.is_empty() {
            wanted.insert(one);
        }
        let source = match json::object(entry, &["sourceContainerNameFrom", "fieldRef"]) {
            None => json::text(entry, &["sourceContainerName"]),
            Some(field) => {
                let path = field.get("fieldPath").and_then(Value::as_str).unwrap_or_default();
                match container_name_from(path, own.pod) {
                    Ok(name) => name,
                    Err(reason) => {
                        miss(&|| reason.clone());
                        continue;
                    }
                }
            }
        };
        if wanted.is_empty() {
            continue;
        }
        // Of several variables with one name, the last counts, in a container and across containers.
        let Some(env) = own.variables_of(source) else {
            miss(&|| own.why_not(source));
            continue;
        };
        for wanted in wanted {
            match env.get(wanted) {
                Some(variable) => variables.push(*variable),
                None => miss(&|| Missing::Variable { container: source.to_owned(), variable: wanted.to_owned() }),
            }
        }
    }
    variables
}

/// Returns the container's name in `metadata.labels['k']`, `metadata.annotations['k']` or `metadata.name`.
fn container_name_from<'a>(path: &str, pod: Pod<'a>) -> Result<&'a str, Missing> {
    if path == "metadata.name" {
        return Some(pod.name()).filter(|name| !name.is_empty()).ok_or(Missing::PodName);
    }
    let unusable = || Missing::Field(path.to_owned());
    let (field, key) = downward_api::subscript(path).ok_or_else(unusable)?;
    let (map, checked) = match field {
        // Check keys of annotations in lower case, as the API server does.
        "metadata.annotations" => (pod.annotations(), key.to_ascii_lowercase()),
        "metadata.labels" => (pod.labels(), key.to_owned()),
        _ => return Err(unusable()),
    };
    if name_validation::qualified_name(&checked).is_some() {
        return Err(unusable());
    }
    map.and_then(|map| map.get(key)).and_then(Value::as_str).filter(|name| !name.is_empty()).ok_or_else(unusable)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use pillion_identity::rules::Rules;

    #[rstest]
    #[case("$(POD)/x", &["POD"])]
    #[case("a/$(A.b-c_9)/$(_X)", &["A.b-c_9", "_X"])]
    #[case("$(9A) $() $(A B) $(A", &[])]
    #[case("$$(A)", &["A"])]
    #[case("$(A$(B)", &["B"])]
    #[case("é$(A)é", &["A"])]
    fn inj15_expansions(#[case] text: &str, #[case] names: &[&str]) {
        let mut found = Vec::new();
        expansions(text, &mut found);
        assert_eq!(found, names);
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "p", "labels": {"from": "app"}, "annotations": {"Key": "app", "none": ""}},
            "spec": {"containers": [
                {"name": "app", "env": [
                    {"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "B", "valueFrom": {}}
                ]},
                {"name": "ours", "env": [{"name": "A", "value": "3"}, {"name": "IS_INJECTED", "value": "true"}]}
            ]}
        })
    }

    fn transfer(entry: &Value) -> (Vec<Value>, Vec<Missing>) {
        let pod = pod();
        let mut missing = Vec::new();
        let sidecar = json!({ "transferEnv": [entry] });
        let taken = transferred(&sidecar, &Own::new(Pod::decode(&pod).unwrap(), &[], &[], None), &mut missing);
        (taken.into_iter().cloned().collect(), missing)
    }

    #[test]
    fn inj16_last_duplicate_wins_and_value_from_is_copied() {
        let (taken, missing) = transfer(&json!({"sourceContainerName": "app", "envName": "B", "envNames": ["A", "B"]}));
        assert_eq!(taken, [json!({"name": "A", "value": "2"}), json!({"name": "B", "valueFrom": {}})]);
        assert_eq!(missing, []);
    }

    /// OpenKruise's types do not have the field, and drop it from the copy.
    #[test]
    fn inj16_a_variable_from_a_file_is_copied_whole() {
        let variable = json!({"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}});
        let pod = json!({"spec": {"containers": [{"name": "app", "env": [variable]}]}});
        let own = Own::new(Pod::decode(&pod).unwrap(), &[], &[], None);
        let sidecar = json!({"transferEnv": [{"sourceContainerName": "app", "envName": "F"}]});
        let mut missing = Vec::new();
        assert_eq!(transferred(&sidecar, &own, &mut missing), [&variable]);
        assert_eq!(missing, []);
    }

    #[rstest]
    #[case::as_many_as_are_told(MISSING_MAX, MISSING_MAX)]
    #[case::one_more(MISSING_MAX + 1, MISSING_MAX + 1)]
    #[case::many_more(4 * MISSING_MAX, MISSING_MAX + 1)]
    fn e18_the_first_missing_variables_are_told(#[case] names: usize, #[case] expected: usize) {
        let names: Vec<String> = (0..names).map(|index| format!("V{index}")).collect();
        let (taken, missing) = transfer(&json!({"sourceContainerName": "app", "envNames": names}));
        assert_eq!(taken, Vec::<Value>::new());
        assert_eq!(missing.len(), expected);
        assert_eq!(missing.last() == Some(&Missing::More), expected > MISSING_MAX);
    }

    #[rstest]
    #[case::label("metadata.labels['from']", Ok("app"))]
    #[case::annotation_key_in_upper_case("metadata.annotations['Key']", Ok("app"))]
    #[case::pod_name("metadata.name", Ok("p"))]
    #[case::missing_label("metadata.labels['x']", Err(Missing::Field("metadata.labels['x']".to_owned())))]
    #[case::empty_annotation("metadata.annotations['none']", Err(Missing::Field("metadata.annotations['none']".to_owned())))]
    #[case::no_subscript("metadata.labels", Err(Missing::Field("metadata.labels".to_owned())))]
    #[case::bad_key("metadata.labels['a b']", Err(Missing::Field("metadata.labels['a b']".to_owned())))]
    #[case::other_field("status.podIP['x']", Err(Missing::Field("status.podIP['x']".to_owned())))]
    fn inj16_source_container_from_a_field(#[case] path: &str, #[case] expected: Result<&str, Missing>) {
        let pod = pod();
        assert_eq!(container_name_from(path, Pod::decode(&pod).unwrap()), expected);
    }

    #[test]
    fn diff17_pod_name_is_missing_with_generate_name() {
        let pod = json!({"metadata": {"generateName": "p-"}});
        assert_eq!(container_name_from("metadata.name", Pod::decode(&pod).unwrap()), Err(Missing::PodName));
    }

    #[test]
    fn order5_injected_containers_are_no_source() {
        let (taken, missing) = transfer(&json!({"sourceContainerName": "ours", "envName": "A"}));
        assert_eq!((taken, missing), (vec![], vec![Missing::Injected("ours".to_owned())]));
    }

    #[rstest]
    #[case::container_of_the_app("app2", Missing::Container("app2".to_owned()))]
    #[case::native_sidecar_of_the_app("proxy", Missing::InitContainer("proxy".to_owned()))]
    #[case::init_container_of_the_app("prepare", Missing::InitContainer("prepare".to_owned()))]
    #[case::injected_before("ours", Missing::Injected("ours".to_owned()))]
    #[case::native_injected_before("mesh", Missing::Injected("mesh".to_owned()))]
    #[case::injected_now("tail", Missing::Injected("tail".to_owned()))]
    #[case::native_injected_now("init", Missing::Injected("init".to_owned()))]
    #[case::half_of_a_pair("hot-1", Missing::Injected("hot-1".to_owned()))]
    #[case::no_name("", Missing::Container(String::new()))]
    fn inj16_a_container_that_is_no_source_is_told_as_what_it_is(#[case] name: &str, #[case] expected: Missing) {
        let injected = json!([{"name": "IS_INJECTED", "value": "true"}]);
        let mut pod = pod();
        pod["spec"]["initContainers"] = json!([
            {"name": "proxy", "restartPolicy": "Always", "env": [{"name": "A", "value": "1"}]}, {"name": "prepare"},
            {"name": "mesh", "restartPolicy": "Always", "env": injected},
        ]);
        let hot = json!({"name": "hot", "upgradeStrategy": {"upgradeType": "HotUpgrade"}});
        let set = json!({"spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "tail"}, hot]}});
        let sets = [SidecarSet::from_decoded(set)];
        let own = Own::new(Pod::decode(&pod).unwrap(), &sets, &[], None);
        let mut missing = Vec::new();
        let sidecar = json!({"transferEnv": [{"sourceContainerName": name, "envName": "A"}]});
        assert_eq!(transferred(&sidecar, &own, &mut missing).len(), 0);
        assert_eq!(missing, [expected]);
    }

    #[test]
    fn missing_variables_are_named() {
        let (taken, missing) = transfer(&json!({"sourceContainerName": "app", "envNames": ["A", "Z"]}));
        assert_eq!(taken.len(), 1);
        assert_eq!(missing, [Missing::Variable { container: "app".to_owned(), variable: "Z".to_owned() }]);
    }

    #[test]
    fn long_texts_without_an_end_are_read_once() {
        let text = "$(".repeat(500_000);
        let mut found = Vec::new();
        expansions(&text, &mut found);
        assert_eq!(found.len(), 0);
        let text = format!("{}$(A)", "$(A".repeat(500_000));
        expansions(&text, &mut found);
        assert_eq!(found.len(), 1);
    }

    #[rstest]
    #[case::at_the_path("data", "/var/run/secrets/kubernetes.io/serviceaccount", false, false)]
    #[case::sap8j_with_a_slash("data", "/var/run/secrets/kubernetes.io/serviceaccount/", false, false)]
    #[case::e21_behind_the_link("data", "/run/secrets/kubernetes.io/serviceaccount", false, false)]
    #[case::token("vault", "/vault", false, false)]
    #[case::e19_certificate("certificate", "/c", false, false)]
    #[case::e19_driver("driver", "/d", false, false)]
    #[case::e21_above("data", "/var/run/secrets/kubernetes.io", false, true)]
    #[case::e21_below("data", "/run/secrets/kubernetes.io/serviceaccount/x", false, true)]
    #[case::trusted_driver("nfs", "/n", true, true)]
    #[case::of_no_volume("gone", "/gone", true, true)]
    fn idc8_mounts_that_are_not_shared(
        #[case] volume: &str,
        #[case] path: &str,
        #[case] with_owners: bool,
        #[case] with_others: bool,
    ) {
        let pod = json!({"spec": {
            "containers": [{"name": "app", "volumeMounts": [{"name": volume, "mountPath": path}]}],
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}},
                {"name": "certificate", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}},
                {"name": "driver", "csi": {"driver": "vault.example"}},
                {"name": "nfs", "csi": {"driver": "nfs.csi.k8s.io"}}
            ]
        }});
        let asking = [crate::tests::asking("owner")];
        let rules = Rules::default();
        let hidden = Hidden { asking: &asking, trusted: &rules.trusted_csi_drivers };
        let sidecar = json!({"shareVolumePolicy": {"type": "enabled"}});
        let shares = |set: &str, hidden: Option<Hidden<'_>>| {
            let own = Own::new(Pod::decode(&pod).unwrap(), &[], &[], hidden);
            !own.taken_by(set, &sidecar).mounts.is_empty()
        };
        assert_eq!((shares("owner", Some(hidden)), shares("other", Some(hidden))), (with_owners, with_others));
        assert!(shares("owner", None), "as the reference does where nobody asks for an identity");
    }

    #[test]
    fn inj15_the_first_variable_of_a_name_is_expanded_each_time_at_once() {
        let env: Vec<Value> =
            (0..30_000).map(|n| json!({"name": format!("V{}", n / 2), "value": n.to_string()})).collect();
        let pod = json!({"spec": {"containers": [
            {"name": "app", "env": env, "volumeMounts": [{"name": "v", "subPathExpr": "$(V14999)".repeat(30_000)}]}
        ]}});
        let sidecar = json!({"shareVolumePolicy": {"type": "enabled"}});
        let own = Own::new(Pod::decode(&pod).unwrap(), &[], &[], None);
        let variables: Vec<_> = own.taken_by("s", &sidecar).variables().collect();
        assert_eq!(variables.len(), 1);
        assert!(variables.iter().all(|variable| variable["value"] == "29998"));
    }
}
