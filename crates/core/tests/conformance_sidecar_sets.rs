//! Recorded admissions of `SidecarSet`s: the decision, the fields of the errors and the object must be the
//! reference's, but for the rows of the compatibility table.
//!
//! Reads `shared/conformance/admission.jsonl` from the nearest ancestor of this crate that has it, or the file that
//! `PILLION_CONFORMANCE` names.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "a test: what does not hold must stop it"
)]

mod conformance;

use std::path::PathBuf;

use conformance::{Case, compare, fields};
use pillion_core::outcome::{Code, Verdict};

fn file() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PILLION_CONFORMANCE") {
        return Some(path.into());
    }
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().map(|root| root.join("shared/conformance/admission.jsonl")).find(|path| path.exists())
}

#[test]
fn recorded_admissions_of_sidecar_sets() {
    let Some(file) = file() else {
        println!("skipped: no shared/conformance/admission.jsonl above {}", env!("CARGO_MANIFEST_DIR"));
        return;
    };
    let text = std::fs::read_to_string(&file).unwrap();
    let cases = text.lines().map(Case::parse);
    let (mut total, mut wrong) = (0, Vec::new());
    for case in cases.filter(|case| case.target == "sidecarset-admit") {
        total += 1;
        if let Err(difference) = check(&case) {
            wrong.push(format!("{} {:?}: {difference}", case.id, case.tags));
        }
    }
    println!("{} of {total} agree ({})", total - wrong.len(), file.display());
    assert!(total > 0, "{} holds no admissions of SidecarSets", file.display());
    assert!(wrong.is_empty(), "{} of {total} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(case: &Case) -> Result<(), String> {
    let outcome = case.admit();
    let theirs = fields::of_reference(case);
    match (&outcome.verdict, case.expect.allowed) {
        // The decoder's errors and crashes have no path to compare.
        (Verdict::Refused(refusal), false)
            if fields::is_crash(case) || (fields::is_decoding(case) && refusal.code() == Code::Undecodable) =>
        {
            Ok(())
        }
        (Verdict::Refused(refusal), _) => {
            let ours: Vec<_> = refusal.reasons().collect();
            fields::compare(case, &theirs, &ours)
        }
        (_, false) if !theirs.is_empty() => Err(format!("accepted, the reference says {}", case.expect.message)),
        (_, false) if fields::is_decoding(case) => Err(format!("accepted, the reference says {}", case.expect.message)),
        // Whatever the reference refuses for was a row of the table.
        (_, false) => Ok(()),
        (verdict, true) => {
            let object = match verdict {
                Verdict::Mutated(object) => object,
                _ => &case.request.object,
            };
            match &case.expect.object {
                Some(expected) => compare::objects(expected, object, &case.unknown()),
                None if *object == case.request.object => Ok(()),
                None => Err("changed, the reference leaves it as it is".to_owned()),
            }
        }
    }
}
