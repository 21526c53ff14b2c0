//! Rollouts and isolated tokens while nodes, the API server or the controllers fail. Everything runs in containers, the
//! controllers too.
#![cfg(target_os = "linux")]

mod installation;
mod scene;
mod tests;
