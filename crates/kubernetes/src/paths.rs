//! The paths of the server, for the server itself and for the manifests that name them.

/// For mutating webhooks: Pods, `SidecarSet`s, token Secrets.
pub const MUTATE: &str = "/mutate";
/// For validating webhooks: all objects that are only guarded.
pub const VALIDATE: &str = "/validate";
/// For the validating webhook that checks Pods again after all mutating webhooks.
pub const ASSERT: &str = "/assert";
/// For the conversion of `SidecarSet`s; their CustomResourceDefinition names this path.
pub const CONVERT: &str = "/convert";
/// Liveness: whether the process is alive.
pub const HEALTHZ: &str = "/healthz";
/// Readiness: whether the server wants requests.
pub const READYZ: &str = "/readyz";
/// The metrics.
pub const METRICS: &str = "/metrics";
