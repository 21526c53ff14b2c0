//! Warnings about manifests in the settings of a policy: a policy server copies and serialises the settings for each
//! request.

use pillion_kubernetes::json;

use crate::report::Finding;
use crate::settings::Judged;

/// The length of manifests from which on their cost is noticeable, in bytes: seven `SidecarSet`s of average length.
const MUCH: usize = 8 * 1000;

/// Lengths of `sidecarSets` in bytes, each with the CPU time of a Pod through a policy server, as a multiple of that with
/// a bundle of the same `SidecarSet`s (docs/benchmarks.md).
const MEASURED: [(f64, f64); 2] = [(14_700.0, 1.4), (148_700.0, 5.2)];

/// Returns a warning at the manifests of a policy that is asked about Pods, if they are long.
pub(super) fn check(judged: &Judged<'_>) -> Option<Finding> {
    let bytes = bytes(judged);
    if bytes < MUCH {
        return None;
    }
    let count = judged.items.len();
    let message = format!(
        "the policy server copies {count} manifests with {} KB for each request: a Pod takes about {:.1} times as long as \
         with a bundle of them",
        bytes.div_ceil(1000),
        times(bytes)
    );
    let file = file(&judged.spot.manifest.source.name);
    let remedy = format!(
        "render the policy again with `pillion manifest kubewarden --settings {file}`, or use the settings of `pillion \
         bundle --settings {file} -o yaml`"
    );
    Some(judged.spot.warning("sidecarSets", message, remedy))
}

/// Returns the file of a source, as a command names it; `FILE` for `stdin` and an object of the cluster.
fn file(name: &str) -> &str {
    if name.starts_with("cluster/") || name == "<stdin>" { "FILE" } else { name }
}

/// Whether these are settings outside of a policy with manifests that would be slow in one.
pub fn is_costly_in_a_policy(judged: &Judged<'_>) -> bool {
    !judged.are_of_policy() && bytes(judged) >= MUCH
}

fn bytes(judged: &Judged<'_>) -> usize {
    json::items(judged.spot.raw, &["sidecarSets"]).iter().map(|set| set.to_string().len()).sum()
}

/// Returns the time of a Pod on the line through the two measured points.
#[allow(clippy::cast_precision_loss, reason = "a length of manifests is far below 2^52")]
fn times(bytes: usize) -> f64 {
    let [(shorter, fast), (longer, slow)] = MEASURED;
    fast + (bytes as f64 - shorter) * (slow - fast) / (longer - shorter)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::noticeable(MUCH, "1.2")]
    #[case::ten(14_700, "1.4")]
    #[case::a_hundred(148_700, "5.2")]
    fn the_time_is_that_of_the_measurements(#[case] bytes: usize, #[case] expected: &str) {
        assert_eq!(format!("{:.1}", times(bytes)), expected);
    }

    #[rstest]
    #[case::a_file("sets/policy.yaml", "sets/policy.yaml")]
    #[case::stdin("<stdin>", "FILE")]
    #[case::the_cluster("cluster/ClusterAdmissionPolicy/p", "FILE")]
    fn a_remedy_names_a_file_that_a_command_can_read(#[case] source: &str, #[case] expected: &str) {
        assert_eq!(file(source), expected);
    }
}
