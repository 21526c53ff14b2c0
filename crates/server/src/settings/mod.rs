//! The settings of a server: checked, compiled and serialized once, when they are loaded, rather than for every request.
//!
//! A request carries its settings into the module, whose work grows with their length. Therefore the SidecarSets become
//! a bundle, however they are written, and the creation of a Pod carries only those that match it ([`pods`]).

mod catalogs;
mod groups;
mod known;
mod many;
mod maps;
mod pods;

use std::sync::Arc;
use std::time::SystemTime;

use pillion_admission::settings::{Role, Settings};
use pillion_bundle::catalog::Catalog;
use pillion_bundle::source::ConfigMapName;
use pillion_host::{Cluster, Error, Module, Operation};
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Map, Value};

use self::catalogs::Catalogs;
pub(crate) use self::many::Many;
use self::maps::{Maps, Shortened};
use self::pods::PodSettings;
use crate::subject::Subject;

/// Parses the bytes of a file into settings. The error is a text that names the file.
pub type Parse = dyn Fn(&[u8]) -> Result<Value, String> + Send + Sync;

/// Why a server cannot use settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings are not an object.
    #[error("the settings are no object")]
    NotAnObject,
    /// The settings set a role, but the server derives the role from the path.
    #[error(
        "role: Invalid value: \"Assert\": a server has both roles, by the path of the webhook (/mutate and /assert); leave it out"
    )]
    Role,
    /// The module rejects the settings; the text names every invalid field.
    #[error("{0}")]
    Invalid(String),
    /// The module gave no verdict.
    #[error("the settings could not be checked: {0}")]
    Unchecked(Error),
}

/// Settings that the module accepted.
pub struct ServedSettings {
    /// Of SidecarSets that are too many for one bundle, it has only those that guards ask for.
    whole: Text,
    /// `None` if there are no SidecarSets, or if they cannot become a bundle.
    pods: Option<PodSettings>,
    /// The settings without SidecarSets, if these are too many for one bundle.
    others: Option<Map<String, Value>>,
    /// The ConfigMaps of `bundleRef`.
    maps: Option<Arc<Maps>>,
    loaded: SystemTime,
}

impl ServedSettings {
    /// Checks settings with the module, and compiles their SidecarSets; null counts as empty settings. Blocks: many
    /// SidecarSets take a while.
    ///
    /// # Errors
    /// [`SettingsError`] if a server cannot use the settings.
    pub fn check(module: &Module, settings: Value) -> Result<Self, SettingsError> {
        let settings = match settings {
            Value::Null => Map::new(),
            Value::Object(settings) => settings,
            _ => return Err(SettingsError::NotAnObject),
        };
        if settings.get("role").is_some_and(|role| role == "Assert") {
            return Err(SettingsError::Role);
        }
        let as_written = Value::Object(settings.clone());
        let verdict = module.validate_settings(&as_written).map_err(SettingsError::Unchecked)?;
        if !verdict.valid {
            return Err(SettingsError::Invalid(verdict.message.unwrap_or_default()));
        }
        let decoded = Settings::decode(as_written).ok();
        let catalog = decoded.as_ref().and_then(compile);
        let at = decoded.and_then(|decoded| decoded.bundle_source.config_map);
        Self::compiled(settings, catalog.map(|catalog| (catalog.into(), None)), at)
    }

    /// Like [`Self::check`], for settings with many SidecarSets.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn check_many(module: &Module, many: Many<'_>, parse: &Parse) -> Result<Self, SettingsError> {
        let (settings, catalogs, with_accounts) = many.check(module, parse)?;
        if settings.get("role").is_some_and(|role| role == "Assert") {
            return Err(SettingsError::Role);
        }
        let at = Settings::decode(settings.clone().into()).ok().and_then(|decoded| decoded.bundle_source.config_map);
        Self::compiled(settings, Some((catalogs, with_accounts)), at)
    }

    /// Beside several bundles is one of the SidecarSets with a ServiceAccount. `at` is the ConfigMap of `bundleRef`.
    fn compiled(
        mut settings: Map<String, Value>,
        catalogs: Option<(Catalogs, Option<String>)>,
        at: Option<ConfigMapName>,
    ) -> Result<Self, SettingsError> {
        settings.remove("role");
        let mut others = None;
        let pods = catalogs.map(|(catalogs, with_accounts)| {
            settings.remove("sidecarSets");
            settings.remove("bundle");
            if catalogs.text().is_none() {
                others = Some(settings.clone());
            }
            if let Some(text) = catalogs.text().map(str::to_owned).or(with_accounts) {
                settings.insert("bundle".to_owned(), text.into());
            }
            PodSettings::new(catalogs, &settings)
        });
        let operation = Operation::ValidateSettings;
        let whole =
            Text::new(&settings).map_err(|error| SettingsError::Unchecked(Error::Message { operation, error }))?;
        Ok(Self { whole, pods, others, maps: at.map(Maps::new).map(Arc::new), loaded: SystemTime::now() })
    }

    /// Returns the time when they were checked.
    pub fn loaded(&self) -> SystemTime {
        self.loaded
    }

    /// Returns the ConfigMap of `bundleRef`.
    pub fn bundle(&self) -> Option<&ConfigMapName> {
        self.maps.as_ref().map(|maps| maps.at())
    }

    /// Returns the cluster as the module sees it for this request.
    pub(super) fn cluster(&self, subject: &Subject<'_>, cluster: Arc<dyn Cluster>) -> Arc<dyn Cluster> {
        match self.maps.as_ref().and_then(|maps| Some((maps, subject.new_pod()?))) {
            Some((maps, pod)) => Arc::new(Shortened { cluster, maps: Arc::clone(maps), pod: Arc::clone(pod) }),
            None => cluster,
        }
    }

    /// Returns the payload that asks the module for a decision.
    ///
    /// # Errors
    /// The SidecarSets are too many for one bundle, and those that this request is about cannot be told or put together:
    /// the others must not decide alone.
    pub(super) fn payload(&self, role: Role, subject: &Subject<'_>) -> serde_json::Result<Vec<u8>> {
        let for_pod = self.pods.as_ref().and_then(|pods| pods.text_for(subject.new_pod()?));
        let shorter = for_pod.or_else(|| self.text_beside(subject));
        if shorter.is_none() && self.others.is_some() && subject.needs_all_sets() {
            return Err(serde::ser::Error::custom("the SidecarSets that the request is about cannot be put together"));
        }
        let settings = shorter.as_ref().unwrap_or(&self.whole);
        let mut payload = Vec::with_capacity(subject.length() + settings.0.len() + ENVELOPE);
        payload.extend_from_slice(br#"{"request":"#);
        serde_json::to_writer(&mut payload, subject.request())?;
        payload.extend_from_slice(br#","settings":"#);
        settings.write(role, &mut payload);
        payload.push(b'}');
        Ok(payload)
    }
}

impl ServedSettings {
    /// Returns the settings for a SidecarSet of the cluster, if those of the settings are too many for one bundle.
    fn text_beside(&self, subject: &Subject<'_>) -> Option<Text> {
        let request = subject.request();
        if request.kind.kind != "SidecarSet" {
            return None;
        }
        let mut settings = self.others.clone()?;
        settings.insert("bundle".to_owned(), self.pods.as_ref()?.bundle_beside(request.object)?.into());
        Text::new(&settings).ok()
    }
}

/// The usual length of a payload without objects and settings, in bytes.
const ENVELOPE: usize = 1024;

impl std::fmt::Debug for ServedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedSettings").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

/// Settings without a role, as the JSON of their members: `,"<key>":<value>` for each.
#[derive(Clone)]
struct Text(Arc<[u8]>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Text {
    fn new(settings: &Map<String, Value>) -> serde_json::Result<Self> {
        let mut members = Vec::new();
        for (key, value) in settings {
            members.push(b',');
            serde_json::to_writer(&mut members, key)?;
            members.push(b':');
            serde_json::to_writer(&mut members, value)?;
        }
        Ok(Self(members.into()))
    }

    /// Appends the settings with this role.
    fn write(&self, role: Role, into: &mut Vec<u8>) {
        into.extend_from_slice(match role {
            Role::Inject => br#"{"role":"Inject""#,
            Role::Assert => br#"{"role":"Assert""#,
        });
        into.extend_from_slice(&self.0);
        into.push(b'}');
    }
}

/// Compiles the SidecarSets of valid settings: those of `sidecarSets` and of `bundle`.
///
/// Returns `None` if there are none, or if they cannot become one bundle, for example because they are too long or two have one name. The
/// module then gets the settings as they are written.
fn compile(settings: &Settings) -> Option<Catalog> {
    let sets = settings.all_sidecar_sets().ok()?;
    if sets.is_empty() {
        return None;
    }
    let sets: Vec<SidecarSet> = sets.iter().cloned().map(SidecarSet::for_settings).collect();
    Catalog::read(pillion_bundle::write(&sets)).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Settings whose SidecarSets are in several bundles, none of which can be used.
    fn unusable() -> ServedSettings {
        let whole = Text::new(&Map::new()).unwrap();
        ServedSettings { whole, pods: None, others: Some(Map::new()), maps: None, loaded: SystemTime::now() }
    }

    #[rstest]
    #[case::a_new_pod("Pod", "CREATE", true, false)]
    #[case::a_changed_pod("Pod", "UPDATE", true, true)]
    #[case::a_new_sidecar_set("SidecarSet", "CREATE", true, false)]
    #[case::a_deleted_sidecar_set("SidecarSet", "DELETE", false, true)]
    #[case::another_kind("Secret", "CREATE", true, true)]
    fn without_the_sets_of_a_request_nothing_decides(
        #[case] kind: &str,
        #[case] operation: &str,
        #[case] has_object: bool,
        #[case] is_asked: bool,
    ) {
        let group = if kind == "SidecarSet" { "apps.kruise.io" } else { "" };
        let mut request = json!({
            "uid": "u", "kind": {"group": group, "version": "v1", "kind": kind},
            "resource": {"group": group, "version": "v1", "resource": "r"}, "operation": operation, "userInfo": {},
        });
        if has_object {
            request["object"] = json!({"metadata": {"name": "a"}});
        }
        let text = request.to_string();
        let subject = Subject::new(serde_json::from_str(&text).unwrap());
        assert_eq!(unusable().payload(Role::Inject, &subject).is_ok(), is_asked);
        let usable = ServedSettings { others: None, ..unusable() };
        assert!(usable.payload(Role::Inject, &subject).is_ok(), "the module gets all SidecarSets");
    }
}
