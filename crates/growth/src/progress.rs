//! What happens, for whoever waits.

use std::io::Write as _;

/// Tells what happens, on stderr.
pub fn tell(text: &str) {
    // Nobody reads it any longer.
    let _ = writeln!(std::io::stderr(), "{text}");
}
