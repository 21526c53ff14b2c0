//! Rules for the managed issuer, which an annotation of the Shoot enables (D16 to D21, W6).

use pillion_kubernetes::field::{FieldErrors, FieldPath};
use pillion_kubernetes::json;
use serde_json::Value;

use super::{Judgement, SHOWN, shown};
use crate::settings::ManagedIssuer;

const ANNOTATION: &str = "authentication.gardener.cloud/issuer";
const MANAGED: &str = "managed";
const OPERATION: &str = "gardener.cloud/operation";

const UNSUPPORTED: &str =
    "cannot enable managed service account issuer as it is not supported in this Gardener installation";
const MISSING: &str =
    "old shoot object has managed service account issuer enabled, but Gardener configuration is missing";
const DISABLED: &str = "once enabled managed service account issuer cannot be disabled";
const ISSUER_SET: &str = "managed service account issuer cannot be enabled when .kubernetes.kubeAPIServer.serviceAccountConfig.issuer is set";
const IRREVERSIBLE: &str = "the managed issuer cannot be disabled once it is enabled";
const NO_RECONCILE: &str = "the annotation starts no reconciliation: the managed issuer takes effect in the next one; annotate gardener.cloud/operation=reconcile, or wait for the maintenance window";

/// The facts that decide about the managed issuer.
#[allow(clippy::struct_excessive_bools)] // The facts are independent.
pub(super) struct ManagedIssuerState {
    /// Whether the managed issuer is enabled in the new object.
    pub managed: bool,
    /// Whether the managed issuer was enabled in the old object.
    pub was_managed: bool,
    /// Whether this is an update.
    pub updating: bool,
    /// Whether an issuer is set, even an empty one.
    pub issuer_is_set: bool,
}

/// Whether the annotation has the value that enables the managed issuer.
pub(super) fn is_on(annotations: &Value) -> bool {
    json::text(annotations, &[ANNOTATION]) == MANAGED
}

/// Reports the first rule that is broken, as Gardener does, and then all warnings.
pub(super) fn judge(
    state: &ManagedIssuerState,
    annotations: &Value,
    support: ManagedIssuer,
    judgement: &mut Judgement,
) {
    let ManagedIssuerState { managed, was_managed, .. } = *state;
    let unsupported = support == ManagedIssuer::Unsupported;
    let broken = if unsupported && managed {
        UNSUPPORTED
    } else if unsupported && was_managed {
        MISSING
    } else if was_managed && !managed {
        DISABLED
    } else if managed && state.issuer_is_set {
        ISSUER_SET
    } else {
        ""
    };
    if !broken.is_empty() {
        judgement.forbidden.forbidden(&FieldPath::new("metadata.annotations").key(ANNOTATION), broken);
    }
    let value = json::text(annotations, &[ANNOTATION]);
    if !managed && !value.is_empty() {
        let value = shown(value, SHOWN);
        judgement.warn(format!("annotation {ANNOTATION}: \"{value}\" is ignored; only \"managed\" counts"));
    }
    if managed && !was_managed {
        judgement.warn(IRREVERSIBLE);
        if state.updating && json::text(annotations, &[OPERATION]) != "reconcile" {
            judgement.warn(NO_RECONCILE);
        }
    }
}
