//! Volumes, mounts and Secrets that a SidecarSet with an account may not inject (E4, E19, E20, E21, TOK-2, IDC-9).

use pillion_kubernetes::field::{FieldError, FieldErrors, FieldPath};
use pillion_kubernetes::json;
use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::made;
use pillion_sidecarset::pod;
use pillion_sidecarset::requested_revision::RequestedRevision;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::{Value, json};

use super::drivers::Drivers;
use super::names;
use super::paths::{self, Relation};
use super::tokens::volumes::{self, Given};

/// Checks one version of a SidecarSet that names an account: the version that a Pod gets, or one that Pods may get.
pub fn check(set: &SidecarSet, trusted: &Drivers) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_volumes(set, trusted, &mut errors);
    check_places(set, &mut errors);
    check_secrets(set, &mut errors);
    errors
}

/// IDC-9: checks a stored version of a SidecarSet that names an account. The errors are about the field of `set` that
/// requests the version, and name the field of the version. A version that cannot be read has no errors: no Pod gets it.
pub fn check_revision(set: &SidecarSet, revision: &ControllerRevision, trusted: &Drivers) -> Vec<FieldError> {
    let Some(version) = version(set, revision) else { return Vec::new() };
    let path = FieldPath::new("spec.injectionStrategy.revision");
    let (path, value) = match RequestedRevision::from_sidecar_set(set) {
        Some(requested) => (path.child(requested.field()).to_string(), requested.value()),
        None => (path.to_string(), revision.name()),
    };
    let told = |error: FieldError| {
        let detail = format!(
            "ControllerRevision \"{}\" would run under the ServiceAccount, and has {}: {}; name another revision, or remove \
             spec.serviceAccountName",
            revision.name(),
            error.path,
            error.detail.split_once("; ").map_or(error.detail.as_str(), |(problem, _)| problem),
        );
        FieldError::invalid(path.as_str(), value, detail)
    };
    check(&version, trusted).into_iter().map(told).collect()
}

/// Returns a stored version of a SidecarSet as a SidecarSet; `None` if it cannot be read. It has no identity: the
/// present one applies (IDC-9).
pub fn version(set: &SidecarSet, revision: &ControllerRevision) -> Option<SidecarSet> {
    let spec = revision.spec().ok()?;
    Some(SidecarSet::from_decoded(json!({"metadata": {"name": set.name()}, "spec": spec})))
}

/// E4, E19: checks the volumes. They must not give the containers a token of another account, must not name Secrets of
/// isolated sidecars, and must not have names that the API server or Pillion uses for its own volumes.
fn check_volumes(set: &SidecarSet, trusted: &Drivers, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.volumes");
    for (index, volume) in set.volumes().iter().enumerate() {
        if errors.is_full() {
            return;
        }
        let at = path.index(index);
        let name = pod::name(volume);
        for prefix in [names::AUTOMOUNT_VOLUME_PREFIX, names::TOKEN_VOLUME_PREFIX] {
            if name.starts_with(prefix) {
                let detail = format!("volumes called \"{prefix}...\" hold tokens; choose another name");
                errors.push(FieldError::invalid(at.child("name"), name, detail));
            }
        }
        match volumes::given(volume, trusted) {
            None => {}
            Some(Given::Token | Given::Certificate) => {
                let detail = "the token would be that of the Pod's ServiceAccount; remove it, spec.serviceAccountName brings one";
                errors.push(FieldError::forbidden(at.child("projected"), detail));
            }
            Some(Given::Driver(driver)) => {
                let detail = "the driver may get a token of the Pod's ServiceAccount; remove the volume, or name the driver in serviceAccounts.trustedCsiDrivers if it asks for none";
                errors.push(FieldError::forbidden(at.child("csi").child("driver"), detail).showing(driver));
            }
        }
        for secret in volumes::token_secrets_of_volume(volume) {
            errors.push(FieldError::forbidden(at, of_isolated(secret)));
        }
    }
}

/// TOK-2, E21: checks that no path in a container is at, above or below the directory of the token.
fn check_places(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    let mut judge = |at: &FieldPath<'_>, path: &str| {
        let detail = match paths::relation(path) {
            None => return,
            Some(Relation::At) => {
                "the sidecar's token is mounted here; remove the mount, or spec.serviceAccountName".to_owned()
            }
            Some(Relation::Above | Relation::Below) => format!(
                "this can hide the sidecar's token, which is mounted at {}; choose another path, or remove spec.serviceAccountName",
                names::MOUNT_PATH
            ),
        };
        if !errors.is_full() {
            errors.push(FieldError::invalid(at, path, detail));
        }
    };
    for (at, container) in containers(set) {
        let at = FieldPath::new(&at);
        for (list, field) in [("volumeMounts", "mountPath"), ("volumeDevices", "devicePath")] {
            for (index, mount) in json::items(container, &[list]).iter().enumerate() {
                judge(&at.child(list).index(index).child(field), json::text(mount, &[field]));
            }
        }
        let field = "terminationMessagePath";
        judge(&at.child(field), json::text(container, &[field]));
    }
}

/// E4: checks that neither environment variables nor pull secrets name Secrets of isolated sidecars.
fn check_secrets(set: &SidecarSet, errors: &mut Vec<FieldError>) {
    for (at, container) in containers(set) {
        for (field, secret) in volumes::token_secrets_of_environment(container) {
            if !errors.is_full() {
                errors.push(FieldError::forbidden(FieldPath::new(&at).child(field), of_isolated(secret)));
            }
        }
    }
    for secret in volumes::token_secrets_of_pulls(set.as_value()) {
        if !errors.is_full() {
            errors.push(FieldError::forbidden("spec.imagePullSecrets", of_isolated(secret)));
        }
    }
}

fn of_isolated(secret: &str) -> String {
    format!("the Secret \"{secret}\" belongs to isolated sidecars; remove it")
}

/// Returns the containers of a set, each with its path.
pub(crate) fn containers(set: &SidecarSet) -> impl Iterator<Item = (String, &Value)> {
    made::sidecars(set).map(|(list, index, container)| {
        let (list, index) = made::written(set, (list, index));
        (FieldPath::new("spec").item(list.key(), index).to_string(), container)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn stored(spec: &Value) -> ControllerRevision {
        ControllerRevision::from_decoded(json!({"metadata": {"name": "s-1"}, "data": {"spec": spec}}))
    }

    #[rstest]
    #[case::token(
        json!({"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "x"}}]}}]}),
        "has spec.volumes[0].projected: "
    )]
    #[case::certificate(
        json!({"volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "a/b"}}]}}]}),
        "has spec.volumes[0].projected: "
    )]
    #[case::driver(json!({"volumes": [{"name": "v", "csi": {"driver": "vault.example"}}]}), "has spec.volumes[0].csi.driver: ")]
    #[case::secret(
        json!({"volumes": [{"name": "v", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}]}),
        "has spec.volumes[0]: "
    )]
    #[case::environment(
        json!({"containers": [{"name": "a", "envFrom": [{"secretRef": {"name": "sidecarset-token-0123456789abcdef"}}]}]}),
        "has spec.containers[0].envFrom: "
    )]
    #[case::place(
        json!({"initContainers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": "/run/secrets"}]}]}),
        "has spec.initContainers[0].volumeMounts[0].mountPath: "
    )]
    fn idc9_a_stored_version_is_checked_like_the_present_one(#[case] spec: Value, #[case] says: &str) {
        let set = SidecarSet::from_decoded(json!({
            "metadata": {"name": "s"}, "spec": {"injectionStrategy": {"revision": {"revisionName": "s-1"}}},
        }));
        let errors = check_revision(&set, &stored(&spec), &Drivers::new());
        let [error] = errors.as_slice() else { panic!("{errors:?}") };
        assert_eq!(error.path, "spec.injectionStrategy.revision.revisionName");
        let told = error.to_string();
        assert!(told.contains("ControllerRevision \"s-1\"") && told.contains(says), "{told}");
        assert!(told.ends_with("; name another revision, or remove spec.serviceAccountName"), "{told}");
    }

    #[rstest]
    #[case::plain(json!({"volumes": [{"name": "v", "emptyDir": {}}]}))]
    #[case::trusted_driver(json!({"volumes": [{"name": "v", "csi": {"driver": "nfs.csi.k8s.io"}}]}))]
    #[case::unreadable(json!(null))]
    fn idc9_a_stored_version_without_credentials_is_fine(#[case] spec: Value) {
        let set = SidecarSet::from_decoded(json!({"metadata": {"name": "s"}}));
        let trusted: Drivers = ["nfs.csi.k8s.io".to_owned()].into_iter().collect();
        assert_eq!(check_revision(&set, &stored(&spec), &trusted), []);
    }

    #[test]
    fn e18_the_errors_are_a_thousand_at_most() {
        let driver = json!({"name": "v", "csi": {"driver": "d"}});
        let set = SidecarSet::from_decoded(json!({"spec": {"volumes": vec![driver; 3_000]}}));
        assert_eq!(check(&set, &Drivers::new()).len(), 1_000);
    }
}
