//! Sources of look-ups.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use kube::Config;
use pillion_bundle::source::ConfigMapName;
use pillion_host::{Cluster, Live, NoCluster};
use pillion_server::cache::{Cache, Options as CacheOptions, Watched};
use pillion_server::{Metrics, Readiness};

use super::options::{self, Options};

/// The configured source of look-ups.
pub(super) enum Wanted {
    Nothing,
    Live(Arc<Live>),
    Watched(Arc<Live>, CacheOptions),
}

/// A running source of look-ups.
pub(super) enum Provided {
    Plain(Arc<dyn Cluster>),
    Cache(Arc<Cache>),
}

impl Wanted {
    /// `bundle`: the ConfigMap of the setting `bundleRef`; it and its shards are watched, unless the options name what
    /// is watched.
    ///
    /// # Errors
    /// If there is no cluster, or an option is invalid.
    pub(super) fn from_options(options: &Options, bundle: Option<&ConfigMapName>) -> anyhow::Result<Self> {
        if options.cluster.unwrap_or_default() == options::Cluster::None {
            return Ok(Self::Nothing);
        }
        let mut cache = CacheOptions::default();
        if let Some(bound) = options.cache_max_staleness {
            cache.max_staleness = bound.0;
        }
        if options.cache_watch.is_empty() {
            cache.watched.extend(bundle.map(|bundle| Watched {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: Some(bundle.namespace.clone()),
            }));
        } else {
            let watched: Result<Vec<Watched>, _> = options.cache_watch.iter().map(|kind| kind.parse()).collect();
            cache.watched = watched.context("--cache-watch")?;
        }
        let live = Arc::new(Live::infer().context("--cluster live")?);
        Ok(if cache.max_staleness == Duration::ZERO { Self::Live(live) } else { Self::Watched(live, cache) })
    }

    /// Starts the watches.
    ///
    /// # Errors
    /// If the bound on the age of answers cannot be held, or the cluster cannot be used.
    pub(super) async fn provide(&self, metrics: &Metrics) -> anyhow::Result<Provided> {
        let (live, options) = match self {
            Self::Nothing => return Ok(Provided::Plain(Arc::new(NoCluster))),
            Self::Live(live) => return Ok(Provided::Plain(Arc::clone(live) as _)),
            Self::Watched(live, options) => (live, options),
        };
        let client = Live::watching_client(Config::infer().await.context("--cluster live")?)?;
        let cache = Cache::start(&client, Arc::clone(live) as _, options.clone()).context("--cache-max-staleness")?;
        let cache = Arc::new(cache);
        let measured = Arc::clone(&cache);
        metrics.before_scrape(move |metrics| {
            for status in measured.status() {
                let kind = status.watched.to_string();
                metrics.cache_look_ups(&kind, status.answered, status.passed_on);
                metrics.cache_objects(&kind, status.objects);
                if let Some(age) = status.age {
                    metrics.cache_age(&kind, age);
                }
            }
        });
        Ok(Provided::Cache(cache))
    }
}

impl Provided {
    pub(super) fn answers(&self) -> Arc<dyn Cluster> {
        match self {
            Self::Plain(cluster) => Arc::clone(cluster),
            Self::Cache(cache) => Arc::clone(cache) as _,
        }
    }

    /// Adds a readiness check that fails until each kind was listed once or its listing failed with a known problem.
    /// Later, look-ups go to the cluster if the watches are too old.
    pub(super) fn readiness(&self, readiness: Readiness) -> Readiness {
        let Self::Cache(cache) = self else { return readiness };
        let cache = Arc::clone(cache);
        readiness.when("cache", move || {
            let missing = cache.status().into_iter().find(|status| status.age.is_none() && status.problem.is_none());
            missing.map_or(Ok(()), |status| Err(format!("{} is not listed yet", status.watched)))
        })
    }
}
