//! The standalone admission server: the same module over HTTPS, for clusters without Kubewarden.
//!
//! | path | asks | answered with |
//! | --- | --- | --- |
//! | [`paths::MUTATE`] | `AdmissionReview` | the policy, which may change the object |
//! | [`paths::VALIDATE`] | `AdmissionReview` | the policy, which must not change it |
//! | [`paths::ASSERT`] | `AdmissionReview` | the policy in the role of the asserting twin |
//! | [`paths::CONVERT`] | `ConversionReview` | `SidecarSet`s in the other version |
//! | [`paths::HEALTHZ`], [`paths::READYZ`] | probes | |
//! | [`paths::METRICS`] | Prometheus | |
//!
//! What comes from outside and changes while the server runs comes as `tokio::sync::watch` channels: settings
//! ([`ServedSettings`], from a [`SettingsFile`] for example) and certificates. Everything that a request may use is
//! bounded by [`Limits`].

pub mod certificates;
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
mod lookups;
mod metrics;
mod reload;
mod review;
mod settings;
mod temporary;
mod tls;

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

pub use self::drain::Running;
pub use self::health::{Check, Readiness};
pub use self::limits::Limits;
pub use self::metrics::Metrics;
pub use self::reload::{POLL, Parse, ReloadError, SettingsFile};
pub use self::settings::{ServedSettings, SettingsError};
pub use self::temporary::{TemporaryAuthority, TemporaryError};

use self::connections::Port;
use self::drain::Phase;
use self::evaluate::Judge;
use self::gate::Gate;
use self::http::App;
use crate::cluster::Cluster;
use crate::module::Module;

/// The paths that the server has; webhook configurations name them.
pub mod paths {
    /// For mutating webhooks: Pods, `SidecarSet`s, token Secrets.
    pub const MUTATE: &str = "/mutate";
    /// For validating webhooks: everything that is only guarded.
    pub const VALIDATE: &str = "/validate";
    /// For the validating webhook that looks at Pods again, after all who change them.
    pub const ASSERT: &str = "/assert";
    /// For the conversion of `SidecarSet`s, which their definition names.
    pub const CONVERT: &str = "/convert";
    /// Whether the process is alive.
    pub const HEALTHZ: &str = "/healthz";
    /// Whether it wants to be asked.
    pub const READYZ: &str = "/readyz";
    /// What it counts.
    pub const METRICS: &str = "/metrics";
}

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
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mutate, Self::Validate, Self::Assert];

    /// Where it is.
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
    /// The listening socket is none any more.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
    /// There is no TLS.
    #[error("no TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A server, not yet started.
pub struct Server {
    /// A module with bounds ([`Module::load_bounded`]) that allow as many instances as `limits` do evaluations
    /// ([`Limits::bounds`]).
    pub module: Module,
    /// The settings in use; the newest is taken for each request.
    pub settings: watch::Receiver<Arc<ServedSettings>>,
    /// The certificate; the newest is taken for each connection.
    pub certificates: watch::Receiver<Arc<CertifiedKey>>,
    /// What answers look-ups. It may block: it is asked from threads for blocking work.
    pub cluster: Arc<dyn Cluster>,
    /// Where is counted.
    pub metrics: Arc<Metrics>,
    /// What else has to be so before `/readyz` says yes, beside settings, a certificate that has not expired, and that
    /// the server is not being stopped.
    pub readiness: Readiness,
    /// What a client can make the server use.
    pub limits: Limits,
}

impl Server {
    /// Serves HTTPS on one socket, and on the other one, where there is one, health and metrics without TLS.
    ///
    /// Has to be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] where the sockets have no address, or there is no TLS.
    pub fn start(self, listener: TcpListener, health: Option<TcpListener>) -> Result<Running, StartError> {
        let Self { module, settings, certificates, cluster, metrics, readiness, limits } = self;
        let (phase, in_phase) = watch::channel(Phase::Serving);
        let acceptor = TlsAcceptor::from(tls::config(certificates.clone())?);
        show(&metrics, settings.clone(), certificates.clone());
        let app = Arc::new(App {
            judge: Arc::new(Judge { module, settings, cluster, metrics: Arc::clone(&metrics) }),
            gate: Gate::new(limits.cores, limits.evaluations, limits.queue),
            metrics: Arc::clone(&metrics),
            readiness: standard(certificates, in_phase.clone()).and(readiness),
            limits,
        });
        let address = listener.local_addr()?;
        let health_address = health.as_ref().map(TcpListener::local_addr).transpose()?;
        let port = |listener, tls, router, connections| Port {
            listener,
            tls,
            router,
            connections: Arc::new(Semaphore::new(connections)),
            metrics: Arc::clone(&metrics),
        };
        let secure = port(listener, Some(acceptor), http::router(Arc::clone(&app)), limits.connections);
        // Probes are never kept out by those who call the webhooks.
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

/// Connections of probes and of Prometheus.
const PROBES: usize = 64;

/// Has the metrics show what is in use.
fn show(
    metrics: &Metrics,
    settings: watch::Receiver<Arc<ServedSettings>>,
    certificates: watch::Receiver<Arc<CertifiedKey>>,
) {
    metrics.before_scrape(move |metrics| {
        metrics.settings_in_use(settings.borrow().loaded());
        if let Some(expiry) = certificates::expiry(&certificates.borrow()) {
            metrics.certificate_in_use(expiry);
        }
    });
}

/// The conditions that every server has.
fn standard(certificates: watch::Receiver<Arc<CertifiedKey>>, phase: watch::Receiver<Phase>) -> Readiness {
    let certificate = move || match certificates::expiry(&certificates.borrow()) {
        Some(expiry) if expiry > SystemTime::now() => Ok(()),
        Some(_) => Err("it has expired".to_owned()),
        None => Err("it cannot be read".to_owned()),
    };
    let shutdown = move || if *phase.borrow() == Phase::Serving { Ok(()) } else { Err("draining".to_owned()) };
    // There is no server without valid settings and a compiled module; that they are listed says that they count.
    Readiness::default()
        .when("module", || Ok(()))
        .when("settings", || Ok(()))
        .when("certificate", certificate)
        .when("shutdown", shutdown)
}
