//! Leaves the token of the Pod's own account to the containers that are to get it (TCN-4).

use pillion_kubernetes::json;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::give;
use super::granted::Granted;
use super::held::{containers, is_automounted};
use super::volumes::{self, Volumes};
use super::{Owners, account_of};
use crate::decision::{Decision, Grant, Narrowed, Token};
use crate::names;
use crate::paths;
use crate::rules::Rules;
use crate::token_containers::{By, TokenContainers};

/// Returns a decision about a Pod after injection with which only the containers that `wanted` includes, and those of
/// SidecarSets whose identity it is, get the token of the account that the Pod has for itself.
///
/// A Pod that has its account for its sidecars gives the token to nobody else (E4): the decision stays as it is. An
/// account that a Pod got for its sidecars can be told from its own by Pillion's volume, which has another name
/// ([`names::own_token_volume`]); so a second admission decides the same (IDP-6).
///
/// The annotation of a Pod gives the token even where the Pod or its account turns automounting off, as its author could
/// by a volume. The annotation of a Namespace and the settings take the token away, and never give one.
pub fn narrow(decision: Decision, pod: &Value, wanted: &TokenContainers, owners: &Owners, rules: &Rules) -> Decision {
    let account = account_of(pod);
    let volumes = Volumes::from_pod(pod, &rules.trusted_csi_drivers);
    if is_for_sidecars(&decision, account, &volumes) {
        return decision;
    }
    let Decision { automounted, mut grants, .. } = decision;
    // Nothing is mounted by the API server any more.
    grants.extend(automounted.into_iter().map(|sidecar_set| Grant {
        sidecar_set,
        account: account.to_owned(),
        token: Token::OfPod,
        audiences: Vec::new(),
    }));
    let decision = Decision { hides_token: true, private: None, automounted: Vec::new(), grants, ..decision };
    let granted = Granted::new(&decision, owners);
    let named: Vec<&Value> = containers(pod)
        .filter(|container| wanted.include(pod::name(container)))
        .filter(|container| granted.of_container(pod::name(container)).next().is_none())
        .collect();
    // On a second admission, the named containers have it already.
    let own = names::token_volume_of_pod(account);
    let mut used = named.iter().copied().flat_map(pod::used_volumes);
    let is_given = wanted.by == By::Pod || is_automounted(pod, &volumes) || used.any(|volume| volume == own);
    let (on_their_own, mounting): (Vec<&Value>, Vec<&Value>) =
        named.into_iter().partition(|container| has_something_in_its_place(container, &volumes));
    let name = |container: &Value| pod::name(container).to_owned();
    let is_for_others = |audience: &str| !rules.api_server_audiences.iter().any(|glob| glob.matches(audience));
    let narrowed = Narrowed {
        account: account.to_owned(),
        by: wanted.by,
        containers: mounting.into_iter().filter(|_| is_given).map(name).collect(),
        on_their_own: on_their_own.into_iter().map(name).collect(),
        for_others: volumes.for_others(is_for_others).into_iter().map(str::to_owned).collect(),
    };
    Decision { narrowed: Some(narrowed), ..decision }
}

/// Whether a Pod has its account for its sidecars: it gets another one for them, has a merged one, or has the volume
/// through which they alone get the token. In mode `Pod`, it may have got the account of the sidecar before, so it counts,
/// too.
fn is_for_sidecars(decision: &Decision, account: &str, volumes: &Volumes<'_>) -> bool {
    if decision.account.is_some() || decision.is_for_all || names::is_merged(account) {
        return true;
    }
    let of_account = names::token_volume(&names::credential(account, None));
    let of_grants = decision.grants.iter().filter(|grant| grant.token == Token::OfPod);
    let of_grants = of_grants.map(|grant| names::token_volume(&grant.credential()));
    of_grants.chain([of_account]).any(|volume| volumes.gives_account(&volume))
}

/// Whether a container has something else than Kubernetes' or Pillion's mount at, above or below the token directory. The
/// API server mounts no token into such a container either.
fn has_something_in_its_place(container: &Value, volumes: &Volumes<'_>) -> bool {
    let is_foreign = |mount: &&Value| {
        let name = pod::name(mount);
        !volumes::is_called_like_ours(name) && !volumes.is_automounted(name)
    };
    let mut mounts = volumes::mounts(container).iter().filter(is_foreign);
    mounts.any(|mount| paths::relation(json::text(mount, &["mountPath"])).is_some())
        || give::has_foreign_files(container)
}
