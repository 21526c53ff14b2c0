//! `pillion check`: reports all problems of settings, `SidecarSet`s and policies at once.
//!
//! `input` reads the documents, and `documents` says what each is. Errors are those for which the policy refuses
//! something: `settings`, `sets`, `shoots` and `kubewarden` ask the rules that the module asks. Warnings are in
//! `lint`, one file for each topic. [`report`] prints both, for people and for programs.
//!
//! It never runs the module, changes a file, or writes to a cluster.
//!
//! Start with [`run`], and with `lint::all` for a warning.
#![forbid(unsafe_code)]

mod documents;
mod files;
mod identity;
mod input;
mod kubewarden;
mod lint;
mod of_cluster;
pub mod report;
mod salvage;
mod sets;
mod settings;
mod shoots;
mod subject;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pillion_cluster::Connection;
use pillion_documents::manifest::{self, Manifest};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::json;
use pillion_kubernetes::version::KubernetesVersion;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_terminal::{Status, Terminal};
use serde_json::{Value, json};

use self::documents::{Document, Role};
use self::input::Input;
use self::lint::{Access, Selection, Selections};
use self::settings::Judged;
use self::subject::{Spot, Subject};
use crate::report::{Finding, FindingFormat, OptionalRule, Severity};

/// The input of `pillion check`, and how it reports its findings.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent flags")]
pub struct Options<'a> {
    /// Files, folders, or - for stdin.
    pub paths: Vec<PathBuf>,
    /// Whether folders within folders are read.
    pub recursive: bool,
    /// Files to be read as settings in any case.
    pub settings: &'a [PathBuf],
    /// Files or folders with existing objects.
    pub old: &'a [PathBuf],
    /// The cluster to look at, if any.
    pub connection: &'a Connection,
    /// How findings are printed.
    pub output: FindingFormat,
    /// Whether warnings fail the check, too.
    pub warnings_as_errors: bool,
    /// The rules whose warnings are turned off.
    pub disable: &'a [OptionalRule],
    /// Whether it is fine that there is nothing to check.
    pub allow_empty: bool,
    /// Whether to say which documents were passed over.
    pub verbose: bool,
}

/// Checks what the options name, prints the findings, and says in a line what was checked.
///
/// # Errors
/// If the existing objects or the cluster cannot be read, there is nothing to check, or `stdout` takes no more.
pub fn run(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let mut input = Input::default();
    // Read settings first: a folder may contain the same file.
    for (paths, is_settings) in [(options.settings, true), (&options.paths, false)] {
        for source in manifest::sources_each(paths, options.recursive) {
            match source {
                Ok(source) => input.read(&source, is_settings),
                Err(error) => {
                    input.miss(&error);
                    terminal.error(&error);
                }
            }
        }
    }
    let before = manifest::read(options.old, options.recursive)?;
    let (mut of_cluster, mut kubernetes) = (Vec::new(), None);
    let reader = options.connection.reader()?;
    if let Some(reader) = &reader {
        of_cluster = of_cluster::add(&mut input.documents, reader, terminal)?;
        match reader.version() {
            Ok(version) => kubernetes = version,
            Err(trouble) => of_cluster.push(format!("what the version of Kubernetes lacks is not told: {trouble}")),
        }
    }
    let Checked { mut findings, notes, access } = check(&input.documents, &before, kubernetes);
    // Files show some bindings, and a cluster all of them.
    if reader.is_some() && !options.disable.contains(&OptionalRule::IdentityAccess) {
        findings.extend(access.findings);
        of_cluster.extend(access.note);
    }
    findings.append(&mut input.findings);
    findings.retain(|finding| !finding.rule.is_some_and(|rule| options.disable.contains(&rule)));
    report::sort(&mut findings, &input.files);
    // Text output prints unreadable files as errors above; machine-readable output has only one list.
    let unreadable = if options.output == FindingFormat::Text { &[][..] } else { input.unreadable.as_slice() };
    let reported: Vec<Finding> = unreadable.iter().chain(&findings).cloned().collect();
    report::write(&reported, options.output, terminal.out())?;
    terminal.finish()?;
    if options.verbose {
        for document in input.documents.iter().filter(|document| document.role == Role::Other) {
            say(terminal, &passed_over(&document.manifest));
        }
    }
    let has = |severity| findings.iter().any(|finding| finding.severity == severity);
    if !options.allow_empty && input.unreadable.is_empty() && findings.is_empty() && !input.has_work() {
        if options.connection.cluster {
            bail!("there is nothing to check: the cluster has no SidecarSets and no policy of Pillion");
        }
        bail!(
            "there is nothing to check: no settings, SidecarSet, Shoot or policy of Pillion; a file of settings that is not known as one can be given with --settings"
        );
    }
    for note in of_cluster.iter().map(String::as_str).chain(notes) {
        say(terminal, &format!("note: {note}"));
    }
    say(terminal, &summary(&findings, &input));
    Ok(if !input.unreadable.is_empty() {
        Status::Failed
    } else if has(Severity::Error) || (options.warnings_as_errors && has(Severity::Warning)) {
        Status::Refused
    } else {
        Status::Done
    })
}

/// Prints a line to `stderr`. Ignores write errors: there is no other stream to report them.
fn say(terminal: &mut Terminal, text: &str) {
    let _ = writeln!(terminal.err(), "{text}");
}

/// The result of a check.
struct Checked {
    /// Errors and warnings, unordered.
    findings: Vec<Finding>,
    /// Assumptions, one sentence each.
    notes: Vec<&'static str>,
    /// Who can get at the identities of sidecars, if the documents have all Roles and bindings of a cluster.
    access: Access,
}

/// Checks documents; `before` are existing objects, and `kubernetes` is the version of the cluster, if one is looked at.
fn check(documents: &[Document], before: &[Manifest], kubernetes: Option<KubernetesVersion>) -> Checked {
    let of = |role: Role| documents.iter().filter(move |document| document.role == role);
    let places = settings_in(documents);
    let bundled: Vec<Vec<Value>> = places.iter().map(|spot| settings::bundled(spot.raw)).collect();
    let judged = places.into_iter().zip(&bundled).map(|(spot, bundled)| settings::judge(spot, bundled));
    let mut settings: Vec<Judged<'_>> = judged.collect();
    for judged in settings.iter_mut().filter(|judged| !judged.are_of_policy()) {
        add_revisions(judged, documents);
    }
    let spots: Vec<_> = of(Role::SidecarSet).map(|document| Spot::sidecar_set(&document.manifest)).collect();
    let (sets, mut findings) = sets::decode(&spots);
    let items = settings.iter().flat_map(|judged| judged.items.iter().cloned());
    let every: Vec<_> = items.chain(spots.iter().cloned()).collect();
    if settings.is_empty() {
        findings.extend(sets::judge(&sets, None, documents));
        findings.extend(sets::broken(&spots, None));
    }
    let folders = Folders::count(&settings);
    for judged in &settings {
        let counted: Vec<Subject<'_>> = sets.iter().filter(|set| folders.applies(&set.spot, judged)).cloned().collect();
        findings.extend(sets::judge(&counted, Some(judged), documents));
        let counted: Vec<Spot<'_>> = spots.iter().filter(|spot| folders.applies(spot, judged)).cloned().collect();
        findings.extend(sets::broken(&counted, Some(judged)));
    }
    findings.extend(sets::refused_without_gate(&sets, &settings, &folders, before));
    findings.extend(sets::revisions(documents));
    findings.extend(settings.iter_mut().flat_map(|judged| std::mem::take(&mut judged.findings)));
    let pods = lint::created_pods(documents);
    let of_settings: Vec<Selection<'_>> =
        settings.iter().map(|judged| Selection::new(&judged.subjects, &pods, documents)).collect();
    let of_files = Selection::new(&sets, &pods, documents);
    let selections = Selections { of_settings: &of_settings, of_files: &of_files };
    let everything =
        lint::Everything { documents, settings: &settings, spots: &every, sets: &sets, before, selections, kubernetes };
    findings.extend(lint::all(&everything));
    let access = lint::access(&everything);
    let accounts = lint::compare_accounts(&everything);
    findings.extend(accounts.findings);
    let policies = of(Role::Policy).chain(of(Role::PolicyGroup));
    findings.extend(policies.flat_map(|document| kubewarden::judge(&Spot::document(&document.manifest))));
    findings.extend(shoots::judge(documents, before, &settings));
    let mut notes = Vec::new();
    if settings.iter().any(lint::is_costly_in_a_policy) {
        notes.push(
            "as they are, these SidecarSets slow down a Kubewarden policy that has them in its settings; render policies \
             with `pillion manifest kubewarden`, which compiles them",
        );
    }
    if settings.iter().any(lint::lacks_bundle_ref) {
        notes.push(
            "SidecarSets that are applied to the cluster are not injected under settings without bundleRef; the chart and \
             `pillion manifest` add it to settings without SidecarSets, unless it is null",
        );
    }
    if accounts.is_mode_left_out {
        notes.push(
            "a SidecarSet without serviceAccountMode has the mode SidecarsOnly: in Pods that have a ServiceAccount of \
             their own, its containers go without theirs; the mode Isolate gives it to them in every Pod",
        );
    }
    if of(Role::Shoot).next().is_some() && !settings.is_empty() && !shoots::are_on(&settings) {
        notes.push("Shoots are judged as if shoots.enabled were true; these settings do not turn it on");
    }
    Checked { findings, notes, access }
}

/// Returns all settings: documents of their own, and parts of policies and of members of policy groups.
fn settings_in(documents: &[Document]) -> Vec<Spot<'_>> {
    let of = |role: Role| documents.iter().filter(move |document| document.role == role);
    let of_policies = of(Role::Policy).map(|document| {
        let spec = json::at(&document.manifest.value, &["spec"]).unwrap_or(&Value::Null);
        below(document, spec, &FieldPath::new("spec"))
    });
    let of_members = of(Role::PolicyGroup).flat_map(|document| {
        let members = documents::members(&document.manifest.value);
        members.map(|(name, member)| below(document, member, &FieldPath::new("spec.policies").child(name)))
    });
    of(Role::Settings).map(|document| Spot::document(&document.manifest)).chain(of_policies).chain(of_members).collect()
}

/// Returns the settings of a policy, or of a member of a group; `at` is the path of the policy's spec or of the member.
fn below<'a>(document: &'a Document, owner: &'a Value, at: &FieldPath<'_>) -> Spot<'a> {
    Spot {
        base: kubewarden::settings_path(owner, at),
        raw: owner.get(documents::settings_key(owner)).unwrap_or(&Value::Null),
        ..Spot::document(&document.manifest)
    }
}

/// Adds the ControllerRevisions among the documents to settings, as `inject` does.
fn add_revisions(judged: &mut Judged<'_>, documents: &[Document]) {
    let revisions = documents.iter().filter(|document| document.role == Role::ControllerRevision);
    let none = json!({"systemNamespace": judged.settings.system_namespace});
    let joined = pillion_install::settings::assemble(none, revisions.map(|document| &document.manifest)).value;
    let found = json::items(&joined, &["controllerRevisions"]).iter().cloned();
    for revision in found.filter_map(|revision| ControllerRevision::decode(revision).ok()) {
        if !judged.settings.controller_revisions.contains(&revision) {
            judged.settings.controller_revisions.push(revision);
        }
    }
}

/// The number of settings files in each folder; settings of policies do not count.
struct Folders<'a>(BTreeMap<&'a Path, usize>);

impl<'a> Folders<'a> {
    fn count(settings: &[Judged<'a>]) -> Self {
        let mut folders = BTreeMap::new();
        for judged in settings.iter().filter(|judged| !judged.are_of_policy()) {
            *folders.entry(folder(judged.spot.manifest)).or_default() += 1;
        }
        Self(folders)
    }

    /// Whether these settings apply to a `SidecarSet` in a file of its own. Settings files in the same folder take
    /// precedence; if there are none, all settings apply. Settings of policies always apply.
    fn applies(&self, set: &Spot<'_>, settings: &Judged<'_>) -> bool {
        let own = folder(set.manifest);
        settings.are_of_policy() || !self.0.contains_key(own) || own == folder(settings.spot.manifest)
    }
}

fn folder(manifest: &Manifest) -> &Path {
    Path::new(&manifest.source.name).parent().unwrap_or(Path::new(""))
}

/// Splits `sidecarSets[index].rest` into the index and the rest.
fn item_of(path: &str) -> Option<(usize, String)> {
    let (index, rest) = path.strip_prefix("sidecarSets[")?.split_once(']')?;
    Some((index.parse().ok()?, rest.strip_prefix('.').unwrap_or(rest).to_owned()))
}

fn passed_over(manifest: &Manifest) -> String {
    let text = |pointer: &str| manifest.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let what = match (text("/kind"), text("/metadata/name")) {
        ("", _) => "document".to_owned(),
        (kind, "") => kind.to_owned(),
        (kind, name) => format!("{kind} {name:?}"),
    };
    format!("{}:{}: {what} passed over", manifest.source.name, manifest.line())
}

fn summary(findings: &[Finding], input: &Input) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let of = |number: usize, one: &str, many: &str| format!("{number} {}", if number == 1 { one } else { many });
    let mut checked = Vec::new();
    for (role, one, many) in [
        (Role::Settings, "settings file", "settings files"),
        (Role::Policy, "policy", "policies"),
        (Role::PolicyGroup, "policy group", "policy groups"),
        (Role::SidecarSet, "SidecarSet", "SidecarSets"),
    ] {
        let number = input.count(role);
        if number > 0 {
            checked.push(of(number, one, many));
        }
    }
    for (_, kind) in documents::GARDENER {
        let of_kind = |document: &&Document| {
            document.role == Role::Shoot && json::text(&document.manifest.value, &["kind"]) == kind
        };
        let number = input.documents.iter().filter(of_kind).count();
        if number > 0 {
            checked.push(of(number, kind, &format!("{kind}s")));
        }
    }
    let mut summary = format!(
        "{}, {} in {}",
        of(count(Severity::Error), "error", "errors"),
        of(count(Severity::Warning), "warning", "warnings"),
        if checked.is_empty() { of(input.files.len(), "file", "files") } else { checked.join(", ") },
    );
    let others = input.count(Role::Other);
    // Writing to a String cannot fail.
    if others > 0 {
        let _ = write!(summary, "; {} passed over", of(others, "other document", "other documents"));
    }
    if !input.unreadable.is_empty() {
        let _ = write!(summary, "; {} could not be read", input.unreadable.len());
    }
    summary
}
