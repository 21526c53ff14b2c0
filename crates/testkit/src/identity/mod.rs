//! Who can authenticate as whom in a Pod, by the rules of the API server and the kubelet (`serviceaccounts.md` A1, B).
//!
//! A model beside the policy: it shares no code with what it judges but the names of Secrets and volumes.

pub mod expect;
pub mod kubelet;
pub mod plugin;
pub mod scenario;

pub use expect::Expected;
pub use kubelet::{Pair, pairs};
pub use plugin::{Account, Accounts, NAMESPACE, admit, invalid};
pub use scenario::Scenario;

/// Where ServiceAccounts are mounted.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Whether a mount path is [`TOKEN_PATH`] for a container runtime.
pub(crate) fn is_token_path(path: &str) -> bool {
    path.trim_end_matches('/') == TOKEN_PATH
}
