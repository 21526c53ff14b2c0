//! A full disk: no file can be written, and no line of the log.

use tokio::time::sleep;

use super::server::{Server, Start};
use super::{Context, Outcome};

/// Makes each write to a file fail, as on a full disk.
const FULL: &str = "trap '' XFSZ; ulimit -f 0;";

/// Returns how to start a server that can write nothing: neither the compiled module nor its log.
pub(super) fn start<'a>(context: &Context<'a>) -> Start<'a> {
    let mut start = Start::usual(context.program, context.authority);
    // The folder is empty, so that the server has to compile its module.
    start.environment.insert("XDG_CACHE_HOME", context.folder.join("cache"));
    Start { before: FULL, is_log_full: true, ..start }
}

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    // A changed file makes lines for the log.
    let settings = server.folder().join("settings.json");
    let valid = std::fs::read(&settings)?;
    std::fs::write(&settings, "{")?;
    sleep(context.seconds(4)).await;
    std::fs::write(&settings, valid)?;
    sleep(context.seconds(4)).await;
    let rejected = server.metric("pillion_settings_reloads_total", "\"rejected\"").await?;
    let mut problems = Vec::new();
    if rejected == 0 || server.metric("pillion_settings_current", "").await? != 1 {
        problems.push("settings are not watched any more".to_owned());
    }
    Ok(Outcome {
        asked: "no file can be written from the start, and no line of the log; settings that are broken, then valid"
            .to_owned(),
        back: "starts without the cache of compiled code; reviews are answered, settings are watched".to_owned(),
        problems,
    })
}
