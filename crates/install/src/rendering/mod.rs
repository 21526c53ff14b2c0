//! Renders the manifests that a cluster needs to run Pillion from one settings file: for Kubewarden ([`kubewarden`]) or
//! with Pillion's own server ([`standalone`]); the controllers ([`controller`]); the SidecarSet definition ([`crd`]);
//! and the data of the Helm chart ([`chart`]).
//!
//! The output depends only on settings and options, so the same input yields the same bytes. It can be applied
//! repeatedly: it has no times, no empty lists, and no values that the API server would write differently.

pub mod access;
pub mod answers;
pub mod chart;
pub mod controller;
pub mod crd;
pub mod document;
pub mod kubewarden;
mod namespaces;
pub mod needs;
pub mod options;
pub mod process;
pub mod readers;
pub mod standalone;

use std::collections::BTreeSet;

use anyhow::bail;
use pillion_admission::settings::{Role, Settings};
use pillion_identity::rules::SYSTEM_NAMESPACES;
use pillion_kubernetes::json;
use pillion_sidecarset::names;
use pillion_yaml as yaml;
use serde_json::{Map, Value, json};

use self::answers::{Condition, Part};
use self::document::Document;
use self::needs::Needs;
use self::options::{Common, FailurePolicy};

/// The setting by which authors of SidecarSets must be allowed to create Pods.
const REQUIRE_CREATE_PODS: [&str; 2] = ["serviceAccounts", "requireCreatePods"];
/// The setting that names the ConfigMap with the cluster's SidecarSets.
const BUNDLE_REF: &str = "bundleRef";
/// The name of that ConfigMap, unless the settings name it. The chart has the same default.
const BUNDLE: &str = "pillion-bundle";
/// The beginning of the names of ServiceAccounts as users.
const ACCOUNTS: &str = "system:serviceaccount:";
/// The settings that have SidecarSets of their own.
const OWN_SETS: [&str; 2] = ["sidecarSets", "bundle"];
/// The size limit of a ConfigMap, in bytes.
const CONFIG_MAP: usize = 1 << 20;

/// The result of a rendering: objects and notes.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The objects, in the recommended order of application.
    pub documents: Vec<Document>,
    /// Facts to know and things to do, one sentence each.
    pub notes: Vec<String>,
}

/// Settings in raw form, and what they need.
struct Input {
    raw: Map<String, Value>,
    needs: Needs,
    /// `serviceAccounts.protectedNamespaces`.
    protected: Vec<String>,
    /// How the cluster's SidecarSets reach the policy.
    sets_of_cluster: SetsOfCluster,
}

/// How the SidecarSets of the cluster reach the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetsOfCluster {
    /// Through the ConfigMap that `bundleRef` of the settings names.
    InBundle,
    /// The same, and the rendering has chosen the ConfigMap: the settings have no SidecarSets, and without a bundle they
    /// would inject nothing.
    InDefaultBundle,
    /// Not at all: only the SidecarSets of the settings are injected.
    Never,
}

impl Input {
    /// Decodes settings. `any`: also include the needs of any other SidecarSets. `without`: the parts to leave out.
    ///
    /// A rendering is a new installation: `requireCreatePods` is on unless the settings say otherwise. The module's own
    /// default is off, as in OpenKruise. Settings that have neither SidecarSets nor `bundleRef` get the `bundleRef` of a
    /// ConfigMap in the namespace of the controllers, where the controller `bundle` writes it: the one of
    /// `serviceAccounts.controllerUser`, else `home`, the namespace of the rendered process. `bundleRef: null` keeps it
    /// out.
    fn read(settings: &Value, home: Option<&str>, any: bool, without: &[Part]) -> anyhow::Result<Self> {
        let sets_of_cluster = match settings.get(BUNDLE_REF) {
            Some(Value::Null) => SetsOfCluster::Never,
            Some(_) => SetsOfCluster::InBundle,
            None if has_own_sets(settings) => SetsOfCluster::Never,
            None => SetsOfCluster::InDefaultBundle,
        };
        let mut settings = settings.clone();
        if sets_of_cluster == SetsOfCluster::InDefaultBundle {
            let controllers = controllers_namespace(&settings, home);
            insert(&mut settings, BUNDLE_REF, json!({"namespace": controllers, "name": BUNDLE}));
        }
        let settings = &settings;
        let mut decoded = match Settings::decode(settings.clone()) {
            Ok(decoded) => decoded,
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                bail!("the settings cannot be decoded: {}", errors.join("; "))
            }
        };
        if decoded.role == Role::Assert {
            bail!(
                "the settings have the role Assert; leave it out: the asserting twin is rendered from the same settings"
            );
        }
        let mut raw = settings.as_object().cloned().unwrap_or_default();
        // Without the null, another rendering of these settings would have a bundle.
        raw.retain(|key, value| key != "role" && (!value.is_null() || key == BUNDLE_REF));
        if json::at(settings, &REQUIRE_CREATE_PODS).is_none_or(Value::is_null) {
            let [rules, key] = REQUIRE_CREATE_PODS;
            insert(raw.entry(rules).or_insert_with(|| json!({})), key, json!(true));
            decoded.service_accounts.require_create_pods = true;
        }
        let needs = Needs::from_settings(settings, &decoded, any)?.without(without);
        let protected = decoded.service_accounts.protected_namespaces;
        Ok(Self { raw, needs, protected, sets_of_cluster })
    }

    /// Returns the settings of a part: the ones that the part reads.
    fn settings_for(&self, part: Part) -> Value {
        let mut settings = match part {
            Part::TokenSecrets => {
                let mut settings = self.raw.clone();
                settings.retain(|key, _| key == "serviceAccounts");
                if let Some(rules) = settings.get_mut("serviceAccounts").and_then(Value::as_object_mut) {
                    rules.retain(|key, _| key.starts_with("legacyToken"));
                }
                settings.retain(|_, rules| rules.as_object().is_some_and(|rules| !rules.is_empty()));
                settings
            }
            Part::Images | Part::TokenRequests => {
                let mut settings = self.raw.clone();
                settings.retain(|key, _| key == "serviceAccounts");
                if let Some(rules) = settings.get_mut("serviceAccounts").and_then(Value::as_object_mut) {
                    rules.retain(|key, _| ["controllerUser", "guards", "trustedCsiDrivers"].contains(&key.as_str()));
                }
                settings
            }
            Part::Shoots => {
                let mut settings = self.raw.clone();
                settings.retain(|key, _| key == "shoots");
                settings
            }
            _ => self.raw.clone(),
        };
        if part == Part::Assert {
            settings.insert("role".to_owned(), "Assert".into());
        }
        settings.into()
    }

    /// Returns the settings as the text of a ConfigMap.
    ///
    /// # Errors
    /// If they are too large for one.
    fn text(&self) -> anyhow::Result<String> {
        let text = yaml::print(&yaml::Tree::conventional(&Value::Object(self.raw.clone())));
        if text.len() >= CONFIG_MAP {
            bail!(
                "the settings have {} bytes, and a ConfigMap takes less than 1 MiB; compile the SidecarSets with \
                 pillion bundle --settings -o yaml",
                text.len()
            );
        }
        Ok(text)
    }

    /// Returns the note about SidecarSets that are applied to the cluster, if there is something to know.
    fn note_about_sets(&self) -> Option<String> {
        match self.sets_of_cluster {
            SetsOfCluster::InBundle => None,
            SetsOfCluster::InDefaultBundle => Some(format!(
                "the settings have no SidecarSets, so bundleRef names the ConfigMap \"{}\", which the controller \
                 `bundle` keeps (`pillion manifest controller`): until it is there, Pods are refused; bundleRef: null in \
                 the settings leaves it out",
                self.needs.bundle.as_ref().map(|bundle| format!("{}/{}", bundle.namespace, bundle.name)).unwrap_or_default()
            )),
            SetsOfCluster::Never => Some(
                "SidecarSets that are applied to the cluster are not injected, only those of the settings: bundleRef in \
                 the settings changes that, with the controller `bundle` (`pillion manifest controller`)"
                    .to_owned(),
            ),
        }
    }

    /// Returns the notes that do not depend on how Pillion runs.
    fn notes(&self, common: &Common) -> Vec<String> {
        let mut notes = Vec::from_iter(self.note_about_sets());
        let mut note = |is_so: bool, text: String| {
            if is_so {
                notes.push(text);
            }
        };
        let needs = &self.needs;
        for part in [Part::Guards, Part::Assert, Part::TokenSecrets] {
            note(
                needs.has_identities && common.without.contains(&part),
                format!(
                    "identities are on, and the {} are left out: docs/security.md says what is open then",
                    part.name()
                ),
            );
        }
        let unprotected: Vec<&str> = excluded(common, needs)
            .into_iter()
            .filter(|namespace| !self.protected.iter().any(|protected| protected == namespace))
            .collect();
        note(
            needs.has_identities && !unprotected.is_empty(),
            format!(
                "no policy sees the Pods of {}: add these namespaces to serviceAccounts.protectedNamespaces, so that no \
                 SidecarSet names a ServiceAccount there",
                unprotected.join(", ")
            ),
        );
        note(
            needs.has(Part::Pods) && common.failure_policy == Some(FailurePolicy::Ignore),
            "with --failure-policy Ignore, Pods start without their sidecars while no server answers".to_owned(),
        );
        note(
            common.guard_failure_policy == Some(FailurePolicy::Ignore),
            "with --guard-failure-policy Ignore, nothing is guarded while no server answers".to_owned(),
        );
        if let Some((key, value)) = &common.opt_out_label {
            note(true, format!("creators of Pods can keep every sidecar out with the label {key}={value}"));
        }
        notes
    }
}

/// Returns the namespace of the controllers: that of `serviceAccounts.controllerUser`, else `home`, else that of the
/// default user.
fn controllers_namespace(settings: &Value, home: Option<&str>) -> String {
    let defaults = Settings::default().service_accounts;
    let namespace_of = |user: &str| Some(user.strip_prefix(ACCOUNTS)?.split_once(':')?.0.to_owned());
    let named = namespace_of(json::text(settings, &["serviceAccounts", "controllerUser"]));
    let home = home.map(str::to_owned);
    named.or(home).or_else(|| namespace_of(&defaults.controller_user)).unwrap_or_default()
}

/// Whether settings have SidecarSets, compiled or not.
pub fn has_own_sets(settings: &Value) -> bool {
    OWN_SETS.iter().any(|key| match settings.get(key) {
        Some(Value::Array(sets)) => !sets.is_empty(),
        Some(Value::String(bundle)) => !bundle.is_empty(),
        _ => false,
    })
}

/// Selects every namespace except these.
fn namespace_selector(excluded: &BTreeSet<&str>) -> Value {
    let excluded = json!({"key": names::NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": excluded});
    json!({"matchExpressions": [excluded]})
}

/// Returns the namespaces without injection: the system namespaces, `systemNamespace`, and those of the options.
fn excluded<'a>(common: &'a Common, needs: &'a Needs) -> BTreeSet<&'a str> {
    let mut excluded: BTreeSet<&str> = common.exclude_namespaces.iter().map(String::as_str).collect();
    excluded.extend(SYSTEM_NAMESPACES);
    excluded.insert(&needs.system_namespace);
    excluded
}

/// Selects every object without this label.
fn object_selector((key, value): &(String, String)) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]})
}

fn rules(part: Part) -> Value {
    part.rules().iter().map(|rule| rule.to_value()).collect()
}

fn conditions(conditions: &[Condition]) -> Value {
    conditions.iter().map(|condition| json!({"name": condition.name, "expression": condition.expression})).collect()
}

/// Adds the reason of each condition as a comment. `pointer` is the JSON pointer of their list.
fn explain(document: Document, pointer: &str, conditions: &[Condition]) -> Document {
    conditions.iter().enumerate().fold(document, |document, (index, condition)| {
        document.with_comment(format!("{pointer}/{index}"), condition.why)
    })
}

fn insert(map: &mut Value, key: &str, value: Value) {
    if let Some(map) = map.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}
