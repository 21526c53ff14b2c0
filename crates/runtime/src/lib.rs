//! What every controller shares. A controller does work that a policy cannot do, because a policy cannot write to the
//! cluster.
//!
//! A [`controller`](controller::Controller) observes objects through the [`store`], names the changes that wake it
//! ([`wakes`]), makes a plan with a pure function of `pillion_plan`, and carries it out with [`effects`]. The [`queue`]
//! reconciles its keys. A process runs its controllers once it holds the Lease ([`leader`]), with one [`Context`].
//!
//! It never decides what to write: the plans do. It knows no controller, and only [`effects`], [`leader`] and the Events
//! write to the cluster.
//!
//! The admission server uses the watches and tables of [`store`], and nothing else.
//!
//! Start with [`controller`], then [`queue`] and [`store`].

pub mod backoff;
pub mod bundled;
pub mod client;
pub mod context;
pub mod controller;
pub mod effects;
#[cfg(feature = "server")]
pub mod health;
pub mod leader;
pub mod metrics;
pub mod problem;
pub mod queue;
pub mod read;
pub mod readiness;
pub mod rights;
pub mod sets;
pub mod store;
pub mod wakes;

pub use context::{Clock, Context};
