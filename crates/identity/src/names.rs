//! Names of objects and volumes that the policy expects and the controller makes (MRG-1, MRG-7, TOK-1).

use std::collections::BTreeSet;

use pillion_sidecarset::hash;

/// The prefix of the names of merged ServiceAccounts, Roles and RoleBindings. No other object may use it (E6, IDV-2).
pub const MERGED_PREFIX: &str = "sidecarset-merged-";
/// The prefix of the names of Secrets with the tokens of isolated sidecars (TOK-1).
pub const TOKEN_SECRET_PREFIX: &str = "sidecarset-token-";
/// The prefix of the names of volumes with the tokens of sidecars (TOK-1).
pub const TOKEN_VOLUME_PREFIX: &str = "sidecarset-sa-";
/// The prefix of the names of the volumes that the API server adds. The API server adopts any volume with such a name
/// (SAP-8k), so Pillion's volumes have other names.
pub(crate) const AUTOMOUNT_VOLUME_PREFIX: &str = "kube-api-access-";
/// The directory in which Kubernetes mounts tokens of ServiceAccounts, and in which clients look for them.
pub const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The name of the ConfigMap with the certificates of the API server's authority, in each namespace.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// Annotation of merged objects: the SidecarSets, ascending, joined by commas (MRG-2).
pub const SIDECAR_SETS: &str = "pillion.dev/sidecarsets";
/// Annotation of merged objects that the controller is about to delete: the time at which it set this mark (MRG-11).
pub const GC_PENDING: &str = "pillion.dev/gc-pending";
/// The prefix of the finalizers of merged objects; the name of the SidecarSet follows (MRG-7).
pub const FINALIZER_PREFIX: &str = "sa.pillion.dev/";

/// Returns the first 16 hexadecimal digits of the SHA-256 of a text.
fn short_hash(text: &str) -> String {
    let mut hex = hash::sha256(text.as_bytes());
    hex.truncate(16);
    hex
}

/// Returns the name of the ServiceAccount, Role and RoleBinding that are merged for these SidecarSets (MRG-1).
///
/// It depends only on the names of the sets, in any order, so it does not change when their rules are edited.
pub fn merged(sidecar_sets: &[&str]) -> String {
    format!("{MERGED_PREFIX}{}", short_hash(&joined(sidecar_sets, "\n")))
}

/// Returns the value of [`SIDECAR_SETS`] for these SidecarSets (MRG-2).
pub fn merged_annotation(sidecar_sets: &[&str]) -> String {
    joined(sidecar_sets, ",")
}

/// Whether only merged objects may have this name.
pub fn is_merged(name: &str) -> bool {
    name.starts_with(MERGED_PREFIX)
}

fn joined(names: &[&str], separator: &str) -> String {
    let names: BTreeSet<&str> = names.iter().copied().collect();
    Vec::from_iter(names).join(separator)
}

/// What the names of a Secret and a volume with tokens are derived from (TOK-1, AUD-4): the name of the ServiceAccount,
/// and, if the SidecarSet has tokens for other audiences, a line feed and the name of the set. No name contains a line
/// feed, so no account's own objects have such a name.
pub fn credential(service_account: &str, sidecar_set: Option<&str>) -> String {
    sidecar_set.map_or_else(|| service_account.to_owned(), |set| format!("{service_account}\n{set}"))
}

/// Returns the name of the Secret with the tokens of isolated sidecars, in the namespace of the Pod (TOK-1), from its
/// [`credential`].
pub fn token_secret(credential: &str) -> String {
    format!("{TOKEN_SECRET_PREFIX}{}", short_hash(credential))
}

/// Returns the name of the volume through which sidecars get their tokens (TOK-1), from its [`credential`].
pub fn token_volume(credential: &str) -> String {
    format!("{TOKEN_VOLUME_PREFIX}{}", short_hash(credential))
}

/// Returns the name of the volume through which containers get a token of an account that is the Pod's own, from its
/// [`credential`]. A Pod with an account for its sidecars never has such a volume (TCN-4).
pub fn own_token_volume(credential: &str) -> String {
    token_volume(&format!("{credential}\n"))
}

/// Returns the name of the volume through which the containers of a Pod get the token of its own account (TCN-4).
pub fn token_volume_of_pod(service_account: &str) -> String {
    own_token_volume(&credential(service_account, None))
}

/// Returns the finalizer that a SidecarSet keeps on the merged objects that it needs (MRG-7).
pub fn finalizer(sidecar_set: &str) -> String {
    format!("{FINALIZER_PREFIX}{sidecar_set}")
}

/// Whether a mount path is [`MOUNT_PATH`], in any spelling.
///
/// The API server compares paths literally: it adds a second mount to a container whose mount path ends in a slash
/// (SAP-8j). For the container runtime, both paths are the same.
pub fn is_mount_path(path: &str) -> bool {
    let (mut left, mut clean) = (path.strip_prefix('/'), String::new());
    while let Some(rest) = left {
        let segment = if let Some((segment, rest)) = rest.split_once('/') {
            left = Some(rest);
            segment
        } else {
            left = None;
            rest
        };
        match segment {
            "" | "." => {}
            ".." => clean.truncate(clean.bytes().rposition(|byte| byte == b'/').unwrap_or_default()),
            _ => {
                clean.push('/');
                clean.push_str(segment);
            }
        }
    }
    clean == MOUNT_PATH
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    /// The expected hashes come from `printf 'a\nb' | sha256sum` and `printf 'log-agent' | sha256sum`.
    #[test]
    fn mrg1_names_are_the_first_16_digits_of_sha_256() {
        assert_eq!(merged(&["a", "b"]), "sidecarset-merged-7e18f737311b2dc3");
        assert_eq!(token_secret("log-agent"), "sidecarset-token-b077d031c6eaa197");
        assert_eq!(token_volume("log-agent"), "sidecarset-sa-b077d031c6eaa197");
    }

    #[test]
    fn mrg1_order_and_repetition_do_not_matter() {
        assert_eq!(merged(&["b", "a", "b"]), merged(&["a", "b"]));
        assert_eq!(merged_annotation(&["b", "a"]), "a,b");
        assert_ne!(merged(&["a", "b"]), merged(&["ab"]));
    }

    #[test]
    fn mrg7_a_finalizer_names_its_sidecar_set() {
        assert_eq!(finalizer("log-agent"), "sa.pillion.dev/log-agent");
    }

    #[rstest]
    #[case::plain("/var/run/secrets/kubernetes.io/serviceaccount", true)]
    #[case::slash("/var/run/secrets/kubernetes.io/serviceaccount/", true)]
    #[case::slashes("//var/run//secrets/kubernetes.io/serviceaccount//", true)]
    #[case::dot("/var/run/./secrets/kubernetes.io/serviceaccount/.", true)]
    #[case::up("/var/run/../../var/run/secrets/kubernetes.io/x/../serviceaccount", true)]
    #[case::above_the_root("/../var/run/secrets/kubernetes.io/serviceaccount", true)]
    #[case::out("/var/run/secrets/kubernetes.io/serviceaccount/..", false)]
    #[case::below("/var/run/secrets/kubernetes.io/serviceaccount/token", false)]
    #[case::above("/var/run/secrets/kubernetes.io", false)]
    #[case::relative("var/run/secrets/kubernetes.io/serviceaccount", false)]
    #[case::empty("", false)]
    fn sap8j_the_mount_path_is_recognised_however_it_is_written(#[case] path: &str, #[case] is: bool) {
        assert_eq!(is_mount_path(path), is);
    }

    proptest! {
        /// Names of objects and volumes are DNS labels.
        #[test]
        fn tok1_names_fit_into_63_characters(account in ".*") {
            for name in [token_secret(&account), token_volume(&account), merged(&[&account])] {
                prop_assert!(name.len() <= 63 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
            }
        }
    }
}
