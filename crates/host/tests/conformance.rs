//! Recorded outcomes of OpenKruise, through the built module.
#![allow(missing_docs, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

use std::io::Write as _;

use pillion_testkit::conformance::{self, judge};
use pillion_testkit::module;

#[test]
fn recorded_admissions_agree() {
    let Some(file) = conformance::file() else {
        let _ = writeln!(std::io::stderr(), "conformance: skipped, there is no shared/conformance/admission.jsonl");
        return;
    };
    let cases = conformance::cases(&file);
    assert!(!cases.is_empty(), "{} holds no cases", file.display());
    let (mut plain, mut tagged, mut wrong) = ([0, 0], [0, 0], Vec::new());
    for case in &cases {
        let count = if case.tags().is_empty() { &mut plain } else { &mut tagged };
        count[1] += 1;
        let judged = case.run(module()).map_err(|error| error.to_string()).and_then(|answer| judge(case, &answer));
        match judged {
            Ok(()) => count[0] += 1,
            Err(problem) => wrong.push(format!("{} {:?}: {problem}", case.id(), case.tags())),
        }
    }
    // Not `println!`, which the test runner swallows where all is well: the count is part of the result.
    let _ = writeln!(
        std::io::stderr(),
        "conformance: {} of {} agree ({} of {} untagged, {} of {} tagged)",
        plain[0] + tagged[0],
        cases.len(),
        plain[0],
        plain[1],
        tagged[0],
        tagged[1]
    );
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
