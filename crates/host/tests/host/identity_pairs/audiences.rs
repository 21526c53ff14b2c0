//! The tokens for other audiences that containers hold (AUD-1, AUD-3, AUD-6, AUD-9).

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use pillion_testkit::identity::{Expected, Scenario, Set, pairs_with};
use proptest::prelude::*;
use serde_json::Value;

use super::admission::Admission;

/// Returns the sets that get their own account, and so their tokens for other audiences, with this account.
pub fn given<'a>(admission: &'a Admission, scenario: &'a Scenario) -> Vec<(&'a Set, &'a str)> {
    let Expected::Admitted { identities, .. } = &admission.expected else { panic!("{:?}", admission.expected) };
    let sets = scenario.sets.iter().filter_map(|set| Some((set, identities.get(set.name)?.as_str())));
    sets.filter(|(set, account)| !set.tokens.is_empty() && set.account == Some(account)).collect()
}

/// Checks that the containers of each set hold its tokens, and that nobody mounts a volume that is not theirs.
pub fn check(stored: &Value, admission: &Admission, scenario: &Scenario) -> Result<(), TestCaseError> {
    let Expected::Admitted { identities, .. } = &admission.expected else { panic!("{:?}", admission.expected) };
    let pairs = pairs_with(stored, &scenario.accounts, &scenario.secrets());
    for (set, account) in given(admission, scenario) {
        let mut wanted: BTreeSet<&str> = set.tokens.iter().map(|(audience, _)| *audience).collect();
        wanted.insert("");
        for container in set.containers() {
            let its = pairs.iter().filter(|pair| pair.container == container && pair.account == account);
            let mut held: BTreeSet<&str> = its.map(|pair| pair.audience.as_str()).collect();
            if stored["spec"]["serviceAccountName"] == account {
                // Volumes of the Pod may give it further tokens of the Pod's account.
                held.retain(|audience| wanted.contains(audience));
            }
            prop_assert_eq!(&held, &wanted, "{}: {}", container, stored);
        }
    }
    for list in ["initContainers", "containers"] {
        for container in json::items(stored, &["spec", list]) {
            let name = json::text(container, &["name"]);
            let volumes = json::items(container, &["volumeMounts"]).iter().map(|mount| json::text(mount, &["name"]));
            let ours: Vec<&str> = volumes.filter(|volume| volume.starts_with("sidecarset-sa-")).collect();
            let owner = scenario.sets.iter().find(|set| set.containers().iter().any(|own| own == name));
            let account = owner.and_then(|set| Some((set, identities.get(set.name)?)));
            let own = account.and_then(|(set, account)| Some((set, set.volume_in(stored, account)?)));
            let must =
                own.as_ref().is_some_and(|(set, _)| given(admission, scenario).iter().any(|(g, _)| g.name == set.name));
            let own: Vec<&str> = own.iter().map(|(_, volume)| volume.as_str()).collect();
            prop_assert!(ours == own || (ours.is_empty() && !must), "{}: {:?}, {}", name, ours, stored);
        }
    }
    Ok(())
}
