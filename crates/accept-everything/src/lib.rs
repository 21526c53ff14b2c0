//! The baseline of the benchmarks: a policy that does the minimum that the SDK allows. It decodes its request and its
//! settings, and accepts.
//!
//! It never reads what it is asked about. The module is one file.
use kubewarden_policy_sdk::request::ValidationRequest;
use kubewarden_policy_sdk::settings::Validatable;
use kubewarden_policy_sdk::{accept_request, protocol_version_guest, validate_settings};
use wapc_guest as guest;

/// Settings without fields.
#[derive(serde::Deserialize, serde::Serialize, Default, Debug)]
struct Settings {}

impl Validatable for Settings {
    fn validate(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Registers the functions. The host calls it once, before any request.
#[allow(unsafe_code, reason = "the name of the function is part of the protocol")]
#[unsafe(no_mangle)]
pub extern "C" fn wapc_init() {
    guest::register_function("validate", validate);
    guest::register_function("validate_settings", validate_settings::<Settings>);
    guest::register_function("protocol_version", protocol_version_guest);
}

fn validate(payload: &[u8]) -> guest::CallResult {
    let _ = ValidationRequest::<Settings>::new(payload)?;
    accept_request()
}
