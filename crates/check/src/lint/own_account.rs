//! Identities that SidecarSets do not get, since Pods have a ServiceAccount of their own (IDP-2).

use pillion_identity::declared::{ACCOUNT, Declared, MODE, Mode, path};
use pillion_identity::names;
use pillion_identity::rules::OnAppAccount;
use pillion_kubernetes::json;

use super::Everything;
use super::pods::{Created, Selection};
use crate::report::Finding;
use crate::settings::Judged;
use crate::subject::Subject;

impl Created<'_> {
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

    fn finding(&self, kept: &[&Created<'_>]) -> Option<Finding> {
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
    let Everything { settings, selections, .. } = *everything;
    let is_kept = |judged: &&Judged<'_>| {
        let settings = &judged.settings;
        settings.gates.service_account_injection && settings.service_accounts.on_app_account == OnAppAccount::Keep
    };
    let mut found = OwnAccounts::default();
    for (_, selection) in settings.iter().zip(selections.of_settings).filter(|(judged, _)| is_kept(judged)) {
        found.add(selection);
    }
    if settings.is_empty() || settings.iter().any(|judged| is_kept(&judged)) {
        found.add(selections.of_files);
    }
    found
}

impl OwnAccounts {
    /// Adds what Pods show of a group of `SidecarSet`s.
    fn add(&mut self, selection: &Selection<'_>) {
        for set in selection.group().iter().filter_map(Yielding::find) {
            let pods = selection.pods(set.subject);
            let kept: Vec<&Created<'_>> =
                pods.iter().copied().filter(|created| created.keeps_account_from(&set.account)).collect();
            self.findings.extend(set.finding(&kept));
            self.is_mode_left_out |= pods.is_empty() && !set.has_mode;
        }
    }
}
