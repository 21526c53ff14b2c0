//! Runs a module as policy servers and kwctl do: on waPC's provider for wasmtime, compiled with full optimization.
//!
//! The steps around the call are those of Kubewarden's policy evaluator, with the same data structures. Each function
//! says which steps.

use anyhow::anyhow;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wapc::WapcHost;
use wasmtime_provider::wasmtime::{Config, Engine, Module};
use wasmtime_provider::{EpochDeadlines, WasmtimeEngineProviderBuilder, WasmtimeEngineProviderPre};

use crate::errors::into_anyhow;
use crate::objects::Objects;

/// The function that decides on requests.
const VALIDATE: &str = "validate";
/// The deadlines of a policy server, which gives an evaluation two seconds of one tick each.
const DEADLINES: EpochDeadlines = EpochDeadlines { wapc_init: 2, wapc_func: 2 };

/// The program whose engine a module runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// kwctl, with the defaults of wasmtime.
    Kwctl,
    /// The policy server: every loop and function checks the deadline.
    PolicyServer,
}

/// A compiled module.
#[derive(Clone)]
pub struct Policy {
    instances: WasmtimeEngineProviderPre,
    deadlines: Option<EpochDeadlines>,
}

impl Policy {
    /// Compiles a module, without a cache.
    ///
    /// # Errors
    /// If the bytes are not a module of the waPC protocol.
    pub fn compile(bytes: &[u8], engines: Engines) -> anyhow::Result<Self> {
        let mut config = Config::new();
        config.wasm_function_references(true);
        config.epoch_interruption(engines == Engines::PolicyServer);
        let engine = Engine::new(&config).map_err(into_anyhow)?;
        let module = Module::new(&engine, bytes).map_err(into_anyhow)?;
        let instances = WasmtimeEngineProviderBuilder::new().engine(engine).module(module).build_pre()?;
        Ok(Self { instances, deadlines: (engines == Engines::PolicyServer).then_some(DEADLINES) })
    }

    /// Returns an instance that is ready for calls.
    ///
    /// # Errors
    /// If the instance does not start.
    pub fn instance(&self, objects: &Objects) -> anyhow::Result<Instance> {
        let objects = objects.clone();
        let answer = move |_: u64, _: &str, namespace: &str, operation: &str, payload: &[u8]| {
            objects.answer(namespace, operation, payload).map_err(Into::into)
        };
        let instance = self.instances.rehydrate(self.deadlines)?;
        Ok(Instance(WapcHost::new(Box::new(instance), Some(Box::new(answer)))?))
    }

    /// Evaluates one request as a policy server does, from the decoded request to the answer with its patch: clone the
    /// settings twice (for the limits and for the call) and the request once, create an instance, write the settings
    /// into the span of the evaluation (its level is `info`, the server's default), turn request and settings into one
    /// tree and one text, call the policy, read and compare its answer.
    ///
    /// Not included: HTTP, decoding of the review, the evaluation's thread, metrics.
    ///
    /// # Errors
    /// If the policy does not answer, or its answer is invalid.
    pub fn serve(
        &self,
        request: &Value,
        settings: &Map<String, Value>,
        objects: &Objects,
    ) -> anyhow::Result<Admission> {
        let settings_of_call = Settings(settings.clone());
        let settings_of_limits = Settings(settings.clone());
        let instance = self.instance(objects)?;
        drop(settings_of_limits);
        let request = request.clone();
        let span = format!("{settings_of_call:?}");
        let admission = instance.evaluate(&request, &settings_of_call)?;
        drop(span);
        Ok(admission)
    }
}

/// Settings in Kubewarden's representation.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Settings(pub Map<String, Value>);

/// An instance of a policy.
pub struct Instance(WapcHost);

/// A policy's decision on an admission request, as Kubewarden reads it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Decision {
    /// Whether the request is admitted.
    pub accepted: bool,
    /// The reason for a refusal.
    pub message: Option<String>,
    /// The object to store, if the policy changed it.
    pub mutated_object: Option<Value>,
}

/// The answer to the API server.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The policy's decision.
    pub decision: Decision,
    /// The JSON patch as text, or `None` if nothing changes.
    pub patch: Option<String>,
}

impl Instance {
    /// Calls the policy with a prepared payload.
    ///
    /// # Errors
    /// If the guest traps or reports an error.
    pub fn call(&self, payload: &[u8]) -> anyhow::Result<Vec<u8>> {
        Ok(self.0.call(VALIDATE, payload)?)
    }

    /// Evaluates once, as `kwctl bench` does repeatedly: everything from the decoded request to the patch, in this
    /// instance.
    ///
    /// # Errors
    /// See [`Instance::call`]. Also if the answer is invalid.
    pub fn evaluate(&self, request: &Value, settings: &Settings) -> anyhow::Result<Admission> {
        let tree = serde_json::to_value(request)?;
        let payload = serde_json::to_string(&json!({"request": request, "settings": settings}))?;
        let answer = self.call(payload.as_bytes())?;
        let decision: Decision = serde_json::from_slice(&answer)?;
        let patch = match decision.mutated_object.clone() {
            Some(mutated) => {
                let object = tree.get("object").ok_or_else(|| anyhow!("a request without an object was changed"))?;
                let patch = json_patch::diff(object, &mutated);
                if patch.is_empty() { None } else { Some(serde_json::to_string(&patch)?) }
            }
            None => None,
        };
        Ok(Admission { decision, patch })
    }
}
