//! `inject` and `explain` first read the files of the command line and the policy that judges them.

use std::sync::Arc;

use pillion_documents::manifest::{self, Manifest, Source};
use pillion_install::installation;
use pillion_install::settings::{self, Assembled};
use pillion_install::unread;
use pillion_terminal::Terminal;

use crate::{Inputs, Manifests, Preview, Situation, Webhooks};

/// A part of a file with objects to judge.
pub trait Parsed: Sized {
    /// Parses a file.
    ///
    /// # Errors
    /// If it is neither YAML nor JSON.
    fn parse(source: &Arc<Source>) -> Result<Vec<Self>, manifest::Error>;

    /// Returns the objects.
    fn objects(&self) -> impl Iterator<Item = &Manifest>;
}

impl Parsed for Manifest {
    fn parse(source: &Arc<Source>) -> Result<Vec<Self>, manifest::Error> {
        manifest::parse(source)
    }

    fn objects(&self) -> impl Iterator<Item = &Manifest> {
        std::iter::once(self)
    }
}

/// The files of the command line, and the policy that judges them.
pub struct Prepared<T> {
    /// The files to judge.
    pub given: Vec<T>,
    /// The settings with all SidecarSets.
    pub settings: Assembled,
    /// The objects that answer look-ups.
    pub cluster: Arc<Manifests>,
    /// The policy.
    pub preview: Preview,
    /// Warnings about conditions of policies and webhooks that are not evaluated.
    pub doubts: Vec<String>,
}

impl<T: Parsed> Prepared<T> {
    /// Reads all files and, with `--cluster`, the cluster. Returns `None` if a file is no manifest or the settings are
    /// invalid; the errors are printed before. Warns of misspelt fields.
    ///
    /// # Errors
    /// If something cannot be read, or the policy gives no answer.
    pub fn read(inputs: &Inputs, situation: &Situation, terminal: &mut Terminal) -> anyhow::Result<Option<Self>> {
        let reader = situation.connection.reader()?;
        let paths = inputs.paths()?;
        let settings::Given { mut value, policy, origin } =
            situation.settings.as_deref().map(settings::with_policy).transpose()?.unwrap_or_default();
        let misspelt = origin.as_ref().map(unread::unknown_fields_in_settings).unwrap_or_default();
        let given = crate::read(&paths, inputs.recursive, terminal, T::parse)?;
        let beside = crate::read(&situation.sidecar_sets, inputs.recursive, terminal, manifest::parse)?;
        let (Some(given), Some(beside)) = (given, beside) else { return Ok(None) };
        let objects = || given.iter().flat_map(T::objects);
        if !crate::is_understood(&beside, objects(), terminal) {
            return Ok(None);
        }
        if let (Some(reader), None) = (&reader, &situation.settings) {
            value = installation::for_new_pods(reader, terminal)?.map(|part| part.settings).unwrap_or_default();
        }
        // Objects to judge come last: they win over objects of the same name beside them.
        let all = || beside.iter().chain(objects());
        let mut settings = settings::assemble_beside(value, all()).read_from(origin);
        let cluster = crate::cluster_of(all(), situation, reader.clone());
        if let Some(reader) = &reader {
            settings = crate::with_cluster(settings, &cluster, reader, terminal)?;
        }
        // The policy that the user gives stands for the one of the cluster, its selectors included.
        let webhooks = Webhooks::read(all(), reader.as_deref().filter(|_| policy.is_none()), terminal)?;
        let doubts = policy.iter().flat_map(crate::doubts).chain(webhooks.doubts()).collect();
        let module = crate::module(terminal)?;
        let preview = Preview::new(module, settings.value.clone(), Arc::clone(&cluster), situation)
            .under(policy)
            .asked_by(webhooks);
        // Warn first: a misspelt field may explain the errors that follow.
        for warning in misspelt.into_iter().chain(all().flat_map(unread::unknown_fields)) {
            terminal.warn(warning);
        }
        if !preview.is_valid(&settings, terminal)? {
            return Ok(None);
        }
        Ok(Some(Self { given, settings, cluster, preview, doubts }))
    }
}
