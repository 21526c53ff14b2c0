//! Identities that SidecarSets do not get, since Pods have a ServiceAccount of their own (IDP-2).

use std::collections::BTreeMap;

use pillion_identity::declared::{ACCOUNT, Declared, MODE, Mode, path};
use pillion_identity::names;
use pillion_identity::rules::OnAppAccount;
use pillion_inject::matching::{Query, is_match, precedence};
use pillion_kubernetes::json;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_workload as workload;
use serde_json::Value;

use super::Everything;
use crate::commands::check::documents::{Document, Role};
use crate::commands::check::files::Files;
use crate::commands::check::settings::Judged;
use crate::commands::check::subject::Subject;
use crate::report::Finding;

/// A Pod of the documents, or one that a workload of the documents creates.
struct Created {
    /// The document in messages.
    label: String,
    namespace: String,
    pod: Value,
}

impl Created {
    fn account(&self) -> &str {
        let named = |field| json::text(&self.pod, &["spec", field]);
        // The API server still reads the former name of the field.
        Some(named("serviceAccountName")).filter(|name| !name.is_empty()).unwrap_or_else(|| named("serviceAccount"))
    }

    /// Whether the Pod keeps its account, and sidecars that want `other` go without it.
    fn keeps_account_from(&self, other: &str) -> bool {
        let own = self.account();
        !["", "default", other].contains(&own) && !names::is_merged(own)
    }
}

/// A `SidecarSet` whose ServiceAccount gives way to that of a Pod.
struct Yielding<'a> {
    subject: &'a Subject<'a>,
    account: String,
    has_mode: bool,
}

impl<'a> Yielding<'a> {
    /// Returns `None` for a `SidecarSet` that names no account, or whose account stands beside that of the Pod.
    fn find(subject: &'a Subject<'a>) -> Option<Self> {
        let Declared { service_account, mode, .. } = Declared::from_sidecar_set(&subject.set).ok()?;
        let account = service_account.filter(|_| mode != Mode::Isolate)?;
        let set = &subject.set;
        let has_mode =
            set.spec(&[MODE.name]).is_some_and(|mode| !mode.is_null()) || !set.annotation(MODE.annotation).is_empty();
        Some(Self { subject, account, has_mode })
    }

    fn finding(&self, kept: &[&Created]) -> Option<Finding> {
        let first = kept.first()?;
        let others = match kept.len() {
            1 => String::new(),
            2 => ", and so has one other object".to_owned(),
            count => format!(", and so have {} other objects", count - 1),
        };
        let message = format!(
            "{} has the ServiceAccount {:?} of its own{others}: this SidecarSet is injected there without {:?}",
            first.label,
            first.account(),
            self.account
        );
        let remedy = "set serviceAccountMode to Isolate, which gives the sidecars theirs beside it";
        let field = if self.has_mode { MODE } else { ACCOUNT };
        Some(self.subject.spot.warning(path(field).as_str(), message, remedy))
    }
}

/// The findings about `SidecarSet`s whose accounts give way to those of Pods in the documents.
#[derive(Default)]
pub struct OwnAccounts {
    /// Warnings about `SidecarSet`s that select a Pod with an account of its own.
    pub findings: Vec<Finding>,
    /// Whether a `SidecarSet` leaves its mode out, and the documents have no Pod for it.
    pub is_mode_left_out: bool,
}

/// Compares the accounts of `SidecarSet`s with those of Pods that they select.
pub fn compare(everything: &Everything<'_>) -> OwnAccounts {
    let Everything { documents, settings, sets, .. } = *everything;
    let is_kept = |judged: &&Judged<'_>| {
        let settings = &judged.settings;
        settings.gates.service_account_injection && settings.service_accounts.on_app_account == OnAppAccount::Keep
    };
    let pods = created(documents);
    let mut found = OwnAccounts::default();
    for judged in settings.iter().filter(is_kept) {
        found.add(&judged.subjects, &pods, documents);
    }
    if settings.is_empty() || settings.iter().any(|judged| is_kept(&judged)) {
        found.add(sets, &pods, documents);
    }
    found
}

impl OwnAccounts {
    /// Adds what Pods show of a group of `SidecarSet`s.
    fn add(&mut self, group: &[Subject<'_>], pods: &[Created], documents: &[Document]) {
        let yielding: Vec<Yielding<'_>> = group.iter().filter_map(Yielding::find).collect();
        if yielding.is_empty() {
            return;
        }
        let compiled: Vec<CompiledSet<'_>> = group.iter().map(|subject| CompiledSet::new(&subject.prepared)).collect();
        let mut selected: BTreeMap<&str, Vec<&Created>> = BTreeMap::new();
        for created in pods {
            let Ok(pod) = Pod::decode(&created.pod) else { continue };
            let query = Query { pod, namespace: &created.namespace, uid: "" };
            // Whether a Namespace that is not given is selected is unknown.
            let selects = |set: &&CompiledSet<'_>| is_match(set, query, &Files(documents)).unwrap_or_default();
            let matched: Vec<&CompiledSet<'_>> = compiled.iter().filter(selects).collect();
            for name in precedence::in_effect(&matched) {
                selected.entry(name).or_default().push(created);
            }
        }
        for set in &yielding {
            let pods = selected.get(set.subject.set.name()).map_or(&[][..], Vec::as_slice);
            let kept: Vec<&Created> =
                pods.iter().copied().filter(|created| created.keeps_account_from(&set.account)).collect();
            self.findings.extend(set.finding(&kept));
            self.is_mode_left_out |= pods.is_empty() && !set.has_mode;
        }
    }
}

/// Returns the Pods of the documents, and one Pod for each template in them.
fn created(documents: &[Document]) -> Vec<Created> {
    let others = documents.iter().filter(|document| document.role == Role::Other);
    let pods = others.flat_map(|document| {
        let object = &document.manifest.value;
        let namespace = match json::text(object, &["metadata", "namespace"]) {
            "" => "default",
            namespace => namespace,
        };
        let label = workload::label(object, namespace);
        workload::templates(object).into_iter().filter_map(move |template| {
            let pod = workload::pod::from_template(object, &template, namespace)?;
            Some(Created { label: label.clone(), namespace: namespace.to_owned(), pod })
        })
    });
    pods.collect()
}
