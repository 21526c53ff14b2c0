//! Who can authenticate as whom in a Pod, by the rules of the API server and the kubelet (`serviceaccounts.md` A1, B).
//!
//! A model beside the policy: it shares no code with what it judges but the names of Secrets, volumes and merged
//! accounts.

pub mod draw;
pub mod expect;
pub mod kubelet;
pub mod plugin;
pub mod scenario;
pub mod table;

pub use draw::scenario;
pub use expect::Expected;
pub use kubelet::{Pair, pairs};
pub use plugin::{Account, Accounts, NAMESPACE, admit, invalid};
pub use scenario::{Scenario, Set};

/// Where ServiceAccounts are mounted.
pub const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Whether a mount path is [`TOKEN_PATH`] for a container runtime, however it is written.
pub fn is_token_path(path: &str) -> bool {
    let segments = |path: &str| -> Vec<String> {
        path.split('/').filter(|segment| !matches!(*segment, "" | ".")).map(str::to_owned).collect()
    };
    segments(path) == segments(TOKEN_PATH)
}
