//! Explains which identities the sidecars of a Pod get, and why (docs/spec/identities.md).
//!
//! Admission's own code makes the decision ([`Identities`]). The code here only describes its consequences.

use std::collections::BTreeMap;

use pillion_admission::pod::{Context, PodRequest};
use pillion_admission::pod_identity::{self, Identities};
use pillion_identity::audience::AudienceToken;
use pillion_identity::decision::{Asking, Decision, Grant, Token};
use pillion_identity::declared::{Mode, OnConflict};
use pillion_identity::existence::{Existence, exists};
use pillion_identity::rules::Rules;
use pillion_identity::target::{SharedAccount, Shares};
use pillion_identity::token_containers::{By, TokenContainers};
use pillion_identity::tokens::{self, Owners, Settled};
use pillion_identity::{merged, names};
use pillion_inject::matching::{self, Query};
use pillion_inject::sources::Hidden;
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::Lookup;
use pillion_kubernetes::outcome::{Outcome, Verdict};
use pillion_sidecarset::pod::{self, Pod};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use super::finding::Finding;

/// The identity of a Pod in which at least one sidecar asks for an identity, or not every container gets the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// The ServiceAccount of the Pod before admission.
    pub original: String,
    /// The ServiceAccount after admission; absent if the Pod is refused.
    pub account: Option<String>,
    /// The merged ServiceAccount, if the SidecarSets need one.
    pub merged: Option<Merged>,
    /// The containers that lose the token of `original`, in the order of the Pod: those of the app, and sidecars that
    /// ask for no identity.
    pub losing: Vec<String>,
    /// Whether containers outside the SidecarSets get the token of `account` (mode `Pod`).
    pub is_shared: bool,
    /// The containers that get the token of the Pod's own account, if not all do (TCN-4).
    pub token_containers: Option<TokenHolders>,
    /// Why other containers or users can still read these tokens, one line each (TOK-9, TCN-6).
    pub exposed: Vec<String>,
}

/// The containers that get the token of the Pod's own account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHolders {
    /// Their names, ascending, without those of SidecarSets.
    pub containers: Vec<String>,
    /// Who says so.
    pub by: By,
}

/// A merged ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its name. The Role and the RoleBinding have the same name.
    pub name: String,
    /// The SidecarSets that it stands for, ascending.
    pub sidecar_sets: Vec<String>,
    /// The reason why it is not ready; absent if it is ready.
    pub not_ready: Option<Finding>,
}

/// The result of a `SidecarSet`'s request for an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The ServiceAccount that the set names.
    pub account: String,
    /// The mode in which its sidecars get the identity.
    pub mode: Mode,
    /// Its behaviour if other SidecarSets name another ServiceAccount.
    pub on_conflict: OnConflict,
    /// The result.
    pub result: Given,
    /// What the set asks for besides: tokens for other audiences.
    pub logins: Vec<Login>,
}

/// The objects through which the containers of a set get their tokens (AUD-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSource {
    /// The name of the volume.
    pub volume: String,
    /// The name of the Secret behind it; absent if the kubelet requests the tokens.
    pub secret: Option<String>,
}

/// A token of the set's own ServiceAccount for an audience other than the API server (AUD-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The service that accepts the token: `aud`.
    pub audience: String,
    /// Who the service takes the sidecars for: `sub`.
    pub subject: String,
    /// The path of the token in the containers of the set.
    pub file: String,
    /// The lifetime that is requested, in seconds.
    pub expiration_seconds: u64,
    /// Why the containers do not get the token; absent if they get it.
    pub not_given: Option<String>,
}

/// The result of a request for an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// Only the set's containers mount a token of this ServiceAccount. If SidecarSets merge, it is not the
    /// ServiceAccount that the set names.
    Token(String, TokenSource),
    /// The Pod runs under the ServiceAccount already, and the API server mounts the token.
    Automounted,
    /// No identity, because of the settings (`onMissing`, `onConflict`). Holds the reason.
    Skipped(String),
    /// No identity, because the Pod keeps its own ServiceAccount (`onAppServiceAccount`). Holds the reason.
    Kept(String),
    /// No identity, because the feature gate is off.
    GateOff,
    /// No identity, because the Pod is refused.
    Withheld,
}

impl Given {
    /// Returns the name for machines.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Token(..) => "Token",
            Self::Automounted => "Automounted",
            Self::Skipped(_) => "Skipped",
            Self::Kept(_) => "Kept",
            Self::GateOff => "GateOff",
            Self::Withheld => "Withheld",
        }
    }
}

/// The request that admission decides on.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    query: Query<'a>,
    /// The namespace of the ServiceAccounts: always that of the request (SAP-6).
    accounts_in: &'a str,
}

impl<'a> Asked<'a> {
    /// Returns the question for a request. `query` is its form for the selection of SidecarSets.
    pub(super) fn new(request: PodRequest<'a>, query: Query<'a>) -> Self {
        let accounts_in = if request.namespace.is_empty() { query.namespace } else { request.namespace };
        Self { query, accounts_in }
    }
}

/// The Pod's identity, and those of its SidecarSets by name.
pub(super) type Explained = (Option<PodIdentity>, BTreeMap<String, Identity>);

/// Explains the identities of `sets`, which are in effect, after `outcome`.
pub(super) fn explain(asked: Asked<'_>, context: Context<'_>, sets: &[SidecarSet], outcome: &Outcome) -> Explained {
    let Asked { query, accounts_in } = asked;
    // Invalid fields are a reason to refuse the Pod, and are reported as such.
    let Identities { asking, .. } = Identities::collect(sets, true).unwrap_or_default();
    let Context { settings, lookup, .. } = context;
    let gate = settings.gates.service_account_injection;
    let wanted = TokenContainers::of_pod(query.pod.as_value(), accounts_in, &settings.service_accounts, lookup);
    let each = |decision: Option<&Decision>, result: &dyn Fn(&Asking) -> Given| {
        let mut identities = BTreeMap::new();
        for set in &asking {
            let Asking { sidecar_set, account, declared, .. } = set;
            let result = if gate { result(set) } else { Given::GateOff };
            let (mode, on_conflict) = (declared.mode, declared.on_conflict);
            let grant = decision.and_then(|decision| decision.grants.iter().find(|it| it.sidecar_set == *sidecar_set));
            let logins = logins(set, grant, &result, accounts_in, &context.settings.service_accounts);
            let identity = Identity { account: account.clone(), mode, on_conflict, result, logins };
            identities.insert(sidecar_set.clone(), identity);
        }
        identities
    };
    if (asking.is_empty() || !gate) && !matches!(wanted, Ok(Some(_))) {
        return (None, each(None, &|_| Given::Withheld));
    }
    let original = match pod_identity::account(query.pod.as_value()) {
        "" => "default",
        name => name,
    };
    let mut explained = PodIdentity {
        original: original.to_owned(),
        account: None,
        merged: None,
        losing: Vec::new(),
        is_shared: false,
        token_containers: None,
        exposed: Vec::new(),
    };
    let Some(Admitted { identities, injected, owners, decision, settled }) = admitted(asked, context, sets, outcome)
    else {
        explained.merged = not_ready(&asking, accounts_in, context, outcome);
        return (Some(explained), each(None, &|_| Given::Withheld));
    };
    let account = pod_identity::account(&settled.pod);
    explained.account = Some(account.to_owned());
    explained.merged = names::is_merged(account).then(|| Merged {
        name: account.to_owned(),
        sidecar_sets: sharing(&asking, &decision),
        not_ready: None,
    });
    if decision.hides_token {
        explained.losing = losing(&injected, &settled.pod);
    } else {
        let is_off = json::at(&settled.pod, &["spec", "automountServiceAccountToken"]) == Some(&Value::Bool(false));
        explained.is_shared = decision.account.is_some() && !is_off;
    }
    explained.token_containers = decision.narrowed.as_ref().map(|narrowed| TokenHolders {
        containers: narrowed.holders().into_iter().map(str::to_owned).collect(),
        by: narrowed.by,
    });
    explained.exposed = identities.exposure(sets, &decision, &owners).warnings(&settled.pod);
    (Some(explained), each(Some(&decision), &|set| given(set, &decision)))
}

/// Admission's intermediate results for an accepted Pod.
struct Admitted {
    identities: Identities,
    injected: Value,
    owners: Owners,
    decision: Decision,
    settled: Settled,
}

/// Repeats admission's steps with the same arguments. Returns `None` if the Pod is refused.
fn admitted(asked: Asked<'_>, context: Context<'_>, sets: &[SidecarSet], outcome: &Outcome) -> Option<Admitted> {
    if matches!(outcome.verdict, Verdict::Refused(_)) {
        return None;
    }
    let Asked { query, accounts_in } = asked;
    let Context { settings, lookup, now, .. } = context;
    let rules = &settings.service_accounts;
    let mut identities = Identities::collect(sets, settings.gates.service_account_injection).ok()?;
    identities.read_token_containers(query.pod.as_value(), accounts_in, rules, lookup).ok()?;
    let sort_by_name = settings.gates.sort_sidecar_containers_by_name;
    let hidden = Hidden { asking: &identities.asking, trusted: &rules.trusted_csi_drivers };
    let other_webhooks = Some(&settings.other_webhooks);
    let how = pillion_inject::Context { now, sort_by_name, hides_tokens: Some(hidden), other_webhooks };
    let mut injected = query.pod.as_value().clone();
    let owners = pillion_inject::plan(query.pod, sets, how).ok()?.apply(&mut injected).sidecars;
    let (decision, settled) = identities.settle(injected.clone(), &owners, accounts_in, rules, lookup).ok()?;
    Some(Admitted { identities, injected, owners, decision, settled })
}

fn given(set: &Asking, decision: &Decision) -> Given {
    let why =
        |list: &[(String, String)]| list.iter().find(|(name, _)| *name == set.sidecar_set).map(|(_, why)| why.clone());
    if let Some(grant) = decision.grants.iter().find(|grant| grant.sidecar_set == set.sidecar_set) {
        return Given::Token(grant.account.clone(), source(decision, grant));
    }
    let skipped = why(&decision.skipped).map(Given::Skipped);
    skipped.or_else(|| why(&decision.kept).map(Given::Kept)).unwrap_or(Given::Automounted)
}

fn source(decision: &Decision, grant: &Grant) -> TokenSource {
    let secret = (grant.token == Token::OfSecret).then(|| names::token_secret(&grant.credential()));
    TokenSource { volume: decision.volume_of(grant), secret }
}

/// Returns the tokens for other audiences that a set asks for, and why its containers do not get them.
fn logins(set: &Asking, grant: Option<&Grant>, result: &Given, namespace: &str, rules: &Rules) -> Vec<Login> {
    let not_given = |token: &AudienceToken| match result {
        _ if grant.is_some_and(|grant| grant.audiences.contains(token)) => None,
        Given::Skipped(why) | Given::Kept(why) => Some(why.clone()),
        Given::GateOff => Some("the feature gate SidecarSetServiceAccountInjection is off".to_owned()),
        Given::Withheld => {
            let objection = rules.objects_to(token).map(|objection| objection.problem);
            Some(objection.unwrap_or_else(|| "the Pod is refused".to_owned()))
        }
        // AUD-6
        Given::Token(..) | Given::Automounted => {
            Some("the Pod runs under a merged ServiceAccount, which has no tokens for other audiences".to_owned())
        }
    };
    let login = |token: &AudienceToken| Login {
        audience: token.audience.clone(),
        subject: format!("system:serviceaccount:{namespace}:{}", set.account),
        file: format!("{}/{}", names::MOUNT_PATH, token.path),
        expiration_seconds: token.expiration_seconds,
        not_given: not_given(token),
    };
    set.declared.tokens.iter().map(login).collect()
}

/// Returns the SidecarSets that share the Pod's account, ascending.
fn sharing(asking: &[Asking], decision: &Decision) -> Vec<String> {
    let is_left_out = |set: &Asking| matches!(given(set, decision), Given::Skipped(_) | Given::Kept(_));
    let sharing = asking.iter().filter(|set| set.declared.mode != Mode::Isolate && !is_left_out(set));
    let mut sets: Vec<String> = sharing.map(|set| set.sidecar_set.clone()).collect();
    sets.sort_unstable();
    sets
}

/// Returns the containers that have no token in `after`, if the Pod had a token before. Containers that were just
/// injected have none in `before` either: the API server would have mounted it afterwards.
fn losing(before: &Value, after: &Value) -> Vec<String> {
    let has_token = |container: &&Value| {
        let mut mounts = json::items(container, &["volumeMounts"]).iter();
        mounts.any(|mount| names::is_mount_path(json::text(mount, &["mountPath"])))
    };
    if !tokens::containers(before).any(|container| has_token(&container)) {
        return Vec::new();
    }
    tokens::containers(after).filter(|container| !has_token(container)).map(pod::name).map(str::to_owned).collect()
}

/// Returns the merged account, if the Pod is refused because that account is not ready.
fn not_ready(asking: &[Asking], namespace: &str, context: Context<'_>, outcome: &Outcome) -> Option<Merged> {
    let Context { settings, lookup, .. } = context;
    let Merging { name, sets, .. } = merging_of(asking, namespace, lookup, &settings.service_accounts)?;
    let refusal = match &outcome.verdict {
        Verdict::Refused(refusal) => refusal,
        Verdict::Unchanged | Verdict::Mutated(_) => return None,
    };
    let reason = merged::ready(&name, &sets.iter().collect::<Vec<_>>(), namespace, lookup).err()?;
    let not_ready = refusal.reasons().any(|other| *other == reason).then(|| Finding::from(&reason))?;
    let mut sidecar_sets: Vec<String> = sets.into_iter().map(|set| set.sidecar_set).collect();
    sidecar_sets.sort_unstable();
    Some(Merged { name, sidecar_sets, not_ready: Some(not_ready) })
}

/// A merged account that a Pod may come to need.
#[derive(Clone, Debug, PartialEq)]
pub struct Merging {
    /// Its name.
    pub name: String,
    /// The namespace of the Pod.
    pub namespace: String,
    /// The SidecarSets that it stands for.
    pub sets: Vec<Asking>,
}

/// Returns the merged account that admission looks up for the same arguments; `None` if no SidecarSets want to merge.
/// The Pod may still be refused or keep its own account.
pub fn merging(request: PodRequest<'_>, context: Context<'_>) -> Option<Merging> {
    let pod = Pod::decode(request.object).ok()?;
    let query = Query { pod, namespace: request.namespace_of(pod), uid: request.uid };
    let compiled: Vec<CompiledSet<'_>> = context.sidecar_sets.iter().map(CompiledSet::new).collect();
    let sets = matching::select(&compiled, query, context.sources()).sets;
    let Context { settings, lookup, .. } = context;
    let Identities { asking, .. } = Identities::collect(&sets, settings.gates.service_account_injection).ok()?;
    merging_of(&asking, Asked::new(request, query).accounts_in, lookup, &settings.service_accounts)
}

/// Returns the merged account that these SidecarSets need, if any. A set whose account is missing takes no part
/// (`onMissing: Skip`), or the Pod is refused because of it.
fn merging_of(asking: &[Asking], namespace: &str, lookup: &dyn Lookup, rules: &Rules) -> Option<Merging> {
    let is_there = |set: &&Asking| matches!(exists(&set.account, namespace, lookup), Existence::There { .. });
    let sharing = asking.iter().filter(|set| set.declared.mode != Mode::Isolate);
    let Shares { sets, target: SharedAccount::Merged(name), .. } =
        Shares::new(sharing.filter(is_there).collect(), rules)
    else {
        return None;
    };
    Some(Merging { name, namespace: namespace.to_owned(), sets: sets.into_iter().cloned().collect() })
}
