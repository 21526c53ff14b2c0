//! Maintains a self-signed authority: its Secret, the `caBundle`s, and the served certificate.
//!
//! Every replica runs a keeper. They coordinate through the Secret: each write applies only to the version that was
//! read. If two replicas want to create an authority, one succeeds and the other uses the result.
//!
//! A round reads the Secret and the objects with `caBundle`s, changes the Secret as [`plan`](crate::plan) says, writes
//! the bundle into every `caBundle` that differs, and only then serves the certificate of the Secret. A delayed round
//! with outdated data cannot undo the work of another replica: writes carry the version that was read, and a round
//! times out after half of [`settle`](crate::authority::Lifetimes::settle).

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;

use crate::api::{CertificateError, Object, Written};
use crate::authority::Pair;
use crate::bundle::{self, CaBundlePlace, CaBundleTarget};
use crate::contents::Contents;
use crate::handout::Handout;
use crate::options::SelfSigned;
use crate::plan::{self, Change, TrustObservations};
use crate::time::{Clock, Time};
use crate::x509::Id;
use crate::{secret, serving};

/// Maximum attempts of a round if another replica keeps writing first.
const RACES: usize = 3;
/// The longest pause after a failed round.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// An object with `caBundle`s as a round found it.
enum Sight {
    /// The object, and the places in it that call this server.
    There(Value, Vec<CaBundlePlace>),
    /// The object does not exist (yet).
    Absent,
    Unknown,
}

/// The problems and missing objects of a round.
#[derive(Default)]
struct Report {
    problems: Vec<CertificateError>,
    waiting: Vec<String>,
}

pub(crate) struct Keeper {
    client: Client,
    options: SelfSigned,
    clock: Clock,
    seen: TrustObservations,
    /// The contents created at the start, for a cluster without a Secret; discarded once there is one.
    proposal: Option<Contents>,
    served: Option<Pair>,
    pub(crate) handout: Arc<Handout>,
}

impl Keeper {
    /// Creates a keeper. It has a certificate to serve from the start, but the API server does not know that one.
    ///
    /// # Errors
    /// [`CertificateError`] if no certificate can be created.
    pub(crate) fn new(client: Client, options: SelfSigned, clock: Clock) -> Result<Self, CertificateError> {
        let now = Time::from(clock());
        let changes =
            plan::plan(&Contents::default().state(), &TrustObservations::default(), &options.names, now, &options.life);
        let proposal = Contents::default().after(&changes, now, &options.life)?;
        let pair = proposal.server.as_ref().ok_or_else(|| CertificateError::Unusable("none was made".to_owned()))?;
        let (key, expires) = serving::certified(pair)?;
        let handout = Arc::new(Handout::new(key, expires, false));
        let proposal = Some(proposal);
        Ok(Self { client, options, clock, seen: TrustObservations::default(), proposal, served: None, handout })
    }

    /// Runs rounds until the task is aborted, which may happen at any point.
    pub(crate) async fn run(mut self) {
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

    /// Runs one round and returns whether it had no problems.
    pub(crate) async fn round(&mut self) -> bool {
        let patience = (self.options.life.settle / 2).clamp(Duration::from_secs(5), Duration::from_secs(30));
        let report = match tokio::time::timeout(patience, self.attempts()).await {
            Ok(report) => report,
            Err(_) => Report { problems: vec![CertificateError::Slow], waiting: Vec::new() },
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

    /// One attempt at a round. Returns `false` if another replica wrote first and the round must start again.
    async fn attempt(&mut self, report: &mut Report) -> Result<bool, CertificateError> {
        let SelfSigned { namespace, secret: name, names, life, targets, .. } = self.options.clone();
        let place = Object::secret(&namespace, &name);
        let found: Option<Secret> = place.get(&self.client).await?;
        let (base, contents) = match found {
            Some(found) => {
                let contents =
                    secret::read(&found).map_err(|reason| CertificateError::Secret { namespace, name, reason })?;
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
                // A certificate that is not kept must not be served: other replicas would not know it. A kept one is
                // still served.
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
    async fn look(&self, target: &CaBundleTarget, report: &mut Report) -> Sight {
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

    /// Writes the bundle into the places that differ. Returns whether another client changed the object in the
    /// meantime.
    async fn write(&self, target: &CaBundleTarget, sight: &Sight, bundle: &str, report: &mut Report) -> bool {
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

    /// Publishes the kept certificate if it is new.
    fn serve(&mut self, contents: &Contents) -> Result<(), CertificateError> {
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

    /// Publishes the report, and logs what is new in it.
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

/// Returns the authorities that every place holds; `None` if a place could not be read.
fn held_everywhere(sights: &[Sight], contents: &Contents) -> Option<Vec<Id>> {
    if sights.iter().any(|sight| matches!(sight, Sight::Unknown)) {
        return None;
    }
    let places = sights.iter().flat_map(|sight| match sight {
        Sight::There(_, places) => places.as_slice(),
        Sight::Absent | Sight::Unknown => &[],
    });
    // Without any place, every authority counts as held.
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

/// Returns a pause of about this length, so that replicas do not always run at the same time.
fn spread(pause: Duration) -> Duration {
    use std::hash::BuildHasher as _;
    let random = std::hash::RandomState::new().hash_one(0_u8);
    let percent = 80 + u32::try_from(random % 41).unwrap_or_default();
    pause * percent / 100
}
