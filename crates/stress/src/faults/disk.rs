//! A full disk: neither the compiled module nor a line of the log can be written.

use std::time::Duration;

use tokio::time::sleep;

use super::{Context, Outcome};
use crate::server::{Server, Start};

/// The least time in which the server notices other settings: it reads them every two seconds.
const NOTICED: Duration = Duration::from_secs(3);

/// Returns how to start a server that can write nothing.
pub(super) fn start<'a>(context: &Context<'a>) -> Start<'a> {
    let mut start = context.start();
    // No folder can be made in a device.
    start.environment.extend(["XDG_CACHE_HOME", "TMPDIR"].map(|name| (name, "/dev/full".into())));
    Start { is_log_full: true, ..start }
}

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    // A changed file makes lines for the log.
    let settings = server.folder().join("settings.json");
    let valid = std::fs::read(&settings)?;
    std::fs::write(&settings, "{")?;
    sleep(context.seconds(4).max(NOTICED)).await;
    std::fs::write(&settings, valid)?;
    sleep(context.seconds(4).max(NOTICED)).await;
    let rejected = server.metric("pillion_settings_reloads_total", "\"rejected\"").await?;
    let mut problems = Vec::new();
    if rejected == 0 || server.metric("pillion_settings_current", "").await? != 1 {
        problems.push("settings are not watched any more".to_owned());
    }
    Ok(Outcome {
        asked: "neither the compiled module nor a line of the log can be written; settings that are broken, then valid"
            .to_owned(),
        back: "starts without the cache of compiled code; reviews are answered, settings are watched".to_owned(),
        problems,
    })
}
