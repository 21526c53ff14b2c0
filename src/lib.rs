//! Pillion as a Kubewarden policy: the waPC shell around `pillion-core`.
//!
//! It turns bytes into values, asks the core, and turns the outcome into bytes. Whatever comes in, an answer goes
//! out: a guest error or a trap would reach the user as code 500 with a stack trace, past every `failurePolicy`.

mod host;
#[cfg(any(target_arch = "wasm32", test))]
mod memory;
mod payload;
mod response;
mod runtime;
pub mod wapc;

use std::mem::ManuallyDrop;
use std::time::Duration;

use pillion_core::admission::{self, World};
use pillion_core::outcome::{Outcome, Refusal, Verdict};
use pillion_core::request::{Request, Target};
use pillion_core::time::Timestamp;

use crate::payload::Payload;

/// The answer of the function of this name; `None` where there is none.
fn call(operation: &[u8], payload: Vec<u8>) -> Option<Vec<u8>> {
    match operation {
        b"validate" => Some(validate(payload)),
        b"validate_settings" => Some(validate_settings(&payload)),
        b"protocol_version" => Some(br#""v1""#.to_vec()),
        _ => None,
    }
}

fn validate(payload: Vec<u8>) -> Vec<u8> {
    response::validation(decide(payload).unwrap_or_else(Outcome::from))
}

fn decide(payload: Vec<u8>) -> Result<Outcome, Refusal> {
    let mut payload = Payload::read(payload)?;
    // All memory is taken back at once: to walk through a Pod just to free it would take longer than to judge it.
    let mut request = ManuallyDrop::new(Request::decode(payload.envelope())?);
    if request.target() == Target::Other {
        return Ok(Verdict::Unchanged.into());
    }
    request.object = payload.object()?;
    request.old_object = payload.request("oldObject")?;
    // Who creates a Pod is of no interest: mostly a controller.
    if request.target() != Target::PodCreate {
        request.user_info = payload.request("userInfo")?;
    }
    let settings = ManuallyDrop::new(payload.settings()?);
    // Only who asks the API server many things has to look at the clock.
    let started = if request.target() == Target::SidecarSetWrite { runtime::monotonic() } else { None };
    // Without a clock nobody can say that there is time left.
    let elapsed = || runtime::monotonic().zip(started).map_or(Duration::MAX, |(now, then)| now.saturating_sub(then));
    let world = World { lookup: &host::Host, authorizer: &host::Host, now: now(), elapsed: &elapsed };
    Ok(admission::admit(&mut request, &settings, world))
}

fn validate_settings(payload: &[u8]) -> Vec<u8> {
    response::settings(&payload::settings_errors(payload))
}

/// The host's clock.
fn now() -> Timestamp {
    Timestamp(i64::try_from(runtime::seconds()).unwrap_or(i64::MAX))
}
