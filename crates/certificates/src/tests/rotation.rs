//! Property: whatever happens, in whatever order, a certificate that the API server can verify stays verifiable.

use std::sync::Arc;
use std::time::Duration;

use pillion_testkit::api_server::ApiServer;
use proptest::prelude::*;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use serde_json::json;
use tokio::sync::watch;

use super::{CRD, HOOKS, SECRET, TestClock, bundles, crd, hooks, verify};
use crate::keeper::Keeper;
use crate::time::Time;
use crate::{CaBundleTarget, Lifetimes, SelfSigned};

/// How long an API server may keep using the old content of a `caBundle`.
const LAG: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_hours(1);

#[derive(Clone, Debug)]
enum Step {
    /// Time passes, then both replicas run a round, in turn.
    Wait(Duration),
    /// One replica runs a round.
    Look(bool),
    /// Both run a round at the same time, in one of many orders.
    Race(u64),
    /// Another client writes its own configuration again.
    Reset,
    /// A configuration is deleted or created.
    Toggle,
    /// A part of the Secret is lost.
    Damage(&'static str, &'static str),
    /// The Secret is deleted.
    Delete,
    /// The API server refuses to patch, or no longer does.
    Refuse(bool),
    /// It refuses for a while.
    Refused(Duration),
}

fn peaceful() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..20).prop_map(|hours| Step::Wait(HOUR * hours)),
        4 => (1_u64..100).prop_map(|seconds| Step::Wait(Duration::from_secs(seconds))),
        2 => any::<bool>().prop_map(Step::Look),
        4 => any::<u64>().prop_map(Step::Race),
        1 => (1_u32..12).prop_map(|hours| Step::Refused(HOUR * hours)),
    ]
}

fn hostile() -> impl Strategy<Value = Step> {
    let key = prop_oneof![Just("ca.crt"), Just("ca.key"), Just("next-ca.key"), Just("tls.crt"), Just("tls.key")];
    prop_oneof![
        8 => peaceful(),
        1 => Just(Step::Reset),
        1 => Just(Step::Toggle),
        1 => (key, prop_oneof![Just(""), Just("eA==")]).prop_map(|(key, value)| Step::Damage(key, value)),
        1 => Just(Step::Delete),
        1 => any::<bool>().prop_map(Step::Refuse),
    ]
}

struct World {
    server: ApiServer,
    clock: TestClock,
    replicas: [(Keeper, watch::Receiver<Arc<CertifiedKey>>); 2],
    /// The contents of the bundles, each with the time from which they held.
    history: Vec<(Time, Vec<Vec<u8>>)>,
}

impl World {
    /// A cluster without faults, after the first round.
    async fn new() -> Self {
        let (server, clock) = (ApiServer::new(), TestClock::new());
        server.put(HOOKS, hooks());
        server.put(CRD, crd());
        let targets = vec![
            CaBundleTarget::Mutating("pillion".to_owned()),
            CaBundleTarget::Conversion("sidecarsets.apps.kruise.io".to_owned()),
        ];
        // A rotation takes a week and a half, so every run sees some.
        let life = Lifetimes { authority: HOUR * 24 * 12, server: HOUR * 24 * 3, ..Lifetimes::default() };
        let options = SelfSigned { life, ..SelfSigned::for_service("pillion", "sys", targets).unwrap() };
        let replica = || {
            let keeper = Keeper::new(server.client(), options.clone(), clock.clock()).unwrap();
            let certificate = keeper.handout.certificate.subscribe();
            (keeper, certificate)
        };
        let replicas = [replica(), replica()];
        let mut world = Self { server, clock, replicas, history: Vec::new() };
        world.look().await;
        world
    }

    async fn look(&mut self) {
        for (keeper, _) in &mut self.replicas {
            keeper.round().await;
            self.history.push((self.clock.now(), bundles(&self.server)));
        }
    }

    /// Returns the bundles that an API server may be using now.
    fn in_use(&self) -> impl Iterator<Item = &Vec<u8>> {
        let since = self.clock.now() - LAG;
        let superseded = self.history.iter().take_while(|(from, _)| *from <= since).count();
        self.history.iter().skip(superseded.saturating_sub(1)).flat_map(|(_, bundles)| bundles)
    }

    fn served(&self) -> [CertificateDer<'static>; 2] {
        [0, 1].map(|index| self.replicas[index].1.borrow().cert[0].clone())
    }

    /// Checks that every bundle that may be in use verifies the certificate of every replica.
    fn is_sound(&self) -> Result<(), String> {
        for bundle in self.in_use() {
            for served in self.served() {
                verify(&served, bundle, self.clock.now())?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(length) => {
                self.clock.advance(*length);
                self.look().await;
            }
            Step::Look(first) => {
                let (keeper, _) = &mut self.replicas[usize::from(*first)];
                keeper.round().await;
                self.history.push((self.clock.now(), bundles(&self.server)));
            }
            Step::Race(chance) => {
                self.server.fail(|faults| faults.chance = *chance);
                let [(one, _), (other, _)] = &mut self.replicas;
                tokio::join!(one.round(), other.round());
                self.server.fail(|faults| faults.chance = 0);
                self.history.push((self.clock.now(), bundles(&self.server)));
            }
            Step::Refused(length) => {
                self.server.fail(|faults| faults.forbidden = vec!["PATCH".to_owned()]);
                self.clock.advance(*length);
                self.look().await;
                self.server.fail(|faults| faults.forbidden.clear());
            }
            Step::Reset => self.server.edit(HOOKS, |object| object["webhooks"] = hooks()["webhooks"].clone()),
            Step::Toggle if self.server.object(CRD).is_some() => self.server.delete(CRD),
            Step::Toggle => self.server.put(CRD, crd()),
            Step::Damage(key, value) => self.server.edit(SECRET, |secret| secret["data"][key] = json!(value)),
            Step::Delete => self.server.delete(SECRET),
            Step::Refuse(refuse) => {
                let forbidden = if *refuse { vec!["PATCH".to_owned()] } else { Vec::new() };
                self.server.fail(|faults| faults.forbidden = forbidden);
            }
        }
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn nothing_that_we_do_breaks_what_works(steps in prop::collection::vec(peaceful(), 60..120)) {
        run(async {
            let mut world = World::new().await;
            world.is_sound().unwrap();
            for step in &steps {
                world.step(step).await;
                if let Err(error) = world.is_sound() {
                    return Err(TestCaseError::fail(format!("after {step:?}: {error}")));
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn whatever_others_do_all_is_well_again_soon(steps in prop::collection::vec(hostile(), 10..40)) {
        run(async {
            let mut world = World::new().await;
            for step in &steps {
                world.step(step).await;
            }
            world.step(&Step::Refuse(false)).await;
            for _ in 0..3 {
                world.step(&Step::Wait(Duration::from_secs(61))).await;
            }
            prop_assert_eq!(world.is_sound(), Ok(()), "not after three rounds");
            let [one, other] = world.served();
            prop_assert_eq!(one, other, "both serve the same");
            // Afterwards no replica writes any more.
            let before = world.server.object(SECRET);
            world.look().await;
            prop_assert_eq!(world.server.object(SECRET), before);
            Ok(())
        })?;
    }
}
