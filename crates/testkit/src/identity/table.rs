//! Table A1 with Pillion in place of a policy that only swaps the account: who holds which token in the end.

use std::fmt::Write as _;

use pillion_kubernetes::json;
use serde_json::{Value, json};

use super::{Account, Accounts, TOKEN_PATH, pairs};

/// A row: what the Pod's author and the namespace bring, and what the Pod is stored with, as [`shown`] says it.
pub struct Row {
    /// Its letter, and what it is about.
    pub name: &'static str,
    /// What is special about the Pod, which has one container, `app`, and a volume `own`.
    pub edit: fn(&mut Value),
    /// The accounts, where the SidecarSet `a` names `x`.
    pub accounts: Accounts,
    /// In mode `SidecarsOnly`.
    pub sidecars_only: &'static str,
    /// In mode `Isolate`.
    pub isolate: &'static str,
    /// In mode `Pod`, in which the app holds what the API server mounts, as under the policy of the table.
    pub pod: &'static str,
}

impl Row {
    /// What the Pod is stored with, and the account that it runs under, in this mode.
    pub fn result(&self, mode: &str) -> (&'static str, &'static str) {
        match mode {
            "Isolate" => (self.isolate, "default"),
            "Pod" => (self.pod, "x"),
            _ => (self.sidecars_only, "x"),
        }
    }
}

/// `default` and `x`.
pub fn accounts() -> Accounts {
    Accounts::of(&["default", "x"])
}

/// The same, one of them without automounting.
pub fn manual(name: &str) -> Accounts {
    accounts().with(name, Account { automount: Some(false), ..Account::default() })
}

/// The same, where these have pull secrets.
pub fn pulling(names: &[&str]) -> Accounts {
    names.iter().fold(accounts(), |accounts, name| {
        accounts.with(name, Account { pull_secrets: vec![format!("of-{name}")], ..Account::default() })
    })
}

/// Leaves a Pod as it is.
pub fn unchanged(_: &mut Value) {}

/// Mounts the Pod's own volume into its container.
pub fn mount_own(pod: &mut Value, path: &str) {
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": path}]);
}

fn automount(pod: &mut Value, is_wanted: bool) {
    pod["spec"]["automountServiceAccountToken"] = is_wanted.into();
}

/// The rows but b and l, in which there is no such Pod.
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

/// The pairs of a Pod as `a-main:x app:default`, and its pull secrets.
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
