//! Stores the version that is rolled out as a ControllerRevision (docs/spec/revisions.md).

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ControllerRevision as RevisionObject;
use kube::Api;
use pillion_kubernetes::json;
use pillion_plan::Step;
use pillion_plan::failure::Back;
use pillion_rollout::history::{History, Latest, Revision};
use pillion_runtime::controller::{Controller as _, Failure};
use pillion_runtime::problem::WriteProblem;
use pillion_runtime::read;
use pillion_sidecarset::controller_revision::ControllerRevision;
use serde_json::Value;

use super::sources::Sources;
use super::{Rollout, SidecarSetRollout};

/// The most names to try for a new revision. Each collision needs another one.
const NAMES: i32 = 16;

/// The revision of a SidecarSet that is in force.
pub(super) struct Registered {
    pub(super) revision: Revision,
    /// How many names were taken by revisions with other data.
    pub(super) collisions: i32,
}

impl SidecarSetRollout {
    /// Stores the version as the latest revision, unless it is that already. Returns `None` if another client changed
    /// the revisions at the same time.
    ///
    /// # Errors
    /// A revision could not be read or written.
    pub(super) async fn register(
        &self,
        rollout: &Rollout<'_>,
        sources: &Sources,
    ) -> Result<Option<Registered>, Failure> {
        let uid = json::text(rollout.object, &["metadata", "uid"]);
        let stored = sources.revisions.group(rollout.resource.name());
        let history = History::new(rollout.target.version, uid, stored.iter().map(|revision| &revision.0));
        // ROLL-68: evictions depend on since when a version is in force.
        let recreates = rollout.target.upgrades.recreate;
        let history = if recreates { history.noting(self.context.clock.now()) } else { history };
        let mut collisions = collisions(rollout.object);
        let latest = match history.latest() {
            Latest::Newest(latest) => latest.clone(),
            // The answer has the resource version that the next step tests.
            Latest::Again(step) => match self.effects.carry_out(&step, "the SidecarSet has its content again").await {
                Ok(stored) => match stored.as_ref().and_then(revision) {
                    Some(latest) => latest,
                    None => return Ok(None),
                },
                Err(error) if error.problem.is_overtaken() => return Ok(None),
                Err(error) => return Err(error.into()),
            },
            Latest::New(number) => {
                let namespace = &sources.place.system_namespace;
                let new = |collisions| history.new_revision(number, collisions, uid, namespace);
                match self.create(&history, &mut collisions, new).await? {
                    Some(latest) => latest,
                    None => return Ok(None),
                }
            }
        };
        if let Some(step) = history.relabel(&latest)
            && !self.effects.settle(&step, "the SidecarSet's customVersion").await?
        {
            return Ok(None);
        }
        // The revision before this one comes into force if this one fails.
        let before = rollout.target.upgrades.rollback.then(|| history.before(latest.name())).flatten();
        self.truncate(rollout, &history, (latest.name(), before)).await?;
        Ok(Some(Registered { revision: latest, collisions }))
    }

    /// Keeps the revisions as they are while an earlier one is in force (ROLL-62): it gets no other number.
    pub(super) async fn keep(
        &self,
        rollout: &Rollout<'_>,
        stored: &[&Revision],
        back: &Back<'_>,
    ) -> Result<Option<Registered>, Failure> {
        let uid = json::text(rollout.object, &["metadata", "uid"]);
        let history = History::new(rollout.target.version, uid, stored.iter().copied());
        let restored = back.restored.name();
        self.truncate(rollout, &history, (back.failed.name(), Some(restored))).await?;
        let revision = stored.iter().find(|revision| revision.name() == restored);
        let collisions = collisions(rollout.object);
        Ok(revision.map(|revision| Registered { revision: Revision::clone(revision), collisions }))
    }

    /// Creates a revision under the first name that is free, or takes the one that has the data already.
    async fn create(
        &self,
        history: &History<'_>,
        collisions: &mut i32,
        new: impl Fn(i32) -> Value,
    ) -> Result<Option<Revision>, Failure> {
        for _ in 0..NAMES {
            let object = new(*collisions);
            let text = |key: &str| json::text(&object, &["metadata", key]).to_owned();
            let (namespace, name) = (text("namespace"), text("name"));
            match self.effects.carry_out(&Step::Create(object), "the SidecarSet has new content").await {
                Ok(created) => return Ok(created.as_ref().and_then(revision)),
                Err(error) if error.problem == WriteProblem::AlreadyExists => {}
                Err(error) if error.problem.is_overtaken() => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            let api = Api::<RevisionObject>::namespaced(self.context.client.clone(), &namespace);
            let there = read::one(&api, &name).await.map_err(|problem| {
                let text = format!("could not read ControllerRevision \"{namespace}/{name}\": {problem}");
                Failure { retry_after: problem.retry_after(), text }
            })?;
            let Some(there) = there.and_then(|there| revision(&serde_json::to_value(there).ok()?)) else {
                return Ok(None);
            };
            if history.has_data(&there) {
                return Ok(Some(there));
            }
            *collisions = collisions.saturating_add(1);
        }
        Err(Failure::new(format!("{NAMES} names for a new ControllerRevision are taken")))
    }

    /// Deletes revisions that are not needed any more. As in OpenKruise, the rollout goes on if that fails.
    /// `also` stays, too.
    async fn truncate(
        &self,
        rollout: &Rollout<'_>,
        history: &History<'_>,
        (latest, also): (&str, Option<&str>),
    ) -> Result<(), Failure> {
        let name = rollout.resource.name();
        let records = rollout.pods.iter().filter_map(|pod| pod.0.records().get(name));
        let used = records.map(|record| record.revision.clone()).chain(also.map(str::to_owned));
        let used: BTreeSet<String> = used.collect();
        let truncation = history.truncated(latest, &used, rollout.resource);
        for step in truncation.steps() {
            if let Err(error) = self.effects.settle(&step, "more revisions than revisionHistoryLimit").await {
                tracing::warn!(controller = Self::NAME, sidecarset = name, %error, "a revision was not deleted");
                return Ok(());
            }
        }
        if truncation.kept > truncation.limit {
            let (kept, limit) = (truncation.kept, truncation.limit);
            tracing::debug!(controller = Self::NAME, sidecarset = name, kept, limit, "revisions in use are kept");
        }
        Ok(())
    }
}

/// Returns `collisionCount` of the status.
fn collisions(object: &Value) -> i32 {
    let count = json::at(object, &["status", "collisionCount"]).and_then(Value::as_i64);
    count.and_then(|count| i32::try_from(count).ok()).unwrap_or_default()
}

/// Reads a stored revision.
fn revision(object: &Value) -> Option<Revision> {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), "apps/v1".into());
        fields.insert("kind".to_owned(), "ControllerRevision".into());
    }
    ControllerRevision::decode(object).ok().map(|revision| Revision::from_controller_revision(&revision))
}
