//! What the proxy knows about the requests of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use http::{Method, Request};

use super::faults::{Fault, RETRY_AFTER};
use super::program::Program;

/// A request without what differs between runs: the method, the path, the selectors, and whether it is a watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Names a request of a run in this namespace.
    pub fn new<B>(request: &Request<B>, namespace: &str) -> Self {
        let path = request.uri().path().replace(namespace, "NS");
        let query = request.uri().query().unwrap_or_default();
        let mut name = format!("{} {path}", request.method());
        for part in query.split('&') {
            match part.split_once('=') {
                Some(("watch", "true" | "1")) => name.push_str(" watch"),
                Some(("dryRun" | "labelSelector" | "fieldSelector", _)) => {
                    name.extend([" ", &part.replace(namespace, "NS")]);
                }
                _ => {}
            }
        }
        Self(name)
    }

    pub fn is_watch(&self) -> bool {
        self.0.contains(" watch")
    }

    /// Whether the request is one of leader election.
    pub fn is_lease(&self) -> bool {
        self.0.contains("/leases")
    }

    /// Whether the request is an Event for people.
    pub fn is_event(&self) -> bool {
        self.0.contains("/events")
    }

    pub fn is_write(&self) -> bool {
        !self.0.starts_with(Method::GET.as_str()) && !self.0.contains(" dryRun=")
    }

    /// Whether the request is one for a token, which the API server does not store.
    pub fn is_token(&self) -> bool {
        self.0.ends_with("/token")
    }

    /// Whether the request is about the status of a SidecarSet.
    pub fn is_sidecar_set_status(&self) -> bool {
        self.0.contains("/sidecarsets/") && self.0.ends_with("/status")
    }

    /// Whether the request deletes an object.
    pub fn is_deletion(&self) -> bool {
        self.0.starts_with("DELETE ")
    }

    /// Whether the request is about a namespace of another run.
    fn is_of_another_run(&self) -> bool {
        self.0.contains("/crash-")
    }
}

/// The faults of a run: one fault for one occurrence of each of these requests.
#[derive(Clone, Debug)]
pub struct Faults {
    pub fault: Fault,
    /// Which of the requests of a name gets the fault, counted from 1.
    pub occurrence: usize,
    pub names: BTreeSet<Name>,
}

/// The requests of a run.
#[derive(Default)]
pub struct Record {
    /// The namespace of the run.
    pub namespace: String,
    /// The faults of the run, and the program to kill.
    pub faults: Option<(Faults, Arc<Program>)>,
    /// How often each request was sent.
    pub seen: BTreeMap<Name, usize>,
    /// The requests to which the fault was applied.
    pub fired: BTreeSet<Name>,
    /// How often each object of the namespace was created in each phase.
    pub created: BTreeMap<String, usize>,
    /// The writes that took effect.
    pub written: Vec<Name>,
    /// The phase of the scenario.
    pub phase: usize,
    /// The writes that were repeated earlier than the answer 429 had asked for.
    pub impatient: Vec<Name>,
    asked_to_wait: BTreeMap<Name, Instant>,
    /// When the last request that is neither a watch nor one for a Lease was sent.
    pub last: Option<Instant>,
    /// Whether every request for a Lease is refused.
    pub has_no_leases: bool,
    /// Whether the next write is held up.
    pub holds: bool,
}

impl Record {
    /// Returns the record of a run that begins.
    pub fn new(namespace: &str, faults: Option<(Faults, Arc<Program>)>) -> Self {
        Self { namespace: namespace.to_owned(), faults, ..Self::default() }
    }

    /// Records a request. Returns the fault to apply to it.
    pub fn note(&mut self, name: &Name) -> Option<(Fault, Arc<Program>)> {
        // The work in the namespaces of earlier runs is not part of this run.
        if name.is_of_another_run() {
            return None;
        }
        let now = Instant::now();
        if let Some(asked) = self.asked_to_wait.remove(name)
            && now.duration_since(asked) < RETRY_AFTER
        {
            self.impatient.push(name.clone());
        }
        let count = self.seen.entry(name.clone()).or_default();
        *count += 1;
        // A leader renews its Lease all the time, and a watch lasts.
        if !name.is_watch() && !name.is_lease() {
            self.last = Some(now);
        }
        let (faults, program) = self.faults.as_ref()?;
        if *count != faults.occurrence || !faults.names.contains(name) {
            return None;
        }
        self.fired.insert(name.clone());
        if faults.fault == Fault::Answered(429) && name.is_write() {
            self.asked_to_wait.insert(name.clone(), now);
        }
        Some((faults.fault, Arc::clone(program)))
    }

    /// Whether the fault was applied to each request for which it is planned.
    pub fn is_complete(&self) -> bool {
        self.faults.as_ref().is_none_or(|(faults, _)| self.fired == faults.names)
    }
}
