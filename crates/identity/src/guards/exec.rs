//! Guards running Pods against connections to containers that hold an identity (AFT-2 to AFT-5).

use std::collections::BTreeMap;

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::{ERRORS_MAX, FieldError};
use pillion_kubernetes::json;
use pillion_kubernetes::lookup::{Lookup, ObjectRef};
use pillion_kubernetes::name_validation::dns_subdomain;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::rbac::Atom;
use pillion_sidecarset::pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use serde_json::Value;

use super::Objections;
use crate::author::{Inquiry, Unanswered};
use crate::declared::Declared;
use crate::names;
use crate::rules::Rules;
use crate::tokens::held::{running_containers, shown};
use crate::tokens::identity::{Identities, Identity, identities};

/// A CONNECT to a running Pod: `exec`, `attach` or `portforward`.
#[derive(Clone, Copy, Debug)]
pub struct Connection<'a> {
    /// Whether the connection is to one container, which [`Self::options`] names. A forwarded port is one of the whole
    /// Pod.
    pub is_to_container: bool,
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The name of the Pod in the request.
    pub pod: &'a str,
    /// The object of the request: `PodExecOptions`, `PodAttachOptions` or `PodPortForwardOptions`.
    pub options: &'a Value,
    /// The user who sends the request.
    pub author: &'a Author,
}

/// The accounts that SidecarSets name, by the ends of the names of their Secrets.
pub type Accounts = BTreeMap<String, String>;

/// Returns the accounts that these SidecarSets name. A set with tokens for other audiences has a Secret of its own, and
/// may have had none before (AUD-4).
pub fn accounts_of(sets: &[SidecarSet]) -> Accounts {
    let mut accounts = Accounts::new();
    for set in sets {
        let Some(account) = Declared::from_sidecar_set(set).ok().and_then(|declared| declared.service_account) else {
            continue;
        };
        for of in [None, Some(set.name())] {
            accounts.insert(id(&names::credential(&account, of)), account.clone());
        }
    }
    accounts
}

/// Returns the end of the name of the Secret of a [`names::credential`].
fn id(credential: &str) -> String {
    names::token_secret(credential).split_off(names::TOKEN_SECRET_PREFIX.len())
}

/// Judges a connection. `accounts` returns the [`accounts_of`] all SidecarSets. It is called only if a container has a
/// token from a Secret.
///
/// # Errors
/// That of `accounts`.
pub fn judge<E>(
    connection: Connection<'_>,
    rules: &Rules,
    lookup: &dyn Lookup,
    inquiry: &mut Inquiry<'_>,
    accounts: impl FnOnce() -> Result<Accounts, E>,
) -> Result<Objections, E> {
    let Connection { namespace, pod: name, author, .. } = connection;
    let guards = &rules.guards;
    if !guards.exec || guards.exec_users.contains(&author.user) || guards.breaks_glass(author) {
        return Ok(Objections::default());
    }
    let found = match running(namespace, name, lookup) {
        Ok(Some(found)) => found,
        // The API server says that there is no such Pod.
        Ok(None) => return Ok(Objections::default()),
        Err(reason) => return Ok(Objections { reasons: vec![reason], warnings: Vec::new() }),
    };
    let identities = identities(&found, &rules.trusted_csi_drivers);
    let reached = reached(connection, &found, &identities);
    let is_of_secret = |identity: &Identity<'_>| matches!(identity, Identity::OfSecret(_));
    let known = if reached.keys().any(is_of_secret) { accounts()? } else { Accounts::new() };
    // One question for each account.
    let mut asked: BTreeMap<Option<&str>, &str> = BTreeMap::new();
    for (identity, container) in &reached {
        let account = match *identity {
            Identity::OfPod(account) => Some(account),
            Identity::OfSecret(id) => known.get(id).map(String::as_str),
        };
        asked.entry(account).or_insert(container);
    }
    let reasons = asked.into_iter().filter_map(|(account, container)| {
        let holding = Holding { container, pod: name, account };
        refused(connection, holding, inquiry)
    });
    Ok(Objections { reasons: reasons.take(ERRORS_MAX).collect(), warnings: Vec::new() })
}

/// Reads the Pod of a request; `None` if it does not exist.
fn running(namespace: &str, name: &str, lookup: &dyn Lookup) -> Result<Option<Value>, Reason> {
    if name.is_empty() || namespace.is_empty() {
        let field = if name.is_empty() { "request.name" } else { "request.namespace" };
        let error = FieldError::required(field, "every connection to a Pod has one");
        return Err(Reason::of_field(Code::Undecodable, error));
    }
    // No Pod has such a name, and it must not reach another path of the API.
    if dns_subdomain(name).is_some() || dns_subdomain(namespace).is_some() {
        return Ok(None);
    }
    let object =
        ObjectRef { api_version: "v1", kind: "Pod", namespace: Some(namespace.to_owned()), name: name.to_owned() };
    lookup
        .get(&object)
        .map_err(|failure| Reason::unreadable("request.name", &format!("Pod \"{name}\""), &failure, ("v1", "Pod")))
}

/// Returns the identities that a connection reaches, each with the first container that holds it.
///
/// Without a name, the API server takes the only container of `spec.containers`, and refuses if there are several. The
/// annotation `kubectl.kubernetes.io/default-container` is kubectl's, and users write it. So of several containers each
/// counts, and also if the Pod has no container of this name: one could be added before the API server looks.
fn reached<'a>(
    connection: Connection<'_>,
    pod: &'a Value,
    identities: &Identities<'a>,
) -> BTreeMap<Identity<'a>, &'a str> {
    let named = match json::text(connection.options, &["container"]) {
        "" => match json::items(pod, &["spec", "containers"]) {
            [only] => pod::name(only),
            _ => "",
        },
        name => name,
    };
    let is_one = connection.is_to_container && has_container(pod, named);
    let mut reached = BTreeMap::new();
    for (container, held) in identities.iter().filter(|(container, _)| !is_one || **container == named) {
        for identity in held {
            reached.entry(*identity).or_insert(*container);
        }
    }
    reached
}

fn has_container(pod: &Value, name: &str) -> bool {
    !name.is_empty() && running_containers(pod).any(|container| pod::name(container) == name)
}

/// A container that holds an identity.
#[derive(Clone, Copy)]
struct Holding<'a> {
    container: &'a str,
    pod: &'a str,
    /// The name of the account; `None` if no SidecarSet names it.
    account: Option<&'a str>,
}

/// Returns why the user may not use the identity. If it is unknown, the user must be allowed to request the tokens of
/// every account.
fn refused(connection: Connection<'_>, holding: Holding<'_>, inquiry: &mut Inquiry<'_>) -> Option<Reason> {
    let Holding { container, pod, account } = holding;
    let Connection { is_to_container, namespace, author, .. } = connection;
    let field = if is_to_container { "container" } else { "" };
    let user = shown(&author.user);
    let wanted = Atom::new("", "serviceaccounts/token", account, "create");
    let held = format!("container {} of Pod \"{pod}\" holds the identity of", shown(container));
    match inquiry.ask(author, namespace, wanted) {
        Ok(true) => None,
        Ok(false) => Some(match account {
            Some(account) => Reason::forbidden(
                field,
                format!("{held} ServiceAccount \"{account}\", and {user} may not request its tokens"),
                "use another container, or be granted \"create\" on serviceaccounts/token of this name, or be among \
                 serviceAccounts.guards.execUsers",
            ),
            None => Reason::forbidden(
                field,
                format!(
                    "{held} a ServiceAccount that no SidecarSet names any more, and {user} may not request the tokens of \
                     every ServiceAccount of namespace \"{namespace}\""
                ),
                "restart the Pod, or be granted \"create\" on serviceaccounts/token, or be among \
                 serviceAccounts.guards.execUsers",
            ),
        }),
        Err(why) => {
            let (why, remedy) = match why {
                Unanswered::TooMany => ("the question to the API server is too large", "be in fewer groups".to_owned()),
                Unanswered::OutOfTime => ("the API server did not answer in time", "try again".to_owned()),
                Unanswered::Failed(remedy) => ("the API server gave no answer", remedy),
            };
            let problem =
                format!("{held} a ServiceAccount, and whether {user} may request its tokens is not known: {why}");
            Some(Reason::new(Code::Unavailable, field, problem, &remedy))
        }
    }
}

#[cfg(test)]
mod tests;
