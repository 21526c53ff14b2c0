//! What lets others in a Pod read the tokens of its sidecars without a mount (TOK-9, TOK-16).

use std::collections::{BTreeMap, BTreeSet};

use pillion_kubernetes::field::ERRORS_MAX;
use pillion_kubernetes::json;
use pillion_kubernetes::outcome::Reason;
use pillion_sidecarset::pod;
use serde_json::Value;

use super::Owners;
use super::granted::Granted;
use super::held::{LISTS, containers, shown};
use super::sight;
use crate::decision::Decision;
use crate::partners::{self, Side};

/// The tokens that containers of a Pod hold, and the containers that can read them without holding them.
pub struct Exposure<'a> {
    granted: Granted<'a>,
    /// The SidecarSets with an identity, each with the volume that holds its token.
    held: Vec<(&'a str, String)>,
    /// The SidecarSet of each sidecar.
    set_of: BTreeMap<&'a str, &'a str>,
    sides: BTreeMap<&'a str, Side<'a>>,
}

/// Who can read a token that others get, and through which field of the Pod.
struct Reader {
    field: String,
    /// The container; `None` if the field gives it to all.
    container: Option<String>,
    problem: String,
}

/// The remedy for what the author of the Pod writes.
const REMOVE: &str = "remove it from the Pod, or set serviceAccounts.exposure to Warn";

impl Reader {
    fn warning(&self) -> String {
        match &self.container {
            Some(name) => format!("container {name} {}", self.problem),
            None => format!("{} {}", self.field, self.problem),
        }
    }

    fn into_reason(self) -> Reason {
        let Self { field, container, problem } = self;
        let problem = container.map_or(problem.clone(), |name| format!("container {name} {problem}"));
        Reason::forbidden(field, problem, REMOVE)
    }
}

impl<'a> Exposure<'a> {
    /// Reads a decision about a Pod. `sides` are the SidecarSets of the Pod, by name.
    pub fn new(decision: &'a Decision, owners: &'a Owners, sides: BTreeMap<&'a str, Side<'a>>) -> Self {
        let held = decision.grants.iter().map(|grant| (grant.sidecar_set.as_str(), decision.volume_of(grant)));
        let set_of =
            owners.iter().flat_map(|(set, names)| names.iter().map(|name| (name.as_str(), set.as_str()))).collect();
        Self { granted: Granted::new(decision, owners), held: held.collect(), set_of, sides }
    }

    /// Whether a container of this name may read what the containers of `set` hold in `volume`: it mounts it itself, or
    /// its SidecarSet and that one trust each other (IDF-8).
    fn may_read(&self, container: &str, set: &str, volume: &str) -> bool {
        if self.granted.owns(container, volume) {
            return true;
        }
        let Some(own) = self.set_of.get(container) else { return false };
        let sides = self.sides.get(own).zip(self.sides.get(set));
        *own == set || sides.is_some_and(|(own, holder)| own.trusts(holder))
    }

    /// Returns the SidecarSets whose tokens a container of this name may not read.
    fn closed_to(&self, container: &str) -> impl Iterator<Item = &'a str> {
        self.held.iter().filter(|(set, volume)| !self.may_read(container, set, volume)).map(|(set, _)| *set)
    }

    /// Returns the SidecarSets that decide what happens to a token: those with an identity, and those whose containers
    /// can read the tokens of others.
    pub fn trusted_with_tokens(&self, pod: &Value) -> BTreeSet<&'a str> {
        if self.held.is_empty() {
            return BTreeSet::new();
        }
        let seeing = containers(pod).filter(|container| sight::power(container).is_some());
        let seeing = seeing.filter_map(|container| self.set_of.get(pod::name(container)).copied());
        seeing.chain(self.held.iter().map(|(set, _)| *set)).collect()
    }

    /// TOK-9, TCN-6: returns warnings about what lets others read tokens.
    pub fn warnings(&self, pod: &Value) -> Vec<String> {
        let mut warnings: Vec<String> = self.of_own_token(pod).iter().map(Reader::warning).collect();
        if self.held.is_empty() {
            return warnings;
        }
        for field in sight::shared_by(pod) {
            warnings.push(format!(
                "spec.{field} lets every container of the Pod read the tokens of its sidecars through /proc"
            ));
        }
        for container in containers(pod) {
            let name = pod::name(container);
            let power = sight::power(container).filter(|_| self.closed_to(name).next().is_some());
            warnings
                .extend(power.map(|power| {
                    format!("container \"{name}\" {power} and can read the tokens of the Pod's sidecars")
                }));
        }
        warnings
    }

    /// TCN-6: returns who can read the token of the Pod's own account besides the containers that get it. Stops at
    /// [`ERRORS_MAX`] (E18).
    fn of_own_token(&self, pod: &Value) -> Vec<Reader> {
        let Some(narrowed) = self.granted.narrowed() else { return Vec::new() };
        let holders = narrowed.holders();
        if holders.is_empty() {
            return Vec::new();
        }
        let account = shown(&narrowed.account);
        let against = format!("but {} gives it to {narrowed}", narrowed.by);
        let every_container = sight::shared_by(pod).map(|field| Reader {
            field: format!("spec.{field}"),
            container: None,
            problem: format!("lets every container of the Pod read the token of {account} through /proc, {against}"),
        });
        let mut found: Vec<Reader> = every_container.collect();
        for list in LISTS {
            for (index, container) in json::items(pod, &["spec", list]).iter().enumerate() {
                let name = pod::name(container);
                let Some(power) = sight::power(container).filter(|_| !holders.contains(name)) else { continue };
                if found.len() >= ERRORS_MAX {
                    return found;
                }
                found.push(Reader {
                    field: format!("spec.{list}[{index}].securityContext"),
                    container: Some(shown(name)),
                    problem: format!("{power} and can read the token of {account}, {against}"),
                });
            }
        }
        found
    }

    /// TOK-16: returns reasons to refuse the Pod for what [`Self::warnings`] warns of, one for each SidecarSet whose token
    /// can be read. Stops at [`ERRORS_MAX`] reasons (E18).
    pub fn reasons(&self, pod: &Value) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.of_own_token(pod).into_iter().map(Reader::into_reason).collect();
        for field in sight::shared_by(pod) {
            for (set, _) in &self.held {
                let problem = "lets every container of the Pod read the token of this SidecarSet through /proc";
                reasons.push(Reason::forbidden(format!("spec.{field}"), problem.to_owned(), REMOVE).about(set));
            }
        }
        for list in LISTS {
            for (index, container) in json::items(pod, &["spec", list]).iter().enumerate() {
                let Some(power) = sight::power(container) else { continue };
                let name = pod::name(container);
                for set in self.closed_to(name) {
                    if reasons.len() >= ERRORS_MAX {
                        return reasons;
                    }
                    let field = format!("spec.{list}[{index}].securityContext");
                    let (of, remedy) = self.source(name, set);
                    let problem =
                        format!("container {}{of} {power} and can read the token of this SidecarSet", shown(name));
                    reasons.push(Reason::forbidden(field, problem, &remedy).about(set));
                }
            }
        }
        reasons
    }

    /// Returns whose container this is, for a message, and what to do if it can read the token of `set`.
    fn source(&self, container: &str, set: &str) -> (String, String) {
        let sides = self.set_of.get(container).and_then(|own| self.sides.get(own).zip(self.sides.get(set)));
        let Some((own, holder)) = sides else {
            let remedy = "remove that from the container, or set serviceAccounts.exposure to Warn";
            return (String::new(), remedy.to_owned());
        };
        let remedy = partners::remedy(own, holder);
        (
            format!(" of SidecarSet \"{}\"", own.name),
            format!("let the two match different Pods, or, if it may have the token, {remedy}"),
        )
    }
}
