//! Tests of reports and of the promises they are compared with.

use rstest::rstest;

use super::goals::{Goal, Slope, goals, slope};
use super::*;

fn times(microseconds: f64) -> Times {
    let median = microseconds * 1e3;
    Times { median, p10: median * 0.9, p90: median * 1.1, samples: 7 }
}

/// Returns a row with the same times in all modes: of our module, and of the other one with empty settings and with the
/// same settings.
fn timed(scenario: &str, [policy, empty, same]: [f64; 3]) -> Row {
    let work = Work { start: 0, call: 1_000, memory: 2_000_000, grown: 0, payload: 10, answer: 20, host_calls: 0 };
    let compared = |mode| Comparison { mode, policy: times(policy), empty: times(empty), same: times(same) };
    let times = [Mode::Warm, Mode::Kwctl, Mode::Fresh].map(compared).to_vec();
    Row { scenario: scenario.to_owned(), settings: 100, policy: work.clone(), baseline: work, times }
}

fn report(rows: Vec<Row>) -> Report {
    let module = Module { bytes: 399_000, compile: 1_000_000, instance: times(30.0) };
    let (machine, revision) = ("a machine".to_owned(), "0123456789".to_owned());
    Report { machine, revision, budget: Duration::from_millis(1), policy: module, baseline: module, rows }
}

fn goal(rows: Vec<Row>, beginning: &str) -> Option<Goal> {
    goals(&report(rows)).into_iter().find(|goal| goal.what.starts_with(beginning))
}

#[test]
fn rows_are_found_by_their_scenario_and_times_by_their_mode() {
    let mut row = timed("pod/bundle/1/1", [1.0, 2.0, 3.0]);
    row.times.truncate(1);
    let report = report(vec![timed("pod/bundle/1/10", [4.0, 5.0, 6.0]), row]);
    let found = report.row("pod/bundle/1/1").unwrap();
    assert_eq!(found.timed(Mode::Warm).map(|times| times.policy), Some(times(1.0)));
    assert_eq!(found.timed(Mode::Fresh), None);
    assert!(report.row("pod/bundle/1").is_none());
}

#[rstest]
#[case::at_the_limit(85.0, true)]
#[case::above_it(85.1, false)]
fn the_limit_of_a_hundred_sets_grows_with_the_policy_that_accepts_everything(#[case] policy: f64, #[case] kept: bool) {
    for way in ["warm, the module alone, a bundle of 100, 1 matching: 1.5", "warm, as kwctl bench"] {
        // The time with the same settings is longer, and does not count.
        let goal = goal(vec![timed("pod/bundle/100/1", [policy, 50.0 / 3.0, 90.0])], way).unwrap();
        assert!((goal.limit - 85.0).abs() < 1e-9 && (goal.found - policy).abs() < 1e-9, "{goal:?}");
        assert_eq!((goal.holds(), goal.unit), (kept, "µs"));
    }
}

#[rstest]
#[case(1, 90.0)]
#[case(100, 230.0)]
#[case(1_000, 700.0)]
fn every_size_stays_below_openkruise(#[case] sets: usize, #[case] limit: f64) {
    let what = format!("warm, the module alone, a bundle of {sets}, 1 matching");
    let goal_for = |policy| {
        let all = goals(&report(vec![timed(&format!("pod/bundle/{sets}/1"), [policy, 10.0, 10.0])]));
        all.into_iter().find(|goal| goal.what == what).unwrap()
    };
    assert!(goal_for(limit).holds() && !goal_for(limit + 0.1).holds());
    let reference = goals::OPENKRUISE.into_iter().find(|(of, _)| *of == sets).unwrap().1;
    assert!(limit < reference, "{limit} of {reference}");
}

#[rstest]
#[case("bundle")]
#[case("bundle-ref")]
fn a_fresh_instance_is_held_against_empty_settings(#[case] form: &str) {
    let goal_for = |policy| {
        goal(vec![timed(&format!("pod/{form}/1000/1"), [policy, 100.0, 900.0])], &format!("fresh, a {form} of 1,000"))
    };
    assert!(goal_for(200.0).unwrap().holds() && !goal_for(200.1).unwrap().holds());
    assert_eq!(goal_for(200.0).unwrap().unit, "×");
}

#[test]
fn one_more_set_is_a_nine_hundredth_of_what_lies_between_a_hundred_and_a_thousand() {
    let few = timed("pod/bundle/100/0", [30.0, 17.0, 30.0]);
    let mut many = timed("pod/bundle/1000/0", [120.0, 17.0, 48.0]);
    many.policy.call = 901_000;
    many.settings = 360_100;
    let rows = vec![few, many];
    let measured = slope(&report(rows.clone()), "bundle", Mode::Warm).unwrap();
    assert_eq!(measured, Slope { policy: 100.0, baseline: 20.0, instructions: 1_000.0, bytes: 400.0 });
    let goal = goal(rows.clone(), "warm, one more set").unwrap();
    assert!((goal.found - 100.0).abs() < 1e-9 && goal.holds(), "{goal:?}");
    assert_eq!(slope(&report(rows), "sets", Mode::Warm), None);
}

#[test]
fn memory_has_a_limit() {
    let mut row = timed("pod/bundle/1000/10", [1.0; 3]);
    row.policy.memory = 8_000_001;
    let memory = goal(vec![row], "memory").unwrap();
    assert!(!memory.holds() && (memory.limit - 8.0).abs() < 1e-9, "{memory:?}");
}

#[test]
fn of_what_was_not_measured_nothing_is_said() {
    assert_eq!(goals(&report(Vec::new())), []);
}

/// A policy that accepts everything, in WebAssembly's text format.
const ACCEPTS: &str = r#"(module
  (import "wapc" "__guest_response" (func $respond (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 1024) "{\"accepted\":true}")
  (func (export "__guest_call") (param i32 i32) (result i32)
    (call $respond (i32.const 1024) (i32.const 17)) (i32.const 1)))"#;

/// A report compiles its modules half a dozen times, so the policy's own module is measured only with `PILLION_WHOLE=1`.
#[rstest]
#[case::a_module_that_accepts_everything(false, "pod/empty/2k")]
#[case::the_policy(true, "feature/plain")]
fn a_measured_report_has_a_row_for_each_scenario_and_all_modes(#[case] is_policy: bool, #[case] name: &str) {
    if is_policy && !pillion_testkit::sample::is_whole() {
        eprintln!("skipped: PILLION_WHOLE=1 runs it");
        return;
    }
    let module =
        if is_policy { std::fs::read(pillion_testkit::module::path()).unwrap() } else { ACCEPTS.as_bytes().to_vec() };
    let scenarios: Vec<Scenario> =
        crate::scenario::all().into_iter().filter(|scenario| scenario.name() == name).collect();
    let (modes, mut progress) = ([Mode::Warm, Mode::Fresh], Vec::new());
    let budget = Duration::from_millis(1);
    let report = Report::measure(
        &scenarios,
        Modules { policy: &module, baseline: ACCEPTS.as_bytes() },
        &modes,
        budget,
        &mut progress,
    )
    .unwrap();
    assert_eq!(String::from_utf8(progress).unwrap(), format!("1 of 1: {name}\n"));
    assert_eq!((report.rows.len(), report.policy.bytes, report.budget), (1, module.len(), budget));
    let row = report.row(name).unwrap();
    assert_eq!(row.policy == row.baseline, !is_policy, "{row:?}");
    assert!(row.policy.call > 0 && row.settings > 0, "{row:?}");
    for mode in modes {
        let times = row.timed(mode).unwrap();
        assert!(times.policy.samples > 0 && times.policy.p10 <= times.policy.p90, "{times:?}");
    }
    assert_eq!(row.timed(Mode::Kwctl), None);
}

#[test]
fn what_is_no_module_is_no_report() {
    let modules = Modules { policy: b"no module", baseline: b"no module" };
    assert!(Report::measure(&[], modules, &[Mode::Warm], Duration::from_millis(1), &mut Vec::new()).is_err());
}
