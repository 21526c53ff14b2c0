//! The workflows: actions are pinned, scripts and targets exist, steps that run without GitHub are scripts, and a release
//! becomes public last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use crate::support::files::{root, text};

/// Returns the paths of all workflows.
fn workflows() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join(".github/workflows"))
        .unwrap()
        .map(|entry| format!(".github/workflows/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    names.sort();
    names
}

/// Returns the jobs of a workflow by name.
fn jobs(workflow: &str) -> BTreeMap<String, Value> {
    let workflow = super::workflow(workflow);
    workflow["jobs"].as_object().unwrap().iter().map(|(name, job)| (name.clone(), job.clone())).collect()
}

fn steps(job: &Value) -> impl Iterator<Item = &Value> {
    job["steps"].as_array().into_iter().flatten()
}

/// Returns the names of the jobs that a job waits for, itself included.
fn awaited(jobs: &BTreeMap<String, Value>, name: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([name.to_owned()]);
    let needs = match &jobs[name]["needs"] {
        Value::String(one) => vec![one.clone()],
        Value::Array(several) => several.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
        _ => Vec::new(),
    };
    for name in needs {
        all.extend(awaited(jobs, &name));
    }
    all
}

/// Returns each line that a step of a job runs.
fn lines(job: &Value) -> Vec<String> {
    let runs = steps(job).filter_map(|step| step["run"].as_str());
    runs.flat_map(str::lines).map(|line| line.trim().to_owned()).collect()
}

#[test]
fn actions_are_pinned_by_commit_and_named_by_version() {
    for workflow in workflows() {
        for line in text(&workflow).lines() {
            let Some((_, action)) = line.split_once("uses: ") else { continue };
            let (action, comment) = action.split_once(" # ").unwrap_or((action, ""));
            if action.starts_with("./") {
                assert!(root().join(action).is_file(), "{workflow}: {action}");
                continue;
            }
            let (_, commit) = action.split_once('@').unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
            assert!(is_commit && comment.starts_with('v'), "{workflow}: {line}");
        }
    }
}

/// The same action has the same commit everywhere.
#[test]
fn an_action_has_one_version() {
    let mut commits: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for workflow in workflows() {
        for line in text(&workflow).lines() {
            if let Some((action, commit)) = line.split_once("uses: ").and_then(|(_, action)| action.split_once('@')) {
                commits.entry(action.to_owned()).or_default().insert(commit.to_owned());
            }
        }
    }
    commits.retain(|_, commits| commits.len() > 1);
    assert_eq!(commits, BTreeMap::new());
}

/// Steps that do not need GitHub are scripts or targets, which tests and people can run.
#[test]
fn a_step_runs_few_lines_and_scripts_that_exist() {
    for (workflow, name, job) in all_jobs() {
        let place = format!("{workflow}, {name}");
        for run in steps(&job).filter_map(|step| step["run"].as_str()) {
            assert!(run.lines().count() <= 4, "{place}: make a script of it: {run}");
            assert!(!run.contains("${{"), "{place}: a template in a script can be code of somebody else: {run}");
        }
        for word in lines(&job).iter().flat_map(|line| line.split([' ', '(', '"', '$'])) {
            if word.starts_with(".ci/") && Path::new(word).extension().is_none() {
                let path = root().join(word);
                let mode = fs::metadata(&path).unwrap_or_else(|error| panic!("{place}: {word}: {error}")).permissions();
                assert!(mode.mode() & 0o111 != 0, "{place}: {word} cannot be executed");
            }
        }
        for line in lines(&job).iter().filter(|line| line.starts_with("make ")) {
            for target in line.split(' ').skip(1).filter(|word| !word.contains('=')) {
                assert!(text("Makefile").contains(&format!("\n{target}:")), "{place}: no target {target}");
            }
        }
    }
}

fn all_jobs() -> Vec<(String, String, Value)> {
    let of = |workflow: &String| {
        let workflow = workflow.clone();
        jobs(&workflow).into_iter().map(move |(name, job)| (workflow.clone(), name, job))
    };
    workflows().iter().flat_map(of).collect()
}

#[test]
fn every_job_has_a_limit_and_its_rights() {
    for (workflow, name, job) in all_jobs() {
        assert!(job["permissions"].is_object(), "{workflow}, {name}: permissions");
        assert!(job["timeout-minutes"].is_number() || job["uses"].is_string(), "{workflow}, {name}: timeout-minutes");
    }
}

/// One job builds the module; the others download it, and `BUILT_MODULE` or `PILLION_MODULE` names it.
#[test]
fn the_module_is_built_once() {
    let mut builders = Vec::new();
    for workflow in [".github/workflows/ci.yml", ".github/workflows/release.yml"] {
        for (name, job) in jobs(workflow) {
            let commands = lines(&job);
            let uses_module = commands.iter().any(|line| {
                [".ci/run", ".ci/release/build", "make annotated", "cargo build"].iter().any(|it| line.starts_with(it))
            }) || steps(&job).any(|step| step["with"]["file"] == "Containerfile");
            let downloads =
                steps(&job).any(|step| step["with"]["name"] == "module" && step["with"]["retention-days"].is_null());
            assert!(!uses_module || downloads, "{workflow}, {name} builds a module of its own");
            if commands.iter().any(|line| line.contains("policy.wasm reproducible")) {
                builders.push(name);
            }
        }
    }
    assert_eq!(builders, ["module"]);
    // The image takes it as it is.
    let containerfile = text("Containerfile");
    assert!(!containerfile.lines().any(|line| !line.starts_with('#') && line.contains("make policy.wasm")));
    assert!(containerfile.contains("RUN .ci/release/build "));
    assert_eq!(text(".dockerignore").lines().last(), Some("!policy.wasm"));
}

/// Jobs that use the module compare it with what CI has tested.
#[test]
fn the_module_is_compared_before_it_is_used() {
    for name in ["annotate", "files", "image", "programs"] {
        let commands = lines(&jobs(".github/workflows/release.yml")[name]);
        let compared = commands.iter().position(|line| line.starts_with(".ci/same \"$DIGEST\" ")).expect(name);
        let used = commands.iter().position(|line| line.starts_with("make ") || line.starts_with(".ci/release/"));
        assert!(used.is_none_or(|used| compared < used), "{name}");
    }
    let ci = super::workflow(".github/workflows/ci.yml");
    let output = &ci["on"]["workflow_call"]["outputs"]["module-digest"]["value"];
    assert_eq!(output, "${{ jobs.module.outputs.digest }}");
}

/// The job that may publish the site runs no code of the repository, and the job that runs code may publish nothing.
#[test]
fn the_site_is_built_without_rights_and_published_without_code() {
    let jobs = jobs(".github/workflows/site.yml");
    assert_eq!(jobs["build"]["permissions"], serde_json::json!({"contents": "read"}));
    assert_eq!(lines(&jobs["build"]), ["make site"]);
    let folder = steps(&jobs["build"]).find_map(|step| step["with"]["path"].as_str()).unwrap();
    assert!(text("crates/site/book.toml").contains(&format!("build-dir = \"{folder}\"")), "{folder}");
    assert_eq!(jobs["publish"]["permissions"], serde_json::json!({"pages": "write", "id-token": "write"}));
    assert_eq!(jobs["publish"]["if"], "github.ref == 'refs/heads/main'");
    assert_eq!(lines(&jobs["publish"]), [""; 0]);
    assert_eq!(steps(&jobs["publish"]).count(), 1);
}

/// Only the last job but one makes something public on GitHub, and it waits for all others.
#[test]
fn a_release_becomes_public_last() {
    let jobs = jobs(".github/workflows/release.yml");
    let before = awaited(&jobs, "publish");
    let all: BTreeSet<String> = jobs.keys().filter(|name| *name != "artifacthub").cloned().collect();
    assert_eq!(before, all);
    assert!(awaited(&jobs, "artifacthub").contains("publish"));
    for (name, job) in &jobs {
        let writes = job["permissions"]["contents"] == "write";
        assert_eq!(writes, ["publish", "artifacthub"].contains(&name.as_str()), "{name}");
        let publishes = lines(job).iter().any(|line| line.contains(".ci/release/publish"));
        assert_eq!(publishes, name == "publish", "{name}");
    }
    // Nothing gets a name in a registry before everything is built and tested.
    for name in ["policies", "image-manifest", "chart"] {
        let before = awaited(&jobs, name);
        for built in ["ci", "programs", "image", "annotate", "sbom"] {
            assert!(before.contains(built), "{name} does not wait for {built}");
        }
    }
}
