//! The policy module built into the binary.

use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use pillion_host::{CodeCache, Module};

/// The module that `build.rs` found or built.
pub const BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/policy.wasm"));

/// How long a module may take to load before people are told what takes so long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Loads the built-in module. Keeps compiled code in the user's cache folder.
///
/// # Errors
/// If the module does not compile, which only a broken build causes.
pub fn load() -> anyhow::Result<Module> {
    Module::load(BYTES).context("the built-in module")
}

/// Calls `load`, which compiles a module. If that takes a while, writes to `err` what the wait is for, and whether the next
/// run will wait, too.
///
/// # Errors
/// If `err` takes no more.
pub fn with_notice<T: Send>(err: &mut dyn Write, load: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let (done, loaded) = mpsc::channel();
        scope.spawn(move || {
            // This fails only if `err` takes no more, and nobody waits.
            let _ = done.send(load());
        });
        match loaded.recv_timeout(PATIENCE) {
            Ok(module) => return Ok(module),
            Err(mpsc::RecvTimeoutError::Timeout) => writeln!(err, "{}", notice(CodeCache::folder().as_deref()))?,
            // `recv` below says so.
            Err(mpsc::RecvTimeoutError::Disconnected) => {}
        }
        loaded.recv().map_err(|_| io::Error::other("the module could not be compiled"))
    })
}

fn notice(folder: Option<&std::path::Path>) -> String {
    match folder {
        Some(folder) => {
            format!("compiling the policy module, once; the compiled code is kept in {}", folder.display())
        }
        None => "compiling the policy module; the next run compiles it again, since the user's cache folder cannot be \
                 written"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_explained_once() {
        let mut err = Vec::new();
        let loaded = with_notice(&mut err, || {
            thread::sleep(PATIENCE.saturating_mul(2));
            7
        });
        assert_eq!(loaded.unwrap(), 7);
        let said = String::from_utf8(err).unwrap();
        assert!(said.starts_with("compiling the policy module") && said.lines().count() == 1, "{said}");
    }

    #[test]
    fn a_module_that_is_there_at_once_needs_no_word() {
        let mut err = Vec::new();
        assert_eq!(with_notice(&mut err, || 7).unwrap(), 7);
        assert_eq!(err, b"");
    }

    #[test]
    fn the_notice_says_whether_the_next_run_waits_too() {
        let kept = notice(Some(std::path::Path::new("/home/me/.cache/wasmtime")));
        assert!(kept.contains("once") && kept.ends_with("/home/me/.cache/wasmtime"), "{kept}");
        assert!(notice(None).contains("the next run compiles it again"));
    }
}
