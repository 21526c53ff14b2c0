//! Warnings about an injection: each appears once, on one line, with the remedy.

mod unsuited;

use std::collections::BTreeSet;

use pillion_kubernetes::field::shortened;
use pillion_sidecarset::made;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

pub(crate) use self::unsuited::unsuited;
use crate::place::{SetBack, Shadowed};
use crate::sources::Missing;

/// Warns of variables that a transferEnv entry names and that the Pod does not have (INJ-16).
pub fn missing(missing: &[(&str, String, Missing)]) -> Vec<String> {
    let text = |(set, sidecar, missing): &(&str, String, Missing)| {
        let what = match missing {
            Missing::Container(name) if name.is_empty() => "transferEnv names no source container".to_owned(),
            Missing::Container(name) => format!("transferEnv source container \"{name}\" is not in the Pod"),
            Missing::InitContainer(name) => {
                format!("transferEnv source container \"{name}\" is an init container; only containers are sources")
            }
            Missing::Injected(name) => {
                let why = "\" is injected; only the Pod's own containers are sources";
                format!("transferEnv source container \"{name}{why}")
            }
            Missing::Variable { container, variable } => {
                format!("transferEnv variable \"{variable}\" is not set in container \"{container}\"")
            }
            Missing::PodName => "transferEnv names its source by metadata.name, and the Pod has no name yet".to_owned(),
            Missing::Field(path) => format!("transferEnv finds no container name in {path}"),
            Missing::More => "transferEnv names more that the Pod does not have".to_owned(),
        };
        format!("SidecarSet {set}: {sidecar}: {what}; nothing was copied")
    };
    // The warnings are almost sorted, so sorting is cheaper than a tree of texts with common prefixes (E18).
    let mut warnings: Vec<String> = missing.iter().map(text).collect();
    warnings.sort();
    warnings.dedup();
    warnings
}

/// Warns of volumes of a set that are not used because the Pod has a different volume of the same name (INJ-26).
pub fn shadowed(shadowed: &[Shadowed<'_>]) -> Vec<String> {
    let unique: BTreeSet<String> = shadowed
        .iter()
        .map(|Shadowed { set, volume }| {
            format!(
                "SidecarSet {set}: volume \"{volume}\" is already in the Pod with another definition, which is used; \
                 rename one of them if that is not meant"
            )
        })
        .collect();
    unique.into_iter().collect()
}

/// The most characters of a warning that the API server passes on.
const LENGTH_MAX: usize = 256;

/// Warns of sidecars that something had changed and that are again as their SidecarSets say (ORDER-8).
pub fn set_back(sidecars: &[SetBack]) -> Vec<String> {
    let changed = sidecars.iter().filter(|sidecar| !sidecar.fields.is_empty());
    let text = |SetBack { set, sidecar, fields }: &SetBack| {
        let before = format!("SidecarSet {}: {sidecar}: set back ", shortened(set));
        let after = "; let the webhook that changed it skip the sidecar, or edit the SidecarSet";
        let more = |count: usize| format!(" and {count} more");
        let room = LENGTH_MAX.saturating_sub([before.as_str(), after, &more(fields.len())].concat().chars().count());
        let (mut shown, mut count) = (String::new(), 0_usize);
        for field in fields {
            let next = if shown.is_empty() { shortened(field) } else { format!("{shown}, {}", shortened(field)) };
            if next.chars().count() > room {
                break;
            }
            (shown, count) = (next, count.saturating_add(1));
        }
        let rest = match (count, fields.len().saturating_sub(count)) {
            (_, 0) => String::new(),
            (0, all) => format!("{all} fields"),
            (_, rest) => more(rest),
        };
        format!("{before}{shown}{rest}{after}")
    };
    changed.map(text).collect()
}

/// Warns of mounts of volumes that are not among `volumes`, those of the Pod after injection. The API server will
/// refuse such a Pod (INJ-26).
pub(crate) fn unknown_volumes(volumes: &[Value], sets: &[SidecarSet]) -> Vec<String> {
    let known: BTreeSet<&str> = volumes.iter().map(pod::name).collect();
    let mut warnings = Vec::new();
    for set in sets {
        for (_, _, sidecar) in made::sidecars(set) {
            let unknown: BTreeSet<&str> = pod::used_volumes(sidecar).filter(|name| !known.contains(name)).collect();
            for volume in unknown {
                let (set, sidecar) = (set.name(), pod::name(sidecar));
                warnings.push(format!(
                    "SidecarSet {set}: {sidecar} uses volume \"{volume}\", which neither the SidecarSet nor the Pod has; \
                     add it"
                ));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(set: &str, sidecar: &str, fields: &[&str]) -> String {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        let warnings = set_back(&[SetBack { set: set.to_owned(), sidecar: sidecar.to_owned(), fields }]);
        warnings.into_iter().collect()
    }

    #[test]
    fn order8_a_warning_names_the_fields_that_fit() {
        assert_eq!(
            warning("log", "agent", &["image", "env[HTTP_PROXY]", "volumeMounts[ca]"]),
            "SidecarSet log: agent: set back image, env[HTTP_PROXY], volumeMounts[ca]; let the webhook that changed it skip the \
             sidecar, or edit the SidecarSet"
        );
        assert_eq!(warning("log", "agent", &[]), "");
        let long = format!("env[{}]", "V".repeat(60));
        let many = warning("log", "agent", &[long.as_str(); 9]);
        assert!(many.contains("] and 7 more; let") && many.chars().count() <= LENGTH_MAX, "{many}");
        let (set, sidecar) = ("s".repeat(253), "c".repeat(63));
        let full = warning(&set, &sidecar, &[long.as_str(); 9]);
        assert!(full.contains("set back 9 fields; let") && full.chars().count() <= LENGTH_MAX, "{full}");
    }
}
