//! Warnings about a `SidecarSet` that is accepted and probably does not do what its author meant (WARN-1).
//!
//! They need nothing but the `SidecarSet` and, for an update, the one before it. Admission and `pillion check` have them
//! from here, so that both say the same (WARN-2).

mod fields;
mod launch_priority;
mod matching;
mod native;
mod pull_policy;
mod rollback;
#[cfg(test)]
mod tests;
mod transfer_env;
mod volumes;
mod words;

use std::fmt;

use serde_json::Value;

use crate::sidecar_set::SidecarSet;
use crate::sidecar_set::version::Version;
use crate::upgrades::RolloutSettings;

pub use self::fields::unknown_fields;
pub use self::matching::can_select_a_namespace;

/// The lists of `spec` that hold sidecars.
const LISTS: [&str; 2] = ["initContainers", "containers"];

/// Declares the kinds of warnings, and the list of all of them, which tests go through.
macro_rules! rules {
    ($($(#[$doc:meta])+ $name:ident,)+) => {
        /// A kind of warning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[$doc])+ $name,)+
        }

        impl Rule {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
        }
    };
}

rules! {
    /// No table has the field (WARN-3).
    UnknownField,
    /// The annotation looks like one of an identity, and is none.
    UnknownAnnotation,
    /// The value of an enumeration that nothing checks is none of those that there are (WARN-4).
    UnknownValue,
    /// An entry of `transferEnv` copies nothing (WARN-5).
    EmptyTransferEnv,
    /// A v1alpha1 `namespaceSelector` stands beside `namespace`, which replaces it (WARN-6).
    ReplacedSelector,
    /// Injection is paused.
    Paused,
    /// A selector contradicts itself.
    Contradiction,
    /// No container uses the volume.
    UnusedVolume,
    /// An update changes images, and with them a pull policy that is not written (WARN-7).
    ChangedPullPolicy,
    /// OpenKruise looks for launch priorities before `pillion serve` injects (WARN-8).
    LaunchPriority,
    /// A rollback needs a progress deadline (ROLL-62).
    NoProgressDeadline,
    /// Containers become native sidecars in all Pods, and nothing upgrades these (WARN-9).
    NativeWithoutUpgrade,
}

/// A warning about a field of a `SidecarSet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind.
    pub rule: Rule,
    /// The field, as it is written in the version of the object.
    pub path: String,
    /// The problem.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl Warning {
    /// Creates a warning.
    pub fn new(rule: Rule, path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { rule, path: path.into(), message: message.into(), remedy: remedy.into() }
    }
}

/// The text in the answer to a request.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.remedy)
    }
}

/// A `SidecarSet` as its author wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The decoded object, in its own version and without defaults.
    pub object: &'a Value,
    /// The version of the object.
    pub version: Version,
    /// The `SidecarSet` before this update.
    pub old: Option<&'a SidecarSet>,
    /// The settings of the rollouts to running Pods; none if the `SidecarSet` is never rolled out.
    pub rollouts: &'a [RolloutSettings],
}

/// Returns all warnings about the values of a `SidecarSet`. Those about unknown fields come from [`unknown_fields`],
/// which also takes an object that cannot be decoded.
pub fn about_values(written: &Written<'_>) -> Vec<Warning> {
    let mut found = Vec::new();
    matching::check(written, &mut found);
    words::check(written.object, &mut found);
    transfer_env::check(written.object, &mut found);
    volumes::check(written.object, &mut found);
    pull_policy::check(written, &mut found);
    launch_priority::check(written.object, &mut found);
    rollback::check(written, &mut found);
    native::check(written, &mut found);
    found
}
