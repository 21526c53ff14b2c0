//! The policy's settings, from a file and from the manifests beside it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use pillion_admission::settings::Settings;
use pillion_documents::locate;
use pillion_documents::manifest::{self, Manifest, Source};
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::json;
use pillion_sidecarset::sidecar_set::origin::Origin as SetOrigin;
use pillion_terminal::Terminal;
use pillion_workload::settings as list;
use serde_json::{Value, json};

use crate::rendering::document::PILLION;
use crate::rendering::{has_own_sets, process};

/// Settings and the origins of their SidecarSets.
#[derive(Debug)]
pub struct Assembled {
    /// The settings.
    pub value: Value,
    /// The manifest of each item of `sidecarSets`; `None` for items of the settings' own file.
    manifests: Vec<Option<Manifest>>,
    /// The place of the settings.
    origin: Option<Origin>,
}

/// Settings as given.
#[derive(Debug, Default)]
pub struct Given {
    /// The settings; null if there are none.
    pub value: Value,
    /// The manifest of the Kubewarden policy that contains them.
    pub policy: Option<Value>,
    /// Their place; `None` if there are none.
    pub origin: Option<Origin>,
}

/// The place of settings.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The document.
    pub manifest: Manifest,
    /// The path of the settings in the document; empty if the document is the settings.
    pub base: String,
}

/// Reads settings: a settings object, or the Kubewarden policy that contains it.
///
/// If a file has several policies, takes the one whose rules cover Pods.
///
/// # Errors
/// Those of [`with_policy`].
pub fn of_files(path: &Path) -> anyhow::Result<Value> {
    with_policy(path).map(|given| given.value)
}

/// Returns the settings of [`of_files`] with their place, and the manifest of the policy that contains them, if any.
///
/// # Errors
/// If the file cannot be read, has no settings, or has several candidate policies.
pub fn with_policy(path: &Path) -> anyhow::Result<Given> {
    among(manifest::read(&[path.to_owned()], false)?, &path.display().to_string())
}

/// Like [`of_files`], for a text already read; `name` is for messages.
///
/// # Errors
/// Those of [`with_policy`].
pub fn of_text(name: &str, text: String) -> anyhow::Result<Value> {
    of_source(Source::new(name, text))
}

/// Like [`of_text`], for the bytes of a file already read.
///
/// # Errors
/// Those of [`with_policy`].
pub fn of_bytes(name: &str, bytes: &[u8]) -> anyhow::Result<Value> {
    of_source(Source::decoded(name, bytes)?)
}

fn of_source(source: Source) -> anyhow::Result<Value> {
    let source = Arc::new(source);
    among(manifest::parse(&source)?, &source.name).map(|given| given.value)
}

fn among(mut manifests: Vec<Manifest>, name: &str) -> anyhow::Result<Given> {
    let is_policy = |manifest: &Manifest| {
        json::text(&manifest.value, &["apiVersion"]).starts_with("policies.kubewarden.io/")
            && matches!(json::text(&manifest.value, &["kind"]), "ClusterAdmissionPolicy" | "AdmissionPolicy")
    };
    let policies: Vec<&Manifest> = manifests.iter().filter(|manifest| is_policy(manifest)).collect();
    let candidates = injecting(policies, |policy| &policy.value);
    let mounted: Vec<&str> = manifests.iter().filter_map(|manifest| process::settings_in(&manifest.value)).collect();
    if let ([], [text]) = (candidates.as_slice(), mounted.as_slice()) {
        let name = format!("{name} ({})", process::SETTINGS_FILE);
        return among(manifest::parse(&Arc::new(Source::new(name.as_str(), *text)))?, &name);
    }
    match candidates.as_slice() {
        [policy] => {
            let value = json::at(&policy.value, &["spec", "settings"]).cloned().unwrap_or_default();
            let origin = Origin { manifest: (*policy).clone(), base: "spec.settings".to_owned() };
            Ok(Given { value, policy: Some(policy.value.clone()), origin: Some(origin) })
        }
        [] => match (manifests.pop(), manifests.is_empty()) {
            (None, _) => Ok(Given::default()),
            (Some(manifest), true) if manifest.value.get("kind").is_none() => {
                let value = manifest.value.clone();
                Ok(Given { value, policy: None, origin: Some(Origin { manifest, base: String::new() }) })
            }
            (Some(other), true) => bail!(
                "{name}: neither settings nor a ClusterAdmissionPolicy, but a {}; SidecarSets stand under sidecarSets in \
                 the settings, or in files of their own",
                json::text(&other.value, &["kind"])
            ),
            (Some(_), false) => bail!("{name}: several documents, none of them a ClusterAdmissionPolicy"),
        },
        several => {
            let names: Vec<&str> =
                several.iter().map(|policy| json::text(&policy.value, &["metadata", "name"])).collect();
            bail!("{name}: several policies ({}); leave one in the file", names.join(", "))
        }
    }
}

/// Whether this `spec` of a policy, or of a member of a group, names this module.
pub fn names_module(spec: &Value) -> bool {
    json::text(spec, &["module"]).contains(PILLION)
}

/// Returns the policies that inject: those for Pods. `pillion manifest` writes an asserting twin with the same settings,
/// which injects nothing, and counts only if there is no other one. Without a policy for Pods, all count.
pub fn injecting<'a, T: Copy>(policies: Vec<T>, value: impl Fn(T) -> &'a Value) -> Vec<T> {
    let for_pods: Vec<T> = policies.iter().copied().filter(|policy| is_for_pods(value(*policy))).collect();
    let is_twin = |policy: &T| json::text(value(*policy), &["spec", "settings", "role"]) == "Assert";
    let injecting: Vec<T> = for_pods.iter().copied().filter(|policy| !is_twin(policy)).collect();
    [injecting, for_pods].into_iter().find(|some| !some.is_empty()).unwrap_or(policies)
}

fn is_for_pods(policy: &Value) -> bool {
    let rules = json::items(policy, &["spec", "rules"]);
    let mut resources = rules.iter().flat_map(|rule| json::items(rule, &["resources"]));
    resources.any(|resource| matches!(resource.as_str(), Some("pods" | "*")))
}

/// Adds the SidecarSets of manifests to settings, and their ControllerRevisions: a `customVersion` is only looked up
/// among those of the settings. Skips manifests that the settings already contain unchanged.
pub fn assemble<'a>(mut settings: Value, manifests: impl IntoIterator<Item = &'a Manifest>) -> Assembled {
    if settings.is_null() {
        settings = json!({});
    }
    let sources = vec![None; json::items(&settings, &["sidecarSets"]).len()];
    Assembled { value: settings, manifests: sources, origin: None }.join(manifests)
}

/// Like [`assemble`], for manifests of a preview: if the settings have a `bundleRef`, the policy looks SidecarSets up in
/// the cluster, so the given ones count as written there (TRUST-1).
pub fn assemble_beside<'a>(mut settings: Value, manifests: impl IntoIterator<Item = &'a Manifest>) -> Assembled {
    let origin = json::at(&settings, &["bundleRef"]).filter(|at| !at.is_null()).map(|_| SetOrigin::Cluster);
    if settings.is_null() {
        settings = json!({});
    }
    assemble(settings, []).join_as(manifests, origin)
}

/// A list of the settings to which manifests are added.
struct Joined {
    key: &'static str,
    /// The objects in the list, serialized: a set is faster than comparing each object with all others.
    known: BTreeSet<String>,
}

impl Joined {
    fn new(settings: &Value, key: &'static str) -> Self {
        Self { key, known: json::items(settings, &[key]).iter().map(Value::to_string).collect() }
    }

    /// Adds an object, with an origin if it has none. Returns `false` if it is there already, or if the list has the
    /// wrong type.
    fn add(&mut self, settings: &mut Value, object: &Value, origin: Option<SetOrigin>) -> bool {
        let mut object = object.clone();
        if let Some(origin) = origin {
            origin.write_into(&mut object);
        }
        let list = settings.as_object_mut().and_then(|settings| json::list_mut(settings, self.key));
        match list {
            Some(list) if self.known.insert(object.to_string()) => {
                list.push(object);
                true
            }
            _ => false,
        }
    }
}

impl Assembled {
    /// Adds more manifests, as [`assemble`] does.
    #[must_use]
    pub fn join<'a>(self, manifests: impl IntoIterator<Item = &'a Manifest>) -> Self {
        self.join_as(manifests, None)
    }

    /// Adds more manifests, those of SidecarSets with this origin. Without one, the SidecarSets are of the settings.
    #[must_use]
    pub fn join_as<'a>(mut self, manifests: impl IntoIterator<Item = &'a Manifest>, origin: Option<SetOrigin>) -> Self {
        let Self { value: settings, manifests: sources, .. } = &mut self;
        let mut sets = Joined::new(settings, list::SIDECAR_SETS);
        let mut revisions = Joined::new(settings, list::CONTROLLER_REVISIONS);
        for manifest in manifests {
            match list::list_for(&manifest.value, settings) {
                Some(list::SIDECAR_SETS) if sets.add(settings, &manifest.value, origin) => {
                    sources.push(Some(manifest.clone()));
                }
                Some(list::CONTROLLER_REVISIONS) => {
                    revisions.add(settings, &manifest.value, None);
                }
                _ => {}
            }
        }
        self
    }

    /// Sets the place of the settings, for messages.
    #[must_use]
    pub fn read_from(self, origin: Option<Origin>) -> Self {
        Self { origin, ..self }
    }

    /// Whether the settings have any `SidecarSet`, or the name of a bundle.
    pub fn has_sidecar_sets(&self) -> bool {
        has_own_sets(&self.value) || !json::text(&self.value, &["bundleRef", "name"]).is_empty()
    }

    /// Whether the settings are valid. Prints all problems.
    pub fn is_valid(&self, terminal: &mut Terminal) -> bool {
        let problems = self.problems();
        for problem in &problems {
            terminal.error(&anyhow!("{problem}"));
        }
        problems.is_empty()
    }

    /// Returns all errors of the settings, one line each. Each names the file and the line of the field, if known.
    pub fn problems(&self) -> Vec<String> {
        let errors =
            Settings::decode(self.value.clone()).map_or_else(|errors| errors, |settings| settings.validate_all());
        errors.iter().map(|error| self.placed(error)).collect()
    }

    /// Replaces `sidecarSets[1].spec...` with `sets.yaml:7: spec...` if that item came from a manifest.
    fn placed(&self, error: &FieldError) -> String {
        let place = || {
            let (index, rest) = error.path.as_str().strip_prefix("sidecarSets[")?.split_once(']')?;
            let manifest = self.manifests.get(index.parse::<usize>().ok()?)?.as_ref()?;
            let path = rest.strip_prefix('.').unwrap_or(rest).to_owned();
            let error = FieldError { path, ..error.clone() };
            Some(format!("{}: {error}", locate::line(manifest, &error)))
        };
        let settings = || {
            let Origin { manifest, base } = self.origin.as_ref()?;
            Some(format!("{}: settings: {error}", locate::line(manifest, &error.clone().below(base))))
        };
        place().or_else(settings).unwrap_or_else(|| format!("settings: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillion_documents::manifest::Source;
    use rstest::rstest;

    use super::*;

    fn set(name: &str) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "containers": [{"name": name, "image": "i"}]}
        })
    }

    fn manifests(objects: &[Value]) -> Vec<Manifest> {
        let text: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
        manifest::parse(&Arc::new(Source::new("sets.yaml", text.concat()))).unwrap()
    }

    #[test]
    fn manifests_join_the_settings() {
        let revision = |namespace: &str| {
            let labels = json!({"kruise.io/sidecarset-name": "a"});
            json!({
                "apiVersion": "apps/v1", "kind": "ControllerRevision",
                "metadata": {"name": "a-1", "namespace": namespace, "labels": labels}
            })
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let given = manifests(&[set("a"), pod, revision("kruise-system"), revision("other"), set("b")]);
        let assembled = assemble(json!({"sidecarSets": [set("a")]}), &given);
        assert_eq!(
            assembled.value,
            json!({"sidecarSets": [set("a"), set("b")], "controllerRevisions": [revision("kruise-system")]})
        );
        assert!(assembled.has_sidecar_sets());
        assert_eq!(assembled.problems(), [] as [&str; 0]);
    }

    #[test]
    fn problems_name_the_manifest_or_the_settings() {
        let mut broken = set("b");
        broken["spec"]["containers"][0]["image"] = json!(1);
        let assembled = assemble(json!({"sidecarSets": [broken.clone()]}), &manifests(&[set("c"), set("d")]));
        assert_eq!(assembled.problems().len(), 1);
        assert!(assembled.problems()[0].starts_with("settings: sidecarSets[0].spec.containers[0].image: "));
        broken["metadata"]["name"] = json!("d");
        let assembled = assemble(Value::Null, &manifests(&[set("c"), set("d"), broken]));
        let problems = assembled.problems();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems.iter().all(|problem| problem.starts_with("sets.yaml:6: ")), "{problems:?}");
    }

    #[rstest]
    #[case::plain("systemNamespace: x\n", Ok(json!({"systemNamespace": "x"})))]
    #[case::empty("", Ok(Value::Null))]
    #[case::policy(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nspec:\n  settings: {a: 1}\n",
        Ok(json!({"a": 1}))
    )]
    #[case::the_policy_for_pods(
        "apiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nspec: {rules: [{resources: [pods]}], settings: {a: 1}}\n---\napiVersion: policies.kubewarden.io/v1\nkind: ClusterAdmissionPolicy\nspec: {rules: [{resources: [sidecarsets]}], settings: {}}\n",
        Ok(json!({"a": 1}))
    )]
    #[case::two_policies(
        "apiVersion: policies.kubewarden.io/v1\nkind: AdmissionPolicy\nmetadata: {name: a}\n---\napiVersion: policies.kubewarden.io/v1\nkind: AdmissionPolicy\nmetadata: {name: b}\n",
        Err("several policies (a, b); leave one in the file")
    )]
    #[case::a_sidecar_set("kind: SidecarSet\n", Err("but a SidecarSet; SidecarSets stand under sidecarSets"))]
    #[case::documents("a: 1\n---\nb: 1\n", Err("several documents"))]
    #[case::a_list("- a\n", Err("this is a list"))]
    fn settings_are_read_from_files(#[case] text: &str, #[case] expected: Result<Value, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.yaml");
        std::fs::write(&path, text).unwrap();
        match (of_files(&path), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }
}
