//! Detects a running kube-controller-manager, which fills the same Secrets (RUN-7).

use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use serde_json::Value;

/// The namespace of its Lease.
pub const NAMESPACE: &str = "kube-system";
/// The name of its Lease.
pub const LEASE: &str = "kube-controller-manager";
/// Time after the last renewal of its Lease for which it counts as running, in seconds. Twice the duration of the Lease
/// applies if that is longer.
const RECENT: i64 = 60;

/// Another controller that fills token Secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "kube-controller-manager \"{holder}\" renewed its Lease \"{NAMESPACE}/{LEASE}\" at {renewed}: two would fill the \
     same Secrets"
)]
pub struct Rival {
    /// The holder of the Lease.
    pub holder: String,
    /// When the Lease was renewed.
    pub renewed: Timestamp,
}

/// Returns the controller that is running according to this Lease. A released Lease has no holder. A renewal in the
/// future counts as recent: clocks differ.
pub fn rival(lease: &Value, now: Timestamp) -> Option<Rival> {
    let holder = json::text(lease, &["spec", "holderIdentity"]);
    let renewed = Timestamp::parse(json::text(lease, &["spec", "renewTime"]))?;
    let seconds = json::at(lease, &["spec", "leaseDurationSeconds"]).and_then(Value::as_i64).unwrap_or_default();
    let recent = RECENT.max(seconds.saturating_mul(2));
    let is_at_work = !holder.is_empty() && now.0.saturating_sub(renewed.0) <= recent;
    is_at_work.then(|| Rival { holder: holder.to_owned(), renewed })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::just_renewed("a", 0, 15, true)]
    #[case::a_minute_ago("a", 60, 15, true)]
    #[case::longer_ago("a", 61, 15, false)]
    #[case::a_long_lease("a", 200, 100, true)]
    #[case::given_up("", 0, 1, false)]
    #[case::a_clock_that_is_ahead("a", -30, 15, true)]
    fn run7_a_lease_that_was_renewed_recently_means_that_it_is_at_work(
        #[case] holder: &str,
        #[case] age: i64,
        #[case] duration: i64,
        #[case] is_at_work: bool,
    ) {
        let now = Timestamp(1_800_000_000);
        let renewed = Timestamp(now.0 - age).to_string().replace('Z', ".123456Z");
        let lease = json!({
            "spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": duration}
        });
        assert_eq!(rival(&lease, now).is_some(), is_at_work);
    }

    #[test]
    fn run7_a_lease_that_was_never_renewed_says_nothing() {
        assert_eq!(rival(&json!({"spec": {"holderIdentity": "a"}}), Timestamp(0)), None);
    }
}
