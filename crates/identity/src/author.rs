//! Whether the author of a SidecarSet may grant the permissions in it (ESC-1, E5).
//!
//! The controller grants the permissions that the author writes. So the author must hold them (ESC-1), some must not be
//! granted at all (ESC-4), and the author must be able to use the named account anyway (ESC-5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillion_kubernetes::authorizer::{Author, Authorizer, Question};
use pillion_kubernetes::field::FieldPath;
use pillion_kubernetes::outcome::{Code, Reason};
use pillion_kubernetes::rbac::denied::Denied;
use pillion_kubernetes::rbac::{self, Atom, Permission};
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::{CompiledSet, Scope};

use super::declared::{Declared, FIELDS, PERMISSIONS};
use super::rules::Rules;

/// The most questions about granted permissions in one request: permissions times namespaces (ESC-3).
const QUESTIONS_MAX: usize = 256;
/// The most bytes of questions in one request: each question carries the author's groups (E18).
const QUESTION_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time since the start of the request after which no more questions are asked (ESC-3).
const BUDGET: Duration = Duration::from_secs(4);
/// The most namespaces in which the existence of an account is checked (IDC-1).
pub(crate) const NAMESPACES_MAX: usize = 8;

/// Asks the authorizer each question once, within the limits of time and size.
pub struct Inquiry<'a> {
    authorizer: &'a dyn Authorizer,
    /// The time since the request came.
    elapsed: &'a dyn Fn() -> Duration,
    /// The answers, by namespace, permission and user.
    answers: BTreeMap<(String, Atom, String), bool>,
    /// The size of the questions so far, in bytes.
    bytes: usize,
}

/// Why a question was not answered.
pub(crate) enum Unanswered {
    /// The questions are too large.
    TooMany,
    /// The API server took longer than [`BUDGET`]: it may be busy.
    OutOfTime,
    /// It gave no answer, with the remedy.
    Failed(String),
}

impl<'a> Inquiry<'a> {
    /// Creates an inquiry without any answers.
    pub fn new(authorizer: &'a dyn Authorizer, elapsed: &'a dyn Fn() -> Duration) -> Self {
        Self { authorizer, elapsed, answers: BTreeMap::new(), bytes: 0 }
    }

    /// Asks whether the author has a permission in a namespace; `""` means in all of them.
    ///
    /// # Errors
    /// The question got no answer.
    pub(crate) fn ask(&mut self, author: &Author, namespace: &str, atom: Atom) -> Result<bool, Unanswered> {
        let key = (namespace.to_owned(), atom, author.user.clone());
        if let Some(answer) = self.answers.get(&key) {
            return Ok(*answer);
        }
        self.bytes =
            self.bytes.saturating_add(author.user.len() + author.groups.iter().map(String::len).sum::<usize>());
        if self.bytes > QUESTION_BYTES_MAX {
            return Err(Unanswered::TooMany);
        }
        if (self.elapsed)() > BUDGET {
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

/// Returns the namespaces that a set names literally if it cannot match any other (SET-4).
pub fn closed_list(set: &SidecarSet) -> Option<Vec<&str>> {
    match CompiledSet::new(set).scope {
        Scope::Namespaces(names) => Some(names),
        Scope::Cluster => None,
    }
}

/// ESC-4: returns a reason for each rule of the set that grants a permission which no SidecarSet may grant.
pub fn denied(set: &str, declared: &Declared, rules: &Rules) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let listed = rules.denied();
    let denied = Denied::new(&listed);
    for (index, rule) in declared.permissions.iter().enumerate() {
        let permissions = rbac::permissions([rule]);
        let hit = permissions.iter().find_map(|one| Some((*one, denied.denial(*one)?)));
        if let Some((permission, entry)) = hit {
            let (granted, listed) = (shown(permission), shown(entry.as_permission()));
            let problem = format!("grants {granted}, which reaches {listed}; no sidecar may get that");
            let remedy = "grant less, or change serviceAccounts.denyPermissions";
            reasons.push(Reason::forbidden(FieldPath::new(&path()).index(index), problem, remedy).about(set));
        }
    }
    reasons
}

/// Checks the author in every namespace that the set can match, within the limits of ESC-3. The author must hold the
/// permissions that the set grants (ESC-1), must be able to use the named account (ESC-5) and, with
/// `requireCreatePods`, must be allowed to create Pods.
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
    let namespaces: BTreeSet<_> = closed_list(set).unwrap_or(everywhere).into_iter().collect();
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
        // One question is enough for an admin.
        if !asks || inquiry.ask(author, "", atom("*", "*", "*"))? {
            return Ok(reasons);
        }
        for namespace in namespaces.iter().copied() {
            for wanted in &atoms {
                if !inquiry.ask(author, namespace, Atom::from(*wanted))? {
                    let problem = format!("\"{}\" may not grant {} {}", author.user, shown(*wanted), place(namespace));
                    reasons.push(refuse(
                        path(),
                        problem,
                        "write permissions that you hold, or ask a holder to write it",
                    ));
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
        let texts = Texts { subject: "the author's permissions", fewer: "split them over several SidecarSets" };
        vec![unanswered(set, path(), &why, &texts)]
    })
}

/// Returns the verbs to ask about if an entry of ESC-4 has the verb `*`. A SubjectAccessReview for `*` is allowed only
/// if `*` was granted, but one of these verbs is enough to read Secrets or open shells. The list is short because every
/// question takes time.
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

/// Returns the permissions to ask about for an entry of ESC-4.
pub fn questions(entry: &Atom) -> Vec<Atom> {
    let verbs = if entry.verb == "*" { verbs_of(&entry.resource) } else { &[entry.verb.as_str()] };
    verbs.iter().map(|verb| Atom { verb: (*verb).to_owned(), ..entry.clone() }).collect()
}

/// E5: checks that the named account does not itself hold a denied permission in the namespaces of a closed list.
pub fn privileged(set: &SidecarSet, account: &str, rules: &Rules, inquiry: &mut Inquiry<'_>) -> Vec<Reason> {
    let mut run = || -> Result<Vec<Reason>, Unanswered> {
        for namespace in closed_list(set).unwrap_or_default() {
            let subject = Author::service_account(namespace, account);
            for entry in rules.denied().iter() {
                for wanted in questions(entry) {
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
        let texts = Texts {
            subject: "the permissions of the ServiceAccount",
            fewer: "name fewer namespaces in spec.namespaceSelector",
        };
        vec![unanswered(set, "spec.serviceAccountName".to_owned(), &why, &texts)]
    })
}

/// The words of a refusal whose cause is that permissions were not verified.
struct Texts {
    /// The permissions, with their holder: "the author's permissions".
    subject: &'static str,
    /// How to have fewer questions.
    fewer: &'static str,
}

/// ESC-3: the reason to refuse a set whose permissions could not be verified. An API server that is busy is no fault of
/// the set.
fn unanswered(set: &SidecarSet, field: String, why: &Unanswered, texts: &Texts) -> Reason {
    let Texts { subject, fewer } = texts;
    let unverified = format!("{subject} could not be verified");
    let reason = match why {
        Unanswered::TooMany => {
            Reason::forbidden(field, format!("{unverified}: the questions to the API server are too large"), fewer)
        }
        Unanswered::OutOfTime => {
            let problem =
                format!("{unverified}: the API server did not answer all questions in {} s", BUDGET.as_secs());
            Reason::new(Code::Unavailable, field, problem, &format!("try again; if it stays like this, {fewer}"))
        }
        Unanswered::Failed(remedy) => Reason::forbidden(field, unverified, remedy),
    };
    reason.about(set.name())
}

/// Whether any of [`FIELDS`], or the annotation that stands for one, is set (IDV-1).
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

/// Says where a permission holds, for a message; `""` is every namespace.
pub fn place(namespace: &str) -> String {
    if namespace.is_empty() { "in every namespace".to_owned() } else { format!("in namespace \"{namespace}\"") }
}

/// Formats a permission: `get pods/log`, `list deployments.apps`, `get configmaps "a"`.
pub fn shown(permission: Permission<'_>) -> String {
    let Permission { verb, resource, group, .. } = permission;
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let name = permission.name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
    format!("{verb} {resource}{group}{name}")
}

#[cfg(test)]
mod tests;
