//! A module as policy servers and kwctl run it: on waPC's provider for wasmtime, compiled with full optimisation.
//!
//! The steps around the call are those of Kubewarden's policy evaluator, with the same data structures; each function
//! says which.

use anyhow::anyhow;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wapc::WapcHost;
use wasmtime_provider::wasmtime::{Config, Engine, Module};
use wasmtime_provider::{EpochDeadlines, WasmtimeEngineProviderBuilder, WasmtimeEngineProviderPre};

use crate::errors::told;
use crate::objects::Objects;

/// The function that decides on requests.
const VALIDATE: &str = "validate";
/// A policy server gives an evaluation two seconds, a tick each.
const DEADLINES: EpochDeadlines = EpochDeadlines { wapc_init: 2, wapc_func: 2 };

/// Whose engine a module runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// kwctl's: what wasmtime does by itself.
    Kwctl,
    /// The policy server's: every loop and function looks whether its time is up.
    PolicyServer,
}

/// A compiled module.
#[derive(Clone)]
pub struct Policy {
    instances: WasmtimeEngineProviderPre,
    deadlines: Option<EpochDeadlines>,
}

impl Policy {
    /// Compiles a module. Nothing is cached.
    ///
    /// # Errors
    /// Where the bytes are no module of the waPC protocol.
    pub fn compile(bytes: &[u8], engines: Engines) -> anyhow::Result<Self> {
        let mut config = Config::new();
        config.wasm_function_references(true);
        config.epoch_interruption(engines == Engines::PolicyServer);
        let engine = Engine::new(&config).map_err(told)?;
        let module = Module::new(&engine, bytes).map_err(told)?;
        let instances = WasmtimeEngineProviderBuilder::new().engine(engine).module(module).build_pre()?;
        Ok(Self { instances, deadlines: (engines == Engines::PolicyServer).then_some(DEADLINES) })
    }

    /// An instance, ready for calls.
    ///
    /// # Errors
    /// Where it does not start.
    pub fn instance(&self, objects: &Objects) -> anyhow::Result<Instance> {
        let objects = objects.clone();
        let answer = move |_: u64, _: &str, namespace: &str, operation: &str, payload: &[u8]| {
            objects.answer(namespace, operation, payload).map_err(Into::into)
        };
        let instance = self.instances.rehydrate(self.deadlines)?;
        Ok(Instance(WapcHost::new(Box::new(instance), Some(Box::new(answer)))?))
    }

    /// One request as a policy server evaluates it, from the decoded request to the answer with its patch: the
    /// settings are cloned twice (for the limits and for the call) and the request once, an instance is made, the
    /// settings are written into the span of the evaluation (its level is `info`, the server's default), request and
    /// settings become one tree and one text, the policy is called, and its answer is read and compared.
    ///
    /// Not in it: HTTP, decoding of the review, the thread that it runs on, metrics.
    ///
    /// # Errors
    /// Where the policy gives none, or one that is no answer.
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

/// Settings as Kubewarden keeps them.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Settings(pub Map<String, Value>);

/// An instance of a policy.
pub struct Instance(WapcHost);

/// A policy's decision on an admission request, as Kubewarden reads it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Decision {
    /// Whether the request is admitted.
    pub accepted: bool,
    /// Why not.
    pub message: Option<String>,
    /// The object as it should be stored.
    pub mutated_object: Option<Value>,
}

/// What the API server is told.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The policy's decision.
    pub decision: Decision,
    /// The JSON patch, as text; none where nothing changes.
    pub patch: Option<String>,
}

impl Instance {
    /// Calls the policy with a payload that is there already.
    ///
    /// # Errors
    /// Where the guest traps or reports an error.
    pub fn call(&self, payload: &[u8]) -> anyhow::Result<Vec<u8>> {
        Ok(self.0.call(VALIDATE, payload)?)
    }

    /// One evaluation as `kwctl bench` repeats it: everything from the decoded request to the patch, in an instance
    /// that is there already.
    ///
    /// # Errors
    /// As [`Instance::call`], or where the answer is none.
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
