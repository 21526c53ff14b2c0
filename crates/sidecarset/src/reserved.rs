//! Annotations with which the author of a Pod decides, so no `SidecarSet` writes them into Pods (TCN-8, OVR-9).

use crate::names;
use crate::overrides;

/// Why a `SidecarSet` must not write an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Why, in words.
    pub problem: &'static str,
    /// What to do beside removing the annotation, as the end of that sentence; `""` if nothing.
    pub instead: &'static str,
}

/// Returns why no `SidecarSet` may write an annotation; `None` if it may.
pub fn reserved(key: &str) -> Option<Reserved> {
    if key == names::TOKEN_CONTAINERS {
        let problem = "no SidecarSet decides which containers of a Pod get its token";
        return Some(Reserved { problem, instead: "" });
    }
    let reserved =
        Reserved { problem: "no SidecarSet overrides a sidecar", instead: ", and change the sidecar itself" };
    overrides::container_of(key).map(|_| reserved)
}
