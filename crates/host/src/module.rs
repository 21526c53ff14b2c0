//! A compiled policy module and its evaluation.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use wapc::WapcHost;
use wasmtime_provider::WasmtimeEngineProviderBuilder;

use crate::bounds::{self, Bounds, CodeCache};
use crate::callback::{Host, Log};
use crate::cluster::{Cluster, NoCluster};
use crate::grants::Grants;
use crate::log::LogLine;
use crate::pool::Pool;
use crate::protocol::{Operation, SettingsResponse, ValidatePayload, ValidationResponse};

/// Why a module gave no answer. The text includes the cause: no error has a `source` to print as well.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not a module that this host can run.
    #[error("the module cannot be loaded: {0}")]
    Load(wasmtime_provider::errors::Error),
    /// No instance of the module could be created.
    #[error("the module cannot be started: {0}")]
    Start(Box<dyn std::error::Error + Send + Sync>),
    /// The guest returned an error or trapped.
    #[error("{operation}: {error}")]
    Call {
        /// The function that was called.
        operation: Operation,
        /// The error of the guest or the engine.
        error: wapc::errors::Error,
    },
    /// The payload or the answer is not a valid message of the protocol.
    #[error("{operation}: not a message of the protocol: {error}")]
    Message {
        /// The function that was called.
        operation: Operation,
        /// The error from reading or writing the message.
        error: serde_json::Error,
    },
}

impl Error {
    /// Whether the evaluation was stopped because its time was up.
    pub fn is_out_of_time(&self) -> bool {
        // The provider reports this only as text.
        let text = match self {
            Self::Start(error) => error.to_string(),
            Self::Call { error, .. } => error.to_string(),
            Self::Load(_) | Self::Message { .. } => return false,
        };
        ["deadline exceeded", "timeout"].iter().any(|words| text.contains(words))
    }
}

/// A policy module, compiled once, evaluated any number of times.
///
/// Every evaluation runs in its own instance, so it cannot see what an earlier request left in the guest's memory.
/// Clones are cheap and share the compiled code.
#[derive(Clone)]
pub struct Module {
    pool: Arc<Pool>,
    grants: Arc<Grants>,
    log: Option<Arc<Log>>,
    /// The time limit of an evaluation; `None` for no limit.
    time: Option<Duration>,
}

impl Module {
    /// Compiles a module, or takes it from wasmtime's code cache (a folder of the user's cache directory).
    ///
    /// # Errors
    /// [`Error::Load`] if the bytes are not a WebAssembly module with the imports and exports of waPC.
    pub fn load(bytes: &[u8]) -> Result<Self, Error> {
        Self::load_with(bytes, &CodeCache::Use)
    }

    /// Compiles a module, with or without wasmtime's code cache.
    ///
    /// # Errors
    /// As for [`Module::load`].
    pub fn load_with(bytes: &[u8], cache: &CodeCache) -> Result<Self, Error> {
        let builder = WasmtimeEngineProviderBuilder::new().module_bytes(bytes);
        let builder = match cache {
            CodeCache::Use => builder.enable_cache(None),
            CodeCache::In(folder) => builder.enable_cache(Some(folder)),
            CodeCache::Off => builder,
        };
        let compiled = builder.build_pre().map_err(Error::Load)?;
        Ok(Self { pool: Arc::new(Pool::new(compiled, None, 0)), grants: Arc::default(), log: None, time: None })
    }

    /// Compiles a module whose evaluations are limited in time and memory, for use in a server. Instances take their
    /// memory from a pool, which makes fresh instances cheap.
    ///
    /// # Errors
    /// As for [`Module::load`], and if the machine lacks the address space for the pool.
    pub fn load_bounded(bytes: &[u8], cache: &CodeCache, bounds: Bounds) -> Result<Self, Error> {
        let engine = bounds.engine(cache).map_err(Error::Load)?;
        let builder = WasmtimeEngineProviderBuilder::new().engine(engine).module_bytes(bytes);
        let compiled = builder.enable_resource_limits(bounds.limits()).build_pre().map_err(Error::Load)?;
        let pool = Arc::new(Pool::new(compiled, Some(bounds::ticks(bounds.time)), bounds.idle));
        Ok(Self { pool, grants: Arc::default(), log: None, time: Some(bounds.time) })
    }

    /// Returns the module with this time limit for evaluations. Only a module with bounds can be stopped; other modules
    /// are returned unchanged.
    #[must_use]
    pub fn within(mut self, time: Duration) -> Self {
        self.time = self.time.map(|_| time);
        self
    }

    /// Returns the module restricted to these grants. Without a restriction, it may use everything that the host
    /// offers.
    #[must_use]
    pub fn restricted_to(mut self, grants: Grants) -> Self {
        self.grants = Arc::new(grants);
        self
    }

    /// Returns the module with its log lines sent to `log`. By default they are dropped.
    #[must_use]
    pub fn logging_to(mut self, log: impl Fn(LogLine) + Send + Sync + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Calls a function of the policy with raw bytes, in a fresh instance.
    ///
    /// # Errors
    /// [`Error::Start`] if no instance can be created, [`Error::Call`] if the guest returns an error or traps.
    pub fn evaluate(&self, operation: Operation, payload: &[u8], cluster: Arc<dyn Cluster>) -> Result<Vec<u8>, Error> {
        self.call(operation, payload, cluster, self.time)
    }

    /// Like [`Module::evaluate`], with this time limit, or the limit of the module's bounds if that is shorter.
    ///
    /// # Errors
    /// As for [`Module::evaluate`].
    pub fn evaluate_within(
        &self,
        time: Duration,
        operation: Operation,
        payload: &[u8],
        cluster: Arc<dyn Cluster>,
    ) -> Result<Vec<u8>, Error> {
        self.call(operation, payload, cluster, self.time.map(|most| most.min(time)))
    }

    fn call(
        &self,
        operation: Operation,
        payload: &[u8],
        cluster: Arc<dyn Cluster>,
        time: Option<Duration>,
    ) -> Result<Vec<u8>, Error> {
        let provider = self.pool.provider(time.map(bounds::ticks)).map_err(Error::Start)?;
        let (grants, log) = (Arc::clone(&self.grants), self.log.clone());
        let callback = move |_: u64, binding: &str, namespace: &str, operation: &str, payload: &[u8]| {
            let host = Host { cluster: cluster.as_ref(), grants: &grants, log: log.as_deref() };
            host.answer(binding, namespace, operation, payload)
        };
        let host =
            WapcHost::new(Box::new(provider), Some(Box::new(callback))).map_err(|error| Error::Start(error.into()))?;
        host.call(operation.as_str(), payload).map_err(|error| Error::Call { operation, error })
    }

    /// Decides on an admission request (the `request` of an `AdmissionReview`).
    ///
    /// # Errors
    /// As for [`Module::evaluate`], and [`Error::Message`] if the answer is not a validation response.
    pub fn validate(
        &self,
        request: &Value,
        settings: &Value,
        cluster: Arc<dyn Cluster>,
    ) -> Result<ValidationResponse, Error> {
        let operation = Operation::Validate;
        let payload = serde_json::to_vec(&ValidatePayload { request, settings })
            .map_err(|error| Error::Message { operation, error })?;
        decode(operation, &self.evaluate(operation, &payload, cluster)?)
    }

    /// Checks settings.
    ///
    /// # Errors
    /// As for [`Module::validate`].
    pub fn validate_settings(&self, settings: &Value) -> Result<SettingsResponse, Error> {
        let operation = Operation::ValidateSettings;
        let payload = serde_json::to_vec(settings).map_err(|error| Error::Message { operation, error })?;
        decode(operation, &self.evaluate(operation, &payload, Arc::new(NoCluster))?)
    }

    /// Returns the protocol version that the policy speaks, `v1`.
    ///
    /// # Errors
    /// As for [`Module::validate`].
    pub fn protocol_version(&self) -> Result<String, Error> {
        let operation = Operation::ProtocolVersion;
        decode(operation, &self.evaluate(operation, &[], Arc::new(NoCluster))?)
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").finish_non_exhaustive()
    }
}

fn decode<T: DeserializeOwned>(operation: Operation, answer: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|error| Error::Message { operation, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_module_is_refused_when_loaded() {
        assert!(matches!(Module::load(b"not a module"), Err(Error::Load(_))));
        let lone = Module::load(b"\0asm\x01\0\0\0").unwrap();
        let answer = lone.evaluate(Operation::ProtocolVersion, &[], Arc::new(NoCluster));
        assert!(matches!(answer, Err(Error::Start(_))), "a module without waPC exports: {answer:?}");
    }
}
