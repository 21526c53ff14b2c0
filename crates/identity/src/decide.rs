//! Decides which identity the sidecars of a Pod get (IDP-7, TOK-0, IDP-8).

use std::collections::BTreeSet;

use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Code, Reason};

use super::decision::{Asking, Decision, Grant, Token};
use super::declared::{Mode, OnConflict};
use super::existence::{Existence, exists};
use super::merged;
use super::names;
use super::partners;
use super::rules::{OnAppAccount, Otherwise, Rules};
use super::target::{SharedAccount, Shares, is_for_all};
use super::tokens::Holder;

/// The account of a Pod before injection. The API server has already filled in `default`.
#[derive(Clone, Copy, Debug)]
pub struct App<'a> {
    /// `spec.serviceAccountName`.
    pub account: &'a str,
    /// `spec.automountServiceAccountToken`; false if the API server would mount something other than the token
    /// (SAP-8k).
    pub automount: Option<bool>,
    /// A container or volume, other than the owners and the automounted volume, that holds a token of the account
    /// (TOK-0).
    pub further_token: Option<Holder<'a>>,
}

impl App<'_> {
    /// Whether the account is not the default one. "Unset" and "explicitly default" are indistinguishable (SAP-2).
    fn has_own_account(&self) -> bool {
        !matches!(self.account, "" | "default")
    }

    /// Whether the API server mounts no token into sidecars. `automounts` is the account's
    /// `automountServiceAccountToken`.
    fn mounts_nothing(&self, automounts: bool) -> bool {
        self.automount.map_or(!automounts, |automount| !automount)
    }
}

/// A decision before the check that the merged account, if any, is ready.
#[derive(Clone, Debug)]
pub struct Resolved<'a> {
    /// Only lists the sets that get no identity; [`settle`] adds the rest.
    decision: Decision,
    isolated: Vec<&'a Asking>,
    shared: Vec<&'a Asking>,
    target: SharedAccount,
    automounts: bool,
}

impl<'a> Resolved<'a> {
    /// Returns the sets that a merged account must cover (M in IDP-7); `None` if no merged account is needed.
    pub fn merged(&self) -> Option<&[&'a Asking]> {
        matches!(self.target, SharedAccount::Merged(_)).then_some(self.shared.as_slice())
    }

    /// Returns the sets whose tokens come from a Secret (TOK-1, AUD-4), in their order.
    pub fn isolated(&self) -> impl Iterator<Item = &'a Asking> {
        let of_pod = self.target.name();
        self.isolated.iter().copied().filter(move |set| of_pod != Some(set.account.as_str()))
    }
}

/// Decides about the sets in `asking`. Looks nothing up if `asking` is empty.
///
/// # Errors
/// Those of [`resolve`], and a merged account that is not ready (503) or belongs to other sets (403).
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
        SharedAccount::Merged(name) => {
            merged::ready(&name, &shared, namespace, lookup).map_err(|reason| vec![reason])?;
            Some(name)
        }
        SharedAccount::Account(name) => Some(name),
        SharedAccount::Nobody | SharedAccount::Conflict => None,
    };
    settle(&mut decision, &isolated, &shared, runs_as, app, automounts);
    Ok(decision)
}

/// Decides without reading the merged objects. Looks up only the accounts that the sets name.
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

    // A merged account is never the app's own. Whether it belongs to the sets of this Pod is checked below, once the
    // skipped sets are known.
    let is_merged = names::is_merged(app.account);
    // Leave skipped sets out. Otherwise, on a second admission, the account that the remaining sets gave to the Pod
    // would count as the app's own. A set whose account could not be read is left out, too; the Pod is refused below.
    let mut left = shared.clone();
    if rules.on_missing == Otherwise::Skip && app.has_own_account() {
        left.retain(|set| matches!(exists(&set.account, namespace, lookup), Existence::There { .. }));
    }
    let unchanged = is_merged || Shares::new(left, rules).target.name() == Some(app.account);
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
    let skipped: BTreeSet<_> = decision.skipped.iter().map(|(name, _)| name.as_str()).collect();
    isolated.retain(|set| !skipped.contains(set.sidecar_set.as_str()));
    shared.retain(|set| !skipped.contains(set.sidecar_set.as_str()));

    let Shares { sets: shared, target, skipped } = Shares::new(shared, rules);
    if is_merged && target.name() != Some(app.account) {
        return Err(vec![foreign_merged(app.account)]);
    }
    // The Pod has the right merged account: it is admitted again, or its author copied the name. In either case only
    // the sidecars may hold the token.
    if is_merged
        && !is_for_all(&shared)
        && let Some(holder) = app.further_token
    {
        return Err(vec![greedy(app.account, holder)]);
    }
    decision.skipped.extend(skipped.iter().map(|set| (set.sidecar_set.clone(), conflict(set, namespace))));
    if target == SharedAccount::Conflict && !shared.is_empty() {
        return Err(shared.iter().map(|set| conflicting(set, &shared, namespace)).collect());
    }
    Ok(Resolved { decision, isolated, shared, target, automounts })
}

/// Completes the decision. `runs_as` is the account that the shared sets give to the Pod.
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
    decision.is_for_all = is_for_all;
    // A Pod that names the right merged account itself is treated as if the policy had set it (E6). If the policy did
    // set it, nothing changes.
    let takes_over = swaps || names::is_merged(app.account);
    decision.hides_token = takes_over && !is_for_all;
    // If the account stays and automounting is on, the API server gives the sidecars the same token as the app. In mode
    // `Pod`, a second admission cannot tell whether the account was swapped, so the sidecars always mount their own.
    let explicit = takes_over || is_for_all || app.mounts_nothing(automounts);
    for set in shared {
        let sidecar_set = set.sidecar_set.clone();
        let mut audiences = set.declared.tokens.clone();
        // AUD-6: a token for another audience speaks for the set's own account.
        if !audiences.is_empty() && runs_as.as_ref() != Some(&set.account) {
            audiences.clear();
            decision.without_audiences.push(sidecar_set.clone());
        }
        // The volume that the API server mounts has no token for another audience (AUD-3).
        match runs_as.clone().filter(|_| explicit || !audiences.is_empty()) {
            Some(account) => decision.grants.push(Grant { sidecar_set, account, token: Token::OfPod, audiences }),
            None => decision.automounted.push(sidecar_set),
        }
    }
    decision.private = runs_as.clone().filter(|_| explicit && !is_for_all);
    for set in isolated {
        // If the Pod runs under the account itself, use the kubelet's token: it is better than a Secret.
        let token = if runs_as.as_ref() == Some(&set.account) { Token::OfPod } else { Token::OfSecret };
        decision.grants.push(Grant {
            sidecar_set: set.sidecar_set.clone(),
            account: set.account.clone(),
            token,
            audiences: set.declared.tokens.clone(),
        });
    }
    decision.account = runs_as.filter(|_| swaps);
}

/// The field of the Pod that the reasons name.
const FIELD: &str = "spec.serviceAccountName";

/// The remedy if a Pod may not have its merged account.
const ANOTHER_ACCOUNT: &str = "name another ServiceAccount; merged ones are set by the policy alone";

fn reason(set: &Asking, code: Code, problem: String, remedy: &str) -> Reason {
    Reason::new(code, FIELD, problem, remedy).about(&set.sidecar_set)
}

/// Checks the protected namespaces (E1), the allowed accounts (IDV-5), mode `Pod` (E3) and the audiences (AUD-5).
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
    let objection = set.declared.tokens.iter().find_map(|token| rules.objects_to(token))?;
    Some(reason(set, Code::Forbidden, objection.problem, objection.remedy))
}

/// E6: the reason to refuse a Pod whose merged account belongs to other sets.
pub fn foreign_merged(account: &str) -> Reason {
    let problem = format!("ServiceAccount \"{account}\" is merged for other SidecarSets than this Pod's");
    Reason::forbidden(FIELD, problem, ANOTHER_ACCOUNT)
}

/// E6: the reason to refuse a Pod in which a container or volume other than the sidecars' holds a merged account's
/// token.
fn greedy(account: &str, holder: Holder<'_>) -> Reason {
    let problem = format!(
        "{}, which is for sidecars alone",
        holder.describe(format_args!("the merged ServiceAccount \"{account}\""))
    );
    Reason::forbidden(FIELD, problem, ANOTHER_ACCOUNT)
}

/// The remedy if sidecars get no identity because the Pod has its own.
const KEPT: &str = "mode Isolate gives the sidecars theirs beside it";

/// IDP-2, TOK-0: returns why the policy must not change the account of the Pod, if there is a reason.
fn own_account(app: App<'_>) -> Option<String> {
    if app.has_own_account() {
        return Some(format!("the Pod has the ServiceAccount \"{}\" of its own", app.account));
    }
    let holder = app.further_token?.describe("the Pod's ServiceAccount");
    Some(format!("{holder}, which would become another account's"))
}

/// IDP-4, TRUST-2: the reason to refuse a Pod for the sake of a set that conflicts with others.
fn conflicting(set: &Asking, shared: &[&Asking], namespace: &str) -> Reason {
    let others = || shared.iter().filter(|other| other.sidecar_set != set.sidecar_set);
    let stranger = others().find(|other| !set.side().trusts(&other.side()));
    let all_merge = shared.iter().all(|set| set.declared.on_conflict == OnConflict::Merge);
    let Some(stranger) = stranger.filter(|_| all_merge) else {
        let remedy = "give them one account, the behaviour Merge or the mode Isolate";
        return reason(set, Code::Forbidden, conflict(set, namespace), remedy);
    };
    let problem = format!(
        "{}; they all merge, but SidecarSet \"{}\" and this one do not trust each other",
        conflict(set, namespace),
        stranger.sidecar_set
    );
    let remedy = partners::remedy(&set.side(), &stranger.side());
    reason(set, Code::Forbidden, problem, &format!("{remedy}, or give them one account or the mode Isolate"))
}

/// IDP-4: describes the account that a set wants when it conflicts with other sets.
fn conflict(set: &Asking, namespace: &str) -> String {
    let behaviour = if set.declared.on_conflict == OnConflict::Merge { "Merge" } else { "Refuse" };
    format!(
        "wants ServiceAccount \"{}\" ({behaviour}) for a Pod of namespace \"{namespace}\", and other SidecarSets want another",
        set.account
    )
}

#[cfg(test)]
mod tests;
