//! Match conditions of the guards of running Pods, with the users, groups and accounts that the settings list.
//!
//! A text or a list of texts in JSON is one in CEL, too.

use pillion_identity::guards::token_request::{NODE_PREFIX, NODES};
use pillion_identity::names::{MERGED_PREFIX, TOKEN_VOLUME_PREFIX};
use pillion_identity::rules::{Allowed, Rules};
use serde_json::json;

use super::Condition;

/// What the settings list, as parts of CEL expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// A list of groups.
    pub break_glass_groups: String,
    /// A list of users.
    pub exec_users: String,
    /// A list of users.
    pub image_users: String,
    /// A user.
    pub controller_user: String,
    /// Alternatives about the account of a TokenRequest, each after `||`.
    pub token_request_accounts: String,
}

impl Listed {
    /// Returns what these settings list.
    pub fn from_rules(rules: &Rules) -> Self {
        let guards = &rules.guards;
        let of = |list: &[String]| json!(list).to_string();
        Self {
            break_glass_groups: of(&guards.break_glass_groups),
            exec_users: of(&guards.exec_users),
            image_users: of(&guards.image_users),
            controller_user: json!(rules.controller_user).to_string(),
            token_request_accounts: guards.token_request_accounts.iter().map(alternative).collect(),
        }
    }

    /// Returns places that the templates of the chart fill in.
    pub fn places() -> Self {
        let place = |name: &str| format!("@{name}@");
        Self {
            break_glass_groups: place("breakGlassGroups"),
            exec_users: place("execUsers"),
            image_users: place("imageUsers"),
            controller_user: place("controllerUser"),
            token_request_accounts: place("tokenRequestAccounts"),
        }
    }
}

/// Returns the condition of an entry of `tokenRequestAccounts`. Regular expressions in CEL are those of RE2, and match a
/// part of a text.
fn alternative(entry: &Allowed) -> String {
    let [namespaces, names] = [&entry.namespaces, &entry.names].map(|globs| {
        let globs: Vec<String> = globs.iter().map(|glob| expression(glob.as_str())).collect();
        json!(format!("^({})$", globs.join("|")))
    });
    format!(" ||\n(request.namespace.matches({namespaces}) && request.name.matches({names}))")
}

/// Returns the regular expression of a glob, quoted as Go's `regexp.QuoteMeta` does, which the chart calls.
fn expression(glob: &str) -> String {
    let mut expression = String::new();
    for one in glob.chars() {
        match one {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            '\\' | '.' | '+' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => expression.extend(['\\', one]),
            _ => expression.push(one),
        }
    }
    expression
}

/// Returns the conditions for connections to running Pods. Which container holds an identity is known only to the Pod,
/// which a match condition cannot read.
pub(super) fn of_connections(listed: &Listed) -> Vec<Condition> {
    let why = "The guard lets these users through anyway (serviceAccounts.guards.execUsers).";
    vec![no_emergency(listed), not_listed(&listed.exec_users, why)]
}

/// Returns the conditions for changes of running Pods.
pub(super) fn of_images(listed: &Listed) -> Vec<Condition> {
    let why = "The guard lets these users through anyway (serviceAccounts.guards.imageUsers).";
    vec![no_emergency(listed), not_listed(&listed.image_users, why), other_image()]
}

/// Returns the conditions for requested tokens.
pub(super) fn of_token_requests(listed: &Listed) -> Vec<Condition> {
    vec![
        no_emergency(listed),
        Condition {
            name: "is-an-account-of-sidecars",
            expression: format!("request.name.startsWith('{MERGED_PREFIX}'){}", listed.token_request_accounts),
            why: "Requests for tokens of merged ServiceAccounts, and of those that the settings list. No other leaves the API \
                  server.",
        },
        Condition {
            name: "is-not-requested-by-a-node",
            expression: format!(
                "!(request.userInfo.username.startsWith('{NODE_PREFIX}') &&\n  \
                 has(request.userInfo.groups) && '{NODES}' in request.userInfo.groups)"
            ),
            why: "Kubelets never wait for an answer. NodeRestriction lets each request only tokens of its own Pods.",
        },
        Condition {
            name: "is-not-requested-by-the-controller",
            expression: format!("request.userInfo.username != {}", listed.controller_user),
            why: "The guard lets the controller through anyway.",
        },
    ]
}

/// AFT-8: covers what users in a group for emergencies do not do.
fn no_emergency(listed: &Listed) -> Condition {
    Condition {
        name: "is-no-emergency",
        expression: format!(
            "!(has(request.userInfo.groups) &&\n  {}.exists(group, group in request.userInfo.groups))",
            listed.break_glass_groups
        ),
        why: "Requests of these groups pass, also while no server answers (serviceAccounts.guards.breakGlassGroups).",
    }
}

fn not_listed(users: &str, why: &'static str) -> Condition {
    Condition { name: "is-not-by-a-listed-user", expression: format!("!(request.userInfo.username in {users})"), why }
}

/// Covers updates that change the image of a container which holds an identity. The stored Pod tells which one does: no
/// update changes volumes and mounts. A container holds an identity if it mounts a volume of Pillion, or, in a Pod that has
/// its account for its sidecars, any volume that gives this account.
///
/// Images are compared first: of most updates, none changes.
fn other_image() -> Condition {
    let containers = |pod: &str| {
        format!(
            "({pod}.spec.containers +\n   \
             (has({pod}.spec.initContainers) ? {pod}.spec.initContainers : []) +\n   \
             (has({pod}.spec.ephemeralContainers) ? {pod}.spec.ephemeralContainers : []))"
        )
    };
    let is_given = "has(volume.projected) && has(volume.projected.sources) &&\n          \
                    volume.projected.sources.exists(source, has(source.serviceAccountToken))";
    Condition {
        name: "changes-the-image-of-a-holder",
        expression: format!(
            "{old}.exists(old,\n  \
             !{new}.exists(new,\n    new.name == old.name && has(new.image) == has(old.image) &&\n    \
             (!has(old.image) || new.image == old.image)) &&\n  \
             has(old.volumeMounts) && (\n    \
             old.volumeMounts.exists(mount, mount.name.startsWith('{TOKEN_VOLUME_PREFIX}')) ||\n    \
             has(oldObject.spec.volumes) && (\n      \
             has(oldObject.spec.serviceAccountName) && oldObject.spec.serviceAccountName.startsWith('{MERGED_PREFIX}') ||\n      \
             oldObject.spec.volumes.exists(volume, volume.name.startsWith('{TOKEN_VOLUME_PREFIX}') &&\n          {is_given})\n    \
             ) &&\n    \
             oldObject.spec.volumes.exists(volume,\n      \
             old.volumeMounts.exists(mount, mount.name == volume.name) && (\n        has(volume.csi) ||\n        \
             has(volume.projected) && has(volume.projected.sources) &&\n          \
             volume.projected.sources.exists(source, has(source.serviceAccountToken) || has(source.podCertificate)))\n    \
             )\n  \
             )\n)",
            old = containers("oldObject"),
            new = containers("object"),
        ),
        why: "Only updates that change the image of a container with the identity of a sidecar. Labels, finalizers, \
              annotations, tolerations and images of other containers do not leave the API server.",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::Value;

    use super::*;

    #[rstest]
    #[case::a_name("vault", "vault")]
    #[case::globs("team-?-*", "team-.-.*")]
    #[case::what_an_expression_would_read("a.b+(c)|[d]{e}^$\\", r"a\.b\+\(c\)\|\[d\]\{e\}\^\$\\")]
    fn aft6_globs_become_regular_expressions(#[case] glob: &str, #[case] expected: &str) {
        assert_eq!(expression(glob), expected);
    }

    /// Whatever the settings list stays inside its quotes.
    #[test]
    fn aft8_lists_become_literals() {
        let mut rules = Rules::default();
        let odd = "a'] || true || ['\"\\\n";
        rules.guards.break_glass_groups = vec![odd.to_owned()];
        let listed = Listed::from_rules(&rules);
        assert_eq!(listed.break_glass_groups, r#"["a'] || true || ['\"\\\n"]"#);
        let read: Value = serde_json::from_str(&listed.break_glass_groups).unwrap();
        assert_eq!(read, json!([odd]));
        assert_eq!(listed.exec_users, "[]");
    }
}
