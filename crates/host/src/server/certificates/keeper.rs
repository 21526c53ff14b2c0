//! Keeps a self-signed authority: its Secret, the `caBundle`s, and what is served.
//!
//! Every replica runs one of these. They agree through the Secret: each change of it is made to the version that was
//! read, so of two that want to make an authority one succeeds, and the other takes what that one made.
//!
//! A round reads the Secret and the objects with `caBundle`s, changes the Secret as [`plan`](super::plan) says, writes
//! the bundle into every `caBundle` that differs, and only then serves what is in the Secret. A round that was delayed
//! so that what it read is out of date cannot undo what another replica did: writes carry the version that was read,
//! and a whole round is given up after half of the time for which an authority must have been seen everywhere.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;

use super::api::{Object, Problem, Written};
use super::authority::Pair;
use super::bundle::{self, Place, Target};
use super::contents::Contents;
use super::plan::{self, Change, Seen};
use super::time::Time;
use super::{Clock, Handout, SelfSigned, secret, serving};

/// How often a round begins again at once because another replica was faster.
const RACES: usize = 3;
/// The longest pause after rounds that failed.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// What was seen of an object with `caBundle`s.
enum Sight {
    /// It, and the places in it that call us.
    There(Value, Vec<Place>),
    /// It is not there (yet).
    Absent,
    Unknown,
}

/// What a round leaves to tell.
#[derive(Default)]
struct Report {
    problems: Vec<Problem>,
    waiting: Vec<String>,
}

pub(super) struct Keeper {
    client: Client,
    options: SelfSigned,
    clock: Clock,
    seen: Seen,
    /// What was made before there was a Secret; proposed to the cluster once.
    proposal: Option<Contents>,
    served: Option<Pair>,
    pub(super) handout: Arc<Handout>,
}

impl Keeper {
    /// A keeper. It has a certificate to serve from the start, though none that the API server knows.
    ///
    /// # Errors
    /// [`Problem`] where no certificate can be made.
    pub(super) fn new(client: Client, options: SelfSigned, clock: Clock) -> Result<Self, Problem> {
        let now = Time::from(clock());
        let changes = plan::plan(&Contents::default().state(), &Seen::default(), &options.names, now, &options.life);
        let proposal = Contents::default().after(&changes, now, &options.life)?;
        let pair = proposal.server.as_ref().ok_or_else(|| Problem::Unusable("none was made".to_owned()))?;
        let (key, expires) = serving::certified(pair)?;
        let handout = Arc::new(Handout::new(key, expires, false));
        let proposal = Some(proposal);
        Ok(Self { client, options, clock, seen: Seen::default(), proposal, served: None, handout })
    }

    /// Keeps until it is stopped from outside. It may be stopped at any point.
    pub(super) async fn run(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            if self.round().await {
                pause = PAUSE_MIN;
                tokio::time::sleep(spread(self.options.interval)).await;
            } else {
                tokio::time::sleep(spread(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX.max(self.options.interval));
            }
        }
    }

    /// Looks after everything once; whether all went well.
    pub(super) async fn round(&mut self) -> bool {
        let patience = (self.options.life.settle / 2).clamp(Duration::from_secs(5), Duration::from_secs(30));
        let report = match tokio::time::timeout(patience, self.attempts()).await {
            Ok(report) => report,
            Err(_) => Report { problems: vec![Problem::Slow], waiting: Vec::new() },
        };
        let went_well = report.problems.is_empty();
        self.tell(&report);
        went_well
    }

    async fn attempts(&mut self) -> Report {
        let mut report = Report::default();
        for _ in 0..RACES {
            report = Report::default();
            match self.attempt(&mut report).await {
                Ok(true) => break,
                Ok(false) => {}
                Err(problem) => {
                    report.problems.push(problem);
                    break;
                }
            }
        }
        report
    }

    /// One attempt at a round; false where another replica was faster and it has to begin again.
    async fn attempt(&mut self, report: &mut Report) -> Result<bool, Problem> {
        let SelfSigned { namespace, secret: name, names, life, targets, .. } = self.options.clone();
        let place = Object::secret(&namespace, &name);
        let found: Option<Secret> = place.get(&self.client).await?;
        let (base, contents) = match found {
            Some(found) => {
                let contents = secret::read(&found).map_err(|reason| Problem::Secret { namespace, name, reason })?;
                self.proposal = None;
                (found, contents)
            }
            None => (secret::new(&namespace, &name), self.proposal.clone().unwrap_or_default()),
        };
        let mut sights = Vec::new();
        for target in &targets {
            sights.push(self.look(target, report).await);
        }
        let now = Time::from((self.clock)());
        let everywhere = held_everywhere(&sights, &contents);
        self.seen.note(everywhere, now);

        let changes = plan::plan(&contents.state(), &self.seen, &names, now, &life);
        let contents = if changes.is_empty() && base.metadata.resource_version.is_some() {
            contents
        } else {
            let wanted = contents.clone().after(&changes, now, &life)?;
            let is_new = base.metadata.resource_version.is_none();
            match place.put(&self.client, &secret::write(base, &wanted)).await {
                Ok(Written::Done) => {
                    log(&changes, &contents);
                    wanted
                }
                Ok(Written::Raced | Written::Gone) => return Ok(false),
                // What is not kept must not be served: the other replicas would not know it. What was kept still is.
                Err(problem) if is_new || contents.trusted.is_empty() => return Err(problem),
                Err(problem) => {
                    report.problems.push(problem);
                    contents
                }
            }
        };
        let mut raced = false;
        for (target, sight) in targets.iter().zip(&sights) {
            raced |= self.write(target, sight, &contents.bundle(), report).await;
        }
        self.serve(&contents)?;
        Ok(!raced)
    }

    /// Reads an object with `caBundle`s.
    async fn look(&self, target: &Target, report: &mut Report) -> Sight {
        match Object::target(target).get::<Value>(&self.client).await {
            Ok(Some(object)) => {
                let places = bundle::places(target, &object, &self.options.service, &self.options.names);
                if places.is_empty() {
                    let bundle::Service { name, namespace } = &self.options.service;
                    report
                        .waiting
                        .push(format!("{target} has no webhook that calls the Service \"{namespace}/{name}\""));
                }
                Sight::There(object, places)
            }
            Ok(None) => {
                report.waiting.push(format!("{target} is not there yet"));
                Sight::Absent
            }
            Err(problem) => {
                report.problems.push(problem);
                Sight::Unknown
            }
        }
    }

    /// Writes the bundle where it is not; whether somebody else wrote there in the meantime.
    async fn write(&self, target: &Target, sight: &Sight, bundle: &str, report: &mut Report) -> bool {
        let Sight::There(object, places) = sight else { return false };
        let Some(patch) = bundle::patch(object, places, bundle) else { return false };
        match Object::target(target).patch(&self.client, patch).await {
            Ok(Written::Done) => tracing::info!("wrote the certificate authorities into the caBundle of {target}"),
            Ok(Written::Raced) => return true,
            Ok(Written::Gone) => report.waiting.push(format!("{target} is not there yet")),
            Err(problem) => report.problems.push(problem),
        }
        false
    }

    /// Hands out what is kept, where it is new.
    fn serve(&mut self, contents: &Contents) -> Result<(), Problem> {
        self.proposal = None;
        if contents.server == self.served || contents.state().server.is_none() {
            return Ok(());
        }
        if let Some(pair) = &contents.server {
            let (key, expires) = serving::certified(pair)?;
            self.handout.replace(key, expires);
            self.served.clone_from(&contents.server);
        }
        Ok(())
    }

    /// Makes the report known; in the log only what is new.
    fn tell(&self, report: &Report) {
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        self.handout.status.send_if_modified(|status| {
            let changed = status.problems != problems || status.waiting != report.waiting;
            for problem in problems.iter().filter(|problem| !status.problems.contains(problem)) {
                tracing::warn!("certificates: {problem}");
            }
            for waiting in report.waiting.iter().filter(|waiting| !status.waiting.contains(waiting)) {
                tracing::info!("certificates: {waiting}");
            }
            if problems.is_empty() && !status.problems.is_empty() {
                tracing::info!("certificates: all is well again");
            }
            status.problems.clone_from(&problems);
            status.waiting.clone_from(&report.waiting);
            changed
        });
    }
}

/// The authorities that every place holds; nothing where that is not known.
fn held_everywhere(sights: &[Sight], contents: &Contents) -> Option<Vec<super::x509::Id>> {
    if sights.iter().any(|sight| matches!(sight, Sight::Unknown)) {
        return None;
    }
    let places = sights.iter().flat_map(|sight| match sight {
        Sight::There(_, places) => places.as_slice(),
        Sight::Absent | Sight::Unknown => &[],
    });
    // Where nobody calls, nobody has to be told.
    let everything = || contents.trusted.iter().map(|authority| authority.facts.id).collect();
    Some(bundle::held(places).unwrap_or_else(everything).into_iter().collect())
}

fn log(changes: &[Change], before: &Contents) {
    for damaged in &before.damage {
        tracing::warn!("certificates: \"{damaged}\" of the Secret cannot be used, and is replaced");
    }
    for change in changes {
        match change {
            Change::Create => tracing::info!("certificates: made a certificate authority"),
            Change::Introduce => tracing::info!("certificates: made the next certificate authority; it signs later"),
            Change::Promote => tracing::info!("certificates: the next certificate authority signs from now on"),
            Change::Issue(names) => tracing::info!("certificates: made a server certificate for {names}"),
            Change::Retire(id, _) => tracing::debug!("certificates: the authority {id} signs no longer"),
            Change::Forget(id) => tracing::info!("certificates: the authority {id} is not trusted any longer"),
            Change::Tidy => {}
        }
    }
}

/// A pause about as long as given, so that replicas do not always meet.
fn spread(pause: Duration) -> Duration {
    use std::hash::BuildHasher as _;
    let random = std::hash::RandomState::new().hash_one(0_u8);
    let percent = 80 + u32::try_from(random % 41).unwrap_or_default();
    pause * percent / 100
}
