//! No input costs more than its length (`serviceaccounts.md` E18), on the module that is released.
//!
//! It needs the module that `PILLION_MODULE` names, as `tests/fuel.rs` does.

use std::env;
use std::fs;
use std::time::Instant;

use pillion_bench::cost::{samples, survey};
use pillion_bench::engine::Counter;

fn counter() -> Option<Counter> {
    let Some(module) = env::var_os("PILLION_MODULE").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: PILLION_MODULE names no module; `make test` does");
        return None;
    };
    let bytes = fs::read(&module).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    Some(Counter::bounded(&bytes, survey::BOUNDS).unwrap())
}

#[test]
fn e18_each_list_map_and_text_alone() {
    let Some(counter) = counter() else { return };
    let start = Instant::now();
    let inputs = samples::all(&counter).unwrap();
    eprintln!("{} samples after {:?}", inputs.len(), start.elapsed());
    let cases = survey::each(&inputs);
    eprintln!("{} cases", cases.len());
    let only = env::var("ONLY").unwrap_or_default();
    let cases: Vec<_> = cases.into_iter().filter(|case| case.name().contains(&only)).collect();
    let found = survey::survey(&cases, |case| {
        let found = case.judge(&counter, 200);
        if let Some(f) = &found { eprintln!("{:?} {f}", start.elapsed()); }
        found
    });
    eprintln!("{:?}", start.elapsed());
    assert!(found.is_empty(), "{} findings", found.len());
}
