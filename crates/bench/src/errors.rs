//! Errors of the engine.

/// An error of the engine as one of the standard library, which it is not unless a feature makes it so for the whole
/// workspace.
#[allow(clippy::needless_pass_by_value, reason = "what map_err hands over")]
pub(crate) fn told(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}
