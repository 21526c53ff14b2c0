//! Which identity the sidecars of a Pod get (`serviceaccounts.md` A4, B0, G Order at Pod admission).

use std::collections::BTreeSet;

use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Code, Reason};

use super::decision::{Asking, Decision, Grant, Token};
use super::declared::{Mode, OnConflict};
use super::existence::{Existence, exists};
use super::merged;
use super::names;
use super::rules::{OnAppAccount, Otherwise, Rules};
use super::tokens::Holder;

/// The account that a Pod comes with, as the policy sees it: the API server has filled in `default`.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    /// `spec.serviceAccountName`.
    pub account: &'a str,
    /// `spec.automountServiceAccountToken`; false where the API server would mount something else (A1-k).
    pub automount: Option<bool>,
    /// What holds a token of the account besides the owners and the automounted one (B0).
    pub further_token: Option<Holder<'a>>,
}

impl App<'_> {
    /// "Unset" and "explicitly default" cannot be told apart (A1-2).
    fn has_own_account(&self) -> bool {
        !matches!(self.account, "" | "default")
    }

    /// Whether the API server mounts no token into sidecars; `automounts` is what the account says about it.
    fn mounts_nothing(&self, automounts: bool) -> bool {
        self.automount.map_or(!automounts, |automount| !automount)
    }
}

/// Who is to get which identity, as far as it can be said before anybody has asked whether a merged account is ready.
#[derive(Clone, Debug)]
pub struct Resolved<'a> {
    /// With who goes without, and nothing else.
    decision: Decision,
    isolated: Vec<&'a Asking>,
    shared: Vec<&'a Asking>,
    target: Target,
    automounts: bool,
}

impl<'a> Resolved<'a> {
    /// The sets that a merged account has to stand for (M in A4); `None` where there is no need of one.
    pub fn merged(&self) -> Option<&[&'a Asking]> {
        matches!(self.target, Target::Merged(_)).then_some(self.shared.as_slice())
    }

    /// The accounts of which sidecars mount a token from a Secret (B1), in the order of the sets.
    pub fn isolated(&self) -> impl Iterator<Item = &'a str> {
        let of_pod = self.target.name();
        self.isolated.iter().map(|set| set.account.as_str()).filter(move |account| of_pod != Some(*account))
    }
}

/// Decides for the sets that ask. Nothing is looked up where nothing is asked.
///
/// # Errors
/// As [`resolve`], and merged accounts that are not ready (503) or stand for other sets (403).
pub fn decide(
    asking: &[Asking],
    app: App<'_>,
    namespace: &str,
    rules: &Rules,
    lookup: &dyn Lookup,
) -> Result<Decision, Vec<Reason>> {
    let Resolved { mut decision, isolated, shared, target, automounts } =
        resolve(asking, app, namespace, rules, lookup)?;
    let runs_as = match target {
        Target::Merged(name) => {
            merged::ready(&name, &shared, namespace, lookup).map_err(|reason| vec![reason])?;
            Some(name)
        }
        Target::Account(name) => Some(name),
        Target::Nobody | Target::Conflict => None,
    };
    settle(&mut decision, &isolated, &shared, runs_as, app, automounts);
    Ok(decision)
}

/// Decides as far as it can be done without the merged objects: of accounts, only those are looked up that the sets
/// name.
///
/// # Errors
/// Every reason to refuse the Pod: protected namespace, account not allowed, mode not allowed, the app's own account
/// (`Deny`), accounts that are missing (`Deny`) or could not be read (503), conflicts (`Deny`), the merged account of
/// other sets (403).
pub fn resolve<'a>(
    asking: &'a [Asking],
    app: App<'_>,
    namespace: &str,
    rules: &Rules,
    lookup: &dyn Lookup,
) -> Result<Resolved<'a>, Vec<Reason>> {
    let mut reasons: Vec<Reason> = asking.iter().filter_map(|set| not_allowed(set, namespace, rules)).collect();
    let mut decision = Decision::default();
    let (mut isolated, mut shared): (Vec<&Asking>, Vec<&Asking>) =
        asking.iter().partition(|set| set.declared.mode == Mode::Isolate);
    if !reasons.is_empty() {
        return Err(reasons);
    }

    // A merged account is never the app's own: whether it is that of this Pod's sets shows once it is clear which of
    // them are left.
    let is_merged = names::is_merged(app.account);
    // Sets that are skipped have no say in it: the account of the others, which the Pod got when it was admitted before,
    // would count as its own. A set of which nobody knows may be one of them; it is refused below.
    let mut left = shared.clone();
    if rules.on_missing == Otherwise::Skip && app.has_own_account() {
        left.retain(|set| matches!(exists(&set.account, namespace, lookup), Existence::There { .. }));
    }
    let unchanged = is_merged || Target::of(&left).name() == Some(app.account);
    if !shared.is_empty()
        && !unchanged
        && let Some(why) = own_account(app)
    {
        match rules.on_app_account {
            OnAppAccount::Keep => {
                let why = format!("{why}; {KEPT}");
                decision.kept.extend(shared.drain(..).map(|set| (set.sidecar_set.clone(), why.clone())));
            }
            OnAppAccount::Isolate => isolated.append(&mut shared),
            OnAppAccount::Deny => {
                let remedy = "run the Pod under \"default\", or give the SidecarSet the mode Isolate";
                return Err(shared.iter().map(|set| reason(set, Code::Forbidden, why.clone(), remedy)).collect());
            }
        }
    }

    let mut automounts = true;
    for set in isolated.iter().chain(&shared) {
        match exists(&set.account, namespace, lookup) {
            Existence::There { automount } => automounts &= automount || app.account != set.account,
            Existence::Missing(problem) if rules.on_missing == Otherwise::Skip => {
                decision.skipped.push((set.sidecar_set.clone(), problem));
            }
            Existence::Missing(problem) => reasons.push(reason(
                set,
                Code::Forbidden,
                problem,
                "create the ServiceAccount in the Pod's namespace, or set serviceAccounts.onMissing to Skip",
            )),
            Existence::Unknown(problem, remedy) => reasons.push(reason(set, Code::Unavailable, problem, &remedy)),
        }
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let skipped: BTreeSet<&str> = decision.skipped.iter().map(|(name, _)| name.as_str()).collect();
    isolated.retain(|set| !skipped.contains(set.sidecar_set.as_str()));
    shared.retain(|set| !skipped.contains(set.sidecar_set.as_str()));

    let target = Target::of(&shared);
    if is_merged && target.name() != Some(app.account) {
        return Err(vec![foreign_merged(app.account)]);
    }
    // With the right name the Pod is one of ours that is admitted again, or wants to pass for one: nobody but the
    // sidecars is to hold the token.
    if is_merged
        && shared.iter().all(|set| set.declared.mode == Mode::SidecarsOnly)
        && let Some(holder) = app.further_token
    {
        return Err(vec![greedy(app.account, holder)]);
    }
    if matches!(target, Target::Conflict) {
        let remedy = "give them one account, the behaviour Merge or the mode Isolate";
        for set in shared.drain(..) {
            let why = conflict(set, namespace);
            match rules.on_conflict {
                Otherwise::Skip => decision.skipped.push((set.sidecar_set.clone(), why)),
                Otherwise::Deny => reasons.push(reason(set, Code::Forbidden, why, remedy)),
            }
        }
        if !reasons.is_empty() {
            return Err(reasons);
        }
    }
    Ok(Resolved { decision, isolated, shared, target, automounts })
}

/// Fills in the decision, once it is clear who gets what.
fn settle(
    decision: &mut Decision,
    isolated: &[&Asking],
    shared: &[&Asking],
    runs_as: Option<String>,
    app: App<'_>,
    automounts: bool,
) {
    let swaps = runs_as.as_deref().is_some_and(|name| name != app.account);
    let is_for_all = is_for_all(shared);
    // A Pod that names the right merged account itself is treated like one that is given it (E6): on a Pod of ours that
    // changes nothing.
    let takes_over = swaps || names::is_merged(app.account);
    decision.hides_token = takes_over && !is_for_all;
    // Where nothing is swapped and automounting is on, the API server gives the sidecars what it gives the app. In mode
    // `Pod` a swap leaves no trace that a second admission could tell it by, so there the sidecars always have their own.
    let explicit = takes_over || is_for_all || app.mounts_nothing(automounts);
    for set in shared {
        let sidecar_set = set.sidecar_set.clone();
        match runs_as.clone().filter(|_| explicit) {
            Some(account) => decision.grants.push(Grant { sidecar_set, account, token: Token::OfPod }),
            None => decision.automounted.push(sidecar_set),
        }
    }
    decision.private = runs_as.clone().filter(|_| explicit && !is_for_all);
    for set in isolated {
        // The same account under the Pod's own identity: the kubelet's token is the better one.
        let token = if runs_as.as_ref() == Some(&set.account) { Token::OfPod } else { Token::OfSecret };
        decision.grants.push(Grant { sidecar_set: set.sidecar_set.clone(), account: set.account.clone(), token });
    }
    decision.account = runs_as.filter(|_| swaps);
}

/// The account that some sets want a Pod to run under.
#[derive(Clone, Debug)]
enum Target {
    /// No set wants anything.
    Nobody,
    /// All want the same (A4: k sets with the same name do not conflict).
    Account(String),
    /// All want to merge.
    Merged(String),
    /// Not all of them want to merge (M1).
    Conflict,
}

impl Target {
    fn of(shared: &[&Asking]) -> Self {
        let Some(first) = shared.first() else {
            return Self::Nobody;
        };
        if shared.iter().all(|set| set.account == first.account) {
            return Self::Account(first.account.clone());
        }
        if shared.iter().any(|set| set.declared.on_conflict == OnConflict::Refuse) {
            return Self::Conflict;
        }
        let sets: Vec<&str> = shared.iter().map(|set| set.sidecar_set.as_str()).collect();
        Self::Merged(names::merged(&sets))
    }

    fn name(&self) -> Option<&str> {
        match self {
            Self::Account(name) | Self::Merged(name) => Some(name),
            Self::Nobody | Self::Conflict => None,
        }
    }
}

/// The Pod's field that reasons name.
const FIELD: &str = "spec.serviceAccountName";

/// What to do about a merged account that is not the Pod's to have.
const ANOTHER_ACCOUNT: &str = "name another ServiceAccount; merged ones are set by the policy alone";

fn reason(set: &Asking, code: Code, problem: String, remedy: &str) -> Reason {
    Reason::new(code, FIELD, problem, remedy).about(&set.sidecar_set)
}

/// E1, V5, E3.
fn not_allowed(set: &Asking, namespace: &str, rules: &Rules) -> Option<Reason> {
    let refused = |problem, remedy| Some(reason(set, Code::Forbidden, problem, remedy));
    if rules.protects(namespace) {
        let problem = format!("no sidecar gets a ServiceAccount in the protected namespace \"{namespace}\"");
        return refused(
            problem,
            "exclude the namespace from the SidecarSet, or change serviceAccounts.protectedNamespaces",
        );
    }
    if !rules.allows(namespace, &set.account) {
        let problem = format!("ServiceAccount \"{}\" is not allowed in namespace \"{namespace}\"", set.account);
        return refused(problem, "add it to serviceAccounts.allowed");
    }
    if set.declared.mode == Mode::Pod && !rules.allow_pod_mode {
        let problem = format!("mode Pod would give the app the permissions of \"{}\"", set.account);
        return refused(problem, "use SidecarsOnly or Isolate, or set serviceAccounts.allowPodMode");
    }
    None
}

/// E6: a merged account belongs to the Pods of exactly its sets.
pub fn foreign_merged(account: &str) -> Reason {
    let problem = format!("ServiceAccount \"{account}\" is merged for other SidecarSets than this Pod's");
    Reason::forbidden(FIELD, problem, ANOTHER_ACCOUNT)
}

/// E6: the token of a merged account is for sidecars alone.
fn greedy(account: &str, holder: Holder<'_>) -> Reason {
    let problem =
        format!("{}, which is for sidecars alone", holder.of(format_args!("the merged ServiceAccount \"{account}\"")));
    Reason::forbidden(FIELD, problem, ANOTHER_ACCOUNT)
}

/// Whether everybody in the Pod gets the account of these sets.
fn is_for_all(shared: &[&Asking]) -> bool {
    shared.iter().any(|set| set.declared.mode == Mode::Pod)
}

/// What to do where sidecars stay without an identity because the Pod has one.
const KEPT: &str = "mode Isolate gives the sidecars theirs beside it";

/// M2, B0: why the account of the Pod is not to be changed.
fn own_account(app: App<'_>) -> Option<String> {
    if app.has_own_account() {
        return Some(format!("the Pod has the ServiceAccount \"{}\" of its own", app.account));
    }
    let holder = app.further_token?.of("the Pod's ServiceAccount");
    Some(format!("{holder}, which would become another account's"))
}

/// M4: what each set wants, where they cannot all have it.
fn conflict(set: &Asking, namespace: &str) -> String {
    let behaviour = if set.declared.on_conflict == OnConflict::Merge { "Merge" } else { "Refuse" };
    format!(
        "wants ServiceAccount \"{}\" ({behaviour}) for a Pod of namespace \"{namespace}\", and other SidecarSets want another",
        set.account
    )
}

#[cfg(test)]
mod tests;
