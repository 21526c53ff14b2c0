//! The explanation of identities as text.

use std::io;

use pillion_explain::identity::{Given, Identity, Login, Merged, PodIdentity, TokenHolders, TokenSource};
use pillion_explain::parts::Container;
use pillion_identity::declared::OnConflict;

use super::Page;

/// Writes the Pod's ServiceAccount, the containers that lose its token, and who can read tokens.
///
/// # Errors
/// If the stream takes no more.
pub fn of_pod(page: &mut Page<'_>, identity: &PodIdentity) -> io::Result<()> {
    let mut line = |text: String| page.line("  ", 4, &text);
    let PodIdentity { original, account, merged, losing, is_shared, token_containers, exposed } = identity;
    match account {
        Some(account) if account == original => line(format!("it keeps its ServiceAccount \"{account}\""))?,
        Some(account) => line(format!("it runs under ServiceAccount \"{account}\" instead of \"{original}\""))?,
        None => {}
    }
    if let Some(Merged { name, sidecar_sets, not_ready }) = merged {
        let sets = sidecar_sets.join(", ");
        let state = if not_ready.is_some() { "not ready" } else { "ready" };
        line(format!("ServiceAccount {name} is merged for {sets}: {state}"))?;
    }
    if let Some(TokenHolders { containers, by }) = token_containers {
        let who = if containers.is_empty() { "no container".to_owned() } else { containers.join(", ") };
        line(format!("gets the token of \"{original}\": {who}; {by} says so"))?;
    }
    if !losing.is_empty() {
        line(format!("containers that lose the token of \"{original}\": {}", losing.join(", ")))?;
    }
    if let Some(account) = account.as_ref().filter(|_| *is_shared) {
        line(format!("all containers get the token of \"{account}\", the app's too (mode Pod)"))?;
    }
    for why in exposed {
        line(format!("careful: {why}"))?;
    }
    Ok(())
}

/// Writes the outcome of the identity that a `SidecarSet` requests, and the services that its containers can log in to.
///
/// # Errors
/// If the stream takes no more.
pub fn of_set(page: &mut Page<'_>, identity: &Identity, containers: &[Container], indent: &str) -> io::Result<()> {
    let mut line = |text: String| page.line(indent, indent.len() + 2, &text);
    let Identity { account, mode, on_conflict, result, logins } = identity;
    let merge = if *on_conflict == OnConflict::Merge { ", Merge" } else { "" };
    let wish = format!("ServiceAccount {account} ({mode:?}{merge})");
    match outcome(account, result) {
        Some(outcome) => line(format!("{wish}: {outcome}"))?,
        None => line(format!("asks for {wish}"))?,
    }
    let names: Vec<&str> = containers.iter().map(|container| container.name.as_str()).collect();
    let who = if names.is_empty() { "its containers".to_owned() } else { names.join(" and ") };
    for Login { audience, subject, file, not_given, .. } in logins {
        match not_given {
            None => line(format!("{who} can log in to {audience} as {subject} with {file}"))?,
            Some(why) => line(format!("{who} cannot log in to {audience}: {why}"))?,
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
