//! The Pods that a SidecarSet selects.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_inject::matching::opt_out::{self, OPT_OUT_OF};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::selector::Selector;
use pillion_rollout::consistency::is_injected;
use pillion_rollout::pod::Pod;
use pillion_rollout::target::RolloutTarget;
use pillion_sidecarset::overrides::{self, Rules, Source};
use pillion_sidecarset::sidecar_set::SidecarSet;

use super::SidecarSetRollout;
use crate::pods::injected::InjectedPod;

impl SidecarSetRollout {
    /// Returns the Pods of a SidecarSet (ROLL-10), and with them those that have other containers of it (ROLL-11).
    ///
    /// # Errors
    /// A selector cannot be read.
    pub(super) fn pods_of(&self, target: &RolloutTarget<'_>) -> Result<Vec<Arc<InjectedPod>>, String> {
        let mut is_selected = self.selection(target.version)?;
        let mut pods = self.pods.group(target.name());
        pods.retain(|pod| is_selected(&pod.0) && is_injected(target, &pod.0));
        Ok(pods)
    }

    /// Returns whether a Pod or its Namespace leaves a SidecarSet out (OPT-5).
    pub(super) fn is_left_out(&self, set: &SidecarSet, pod: &Pod) -> bool {
        let of_pod = pod.annotation(OPT_OUT_OF);
        let namespace = self.context.store.namespaces().get("", &pod.metadata.namespace);
        let of_namespace = namespace.as_ref().map(|namespace| namespace.annotation(OPT_OUT_OF));
        opt_out::left_out_by(set, of_pod, of_namespace.unwrap_or_default()).is_some()
    }

    /// Returns the annotations of Namespaces with overrides of sidecars, if the rules of a SidecarSet take them (OVR-10).
    pub(super) fn overriding_namespaces(&self, rules: Option<&Rules>) -> BTreeMap<String, BTreeMap<String, String>> {
        if !rules.is_some_and(|rules| rules.from.contains(&Source::Namespace)) {
            return BTreeMap::new();
        }
        let overrides = |namespace: &pillion_runtime::store::Namespace| {
            let all = namespace.annotations().filter(|(key, _)| overrides::container_of(key).is_some());
            all.map(|(key, text)| (key.to_owned(), text.to_owned())).collect::<BTreeMap<_, _>>()
        };
        let namespaces = self.context.store.namespaces().all();
        let named = namespaces.iter().map(|namespace| (namespace.name().to_owned(), overrides(namespace)));
        named.filter(|(_, overrides)| !overrides.is_empty()).collect()
    }

    /// Returns whether a SidecarSet selects a Pod, by its labels and by its namespace.
    ///
    /// # Errors
    /// A selector cannot be read.
    pub(super) fn selection<'a>(&'a self, set: &'a SidecarSet) -> Result<impl FnMut(&Pod) -> bool + 'a, String> {
        let parsed = |field: &str| {
            let selector = set.spec(&[field]).map(Selector::parse).transpose();
            selector.map_err(|errors| {
                let errors: Vec<_> =
                    errors.into_iter().map(|error| error.below(format!("spec.{field}").as_str())).collect();
                joined(&errors)
            })
        };
        let selector = parsed("selector")?;
        let namespaces = parsed("namespaceSelector")?;
        let mut selected = BTreeMap::<String, bool>::new();
        let mut is_selected = move |name: &str| {
            let Some(namespaces) = &namespaces else { return true };
            *selected.entry(name.to_owned()).or_insert_with(|| {
                let namespace = self.context.store.namespaces().get("", name);
                namespace.is_some_and(|namespace| namespaces.matches(|key| namespace.label(key)))
            })
        };
        Ok(move |pod: &Pod| {
            selector.as_ref().is_some_and(|selector| selector.matches(|key| pod.label(key)))
                && is_selected(&pod.metadata.namespace)
        })
    }
}
