//! Recorded outcomes of OpenKruise, through the built module.

use std::io::Write as _;
use std::path::Path;

use pillion_testkit::conformance;
use pillion_testkit::module;

#[test]
fn the_recorded_admissions_of_the_repository_agree() {
    all_agree(&conformance::own_file());
}

#[test]
fn all_recorded_admissions_agree() {
    let file = conformance::file();
    if file == conformance::own_file() {
        say("conformance: there are no more cases than those of the repository");
    } else {
        all_agree(&file);
    }
}

fn all_agree(file: &Path) {
    let cases = conformance::cases(file);
    assert!(!cases.is_empty(), "{} holds no cases", file.display());
    let (mut plain, mut tagged, mut wrong) = ([0, 0], [0, 0], Vec::new());
    for case in &cases {
        let count = if case.tags().is_empty() { &mut plain } else { &mut tagged };
        count[1] += 1;
        match conformance::judged(case, module()) {
            Ok(()) => count[0] += 1,
            Err(problem) => wrong.push(format!("{} {:?}: {problem}", case.id(), case.tags())),
        }
    }
    say(&format!(
        "conformance: {} of {} agree ({} of {} untagged, {} of {} tagged)",
        plain[0] + tagged[0],
        cases.len(),
        plain[0],
        plain[1],
        tagged[0],
        tagged[1]
    ));
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Writes to stdout directly, because the test runner hides captured output of tests that pass.
fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}
