//! Pillion as a Kubewarden policy: the waPC shell around `pillion-core`.
//!
//! It turns bytes into values, asks the core, and turns the outcome into bytes. Whatever comes in, an answer goes
//! out: a guest error or a trap would reach the user as code 500 with a stack trace, past every `failurePolicy`.

mod host;
mod payload;
mod response;
pub mod wapc;

use std::time::{Instant, SystemTime};

use pillion_core::admission::{self, World};
use pillion_core::outcome::{Outcome, Refusal, Verdict};
use pillion_core::request::{Request, Target};
use pillion_core::time::Timestamp;

/// The answer of the function of this name; `None` where there is none.
fn call(operation: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    match operation {
        b"validate" => Some(validate(payload)),
        b"validate_settings" => Some(validate_settings(payload)),
        b"protocol_version" => Some(br#""v1""#.to_vec()),
        _ => None,
    }
}

fn validate(payload: &[u8]) -> Vec<u8> {
    response::validation(decide(payload).unwrap_or_else(Outcome::from))
}

fn decide(payload: &[u8]) -> Result<Outcome, Refusal> {
    let (request, settings) = payload::split(payload)?;
    let request = Request::decode(request)?;
    if request.target() == Target::Other {
        return Ok(Verdict::Unchanged.into());
    }
    let settings = payload::settings(settings)?;
    let started = Instant::now();
    let elapsed = || started.elapsed();
    let world = World { lookup: &host::Host, authorizer: &host::Host, now: now(), elapsed: &elapsed };
    Ok(admission::admit(request, &settings, world))
}

fn validate_settings(payload: &[u8]) -> Vec<u8> {
    response::settings(&payload::settings_errors(payload))
}

/// The host's clock. A clock before 1970 counts as 1970: it only ever becomes the text of an annotation.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
