//! SARIF, as code scanning reads it.

use serde_json::{Value, json};

use super::support::{agent, check, folder, set};

/// Returns a log, and checks what SARIF 2.1.0 requires of one, and what GitHub requires in addition.
fn log(text: &str) -> Value {
    let log: Value = serde_json::from_str(text).unwrap();
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().unwrap().ends_with("sarif-schema-2.1.0.json"));
    let [run] = log["runs"].as_array().unwrap().as_slice() else { panic!("not one run: {log}") };
    let driver = &run["tool"]["driver"];
    assert_eq!((&driver["name"], &driver["semanticVersion"]), (&json!("pillion"), &json!(env!("CARGO_PKG_VERSION"))));
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        for text in ["shortDescription", "fullDescription", "help"] {
            assert!(rule[text]["text"].as_str().is_some_and(|text| text.ends_with('.')), "{rule}");
        }
        assert!(rule["helpUri"].as_str().is_some_and(|uri| uri.starts_with("https://")), "{rule}");
        assert_eq!(rules.iter().filter(|other| other["id"] == rule["id"]).count(), 1, "{rule}");
    }
    for result in run["results"].as_array().unwrap() {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let [location] = result["locations"].as_array().unwrap().as_slice() else { panic!("not one place: {result}") };
        let region = &location["physicalLocation"]["region"];
        let number = |key: &str| region[key].as_u64().unwrap();
        assert!(number("startLine") >= 1 && number("startColumn") >= 1, "{region}");
        assert!((number("startLine"), number("startColumn")) <= (number("endLine"), number("endColumn")), "{region}");
        assert!(
            result["partialFingerprints"]["primaryLocationLineHash"].as_str().is_some_and(|hash| hash.contains(':'))
        );
    }
    log
}

fn results(log: &Value) -> &[Value] {
    log["runs"][0]["results"].as_array().unwrap()
}

/// Returns rule, level, file and line of each result.
fn shown(log: &Value) -> Vec<String> {
    let shown = results(log).iter().map(|result| {
        let place = &result["locations"][0]["physicalLocation"];
        format!(
            "{} {} {}:{}:{}",
            result["ruleId"].as_str().unwrap(),
            result["level"].as_str().unwrap(),
            place["artifactLocation"]["uri"].as_str().unwrap(),
            place["region"]["startLine"],
            place["region"]["startColumn"]
        )
    });
    shown.collect()
}

const BROKEN: &str = "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata:\n  name: log-agent\nspec:\n  selector: \
                      {matchLabels: {a: b}}\n  updateStrategy: {type: Rolling}\n  containers:\n  - name: log-agent\n    \
                      image: \"\"\n    volumeMoutns: []\n";

#[test]
fn every_finding_is_a_result_with_a_rule_and_a_place() {
    let here = folder(&[("sets/a b.yaml", BROKEN)]);
    let answer = check(here.path(), &["-o", "sarif", "./sets"], "");
    assert_eq!(answer.code, 1);
    let log = log(&answer.out);
    assert_eq!(
        shown(&log),
        [
            "unsupported-value error sets/a%20b.yaml:7:26",
            "required-value error sets/a%20b.yaml:10:12",
            "unintended warning sets/a%20b.yaml:11:5",
        ]
    );
    let first = &results(&log)[0];
    assert_eq!(
        first["message"]["text"],
        "SidecarSet \"log-agent\": spec.updateStrategy.type: Unsupported value: \"Rolling\"; use one of \
         \"RollingUpdate\", \"NotUpdate\""
    );
    let location = &first["locations"][0];
    assert_eq!(location["logicalLocations"][0]["fullyQualifiedName"], "spec.updateStrategy.type");
    assert_eq!(location["physicalLocation"]["artifactLocation"]["uriBaseId"], "%SRCROOT%");
}

#[test]
fn nothing_wrong_is_a_log_without_results() {
    let here = folder(&[("a.yaml", &set("a", &agent("a")))]);
    let answer = check(here.path(), &["-o", "sarif", "a.yaml"], "");
    assert_eq!(answer.code, 0);
    assert!(results(&log(&answer.out)).is_empty());
}

#[test]
fn a_file_that_cannot_be_read_is_a_result_and_the_code_is_2() {
    let here = folder(&[("a.yaml", "a: [")]);
    let answer = check(here.path(), &["-o", "sarif", "a.yaml", "gone.yaml"], "");
    assert_eq!(answer.code, 2);
    assert_eq!(shown(&log(&answer.out)), ["unreadable error gone.yaml:1:1", "unreadable error a.yaml:1:4"]);
}

/// GitHub takes a finding for the same as before if the fingerprint is.
#[test]
fn a_finding_keeps_its_fingerprint_when_lines_are_added_above_it() {
    let fingerprints = |text: &str| {
        let here = folder(&[("a.yaml", text)]);
        let log = log(&check(here.path(), &["-o", "sarif", "a.yaml"], "").out);
        results(&log).iter().map(|result| result["partialFingerprints"].to_string()).collect::<Vec<_>>()
    };
    let before = fingerprints(BROKEN);
    assert_eq!(before.len(), 3);
    assert_eq!(before, fingerprints(&format!("# A comment.\n# Another one.\n{BROKEN}")));
    assert_ne!(before, fingerprints(&BROKEN.replace("Rolling", "Rolled")));
}

/// Files are named as in the repository, also if they are given by their whole path.
#[test]
fn a_whole_path_below_the_current_folder_is_shown_relative_to_it() {
    let here = folder(&[("sets/a.yaml", BROKEN)]);
    let whole = here.path().canonicalize().unwrap().join("sets/a.yaml");
    let answer = check(&here.path().canonicalize().unwrap(), &["-o", "sarif", whole.to_str().unwrap()], "");
    assert!(shown(&log(&answer.out)).iter().all(|line| line.contains(" sets/a.yaml:")), "{}", answer.out);
}
