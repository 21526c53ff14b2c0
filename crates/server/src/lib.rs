//! The standalone admission server: serves the same module over HTTPS, for clusters without Kubewarden.
//!
//! | path | request | answered by |
//! | --- | --- | --- |
//! | [`paths::MUTATE`] | `AdmissionReview` | the policy, which may change the object |
//! | [`paths::VALIDATE`] | `AdmissionReview` | the policy, which must not change it |
//! | [`paths::ASSERT`] | `AdmissionReview` | the policy in the role of the asserting twin |
//! | [`paths::CONVERT`] | `ConversionReview` | conversion of `SidecarSet`s to the other version |
//! | [`paths::HEALTHZ`], [`paths::READYZ`] | probes | |
//! | [`paths::METRICS`] | Prometheus | |
//!
//! Inputs that change while the server runs arrive through `tokio::sync::watch` channels: settings ([`ServedSettings`],
//! for example from a [`SettingsFile`]) and certificates (`pillion_certificates`). [`Limits`] bounds everything that a
//! request may use. Look-ups are answered from watches ([`cache`]) if possible. [`client`] is for tests and measurements.
//!
//! It never decides about a request: the module does, in an instance of its own (`pillion_host`). It writes nothing to the
//! cluster; `pillion_certificates` does.
//!
//! Start with [`Server::start`], then `http.rs` and `evaluate.rs`.
#![forbid(unsafe_code)]

mod bodies;
pub mod cache;
pub mod client;
mod connections;
mod convert;
mod deadline;
mod drain;
mod evaluate;
mod gate;
mod health;
mod http;
mod labels;
mod limits;
mod line;
mod lookups;
mod metrics;
mod reload;
mod review;
mod settings;
mod subject;
mod tls;

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use pillion_host::{Cluster, Module, paths};
use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

pub use crate::drain::Running;
pub use crate::health::{Check, Readiness};
pub use crate::limits::Limits;
pub use crate::metrics::Metrics;
pub use crate::reload::{POLL, ReloadError, SettingsFile};
pub use crate::settings::{Parse, ServedSettings, SettingsError};

use crate::bodies::Bodies;
use crate::connections::{Port, Room};
use crate::drain::Phase;
use crate::evaluate::Judge;
use crate::gate::Gate;
use crate::http::App;

/// The paths that answer `AdmissionReview`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// [`paths::MUTATE`].
    Mutate,
    /// [`paths::VALIDATE`].
    Validate,
    /// [`paths::ASSERT`].
    Assert,
}

impl Endpoint {
    /// All endpoints.
    pub const ALL: [Self; 3] = [Self::Mutate, Self::Validate, Self::Assert];

    /// Returns the path of the endpoint.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Mutate => paths::MUTATE,
            Self::Validate => paths::VALIDATE,
            Self::Assert => paths::ASSERT,
        }
    }
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listening socket has no address.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// TLS cannot be set up.
    #[error("no TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// The parts of a server that has not started.
pub struct Server {
    /// A module with bounds ([`Module::load_bounded`]) that allow as many instances as `limits` requires
    /// ([`Limits::bounds`]).
    pub module: Module,
    /// The settings. Each request uses the newest.
    pub settings: watch::Receiver<Arc<ServedSettings>>,
    /// The certificate. Each connection uses the newest.
    pub certificates: watch::Receiver<Arc<CertifiedKey>>,
    /// Answers look-ups. It may block: the server calls it from threads for blocking work.
    pub cluster: Arc<dyn Cluster>,
    /// The metrics that the server updates.
    pub metrics: Arc<Metrics>,
    /// Further conditions for `/readyz`. The built-in conditions are: valid settings, a certificate that has not
    /// expired, and no shutdown in progress.
    pub readiness: Readiness,
    /// Limits on the resources that clients can use.
    pub limits: Limits,
}

impl Server {
    /// Serves HTTPS on `listener`, and health and metrics without TLS on `health` if there is one.
    ///
    /// Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] if a socket has no address or TLS cannot be set up.
    pub fn start(self, listener: TcpListener, health: Option<TcpListener>) -> Result<Running, StartError> {
        let Self { module, settings, certificates, cluster, metrics, readiness, limits } = self;
        let (phase, in_phase) = watch::channel(Phase::Serving);
        let acceptor = TlsAcceptor::from(tls::config(certificates.clone())?);
        show(&metrics, settings.clone(), certificates.clone());
        let app = Arc::new(App {
            judge: Arc::new(Judge { module, settings, cluster, metrics: Arc::clone(&metrics) }),
            gate: Gate::new(limits.cores, limits.evaluations, limits.queue),
            bodies: Bodies::new(limits.bodies()),
            metrics: Arc::clone(&metrics),
            readiness: standard(certificates, in_phase.clone()).and(readiness),
            limits,
            here: Semaphore::new(Handle::current().metrics().num_workers().saturating_sub(1)),
        });
        let address = listener.local_addr()?;
        let health_address = health.as_ref().map(TcpListener::local_addr).transpose()?;
        let port = |listener, tls, router, connections| Port {
            listener,
            tls,
            router,
            room: Room::new(connections),
            metrics: Arc::clone(&metrics),
        };
        let connections = limits.connections_within(limits::descriptors());
        if connections < limits.connections {
            tracing::warn!(connections, "fewer connections than wanted: the limit of open files is too low");
        }
        let secure = port(listener, Some(acceptor), http::router(Arc::clone(&app)), connections);
        // Probes have their own limit, so webhook callers cannot keep them out.
        let plain = health.map(|health| port(health, None, http::plain_router(app), PROBES));
        let task = tokio::spawn(async move {
            let probed = async {
                if let Some(plain) = plain {
                    plain.serve(in_phase.clone()).await;
                }
            };
            tokio::join!(secure.serve(in_phase.clone()), probed);
        });
        Ok(Running { address, health_address, phase, task })
    }
}

/// Maximum number of connections of probes and Prometheus.
const PROBES: usize = 64;

/// Registers the metrics of the current settings and certificate.
fn show(
    metrics: &Metrics,
    settings: watch::Receiver<Arc<ServedSettings>>,
    certificates: watch::Receiver<Arc<CertifiedKey>>,
) {
    metrics.before_scrape(move |metrics| {
        metrics.settings_in_use(settings.borrow().loaded());
        if let Some(expiry) = pillion_certificates::expiry(&certificates.borrow()) {
            metrics.certificate_in_use(expiry);
        }
    });
}

/// Returns the readiness conditions of every server.
fn standard(certificates: watch::Receiver<Arc<CertifiedKey>>, phase: watch::Receiver<Phase>) -> Readiness {
    let certificate = move || match pillion_certificates::expiry(&certificates.borrow()) {
        Some(expiry) if expiry > SystemTime::now() => Ok(()),
        Some(_) => Err("it has expired".to_owned()),
        None => Err("it cannot be read".to_owned()),
    };
    let shutdown = move || if *phase.borrow() == Phase::Serving { Ok(()) } else { Err("draining".to_owned()) };
    // A server always has a compiled module and valid settings. The two conditions are only listed to show that they
    // count.
    Readiness::default()
        .when("module", || Ok(()))
        .when("settings", || Ok(()))
        .when("certificate", certificate)
        .when("shutdown", shutdown)
}
