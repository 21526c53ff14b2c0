//! Table SAP-8 with Pillion instead of a policy that only replaces the account: the tokens that each container holds.

use std::fmt::Write as _;

use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::{Account, Accounts, TOKEN_PATH, pairs};

/// A row: the Pod and the accounts, and the resulting tokens in the format of [`shown`].
pub struct Row {
    /// The letter of the row and its subject.
    pub name: &'static str,
    /// Changes the Pod, which has one container, `app`, and a volume `own`.
    pub edit: fn(&mut Value),
    /// The accounts. The SidecarSet `a` names `x`.
    pub accounts: Accounts,
    /// The result in mode `SidecarsOnly`.
    pub sidecars_only: &'static str,
    /// The result in mode `Isolate`.
    pub isolate: &'static str,
    /// The result in mode `Pod`, in which the app holds what the API server mounts, as under the policy of the table.
    pub pod: &'static str,
}

impl Row {
    /// Returns the result in this mode, and the account under which the Pod runs.
    pub fn result(&self, mode: &str) -> (&'static str, &'static str) {
        match mode {
            "Isolate" => (self.isolate, "default"),
            "Pod" => (self.pod, "x"),
            _ => (self.sidecars_only, "x"),
        }
    }
}

/// Returns the accounts `default` and `x`.
pub fn accounts() -> Accounts {
    Accounts::named(&["default", "x"])
}

/// Returns the same accounts, one of them without automounting.
pub fn manual(name: &str) -> Accounts {
    accounts().with(name, Account { automount: Some(false), ..Account::default() })
}

/// Returns the same accounts, some of them with pull secrets.
pub fn pulling(names: &[&str]) -> Accounts {
    names.iter().fold(accounts(), |accounts, name| {
        accounts.with(name, Account { pull_secrets: vec![format!("of-{name}")], ..Account::default() })
    })
}

/// Does not change the Pod.
pub fn unchanged(_: &mut Value) {}

/// Mounts the Pod's own volume into its container.
pub fn mount_own(pod: &mut Value, path: &str) {
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": path}]);
}

fn automount(pod: &mut Value, is_wanted: bool) {
    pod["spec"]["automountServiceAccountToken"] = is_wanted.into();
}

/// Returns all rows except b and l, for which no such Pod exists.
pub fn rows() -> Vec<Row> {
    let row = |name, edit, accounts, [sidecars_only, isolate, pod]: [&'static str; 3]| Row {
        name,
        edit,
        accounts,
        sidecars_only,
        isolate,
        pod,
    };
    let usual = ["a-main:x", "a-main:x app:default", "a-main:x app:x"];
    vec![
        row("a: a sidecar without mount", unchanged, accounts(), usual),
        row("c: account without automounting", unchanged, manual("x"), usual),
        row(
            "d: default without automounting",
            unchanged,
            manual("default"),
            ["a-main:x", "a-main:x", "a-main:x app:x"],
        ),
        row(
            "e: Pod without automounting",
            |pod| automount(pod, false),
            accounts(),
            ["a-main:x", "a-main:x", "a-main:x"],
        ),
        row("f, g: a Pod that asks for automounting", |pod| automount(pod, true), accounts(), usual),
        row(
            "h: pull secrets are kept",
            unchanged,
            pulling(&["default", "x"]),
            ["a-main:x pulls of-default", "a-main:x app:default pulls of-default", "a-main:x app:x pulls of-default"],
        ),
        row(
            "h: pull secrets are added",
            unchanged,
            pulling(&["x"]),
            ["a-main:x pulls of-x", "a-main:x app:default", "a-main:x app:x pulls of-x"],
        ),
        row(
            "i: own volume at the path",
            |pod| mount_own(pod, TOKEN_PATH),
            accounts(),
            ["a-main:x", "a-main:x", "a-main:x"],
        ),
        row("j: own volume with a slash", |pod| mount_own(pod, &format!("{TOKEN_PATH}/")), accounts(), usual),
        row(
            "k: a volume is adopted",
            |pod| pod["spec"]["volumes"][0]["name"] = json!("kube-api-access-own"),
            accounts(),
            ["a-main:x", "a-main:x", "a-main:x"],
        ),
    ]
}

/// Returns the pairs of a Pod, as in `a-main:x app:default`, and its pull secrets.
pub fn shown(pod: &Value, accounts: &Accounts) -> String {
    let mut text = String::new();
    for pair in pairs(pod, accounts) {
        let _ = write!(text, "{}:{} ", pair.container, pair.account);
    }
    for secret in json::items(pod, &["spec", "imagePullSecrets"]) {
        let _ = write!(text, "pulls {} ", secret["name"].as_str().unwrap_or_default());
    }
    text.trim_end().to_owned()
}
