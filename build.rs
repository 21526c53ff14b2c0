//! How the module is linked.
#![allow(clippy::print_stdout, reason = "a build script tells cargo by its output")]

/// Arguments of wasm-ld for the module that is released.
const ARGUMENTS: [&str; 3] = [
    // The linker leaves five bytes for every address and every index of a function, most of which need two or three.
    // This writes them anew, which makes the module a tenth smaller. It needs debug information to be gone (names of
    // functions may stay).
    "--compress-relocations",
    "--strip-debug",
    // The stack stands before the data. With one of 896 KiB instead of 1 MiB, data is below 2^20, and its addresses
    // take three bytes instead of four.
    "-zstack-size=917504",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, expected: &str| std::env::var(variable).is_ok_and(|value| value == expected);
    if is("CARGO_CFG_TARGET_FAMILY", "wasm") && is("PROFILE", "release") {
        for argument in ARGUMENTS {
            println!("cargo::rustc-link-arg-cdylib={argument}");
        }
    }
}
