//! Errors of the engine.

/// Turns an error of the engine into an [`anyhow::Error`]. The engine's error implements the standard trait only with a
/// feature that would apply to the whole workspace.
#[allow(clippy::needless_pass_by_value, reason = "what map_err hands over")]
pub(crate) fn into_anyhow(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:?}")
}
