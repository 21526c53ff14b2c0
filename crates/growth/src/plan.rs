//! Which objects a cluster of a size has.
//!
//! Of five workloads, one has two sidecars that merge their accounts, one has a sidecar with a token of its own, if its
//! namespace is one of those with tokens, and the others have a sidecar without an identity. The SidecarSets with
//! identities select Pods of every namespace, the others those of some namespaces, which they name.

use std::collections::BTreeSet;

/// The number of Pods of a workload.
const REPLICAS: usize = 5;
/// The number of kinds of workloads, and of SidecarSets in a group.
const KINDS: usize = 5;
/// The namespaces before this one may have Pods whose sidecars have tokens.
const TOKEN_NAMESPACES: usize = 2_500;
/// The most groups of SidecarSets that select Pods of every namespace. The bundle's index, which every admission reads,
/// holds some two thousand SidecarSets; those of some namespaces are in its shards.
const GROUPS: usize = 300;

/// The size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of Pods.
    pub pods: usize,
    /// The number of SidecarSets.
    pub sidecar_sets: usize,
    /// The number of namespaces.
    pub namespaces: usize,
}

impl Size {
    /// Returns the usual size of a cluster with this number of Pods.
    pub fn of_pods(pods: usize) -> Self {
        Self { pods, sidecar_sets: (pods / 50).clamp(100, 10_000), namespaces: (pods / 5).clamp(100, 20_000) }
    }
}

/// The sidecars of a workload, by the number of their SidecarSet or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecars {
    /// Two SidecarSets of a group merge their accounts.
    Mesh(usize),
    /// The SidecarSet of a group gives its sidecar a token.
    Vault(usize),
    /// A SidecarSet without an identity.
    Log(usize),
}

/// A workload: a Deployment and its `ReplicaSet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its number.
    pub number: usize,
    /// The number of its namespace.
    pub namespace: usize,
    /// The number of its Pods.
    pub replicas: usize,
    /// Its sidecars.
    pub sidecars: Sidecars,
}

/// The objects of a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The size.
    pub size: Size,
}

impl Plan {
    /// Returns the number of groups of SidecarSets.
    pub fn groups(&self) -> usize {
        (self.size.sidecar_sets / KINDS).clamp(1, GROUPS)
    }

    /// Returns the number of SidecarSets without an identity.
    pub fn logs(&self) -> usize {
        (self.size.sidecar_sets.saturating_sub(3 * self.groups())).max(1)
    }

    /// Returns the workloads.
    pub fn workloads(&self) -> impl Iterator<Item = Workload> + '_ {
        let Size { pods, namespaces, .. } = self.size;
        (0..pods.div_ceil(REPLICAS)).map(move |number| {
            let namespace = number % namespaces;
            // The workloads of a namespace, and those of the namespaces of one SidecarSet, are of different kinds.
            let kind = (namespace + namespace / self.logs() + number / namespaces) % KINDS;
            let sidecars = match kind {
                0 => Sidecars::Mesh(number / KINDS % self.groups()),
                1 if namespace < TOKEN_NAMESPACES => Sidecars::Vault(number / KINDS % self.groups()),
                _ => Sidecars::Log(namespace % self.logs()),
            };
            let replicas = REPLICAS.min(pods - number * REPLICAS);
            Workload { number, namespace, replicas, sidecars }
        })
    }

    /// Returns the namespaces of a SidecarSet without an identity.
    pub fn namespaces_of_log(&self, number: usize) -> impl Iterator<Item = usize> {
        let last = self.size.namespaces.max(number.saturating_add(1));
        (number..last).step_by(self.logs())
    }

    /// Returns the namespaces with Pods whose sidecars have tokens, ascending.
    pub fn token_namespaces(&self) -> BTreeSet<usize> {
        let vaults = self.workloads().filter(|workload| matches!(workload.sidecars, Sidecars::Vault(_)));
        vaults.map(|workload| workload.namespace).collect()
    }

    /// Returns the number of Pods of each SidecarSet without an identity.
    pub fn pods_of_logs(&self) -> Vec<usize> {
        let mut counts = vec![0; self.logs()];
        for workload in self.workloads() {
            if let Sidecars::Log(number) = workload.sidecars
                && let Some(count) = counts.get_mut(number)
            {
                *count += workload.replicas;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::small(1_000, 100, 200)]
    #[case::usual(10_000, 200, 2_000)]
    #[case::large(100_000, 2_000, 20_000)]
    #[case::largest(1_000_000, 10_000, 20_000)]
    fn sizes_grow_with_the_pods(#[case] pods: usize, #[case] sidecar_sets: usize, #[case] namespaces: usize) {
        assert_eq!(Size::of_pods(pods), Size { pods, sidecar_sets, namespaces });
    }

    #[rstest]
    #[case(Size::of_pods(1_003))]
    #[case(Size::of_pods(10_000))]
    #[case(Size { pods: 10_000, sidecar_sets: 10_000, namespaces: 100 })]
    #[case(Size { pods: 250, sidecar_sets: 10, namespaces: 20 })]
    fn all_pods_and_kinds_are_there(#[case] size: Size) {
        let plan = Plan { size };
        assert_eq!(plan.workloads().map(|workload| workload.replicas).sum::<usize>(), size.pods);
        assert_eq!(plan.groups() * 3 + plan.logs(), size.sidecar_sets);
        let is = |found: fn(&Sidecars) -> bool| plan.workloads().filter(|workload| found(&workload.sidecars)).count();
        assert!(is(|it| matches!(it, Sidecars::Mesh(_))) > 0 && is(|it| matches!(it, Sidecars::Vault(_))) > 0);
        let logs = plan.pods_of_logs().iter().sum::<usize>();
        assert!(logs * 2 > size.pods, "most Pods have a sidecar without an identity: {logs}");
    }

    #[test]
    fn a_set_names_the_namespaces_of_its_pods() {
        let plan = Plan { size: Size { pods: 10_000, sidecar_sets: 3_000, namespaces: 2_500 } };
        for workload in plan.workloads() {
            if let Sidecars::Log(number) = workload.sidecars {
                assert!(plan.namespaces_of_log(number).any(|namespace| namespace == workload.namespace));
            }
        }
        assert!((0..plan.logs()).all(|number| plan.namespaces_of_log(number).count() >= 1));
    }

    #[test]
    fn sidecar_sets_have_about_as_many_pods() {
        let counts = Plan { size: Size::of_pods(10_000) }.pods_of_logs();
        assert!(counts.iter().all(|count| (25..=125).contains(count)), "{counts:?}");
    }
}
