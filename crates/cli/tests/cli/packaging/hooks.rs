//! The files that other repositories run: the GitHub Action and the hooks for pre-commit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use regex_lite::Regex;
use rstest::rstest;
use serde_json::Value;

use super::yaml;
use crate::support::files::{root, text};

const SOUND: &str = "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: a}\nspec:\n  selector: \
                     {matchLabels: {a: b}}\n  updateStrategy: {type: NotUpdate}\n  containers: [{name: c, image: \
                     \"registry.example.com/a:1.0\"}]\n";

fn broken() -> String {
    SOUND.replace("\"registry.example.com/a:1.0\"", "\"\"")
}

fn warned() -> String {
    SOUND.replace("{name: c,", "{name: c, imgae: x,")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

// --- the action

/// Runs a script of the action in a folder.
fn script(name: &str, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(root().join("tools/action").join(name))
        .current_dir(folder)
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the name of the archive for this machine.
fn archive() -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!("pillion-{os}-{machine}")
}

/// Makes a release in a folder: an archive with a program that prints its name, and the checksums.
fn release(folder: &Path, below: &str) {
    let name = archive();
    let (files, tree) = (folder.join(below), folder.join(&name));
    fs::create_dir_all(&files).unwrap();
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join("pillion"), "#!/bin/sh\necho pillion of the release\n").unwrap();
    let pack =
        format!("tar -czf {below}/{name}.tar.gz {name} && cd {below} && sha256sum {name}.tar.gz > checksums.txt");
    assert!(Command::new("bash").args(["-c", &pack]).current_dir(folder).status().unwrap().success());
}

#[rstest]
#[case::of_a_version("v0.1.0", "download/v0.1.0")]
#[case::the_latest("latest", "latest/download")]
fn the_program_of_a_release_is_installed(#[case] version: &str, #[case] below: &str) {
    let folder = tempfile::tempdir().unwrap();
    release(folder.path(), below);
    let releases = format!("file://{}", folder.path().display());
    let output = script("install", folder.path(), &[version, "bin"], &[("PILLION_RELEASES", &releases)]);
    assert!(output.status.success(), "{}", said(&output));
    let printed = Command::new(folder.path().join("bin/pillion")).output().unwrap().stdout;
    assert_eq!(printed, b"pillion of the release\n");
}

#[rstest]
#[case::another_archive("v0.1.0", "echo more >> download/v0.1.0/*.tar.gz", "nothing is installed")]
#[case::no_checksum("v0.1.0", "> download/v0.1.0/checksums.txt", "does not list")]
#[case::no_such_release("v9.9.9", "true", "is there a release v9.9.9?")]
#[case::no_version("main", "true", "write it as in v0.1.0, or latest")]
#[case::a_path("../v0.1.0", "true", "write it as in v0.1.0, or latest")]
fn nothing_else_is_installed(#[case] version: &str, #[case] damage: &str, #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    release(folder.path(), "download/v0.1.0");
    assert!(Command::new("bash").args(["-c", damage]).current_dir(folder.path()).status().unwrap().success());
    let releases = format!("file://{}", folder.path().display());
    let output = script("install", folder.path(), &[version, "bin"], &[("PILLION_RELEASES", &releases)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains(says), "{}", said(&output));
    assert!(!folder.path().join("bin").exists());
}

#[rstest]
#[case::sound(SOUND, "error", 0, (0, 0))]
#[case::broken(&broken(), "error", 1, (1, 0))]
#[case::broken_and_nobody_minds(&broken(), "never", 0, (1, 0))]
#[case::a_warning(&warned(), "error", 0, (0, 1))]
#[case::a_warning_that_counts(&warned(), "warning", 1, (0, 1))]
#[case::unreadable("a: [", "error", 1, (1, 0))]
fn the_step_fails_as_asked_for(
    #[case] set: &str,
    #[case] fail_on: &str,
    #[case] code: i32,
    #[case] (errors, warnings): (usize, usize),
) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("sets/more")).unwrap();
    fs::write(folder.path().join("sets/more/a b.yaml"), set).unwrap();
    let program = assert_cmd::cargo::cargo_bin!("pillion").to_str().unwrap();
    let variables =
        [("PATHS", "sets\n"), ("SARIF_FILE", "found.sarif"), ("FAIL_ON", fail_on), ("GITHUB_OUTPUT", "outputs")];
    let output = script("check", folder.path(), &[program], &variables);
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
    let outputs = fs::read_to_string(folder.path().join("outputs")).unwrap();
    assert_eq!(outputs, format!("sarif-file=found.sarif\nerrors={errors}\nwarnings={warnings}\n"));
    let sarif: Value = serde_json::from_slice(&fs::read(folder.path().join("found.sarif")).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), errors + warnings);
    let annotations = String::from_utf8(output.stdout).unwrap();
    assert_eq!(annotations.matches("::error file=sets/more/a b.yaml").count(), errors, "{annotations}");
}

#[test]
fn the_step_turns_rules_off() {
    let set = SOUND
        .replace("containers:", "volumes: [{name: v, emptyDir: {}}]\n  containers:")
        .replace("{name: c,", "{name: c, volumeMounts: [{name: v, mountPath: /v}],");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), set).unwrap();
    let program = assert_cmd::cargo::cargo_bin!("pillion").to_str().unwrap();
    for (disabled, code) in [("", 1), ("missing-request\nlocal-volume\n", 0)] {
        let variables = [("PATHS", "a.yaml"), ("FAIL_ON", "warning"), ("DISABLE", disabled)];
        let output = script("check", folder.path(), &[program], &variables);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{told}{}", said(&output));
        assert_eq!(told.contains("[local-volume]"), code == 1, "{told}");
    }
}

#[rstest]
#[case::no_such_path(&[("PATHS", "gone")], "gone")]
#[case::another_word(&[("FAIL_ON", "none")], "write error, warning or never")]
fn what_cannot_be_checked_always_fails(#[case] variables: &[(&str, &str)], #[case] says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = assert_cmd::cargo::cargo_bin!("pillion").to_str().unwrap();
    let variables = [&[("FAIL_ON", "never")], variables].concat();
    let output = script("check", folder.path(), &[program], &variables);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let all = said(&output) + &String::from_utf8_lossy(&output.stdout);
    assert!(all.contains(says), "{all}");
}

/// Expressions in a script would let an input run commands, so inputs reach scripts as variables.
#[test]
fn the_action_runs_its_scripts_and_passes_every_input() {
    let action = yaml("action.yml");
    let steps = action["runs"]["steps"].as_array().unwrap();
    let mut variables = String::new();
    for step in steps {
        let run = step["run"].as_str().unwrap();
        assert!(!run.contains("${{"), "{run}");
        let script = run.split('"').nth(1).and_then(|path| path.strip_prefix("$GITHUB_ACTION_PATH/")).unwrap();
        let mode = fs::metadata(root().join(script)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script} cannot be run");
        for (name, value) in step["env"].as_object().unwrap() {
            let code = text(script) + run;
            assert!(code.contains(&format!("${name}")) || code.contains(&format!("${{{name}")), "{script}: {name}");
            variables.push_str(value.as_str().unwrap());
        }
    }
    for (input, of) in action["inputs"].as_object().unwrap() {
        assert!(variables.contains(&format!("${{{{ inputs.{input} }}}}")), "{input} is not passed");
        assert!(of["default"].is_string() && of["description"].is_string(), "{input}");
    }
    for (output, of) in action["outputs"].as_object().unwrap() {
        assert_eq!(of["value"], format!("${{{{ steps.check.outputs.{output} }}}}"));
    }
    // The marketplace takes no longer description.
    assert!(action["description"].as_str().unwrap().len() < 125);
}

// --- pre-commit

fn hooks() -> Vec<Value> {
    serde_saphyr::from_str(&text(".pre-commit-hooks.yaml")).unwrap()
}

fn field<'a>(hook: &'a Value, key: &str) -> &'a str {
    hook[key].as_str().unwrap_or_else(|| panic!("no {key}: {hook}"))
}

#[rstest]
#[case::a_set("agents/sidecarset.yaml", true)]
#[case::sets("sidecarsets/log-agent.yml", true)]
#[case::another_spelling("sidecar-sets.yaml", true)]
#[case::settings("deploy/pillion/settings.json", true)]
#[case::a_policy("pillion-policy.yaml", true)]
#[case::something_else("deploy/deployment.yaml", false)]
#[case::a_document("pillion/README.md", false)]
#[case::a_folder_with_the_end("pillion/a.yaml/main.rs", false)]
#[case::a_template_of_a_chart("charts/pillion/templates/a.yaml", false)]
fn hooks_get_files_that_may_be_pillions(#[case] path: &str, #[case] is_passed: bool) {
    for hook in hooks() {
        let matches = |key: &str| Regex::new(field(&hook, key)).unwrap().is_match(path);
        assert_eq!(matches("files") && !matches("exclude"), is_passed, "{hook}");
    }
}

#[test]
fn the_hook_with_the_image_runs_this_version_and_otherwise_the_same() {
    let [system, image] = <[_; 2]>::try_from(hooks()).unwrap();
    assert_eq!((field(&system, "id"), field(&system, "language")), ("pillion-check", "system"));
    assert_eq!((field(&image, "id"), field(&image, "language")), ("pillion-check-image", "docker_image"));
    let arguments = field(&system, "entry").strip_prefix("pillion ").unwrap();
    let with = format!("ghcr.io/pillion/pillion:v{} {arguments}", env!("CARGO_PKG_VERSION"));
    assert_eq!(field(&image, "entry"), with);
    // The image runs the program, so the arguments follow its name.
    assert!(text("Containerfile").contains("ENTRYPOINT [\"/usr/bin/pillion\"]"));
    for hook in [system, image] {
        assert_eq!(hook["require_serial"], true);
    }
}

#[rstest]
#[case::a_sound_set(&[("a.yaml", SOUND)], 0)]
#[case::a_broken_set(&[("a.yaml", "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: a}\n")], 1)]
#[case::beside_others(&[("a.yaml", SOUND), ("package.json", "{\"name\": \"x\"}")], 0)]
#[case::others_alone(&[("deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\n")], 0)]
#[case::a_name_like_an_option(&[("-a.yaml", SOUND)], 0)]
fn a_hook_runs_as_pre_commit_runs_it(#[case] files: &[(&str, &str)], #[case] code: i32) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let [system, _] = <[_; 2]>::try_from(hooks()).unwrap();
    let mut entry = field(&system, "entry").split(' ');
    assert_eq!(entry.next(), Some("pillion"));
    let output = Command::new(assert_cmd::cargo::cargo_bin!("pillion"))
        .current_dir(folder.path())
        .args(entry)
        .args(files.iter().map(|(name, _)| name))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
}

// --- their guide

const GUIDE: &str = "docs/guides/ci.md";

/// Returns the blocks of a language in the guide.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    text(GUIDE).split(&fence).skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0.to_owned())).collect()
}

#[test]
fn the_guide_shows_every_input_and_no_other() {
    let action = yaml("action.yml");
    let guide = text(GUIDE);
    for (input, of) in action["inputs"].as_object().unwrap() {
        let default = of["default"].as_str().unwrap();
        let default = if default.is_empty() { "none".to_owned() } else { format!("`{default}`") };
        assert!(guide.contains(&format!("\n| `{input}` | {default} | ")), "{input}");
    }
    let workflow: Value = serde_saphyr::from_str(&blocks("yaml")[0]).unwrap();
    let steps = workflow["jobs"]["check"]["steps"].as_array().unwrap();
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    let own = steps.iter().find(|step| step["uses"] == format!("pillion/pillion@{version}")).unwrap();
    assert_eq!(own["with"]["version"], version);
    for input in own["with"].as_object().unwrap().keys() {
        assert!(action["inputs"][input].is_object(), "the action has no input {input}");
    }
    let upload = steps.last().unwrap();
    assert_eq!(upload["with"]["sarif_file"], action["inputs"]["sarif-file"]["default"]);
}

#[test]
fn the_guide_names_hooks_and_schemas_that_exist() {
    let guide = text(GUIDE);
    for hook in hooks() {
        assert!(guide.contains(&format!("| `{}` |", field(&hook, "id"))), "{hook}");
    }
    let configuration: Value = serde_saphyr::from_str(&blocks("yaml")[1]).unwrap();
    assert_eq!(configuration["repos"][0]["rev"], format!("v{}", env!("CARGO_PKG_VERSION")));
    assert_eq!(configuration["repos"][0]["hooks"][0]["id"], hooks()[0]["id"]);
    let address = "https://raw.githubusercontent.com/pillion/pillion/main/";
    let named: Vec<&str> =
        guide.split(address).skip(1).map(|rest| rest.split(['`', '"', '\n']).next().unwrap()).collect();
    assert!(named.len() > 6);
    for schema in named {
        assert!(root().join(schema).is_file(), "{schema}");
    }
    serde_json::from_str::<Value>(&blocks("json")[0]).unwrap();
}

/// The image is the last argument that is not one of pillion's.
#[test]
fn commands_of_the_guide_are_understood() {
    let version = format!("ghcr.io/pillion/pillion:v{}", env!("CARGO_PKG_VERSION"));
    let mut seen = 0;
    for block in blocks("sh") {
        let command = block.split(" > ").next().unwrap();
        let arguments = command.split_once("pillion ").or(command.split_once(&format!("{version} "))).unwrap().1;
        let arguments = ["pillion"].into_iter().chain(arguments.split(' ')).map(Into::into);
        let read = pillion::args::Cli::read(&arguments.collect::<Vec<std::ffi::OsString>>());
        assert!(read.is_ok(), "{command}: {read:?}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}
