//! Guards against regressions: compares instructions and memory of some evaluations with `fuel.txt`.
//!
//! The test needs the released module. Without `PILLION_MODULE` there is only the module that cargo builds for tests,
//! without link-time optimization. Its numbers differ, so the test is skipped.

use std::env;
use std::fs;
use std::path::Path;

use pillion_bench::engine::Counter;
use pillion_bench::limits::{Limit, Limits};
use pillion_bench::measure::Counters;
use pillion_bench::scenario;

const RENEW: &str =
    "make policy.wasm && PILLION_RENEW=1 PILLION_MODULE=$PWD/policy.wasm cargo test --workspace --test bench fuel::";

#[test]
fn an_evaluation_takes_what_the_table_says() {
    let Some(module) = env::var_os("PILLION_MODULE").filter(|path| !path.is_empty()) else {
        eprintln!("skipped: PILLION_MODULE names no module; `make test` does");
        return;
    };
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuel.txt");
    let expected = Limits::parse(&fs::read_to_string(&table).unwrap()).unwrap();
    let bytes = fs::read(&module).unwrap_or_else(|error| panic!("{}: {error}", module.display()));
    let counters = Counters { policy: Counter::compile(&bytes).unwrap(), baseline: None };
    let mut measured = Limits::default();
    for scenario in scenario::all() {
        if expected.rows.iter().any(|(name, _)| name == scenario.name()) {
            let (work, _) = counters.count(&scenario, &scenario.input()).unwrap();
            measured.rows.push((scenario.name().to_owned(), Limit::from(&work)));
        }
    }
    if env::var_os("PILLION_RENEW").is_some() {
        fs::write(&table, measured.to_string()).unwrap();
        return;
    }
    let problems = expected.compare(&measured);
    assert!(problems.is_empty(), "{}\n\nWhere that is meant: {RENEW}", problems.join("\n"));
}

#[test]
fn the_same_evaluation_takes_the_same_every_time() {
    let bytes = fs::read(pillion_testkit::module::path()).unwrap();
    let counters = Counters { policy: Counter::compile(&bytes).unwrap(), baseline: None };
    let scenario = scenario::all().into_iter().find(|scenario| scenario.name() == "feature/service-account").unwrap();
    let counts = || counters.count(&scenario, &scenario.input()).unwrap().0;
    let first = counts();
    assert_eq!(counts(), first);
    assert!(first.call > 0 && first.host_calls > 0, "{first:?}");
}
