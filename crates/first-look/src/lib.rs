//! The difference that SidecarSets make to the manifests of a folder.
//!
//! `make run` shows it. It calls the rules directly, so it needs neither the WebAssembly module nor a cluster, and it is
//! built in a fraction of the time that the command line takes. `pillion inject --diff` asks the module the same
//! question; a test compares both on every folder of `examples`.
//!
//! It never asks a cluster or writes a file. Start with [`look`].
#![forbid(unsafe_code)]

mod manifests;

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use pillion_admission::admit;
use pillion_admission::request::Request;
use pillion_admission::settings::Settings;
use pillion_documents::diff;
use pillion_documents::manifest::{self, Manifest, Source};
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Verdict;
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::world::World;
use pillion_workload::carry::into_template;
use pillion_workload::settings::list_for;
use pillion_workload::{admission, label, pod, request, shape, templates};
use serde_json::{Value, json};

use self::manifests::{Cluster, DEFAULT_NAMESPACE, NoAuthorizer};

/// The file of a folder that holds the policy's settings. All other files hold manifests.
pub const SETTINGS: &str = "settings.yaml";

/// The effect of SidecarSets on the manifests of a folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The differences, in the format of `diff -u`; empty if nothing changes.
    pub diff: Vec<u8>,
    /// One line for each Pod: what happened to it.
    pub pods: Vec<String>,
    /// The texts of refusals, one for each refused Pod.
    pub refused: Vec<String>,
}

/// Looks at a folder with manifests and, perhaps, [`SETTINGS`]. `now` becomes the time of injection.
///
/// # Errors
/// If a file cannot be read or understood; the message names it and says what is wrong.
pub fn look(folder: &Path, now: Timestamp) -> anyhow::Result<Look> {
    let sources = manifest::sources(&[folder.to_owned()], false)?;
    let is_settings = |source: &Source| Path::new(&source.name).file_name() == Some(SETTINGS.as_ref());
    let mut settings = json!({});
    let mut manifests = Vec::new();
    for source in &sources {
        let read = manifest::parse(source)?;
        if !is_settings(source) {
            manifests.extend(read);
        } else if let Some(only) = read.into_iter().next() {
            settings = only.value;
        }
    }
    of_manifests(settings, &manifests, now).with_context(|| folder.display().to_string())
}

/// Looks at manifests. The SidecarSets among them join `settings`.
fn of_manifests(settings: Value, manifests: &[Manifest], now: Timestamp) -> anyhow::Result<Look> {
    let settings = Settings::decode(joined(settings, manifests)).map_err(|errors| listed(&errors))?;
    let errors = settings.validate_all();
    if !errors.is_empty() {
        return Err(listed(&errors));
    }
    let cluster = Cluster::new(manifests.iter().map(|manifest| manifest.value.clone()));
    let mut look = Look::default();
    for manifest in manifests {
        look.at(manifest, &settings, &cluster, now)?;
    }
    Ok(look)
}

/// Adds the SidecarSets of manifests, and their ControllerRevisions, to settings.
fn joined(mut settings: Value, manifests: &[Manifest]) -> Value {
    for manifest in manifests {
        let Some(key) = list_for(&manifest.value, &settings) else { continue };
        if let Some(list) = settings.as_object_mut().and_then(|settings| json::list_mut(settings, key)) {
            list.push(manifest.value.clone());
        }
    }
    settings
}

/// Returns one error that lists all errors, one a line.
fn listed<E: fmt::Display>(errors: &[E]) -> anyhow::Error {
    let mut text = String::new();
    for error in errors {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {error}");
    }
    anyhow!("these manifests and settings are not valid:{text}")
}

impl Look {
    /// Adds one manifest: asks the rules about each Pod that it makes, and carries their changes back into it.
    fn at(
        &mut self,
        manifest: &Manifest,
        settings: &Settings,
        cluster: &Cluster,
        now: Timestamp,
    ) -> anyhow::Result<()> {
        let object = &manifest.value;
        let errors = shape::problems(object);
        if !errors.is_empty() {
            return Err(listed(&errors).context(format!("{}:{}", manifest.source.name, manifest.line())));
        }
        let namespace = match json::text(object, &["metadata", "namespace"]) {
            "" => DEFAULT_NAMESPACE,
            namespace => namespace,
        };
        let name = label(object, namespace);
        let mut injected = object.clone();
        let mut is_refused = false;
        for template in templates(object) {
            let Some(mut before) = pod::from_template(object, &template, namespace) else { continue };
            admission::apply(&mut before, |name| cluster.service_account(namespace, name));
            let mut request = Request::decode(request::create(&before, namespace, &template))
                .map_err(|refusal| anyhow!("{name}: {}", refusal.message()))?;
            let world = World { lookup: cluster, authorizer: &NoAuthorizer, now, elapsed: &|| Duration::ZERO };
            let outcome = admit(&mut request, settings, world);
            self.pods.extend(outcome.warnings.iter().map(|warning| format!("{name}: warning: {warning}")));
            match outcome.verdict {
                Verdict::Unchanged => self.pods.push(format!("{name}: unchanged")),
                Verdict::Refused(refusal) => {
                    is_refused = true;
                    self.refused.push(format!("{name}: refused ({}): {}", refusal.code().as_u16(), refusal.message()));
                }
                Verdict::Mutated(after) => {
                    self.pods.push(format!("{name}: injected"));
                    let carried = into_template(object, &template, &before, &after);
                    if let Some((place, carried)) = injected.pointer_mut(&template.pointer).zip(carried) {
                        *place = carried;
                    }
                }
            }
        }
        if !is_refused && injected != *object {
            let before = manifest.tree();
            let after = before.order(&injected);
            let (old, new) = manifest.texts(&before, &after);
            diff::write(&mut self.diff, &name, &format!("{name} (injected)"), &old, &new)?;
        }
        Ok(())
    }
}
