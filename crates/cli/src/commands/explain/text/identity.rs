//! The explanation of identities as text.

use std::io::{self, Write};

use pillion_explain::identity::{Given, Identity, Login, Merged, PodIdentity, TokenSource};
use pillion_explain::parts::Container;
use pillion_identity::declared::OnConflict;

/// Writes the Pod's ServiceAccount, the containers that lose its token, and who can read tokens.
///
/// # Errors
/// If `out` takes no more.
pub fn of_pod(out: &mut dyn Write, identity: &PodIdentity) -> io::Result<()> {
    let PodIdentity { original, account, merged, losing, is_shared, exposed } = identity;
    match account {
        Some(account) if account == original => writeln!(out, "  it keeps its ServiceAccount \"{account}\"")?,
        Some(account) => writeln!(out, "  it runs under ServiceAccount \"{account}\" instead of \"{original}\"")?,
        None => {}
    }
    if let Some(Merged { name, sidecar_sets, not_ready }) = merged {
        let sets = sidecar_sets.join(", ");
        let state = if not_ready.is_some() { "not ready" } else { "ready" };
        writeln!(out, "  ServiceAccount {name} is merged for {sets}: {state}")?;
    }
    if !losing.is_empty() {
        writeln!(out, "  containers that lose the token of \"{original}\": {}", losing.join(", "))?;
    }
    if let Some(account) = account.as_ref().filter(|_| *is_shared) {
        writeln!(out, "  all containers get the token of \"{account}\", the app's too (mode Pod)")?;
    }
    for why in exposed {
        writeln!(out, "  careful: {why}")?;
    }
    Ok(())
}

/// Writes the outcome of the identity that a `SidecarSet` requests, and the services that its containers can log in to.
///
/// # Errors
/// If `out` takes no more.
pub fn of_set(out: &mut dyn Write, identity: &Identity, containers: &[Container], indent: &str) -> io::Result<()> {
    let Identity { account, mode, on_conflict, result, logins } = identity;
    let merge = if *on_conflict == OnConflict::Merge { ", Merge" } else { "" };
    let wish = format!("ServiceAccount {account} ({mode:?}{merge})");
    match outcome(account, result) {
        Some(outcome) => writeln!(out, "{indent}{wish}: {outcome}")?,
        None => writeln!(out, "{indent}asks for {wish}")?,
    }
    let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    let who = if names.is_empty() { "its containers".to_owned() } else { names.join(" and ") };
    for Login { audience, subject, file, not_given, .. } in logins {
        match not_given {
            None => writeln!(out, "{indent}{who} can log in to {audience} as {subject} with {file}")?,
            Some(why) => writeln!(out, "{indent}{who} cannot log in to {audience}: {why}")?,
        }
    }
    Ok(())
}

/// Returns the outcome, or `None` if the Pod is refused.
fn outcome(account: &str, result: &Given) -> Option<String> {
    Some(match result {
        Given::Token(of, TokenSource { volume, secret }) => {
            let whose = if of == account { "its token".to_owned() } else { format!("a token of {of}") };
            match secret {
                None => format!("{whose} from the kubelet, in volume {volume}"),
                Some(secret) => {
                    format!("{whose} from Secret {secret}, without which the Pod does not start, in volume {volume}")
                }
            }
        }
        Given::Automounted => "the Pod runs under it, and the API server mounts its token".to_owned(),
        Given::Skipped(why) | Given::Kept(why) => format!("left out, {why}"),
        Given::GateOff => "left out, the feature gate SidecarSetServiceAccountInjection is off".to_owned(),
        Given::Withheld => return None,
    })
}
