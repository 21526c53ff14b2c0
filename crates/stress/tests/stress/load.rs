//! `pillion-stress load` as a process. It starts `pillion`, which cargo builds for the tests of its own package: run
//! `make pillion` before these tests alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pillion_testkit::module;
use serde_json::Value;

const STRESS: &str = env!("CARGO_BIN_EXE_pillion-stress");

/// Returns the path of this build's `pillion`.
fn pillion() -> PathBuf {
    let program = Path::new(STRESS).with_file_name(format!("pillion{}", std::env::consts::EXE_SUFFIX));
    assert!(program.exists(), "{} is missing: make pillion", program.display());
    program
}

fn load(args: &[&str]) -> Command {
    let mut command = Command::new(STRESS);
    command.arg("load").arg("--module").arg(module::path()).args(args);
    command
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn every_answer_is_there_and_right() {
    pillion();
    let (code, out, err) = texts(&load(&["--reviews", "300", "--concurrency", "8", "-o", "json"]).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (report["reviews"].as_u64(), report["lost"].as_u64(), report["wrong"].as_u64()),
        (Some(300), Some(0), Some(0))
    );
    let latency = |name: &str| report["latencyMilliseconds"][name].as_f64().unwrap();
    assert!(latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
    assert!(report["memoryBytes"]["peak"].as_u64() >= report["memoryBytes"]["end"].as_u64());
}

/// Every row is another server, which this program starts.
#[test]
fn numbers_of_sidecar_sets_make_a_table() {
    pillion();
    let wanted = ["--sidecar-sets", "1,10", "--settings-form", "manifests,bundle", "--check", "around"];
    let shape = ["--reviews", "40", "--concurrency", "4", "--connections", "2"];
    let (code, out, err) = texts(&load(&[&wanted[..], &shape, &["-o", "json"]].concat()).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let rows: Value = serde_json::from_str(&out).unwrap();
    let servers: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| (row["sidecarSets"].as_u64(), row["server"].as_str())).collect();
    let server = |count, form| (Some(count), Some(form));
    let (manifests, bundle) = ("pillion serve, manifests", "pillion serve, bundle");
    assert_eq!(servers, [server(1, manifests), server(1, bundle), server(10, manifests), server(10, bundle)]);
    for row in rows.as_array().unwrap() {
        let count = |name: &str| row[name].as_u64().unwrap();
        // One kind of review, before and after.
        assert_eq!((count("reviews"), count("checked"), count("lost"), count("wrong")), (40, 2, 0, 0), "{row}");
        assert_eq!((row["protocol"].as_str(), count("connections"), count("otherOperations")), (Some("HTTP/2"), 2, 0));
        if cfg!(target_os = "linux") {
            assert!(row["cpuMicrosecondsPerReview"]["server"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["memoryBytes"]["peak"].as_u64().unwrap() > 1_000_000, "{row}");
        }
    }
}

#[test]
fn a_table_takes_the_place_of_the_older_one_in_a_document() {
    pillion();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figures.md");
    let document = "# Figures\n\n<!-- load: `make bench-load-docs` writes it -->\nold\n<!-- end of load -->\nafter\n";
    std::fs::write(&path, document).unwrap();
    let args = ["--sidecar-sets", "1", "--check", "around", "--reviews", "10", "--concurrency", "2", "--docs"];
    let (code, out, err) = texts(&load(&args).arg(&path).output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, document.replace("old\n", &format!("\n{out}\n")));
    assert!(out.contains("| 1           | pillion serve, manifests | "), "{out}");
}

#[test]
fn other_servers_get_the_same_sidecar_sets() {
    let print = |args: &[&str]| {
        let (code, out, err) = texts(&load(args).output().unwrap());
        (code, serde_json::from_str::<Value>(&out).unwrap_or_default(), err)
    };
    let (code, list, _) = print(&["--sidecar-sets", "10", "--print", "sidecar-sets"]);
    assert_eq!((code, list["kind"].as_str(), list["items"].as_array().unwrap().len()), (Some(0), Some("List"), 10));
    let (code, settings, _) = print(&["--sidecar-sets", "10", "--print", "settings"]);
    assert_eq!((code, &settings["sidecarSets"]), (Some(0), &list["items"]));
    let bundle = ["--sidecar-sets", "10", "--settings-form", "bundle", "--print"];
    let (code, settings, _) = print(&[&bundle[..], &["settings"]].concat());
    assert!(code == Some(0) && settings["bundle"].is_string(), "{settings}");
    let (code, _, err) = print(&[&bundle[..], &["sidecar-sets"]].concat());
    assert!(code == Some(2) && err.contains("--print settings"), "{err}");
    let (code, _, err) = print(&["--sidecar-sets", "1,10", "--print", "settings"]);
    assert!(code == Some(2) && err.contains("one number"), "{err}");
}

/// The server has other settings than those that its answers are compared with.
#[test]
fn wrong_answers_are_told() {
    let script = r#"
        "$0" serve --config test_data/serve.yaml --ca-file "$1/ca.crt" --log-format json 2> "$1/log" &
        trap 'kill $!' EXIT
        until address=$(grep -o '127.0.0.1:[0-9]*' "$1/log"); do sleep 0.1; done
        "$2" load --module "$3" --url "https://$address" --ca "$1/ca.crt" --reviews 50 --concurrency 2"#;
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("bash")
        .args(["-c", script])
        .args([pillion().as_path(), folder.path(), Path::new(STRESS), &module::path()])
        .current_dir(module::workspace())
        .output()
        .unwrap();
    let (code, out, err) = texts(&output);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("answers     0 lost, ") && !out.contains("0 lost, 0 wrong"), "{out}");
    assert!(err.contains("warning: ") && err.contains("answers {"), "{err}");
}

#[test]
fn without_a_server_there_is_nothing_to_measure() {
    let (code, _, err) = texts(&load(&["--url", "https://127.0.0.1:1", "--ca", "ca.crt"]).output().unwrap());
    assert!(code == Some(2) && err.contains("ca.crt"), "{err}");
    let (code, _, err) = texts(&load(&["--url", "https://127.0.0.1:1"]).output().unwrap());
    assert!(code == Some(2) && err.contains("--ca"), "{err}");
    let (code, _, err) = texts(&load(&["--pillion", "nowhere/pillion"]).output().unwrap());
    assert!(code == Some(2) && err.contains("nowhere/pillion is missing"), "{err}");
    let (code, _, err) = texts(&load(&["--url", "http://127.0.0.1:1", "--sidecar-sets", "1,10"]).output().unwrap());
    assert!(code == Some(2) && err.contains("one number of SidecarSets"), "{err}");
    let (code, _, err) = texts(&load(&["--url", "http://127.0.0.1:1"]).output().unwrap());
    assert!(code == Some(2) && err.contains("cannot connect to 127.0.0.1:1"), "{err}");
    if cfg!(target_os = "linux") {
        let args = ["--url", "http://127.0.0.1:1", "--pid", "4294967295"];
        let (code, _, err) = texts(&load(&args).output().unwrap());
        assert!(code == Some(2) && err.contains("--pid 4294967295: there is no such process"), "{err}");
    }
}
