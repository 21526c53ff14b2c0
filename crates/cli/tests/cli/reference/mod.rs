//! The pages in `docs/reference` are what the code says. `PILLION_RENEW=1` writes them.

mod annotations;
#[cfg(feature = "server")]
mod command_line;
mod messages;
mod metrics;
mod page;
