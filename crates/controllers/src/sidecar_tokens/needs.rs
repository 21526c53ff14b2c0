//! Finds which Pods and workloads need which tokens.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_identity::audience::AudienceToken;
use pillion_plan::credential::Credential;
use pillion_plan::demand::Demands;
use pillion_plan::sidecar_tokens::Needs;
use pillion_runtime::context::Context;
use pillion_runtime::store::{Namespace, Subject};
use serde_json::Value;

/// The needs of a namespace, and the Pods and workloads behind them.
#[derive(Debug, Default)]
pub(super) struct Needed {
    pub(super) needs: Needs,
    /// The Pods and workloads that need the tokens of each Secret.
    subjects: BTreeMap<Credential, Vec<Arc<Subject>>>,
    /// The Pods that mount each Secret.
    mounting: BTreeMap<String, Vec<Arc<Subject>>>,
}

impl Needed {
    /// Returns the first Pod and the first workload that need these tokens. Events on them tell why they are missing.
    pub(super) fn who(&self, credential: &Credential) -> Vec<Arc<Subject>> {
        let needing = self.subjects.get(credential).into_iter().chain(self.mounting.get(&credential.secret()));
        let mut who: Vec<Arc<Subject>> = Vec::new();
        for subject in needing.flatten() {
            if !who.iter().any(|other| is_pod(other) == is_pod(subject)) {
                who.push(Arc::clone(subject));
            }
        }
        who
    }

    /// Collects the needs of a namespace's Pods and workloads.
    fn collect(
        subjects: Vec<Arc<Subject>>,
        isolated: impl Fn(&Value) -> BTreeMap<Credential, Vec<AudienceToken>>,
    ) -> Self {
        let mut needed = Self::default();
        for subject in subjects.into_iter().filter(|subject| !subject.is_finished) {
            if is_pod(&subject) {
                for secret in &subject.token_secrets {
                    needed.needs.mounted.insert(secret.clone());
                    needed.mounting.entry(secret.clone()).or_default().push(Arc::clone(&subject));
                }
                // A Pod keeps the volumes with which it was created, so it needs no other token Secret.
                if subject.token_secrets.is_empty() {
                    continue;
                }
            }
            for (credential, tokens) in isolated(&subject.pod.value()) {
                if is_pod(&subject) && !subject.token_secrets.contains(&credential.secret()) {
                    continue;
                }
                needed.subjects.entry(credential.clone()).or_default().push(Arc::clone(&subject));
                needed.needs.credentials.insert(credential, tokens);
            }
        }
        needed
    }
}

fn is_pod(subject: &Subject) -> bool {
    subject.kind == "Pod"
}

/// Returns what a namespace with these subjects and Secrets needs; `is_there` tells whether the namespace has an account.
pub(super) fn needed<'s>(
    context: &Context,
    namespace: &Namespace,
    subjects: Vec<Arc<Subject>>,
    secrets: impl Iterator<Item = &'s Credential>,
    is_there: &dyn Fn(&str) -> bool,
) -> Needed {
    if subjects.is_empty() {
        return Needed::default();
    }
    let (settings, sets) = (context.settings(), context.sidecar_sets());
    let object = namespace.object();
    let demands = Demands::new(&sets.prepared, &settings, &object);
    let mut needed = Needed::collect(subjects, |pod| demands.for_pod(pod, is_there).isolated);
    for credential in secrets.filter(|credential| credential.sidecar_set.is_some()) {
        let asked = sets.prepared.iter().find_map(|set| set.audiences(credential));
        needed.needs.declared.extend(asked.map(|tokens| (credential.clone(), tokens.to_vec())));
    }
    needed
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use pillion_runtime::store::Kept;

    use super::*;

    fn subject(kind: &'static str, mounts: &[&str], is_finished: bool) -> Arc<Subject> {
        Arc::new(Subject {
            kind,
            namespace: "n".to_owned(),
            name: format!("a-{kind}"),
            uid: "u".to_owned(),
            pod: Kept::default(),
            token_secrets: mounts.iter().map(|account| Credential::shared(account).secret()).collect(),
            injected: Vec::new(),
            is_finished,
            made_from: 0,
        })
    }

    fn logs() -> BTreeMap<Credential, Vec<AudienceToken>> {
        BTreeMap::from([(Credential::shared("logs"), Vec::new())])
    }

    /// Every Pod here asks for `logs`.
    #[rstest]
    #[case::workload(subject("Deployment", &[], false), true, false)]
    #[case::pod_that_mounts_it(subject("Pod", &["logs"], false), true, true)]
    #[case::pod_from_before_the_sidecar_set(subject("Pod", &[], false), false, false)]
    #[case::pod_that_mounts_another(subject("Pod", &["metrics"], false), false, false)]
    #[case::pod_that_has_ended(subject("Pod", &["logs"], true), false, false)]
    fn tok5_a_namespace_needs_what_its_workloads_and_living_pods_do(
        #[case] subject: Arc<Subject>,
        #[case] needs: bool,
        #[case] mounts: bool,
    ) {
        let needed = Needed::collect(vec![Arc::clone(&subject)], |_| logs());

        let logs = Credential::shared("logs");
        assert_eq!(needed.needs.credentials.contains_key(&logs), needs);
        assert_eq!(needed.needs.mounted.contains(&logs.secret()), mounts);
        assert_eq!(needed.who(&logs).len(), usize::from(needs));
    }

    #[test]
    fn one_pod_and_one_workload_are_told() {
        let subjects = ["Pod", "Pod", "Deployment", "Job"].map(|kind| subject(kind, &["logs"], false));

        let needed = Needed::collect(subjects.into(), |_| logs());

        let kinds: Vec<&str> = needed.who(&Credential::shared("logs")).iter().map(|subject| subject.kind).collect();
        assert_eq!(kinds, ["Pod", "Deployment"]);
    }
}
