//! The settings of a server: checked once and serialized once, rather than for every request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pillion_admission::settings::Role;
use serde_json::{Value, json};

use crate::Cluster;
use crate::admission::AdmissionRequest;
use crate::module::{Error, Module};
use crate::protocol::{Operation, ValidationResponse};

/// Why a server cannot use settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The settings are not an object.
    #[error("the settings are no object")]
    NotAnObject,
    /// The settings set a role, but the server derives the role from the path.
    #[error(
        "role: Invalid value: \"Assert\": a server has both roles, by the path of the webhook (/mutate and /assert); leave it out"
    )]
    Role,
    /// The module rejects the settings; the text names every invalid field.
    #[error("{0}")]
    Invalid(String),
    /// The module gave no verdict.
    #[error("the settings could not be checked: {0}")]
    Unchecked(Error),
}

/// Settings that the module accepted.
pub struct ServedSettings {
    inject: Arc<[u8]>,
    assert: Arc<[u8]>,
    loaded: SystemTime,
}

impl ServedSettings {
    /// Checks settings with the module; null counts as empty settings. Blocks: many SidecarSets take a while.
    ///
    /// # Errors
    /// [`SettingsError`] if a server cannot use the settings.
    pub fn check(module: &Module, settings: Value) -> Result<Self, SettingsError> {
        let mut settings = if settings.is_null() { json!({}) } else { settings };
        let Some(fields) = settings.as_object_mut() else { return Err(SettingsError::NotAnObject) };
        if fields.get("role").is_some_and(|role| role == "Assert") {
            return Err(SettingsError::Role);
        }
        let verdict = module.validate_settings(&settings).map_err(SettingsError::Unchecked)?;
        if !verdict.valid {
            return Err(SettingsError::Invalid(verdict.message.unwrap_or_default()));
        }
        let inject = bytes(&settings)?;
        if let Some(fields) = settings.as_object_mut() {
            fields.insert("role".to_owned(), json!("Assert"));
        }
        Ok(Self { inject, assert: bytes(&settings)?, loaded: SystemTime::now() })
    }

    /// Returns the time when they were checked.
    pub fn loaded(&self) -> SystemTime {
        self.loaded
    }

    /// Asks the module for a decision.
    pub(super) fn decide(
        &self,
        module: &Module,
        role: Role,
        request: &AdmissionRequest,
        cluster: Arc<dyn Cluster>,
        time: Duration,
    ) -> Result<ValidationResponse, Error> {
        let operation = Operation::Validate;
        let message = |error| Error::Message { operation, error };
        let settings = match role {
            Role::Inject => &self.inject,
            Role::Assert => &self.assert,
        };
        let mut payload = br#"{"request":"#.to_vec();
        serde_json::to_writer(&mut payload, request).map_err(message)?;
        payload.extend_from_slice(br#","settings":"#);
        payload.extend_from_slice(settings);
        payload.push(b'}');
        serde_json::from_slice(&module.evaluate_within(time, operation, &payload, cluster)?).map_err(message)
    }
}

impl std::fmt::Debug for ServedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedSettings").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

fn bytes(settings: &Value) -> Result<Arc<[u8]>, SettingsError> {
    let operation = Operation::ValidateSettings;
    let bytes =
        serde_json::to_vec(settings).map_err(|error| SettingsError::Unchecked(Error::Message { operation, error }))?;
    Ok(bytes.into())
}
