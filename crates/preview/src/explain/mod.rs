//! `pillion explain`.

mod as_written;
mod groups;
mod structured;
mod subject;
mod text;

use anyhow::bail;
use pillion_admission::settings::Settings;
use pillion_bundle::config_map::Fault;
use pillion_bundle::source::OnUnavailable;
use pillion_documents::locate;
use pillion_documents::manifest::Manifest;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_terminal::output::Output;
use pillion_terminal::{Status, Terminal};
use pillion_workload::shape;

pub use self::groups::Group;
use self::subject::ExplainedPod;
use self::text::Page;
use crate::prepared::Prepared;
use crate::{Inputs, Situation};

/// What is explained, and how it is printed.
#[derive(Debug)]
pub struct Options<'a> {
    /// The manifests.
    pub inputs: &'a Inputs,
    /// What surrounds them.
    pub situation: &'a Situation,
    /// The SidecarSets to explain; all if there are none.
    pub names: &'a [String],
    /// The outcomes of the Pods to print; all if there are none.
    pub only: &'a [Group],
    /// The format.
    pub output: Output,
}

/// Says for each SidecarSet why a Pod gets it or not.
///
/// # Errors
/// If something cannot be read, the policy gives no answer, or `stdout` takes no more.
pub fn run(options: &Options<'_>, terminal: &mut Terminal) -> anyhow::Result<Status> {
    let prepared = Prepared::<Manifest>::read(options.inputs, options.situation, terminal)?;
    let Some(Prepared { given, settings: assembled, cluster, preview, doubts }) = prepared else {
        return Ok(Status::Failed);
    };
    // Decode the SidecarSets of the bundle, too, even those that this Pod would not open: the explanation covers all.
    let decoded = Settings::decode(assembled.value.clone()).ok().and_then(|settings| settings.unbundled().ok());
    let Some(settings) = decoded else { bail!("the settings cannot be decoded") };
    let (settings, unavailable) = crate::with_kept(settings, &preview.answers());
    if let (Some(unavailable), Some(at)) = (unavailable, &settings.bundle_source.config_map) {
        let remedy = match unavailable.fault {
            Fault::Missing => "give it among the manifests, or read it with --cluster",
            _ => "make it anew with `pillion bundle --config-map`",
        };
        let what = format!("settings.bundleRef: {}; {remedy}", unavailable.says(at));
        if settings.bundle_source.on_unavailable == OnUnavailable::Deny {
            bail!("{what}");
        }
        terminal.warn(what);
    }
    let mut subjects = Vec::new();
    for manifest in &given {
        let found = subject::subjects(manifest, &preview);
        if !found.iter().any(subject::Subject::is_malformed) {
            for doubt in locate::messages(manifest, &shape::doubts(&manifest.value)) {
                terminal.warn(doubt);
            }
        }
        subjects.extend(found);
    }
    if subjects.is_empty() {
        bail!("nothing to explain: no Pod, no workload and no AdmissionReview in what was given");
    }
    unknown_names(options.names, &settings)?;
    if settings.sidecar_sets.is_empty() {
        terminal.warn("no SidecarSets: give them among the manifests, with --sidecar-sets, or with --settings");
    }
    for doubt in doubts {
        terminal.warn(doubt);
    }
    let mut pods = Vec::new();
    let written = as_written::ShortNames::from_settings(&assembled.value);
    for subject in subjects {
        let mut explained = subject.explained(&settings, &preview, cluster.as_ref())?;
        if !explained.agrees() {
            bail!(
                "{}: this explanation is not what the policy does, which is a mistake in pillion; please report it",
                explained.label
            );
        }
        explained.sets.iter_mut().for_each(|set| written.rename(set));
        if !options.names.is_empty() {
            explained.sets.retain(|set| options.names.contains(&set.name));
        }
        pods.push(explained);
    }
    for namespace in preview.assumed() {
        terminal.warn(format_args!(
            "Namespace \"{namespace}\" is {}; give it, or --namespace-labels",
            preview.missing_in()
        ));
    }
    for note in preview.notes() {
        terminal.warn(note);
    }
    print(options, &pods, terminal)?;
    Ok(if pods.iter().any(ExplainedPod::is_refused) { Status::Refused } else { Status::Done })
}

fn unknown_names(only: &[String], settings: &Settings) -> anyhow::Result<()> {
    let known: Vec<&str> = settings.sidecar_sets.iter().map(SidecarSet::name).collect();
    match only.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) if known.is_empty() => bail!("there is no SidecarSet \"{name}\", nor any other"),
        Some(name) => bail!("there is no SidecarSet \"{name}\"; there are {}", known.join(", ")),
        None => Ok(()),
    }
}

fn print(options: &Options<'_>, pods: &[ExplainedPod], terminal: &mut Terminal) -> anyhow::Result<()> {
    let is_chosen = |pod: &&ExplainedPod| options.only.is_empty() || options.only.contains(&Group::from_explained(pod));
    let chosen: Vec<&ExplainedPod> = pods.iter().filter(is_chosen).collect();
    if let Some(format) = options.output.data() {
        write!(terminal.out(), "{}", format.print_tree(&structured::list(&chosen))?)?;
        return Ok(());
    }
    let columns = terminal.columns();
    let mut page = Page::new(terminal.out(), columns);
    let has_summary = pods.len() > 1 || chosen.is_empty();
    if has_summary {
        page.line("", 2, &groups::summary(pods))?;
    }
    for (index, pod) in chosen.into_iter().enumerate() {
        if has_summary || index > 0 {
            page.line("", 0, "")?;
        }
        text::write(&mut page, pod, !options.names.is_empty())?;
    }
    Ok(())
}
