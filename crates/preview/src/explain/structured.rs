//! The explanation in a machine-readable form.

use pillion_explain::chosen_revision::Revision;
use pillion_explain::finding::Finding;
use pillion_explain::identity::{Given, Identity, Login, Merged, PodIdentity, TokenHolders, TokenSource};
use pillion_explain::parts::{Container, Part, Parts};
use pillion_explain::{Decision, Explained, Match};
use pillion_identity::token_containers::By;
use pillion_sidecarset::overrides::{Field, Override, Ruling};
use pillion_yaml::Tree;
use serde_json::Value;

use super::subject::ExplainedPod;

/// Returns a list with an object for each Pod.
pub fn list(explained: &[&ExplainedPod]) -> Tree {
    Tree::List(explained.iter().map(|explained| pod(explained)).collect())
}

fn pod(explained: &ExplainedPod) -> Tree {
    let verdict = match &explained.answer {
        _ if explained.not_asked.is_some() => "NotAsked",
        answer if !answer.accepted => "Refused",
        answer if answer.mutated_object.is_some() => "Mutated",
        _ => "Unchanged",
    };
    let message = explained.answer.message.as_deref();
    let message = message.or_else(|| explained.not_asked.as_ref().map(|not_asked| not_asked.summary.as_str()));
    let not_asked = explained.not_asked.iter().flat_map(|not_asked| &not_asked.findings);
    let warnings: Vec<String> = explained.answer.warnings.clone().unwrap_or_default();
    map([
        ("pod", text(&explained.label)),
        ("source", text(&explained.place)),
        ("namespace", text(&explained.namespace)),
        ("verdict", text(verdict)),
        (
            "code",
            explained
                .answer
                .code
                .filter(|_| !explained.answer.accepted)
                .map_or(none(), |code| Tree::Scalar(code.into())),
        ),
        ("message", optional(message)),
        ("warnings", texts(&warnings)),
        ("policy", findings(explained.policy.iter().chain(&explained.forbidden).chain(not_asked))),
        ("reasons", findings(&explained.pod)),
        ("serviceAccount", explained.identity.as_ref().map_or_else(none, pod_identity)),
        ("sidecarSets", Tree::List(explained.sets.iter().map(set).collect())),
    ])
}

fn set(set: &Explained) -> Tree {
    let (decision, reasons, matched, parts) = match &set.decision {
        Decision::Injected(injection) => ("Injected", &[][..], Some(&injection.matched), Some(&injection.parts)),
        Decision::Withheld(matched) => ("Withheld", &[][..], Some(matched), None),
        Decision::NotInjected(findings) => ("NotInjected", findings.as_slice(), None, None),
        Decision::Refused(findings) => ("Refused", findings.as_slice(), None, None),
    };
    let mut entries = vec![
        ("name", text(&set.name)),
        ("injected", Tree::Scalar((decision == "Injected").into())),
        ("decision", text(decision)),
        ("reasons", findings(reasons)),
        ("serviceAccount", set.identity.as_ref().map_or_else(none, identity)),
    ];
    if let Some(Match { selector, namespace_selector, revision }) = matched {
        entries.push(("selector", text(selector)));
        entries.push(("namespaceSelector", optional(namespace_selector.as_deref())));
        entries.push(("revision", self::revision(revision)));
    }
    if let Some(Parts { containers, volumes, pull_secrets, annotations }) = parts {
        let parts = |parts: &[Part]| Tree::List(parts.iter().map(part).collect());
        entries.push(("containers", Tree::List(containers.iter().map(container).collect())));
        entries.push(("volumes", parts(volumes)));
        entries.push(("imagePullSecrets", parts(pull_secrets)));
        entries.push(("annotations", parts(annotations)));
        entries.push(("overrides", Tree::List(set.overrides.iter().map(overridden).collect())));
    }
    map(entries)
}

fn overridden(one: &Override) -> Tree {
    let bounds = match &one.ruling {
        Ruling::Allowed { bounds, .. } => Some(bounds.as_str()),
        Ruling::OutOfBounds { .. } | Ruling::Unreadable { .. } | Ruling::NoRules => None,
    };
    map([
        ("container", text(&one.container)),
        ("field", optional(one.field.as_ref().map(Field::to_string).as_deref())),
        ("value", optional(one.value())),
        ("by", text(one.by.kind())),
        ("annotation", text(&one.annotation())),
        ("allowed", optional(bounds)),
        ("message", optional(one.problem().as_deref())),
    ])
}

fn pod_identity(identity: &PodIdentity) -> Tree {
    let PodIdentity { original, account, losing, is_shared, token_containers, exposed, .. } = identity;
    let merged = |merged: &Merged| {
        let not_ready = merged.not_ready.as_ref();
        map([
            ("name", text(&merged.name)),
            ("sidecarSets", texts(&merged.sidecar_sets)),
            ("ready", Tree::Scalar(not_ready.is_none().into())),
            ("message", optional(not_ready.map(|finding| finding.problem.as_str()))),
        ])
    };
    map([
        ("original", text(original)),
        ("name", optional(account.as_deref())),
        ("merged", identity.merged.as_ref().map_or_else(none, merged)),
        ("losing", texts(losing)),
        ("sharedWithApp", Tree::Scalar((*is_shared).into())),
        ("tokenContainers", token_containers.as_ref().map_or_else(none, token_holders)),
        ("exposed", texts(exposed)),
    ])
}

fn token_holders(holders: &TokenHolders) -> Tree {
    let by = match holders.by {
        By::Pod => "Pod",
        By::Namespace => "Namespace",
        By::Settings => "Settings",
    };
    map([("by", text(by)), ("containers", texts(&holders.containers))])
}

fn identity(identity: &Identity) -> Tree {
    let Identity { account, mode, on_conflict, result, logins } = identity;
    let (token, message) = match result {
        Given::Token(of, source) => (token(of, source), None),
        Given::Skipped(why) | Given::Kept(why) => (none(), Some(why.as_str())),
        Given::Automounted | Given::GateOff | Given::Withheld => (none(), None),
    };
    map([
        ("name", text(account)),
        ("mode", text(&format!("{mode:?}"))),
        ("onConflict", text(&format!("{on_conflict:?}"))),
        ("result", text(result.name())),
        ("token", token),
        ("message", optional(message)),
        ("logins", Tree::List(logins.iter().map(login).collect())),
    ])
}

fn login(login: &Login) -> Tree {
    let Login { audience, subject, file, expiration_seconds, not_given } = login;
    map([
        ("audience", text(audience)),
        ("subject", text(subject)),
        ("file", text(file)),
        ("expirationSeconds", Tree::Scalar((*expiration_seconds).into())),
        ("given", Tree::Scalar(not_given.is_none().into())),
        ("message", optional(not_given.as_deref())),
    ])
}

fn token(account: &str, TokenSource { volume, secret }: &TokenSource) -> Tree {
    map([
        ("serviceAccount", text(account)),
        ("source", text(if secret.is_some() { "Secret" } else { "Kubelet" })),
        ("secret", optional(secret.as_deref())),
        ("volume", text(volume)),
    ])
}

fn findings<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> Tree {
    let finding = |finding: &Finding| {
        map([
            ("reason", text(finding.kind.name())),
            ("rule", optional(Some(finding.kind.rule()).filter(|rule| !rule.is_empty()))),
            ("path", text(finding.path.as_str())),
            ("wanted", optional(Some(finding.wanted.as_str()).filter(|wanted| !wanted.is_empty()))),
            ("found", optional(finding.found.as_deref())),
            ("message", text(&finding.problem)),
            ("remedy", text(&finding.remedy)),
        ])
    };
    Tree::List(findings.into_iter().map(finding).collect())
}

fn revision(revision: &Revision) -> Tree {
    map([
        ("stored", optional(revision.stored.as_deref())),
        ("reason", text(revision.why.name())),
        ("message", text(&revision.why.to_string())),
    ])
}

fn container(container: &Container) -> Tree {
    let index = |index: usize| Tree::Scalar(u64::try_from(index).unwrap_or_default().into());
    map([
        ("name", text(&container.name)),
        ("list", text(container.list.key())),
        ("index", index(container.index)),
        ("native", Tree::Scalar(container.is_native.into())),
        ("hotUpgradeOf", optional(container.half_of.as_deref())),
        ("result", text(container.fate.name())),
    ])
}

fn part(part: &Part) -> Tree {
    map([("name", text(&part.name)), ("result", text(part.fate.name()))])
}

fn map(entries: impl IntoIterator<Item = (&'static str, Tree)>) -> Tree {
    Tree::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn text(text: &str) -> Tree {
    Tree::Scalar(text.into())
}

fn texts(texts: &[String]) -> Tree {
    Tree::List(texts.iter().map(|item| text(item)).collect())
}

fn optional(value: Option<&str>) -> Tree {
    value.map_or_else(none, text)
}

fn none() -> Tree {
    Tree::Scalar(Value::Null)
}
