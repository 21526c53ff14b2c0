//! How the module is linked.
#![allow(clippy::print_stdout, reason = "a build script tells cargo by its output")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        // The linker leaves five bytes for every address and every index of a function, most of which need two or
        // three; this writes them anew, a sixth of the whole module.
        println!("cargo::rustc-link-arg-cdylib=--compress-relocations");
        // The stack stands before the data. With one of 896 KiB instead of 1 MiB, data is below 2^20, and its addresses
        // take three bytes instead of four.
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=917504");
    }
}
