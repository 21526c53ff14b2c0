//! Shows what the policy does to a request: `inject <module> <settings.json> <request.json>`.
//!
//! The request is an AdmissionRequest or an AdmissionReview. The patch goes to standard output as JSON (what the API
//! server would apply), everything else to standard error. There is no cluster: look-ups fail.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use pillion_host::{Module, NoCluster};
use serde_json::Value;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, settings, request] = arguments.as_slice() else {
        return Err("usage: inject <module> <settings.json> <request.json>".into());
    };
    let module = Module::load(&std::fs::read(module)?)?;
    let settings = read(settings)?;
    let mut request = read(request)?;
    if let Some(inner) = request.get_mut("request") {
        request = inner.take();
    }
    let checked = module.validate_settings(&settings)?;
    if !checked.valid {
        eprintln!("the settings are invalid: {}", checked.message.unwrap_or_default());
        return Ok(ExitCode::FAILURE);
    }
    let answer = module.validate(&request, &settings, Arc::new(NoCluster))?;
    for warning in answer.warnings.unwrap_or_default() {
        eprintln!("warning: {warning}");
    }
    for (name, text) in answer.audit_annotations.unwrap_or_default() {
        eprintln!("audit: {name}={text}");
    }
    if !answer.accepted {
        eprintln!("refused ({}): {}", answer.code.unwrap_or_default(), answer.message.unwrap_or_default());
        return Ok(ExitCode::FAILURE);
    }
    let before = request.get("object").unwrap_or(&Value::Null);
    let patch = json_patch::diff(before, answer.mutated_object.as_ref().unwrap_or(before));
    println!("{}", serde_json::to_string_pretty(&patch)?);
    Ok(ExitCode::SUCCESS)
}

fn read(path: &str) -> Result<Value, Box<dyn Error>> {
    let text = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{path}: {error}").into())
}
