//! Whether the author of a SidecarSet may hand out what it hands out (`serviceaccounts.md` A7, E5).
//!
//! The controller grants what the author writes, so the author has to hold it (P1), nobody may write some of it (P4),
//! and the account that is named must be one that the author could use anyway (P5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_kubernetes::authorizer::{Author, Authorizer, Question};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::outcome::Reason;
use pillion_kubernetes::rbac::denied::Denied;
use pillion_kubernetes::rbac::{self, Atom, Permission};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Scope};

use super::declared::{Declared, FIELDS, PERMISSIONS};
use super::rules::Rules;

/// More questions than this are not asked in one request (P3).
const QUESTIONS_MAX: usize = 256;
/// Questions of more bytes than this are not asked in one request: each carries the author's groups (E18).
const QUESTION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// When to stop asking (P3).
const BUDGET: Duration = Duration::from_millis(600);
/// Existence is asked for in at most this many namespaces (A5-1).
pub const NAMESPACES_MAX: usize = 8;

/// Asks each question once, for as long as there is time.
pub struct Inquiry<'a> {
    authorizer: &'a dyn Authorizer,
    /// The time since the request came.
    elapsed: &'a dyn Fn() -> Duration,
    /// By namespace, permission and user.
    answers: BTreeMap<(String, Atom, String), bool>,
    /// How many bytes were asked.
    bytes: usize,
}

/// Why a question was not answered.
enum Unanswered {
    OutOfTime,
    Failed(String),
}

impl<'a> Inquiry<'a> {
    /// Nothing is asked yet.
    pub fn new(authorizer: &'a dyn Authorizer, elapsed: &'a dyn Fn() -> Duration) -> Self {
        Self { authorizer, elapsed, answers: BTreeMap::new(), bytes: 0 }
    }

    fn ask(&mut self, author: &Author, namespace: &str, atom: Atom) -> Result<bool, Unanswered> {
        let key = (namespace.to_owned(), atom, author.user.clone());
        if let Some(answer) = self.answers.get(&key) {
            return Ok(*answer);
        }
        self.bytes =
            self.bytes.saturating_add(author.user.len() + author.groups.iter().map(String::len).sum::<usize>());
        if self.bytes > QUESTION_BYTES_MAX || (self.elapsed)() > BUDGET {
            return Err(Unanswered::OutOfTime);
        }
        let question = Question {
            user: author.user.clone(),
            groups: author.groups.clone(),
            namespace: namespace.to_owned(),
            atom: key.1.clone(),
        };
        let answer = self.authorizer.allows(&question).map_err(Unanswered::Failed)?;
        self.answers.insert(key, answer);
        Ok(answer)
    }
}

/// The namespaces that a set names literally, where those are all that it can match (G, Closed list).
pub fn closed_list(set: &SidecarSet) -> Option<Vec<&str>> {
    match CompiledSet::of_manifest(set).scope {
        Scope::Namespaces(names) => Some(names),
        Scope::Cluster => None,
    }
}

/// P4: what nobody may hand out, one reason for each rule.
pub fn denied(set: &str, declared: &Declared, rules: &Rules) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let listed = rules.denied();
    let denied = Denied::of(&listed);
    for (index, rule) in declared.permissions.iter().enumerate() {
        let permissions = rbac::permissions([rule]);
        let hit = permissions.iter().find_map(|one| Some((*one, denied.denial(*one)?)));
        if let Some((permission, entry)) = hit {
            let (granted, listed) = (shown(permission), shown(entry.as_permission()));
            let problem = format!("grants {granted}, which reaches {listed}; nobody may give that to a sidecar");
            let remedy = "grant less, or change serviceAccounts.denyPermissions";
            reasons.push(Reason::forbidden(FieldPath::new(&path()).index(index), problem, remedy).about(set));
        }
    }
    reasons
}

/// P1, P3, P5 and `requireCreatePods`: whether the author holds what the set hands out, wherever it can match.
pub fn check(
    set: &SidecarSet,
    declared: &Declared,
    author: &Author,
    rules: &Rules,
    inquiry: &mut Inquiry<'_>,
) -> Vec<Reason> {
    let refuse =
        |field: String, problem: String, remedy: &str| Reason::forbidden(field, problem, remedy).about(set.name());
    let everywhere = vec![""];
    let namespaces: BTreeSet<&str> = closed_list(set).unwrap_or(everywhere).into_iter().collect();
    let too_many = || {
        vec![refuse(
            path(),
            format!("more than {QUESTIONS_MAX} permissions and namespaces to verify in one request"),
            "split the SidecarSet, or name fewer permissions or namespaces",
        )]
    };
    let atoms = rbac::reduced(&rbac::permissions(&declared.permissions));
    if atoms.len().saturating_mul(namespaces.len()) > QUESTIONS_MAX {
        return too_many();
    }
    let mut run = || -> Result<Vec<Reason>, Unanswered> {
        let mut reasons = Vec::new();
        let asks = declared.service_account.is_some() || rules.require_create_pods;
        // An admin is done with one question.
        if !asks || inquiry.ask(author, "", atom("*", "*", "*"))? {
            return Ok(reasons);
        }
        for namespace in namespaces.iter().copied() {
            for wanted in &atoms {
                if !inquiry.ask(author, namespace, Atom::from(*wanted))? {
                    let problem = format!("\"{}\" may not grant {} {}", author.user, shown(*wanted), place(namespace));
                    reasons.push(refuse(path(), problem, "write what you hold yourself, or ask somebody who does"));
                }
            }
            let creates_pods = || atom("", "pods", "create");
            if rules.require_create_pods && !inquiry.ask(author, namespace, creates_pods())? {
                let problem = format!("\"{}\" may not create Pods {}", author.user, place(namespace));
                let remedy = "name only namespaces in which you may create Pods (serviceAccounts.requireCreatePods)";
                reasons.push(refuse("spec.namespaceSelector".to_owned(), problem, remedy));
            }
            if let Some(account) = &declared.service_account {
                let mut token = atom("", "serviceaccounts/token", "create");
                token.name = Some(account.clone());
                if !inquiry.ask(author, namespace, token)? && !inquiry.ask(author, namespace, creates_pods())? {
                    let problem = format!(
                        "\"{}\" may not use the ServiceAccount \"{account}\" {}",
                        author.user,
                        place(namespace)
                    );
                    let remedy = "the author needs \"create\" on pods, or on serviceaccounts/token of this name";
                    reasons.push(refuse("spec.serviceAccountName".to_owned(), problem, remedy));
                }
            }
        }
        Ok(reasons)
    };
    run().unwrap_or_else(|why| {
        let late = ("too many permissions to verify in one request", "split them over several SidecarSets");
        vec![unanswered(set, path(), &why, late, "the author's permissions could not be verified")]
    })
}

/// What is asked for where an entry of P4 says every verb: a SubjectAccessReview for `*` is answered with yes only where
/// `*` was granted, and who reads Secrets or opens shells needs no more than one of these. Every question takes time.
fn verbs_of(resource: &str) -> &'static [&'static str] {
    match resource {
        "secrets" => &["get", "list"],
        "serviceaccounts/token" => &["create"],
        "pods/exec" | "pods/attach" | "pods/portforward" | "pods/proxy" | "services/proxy" | "nodes/proxy" => {
            &["get", "create"]
        }
        "pods/ephemeralcontainers" => &["update", "patch"],
        _ => &["get", "list", "create", "update", "delete"],
    }
}

/// E5: whether the account that a set names holds itself what no sidecar may have, in the namespaces of a closed list.
pub fn privileged(set: &SidecarSet, account: &str, rules: &Rules, inquiry: &mut Inquiry<'_>) -> Vec<Reason> {
    let mut run = || -> Result<Vec<Reason>, Unanswered> {
        for namespace in closed_list(set).unwrap_or_default() {
            let subject = Author::service_account(namespace, account);
            for entry in rules.denied().iter() {
                let verbs = if entry.verb == "*" { verbs_of(&entry.resource) } else { &[entry.verb.as_str()] };
                for verb in verbs {
                    let wanted = Atom { verb: (*verb).to_owned(), ..entry.clone() };
                    if inquiry.ask(&subject, namespace, wanted.clone())? {
                        let problem = format!(
                            "ServiceAccount \"{account}\" may {} {}",
                            shown(wanted.as_permission()),
                            place(namespace)
                        );
                        let remedy =
                            "name an account with fewer permissions, or change serviceAccounts.denyPermissions";
                        let field = "spec.serviceAccountName";
                        return Ok(vec![Reason::forbidden(field, problem, remedy).about(set.name())]);
                    }
                }
            }
        }
        Ok(Vec::new())
    };
    run().unwrap_or_else(|why| {
        let late = "too many permissions of the ServiceAccount to verify in one request";
        let remedy = "name fewer namespaces in spec.namespaceSelector, or try again";
        let failed = "the permissions of the ServiceAccount could not be verified";
        vec![unanswered(set, "spec.serviceAccountName".to_owned(), &why, (late, remedy), failed)]
    })
}

/// P3: what could not be verified is refused.
fn unanswered(set: &SidecarSet, field: String, why: &Unanswered, late: (&str, &str), failed: &str) -> Reason {
    let (problem, remedy) = match &why {
        Unanswered::OutOfTime => late,
        Unanswered::Failed(remedy) => (failed, remedy.as_str()),
    };
    Reason::forbidden(field, problem.to_owned(), remedy).about(set.name())
}

/// Whether any of the four fields, or an annotation that stands for one, is set (V1).
pub fn uses_feature(set: &SidecarSet) -> bool {
    FIELDS.iter().any(|field| {
        set.spec(&[field.name]).is_some_and(|value| !value.is_null()) || !set.annotation(field.annotation).is_empty()
    })
}

fn path() -> String {
    FieldPath::new("spec").child(PERMISSIONS.name).to_string()
}

fn atom(group: &str, resource: &str, verb: &str) -> Atom {
    Atom::new(group, resource, None, verb)
}

fn place(namespace: &str) -> String {
    if namespace.is_empty() { "in every namespace".to_owned() } else { format!("in namespace \"{namespace}\"") }
}

/// `get pods/log`, `list deployments.apps`, `get configmaps "a"`.
fn shown(permission: Permission<'_>) -> String {
    let mut text = format!("{} {}", permission.verb, permission.resource);
    if !permission.group.is_empty() {
        text.push('.');
        text.push_str(permission.group);
    }
    if let Some(name) = permission.name {
        text.push_str(" \"");
        text.push_str(name);
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests;
