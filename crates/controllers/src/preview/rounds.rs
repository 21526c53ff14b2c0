//! Runs the controllers in rounds: one reconciliation of each key of each controller.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use pillion_runtime::context::Context;
use pillion_runtime::controller::Controller;
use pillion_runtime::effects::Recorder as _;
use pillion_runtime::wakes::Wakes;

use super::tape::Tape;
use crate::registry::{self, Name, Options, Visitor};

/// The controllers that have started.
pub(super) struct Rounds<'a> {
    context: &'a Context,
    tape: &'a Tape,
    /// The SidecarSet whose keys are reconciled; `None` for all keys.
    sidecar_set: Option<&'a str>,
    /// A controller that runs and is not part of the preview.
    hidden: Option<Name>,
    started: Vec<Box<dyn Round + 'a>>,
}

/// A controller that has started.
trait Round: Send {
    /// Reconciles each of its keys once, in ascending order.
    fn run<'a>(&'a mut self, tape: &'a Tape, sidecar_set: Option<&'a str>) -> BoxFuture<'a, ()>;
}

struct Started<C: Controller> {
    controller: C,
    /// Whether its writes are part of the preview.
    is_shown: bool,
    states: BTreeMap<C::Key, C::KeyState>,
}

impl<C: Controller> Round for Started<C> {
    fn run<'a>(&'a mut self, tape: &'a Tape, sidecar_set: Option<&'a str>) -> BoxFuture<'a, ()> {
        async move {
            let Self { controller, states, is_shown, .. } = self;
            tape.show(*is_shown);
            let keys: BTreeSet<C::Key> = controller.keys().into_iter().collect();
            for key in keys {
                if sidecar_set.is_some_and(|name| !controller.concerns(&key, name)) {
                    continue;
                }
                let problems = tape.problems();
                let result = controller.reconcile(&key, states.entry(key.clone()).or_default()).await;
                if let Err(failure) = result
                    && tape.problems() == problems
                {
                    tape.problem(C::NAME, None, format!("{key}: {failure}"));
                }
            }
            tape.show(true);
        }
        .boxed()
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn new(context: &'a Context, tape: &'a Tape, sidecar_set: Option<&'a str>) -> Self {
        Self { context, tape, sidecar_set, hidden: None, started: Vec::new() }
    }

    /// Starts these controllers and runs the first round: those on which the others depend come first. If
    /// `follows_bundle`, the controller `bundle` runs as well, and its writes are not part of the preview.
    pub(super) async fn first(&mut self, names: &BTreeSet<Name>, follows_bundle: bool, options: &Options) {
        let mut names = names.clone();
        if follows_bundle && names.insert(Name::Bundle) {
            self.hidden = Some(Name::Bundle);
        }
        registry::prepare(self.context, &names);
        let (first, others): (Vec<Name>, Vec<Name>) = names.iter().partition(|name| name.comes_first());
        let Ok(()) = registry::visit(self, first.into_iter().chain(others), options).await;
    }

    /// Runs another round.
    pub(super) async fn next(&mut self) {
        for controller in &mut self.started {
            controller.run(self.tape, self.sidecar_set).await;
        }
    }
}

impl Visitor for Rounds<'_> {
    type Error = Infallible;

    async fn visit<C: Controller>(&mut self, name: Name, options: C::Options) -> Result<(), Infallible> {
        // Nothing is queued: each round reconciles every key.
        let (wakes, _) = Wakes::new();
        let controller = C::start(self.context.clone(), options, wakes).await;
        let is_shown = self.hidden != Some(name);
        let mut started = Box::new(Started { controller, is_shown, states: BTreeMap::new() });
        started.run(self.tape, self.sidecar_set).await;
        self.started.push(started);
        Ok(())
    }
}

/// Keeps the tape where the controllers find it.
pub(super) fn recording(context: Context, tape: &Arc<Tape>) -> Context {
    Context { recorder: Some(Arc::clone(tape) as Arc<dyn pillion_runtime::effects::Recorder>), ..context }
}
