//! Settings and certificates that are replaced under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::caller::Caller;
use super::review::{self, Weight};
use super::trickle::{self, Tally};
use super::{Context, Outcome};
use crate::server::Server;

/// How many clients there are. Each connects again after some reviews.
const CLIENTS: usize = 6;
const REVIEWS: usize = 20;
/// The longest time that the server takes to see a changed file.
const SEEN: Duration = Duration::from_secs(15);

pub(super) async fn run(context: &Context<'_>, server: &Server) -> anyhow::Result<Outcome> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let (stop, target) = (Arc::clone(&stop), server.target().clone());
        clients.spawn(async move {
            let mut tally = Tally::default();
            while !stop.load(Ordering::Relaxed) {
                let caller = Arc::new(Caller::new(vec![target.clone()]));
                for number in 0..REVIEWS {
                    let uid = format!("change-{client}-{number}");
                    let (uid, verdict, took) = trickle::ask(Arc::clone(&caller), uid, Weight::Light).await;
                    tally.count(&uid, verdict, took);
                }
            }
            tally
        });
    }
    let settings = server.folder().join("settings.json");
    let loads = async || server.metric("pillion_settings_reloads_total", "\"loaded\"").await;
    let (replaced, mut problems) = (context.times(6), Vec::new());
    for version in 2..u32::try_from(replaced)? + 2 {
        let before = loads().await?;
        if version.is_multiple_of(2) {
            // A broken file in between: the settings before it stay in use.
            std::fs::write(&settings, "{")?;
            sleep(Duration::from_millis(2_500)).await;
        }
        std::fs::write(&settings, review::settings(version).to_string())?;
        context.authority.write(server.folder())?;
        let since = Instant::now();
        while loads().await? == before && since.elapsed() < SEEN {
            sleep(Duration::from_millis(100)).await;
        }
        if loads().await? == before {
            problems.push(format!("version {version} of the settings was not loaded"));
        }
    }
    // The certificate is read every five seconds.
    sleep(Duration::from_secs(6)).await;
    stop.store(true, Ordering::Relaxed);
    let mut tally = Tally::default();
    for client in clients.join_all().await {
        tally.add(client);
    }
    if server.metric("pillion_settings_current", "").await? != 1 {
        problems.push("the settings in use are not those of the file".to_owned());
    }
    problems.extend(tally.problems.clone());
    if tally.busy > 0 {
        problems.push(format!("{} reviews got a 503", tally.busy));
    }
    Ok(Outcome {
        asked: format!(
            "settings and certificate replaced {replaced} times, every second time after a broken file, under {} reviews of \
             {CLIENTS} clients that connect again and again",
            tally.asked()
        ),
        back: format!("{} answered, the slowest after {} ms", tally.right, tally.slowest.as_millis()),
        problems,
    })
}
