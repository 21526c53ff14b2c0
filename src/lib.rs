//! Pillion as a Kubewarden policy: the waPC interface of `pillion-admission`.
//!
//! It decodes payloads, calls admission, and encodes the outcome. Every payload gets an answer: users would see a guest
//! error or a trap as code 500 with a stack trace, whatever the `failurePolicy`.
//!
//! It never decides anything: `pillion-admission` does. Start with `payload.rs` and `response.rs`.

mod host;
mod payload;
mod response;
mod shortened;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use kubewarden_policy_sdk::protocol_version_guest;
use pillion_admission as admission;
use pillion_admission::request::RequestTarget;
use pillion_kubernetes::outcome::{Outcome, Refusal, Verdict};
use pillion_kubernetes::time::Timestamp;
use pillion_kubernetes::world::World;
use serde_json::value::RawValue;
use wapc_guest::{CallResult, register_function};

use crate::payload::Payload;
use crate::shortened::Shortened;

/// Registers the functions of the policy. The host calls it once, before any other function.
#[allow(unsafe_code, reason = "the name of the function is part of the protocol")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    register_function("validate", validate);
    register_function("validate_settings", validate_settings);
    register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> CallResult {
    let shortened = Shortened::new(payload);
    let mut managed_fields = None;
    let outcome = decide(payload, &shortened, &mut managed_fields).unwrap_or_else(Outcome::from);
    response::validation(outcome, managed_fields)
}

fn validate_settings(payload: &[u8]) -> CallResult {
    response::settings(&payload::settings_errors(payload))
}

/// Decides on a request. Sets the text of [`payload::MANAGED_FIELDS`] that a changed Pod lacks.
fn decide<'a>(
    bytes: &'a [u8],
    shortened: &'a Shortened<'a>,
    managed_fields: &mut Option<&'a RawValue>,
) -> Result<Outcome, Refusal> {
    let mut payload = Payload::read(bytes, shortened)?;
    let mut request;
    (request, *managed_fields) = payload.request()?;
    let target = request.target();
    if target == RequestTarget::Other {
        return Ok(Verdict::Unchanged.into());
    }
    request.old_object = payload.part("oldObject")?;
    let is_new_pod = target == RequestTarget::PodCreate;
    // No rule reads the creator of a Pod, which is usually a controller.
    if !is_new_pod {
        request.user_info = payload.part("userInfo")?;
    }
    let settings = payload.settings(is_new_pod.then(|| request.pod()))?;
    let started = Instant::now();
    let elapsed = || started.elapsed();
    let world = World { lookup: &host::Host, authorizer: &host::Host, now: now(), elapsed: &elapsed };
    Ok(admission::admit(&mut request, &settings, world))
}

/// Returns the time of the host's clock.
fn now() -> Timestamp {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX))
}
