//! Nothing of a real node is left, however it ends: no process, mount, cgroup or namespace.
#![cfg(target_os = "linux")]

mod machine;
mod tests;
mod traces;
