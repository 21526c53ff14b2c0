//! Help texts: every example in them works, every flag is described, everything fits a terminal.
#![allow(clippy::string_slice)] // A panic is how a test fails.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use rstest::rstest;

use crate::support::files::write_program;

/// The maximum width of a help text.
const COLUMNS: usize = 100;

/// The names under which the program is installed.
const PROGRAMS: [&str; 2] = ["pillion", "kubectl-pillion"];

/// Returns the command and all of its subcommands.
fn commands() -> Vec<clap::Command> {
    let mut root = pillion::args::command(None);
    root.build();
    let mut all = Vec::new();
    collect(root, &mut all);
    all
}

fn collect(command: clap::Command, into: &mut Vec<clap::Command>) {
    for below in command.get_subcommands().filter(|command| command.get_name() != "help") {
        collect(below.clone(), into);
    }
    into.push(command);
}

/// Returns the output of a command for `-h` or `--help` if the program is called by this name.
fn help(program: &str, command: &clap::Command, flag: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(program);
    symlink(assert_cmd::cargo::cargo_bin!("pillion"), &program).unwrap();
    let path = command.get_bin_name().unwrap_or_default().split(' ').skip(1);
    let output = Command::new(program).args(path).arg(flag).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the command lines below `Examples:`, each with the exit code that the comment before it states.
fn examples(help: &str) -> Vec<(String, i32)> {
    let mut code = 0;
    let mut examples = Vec::new();
    // A backslash joins lines.
    let help = help.replace(" \\\n      ", " ");
    let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1).take_while(|line| line.starts_with("  "));
    for line in lines.map(str::trim) {
        if let Some(comment) = line.strip_prefix("# ") {
            code = comment.strip_prefix("exits with ").map_or(0, |rest| rest[..1].parse().unwrap());
        } else {
            examples.push((line.to_owned(), code));
            code = 0;
        }
    }
    examples
}

/// Whether a command line of the examples looks at a cluster. There is none here.
fn needs_a_cluster(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let of_cluster = ["status", "rollout", "set", "probe", "uninstall"];
    let command = words.iter().position(|word| ["pillion", "kubectl-pillion"].contains(word));
    words.contains(&"--cluster")
        || line.contains("controller uninstall")
        || command.and_then(|at| words.get(at + 1)).is_some_and(|command| of_cluster.contains(command))
}

/// The files that users have under other names: the name in the examples, and the file here.
const FILES: [(&str, &str); 5] = [
    ("settings.yaml", "settings-log-agent.json"),
    ("other-settings.yaml", "settings-clash.json"),
    ("sidecarset.yaml", "sidecarset-log-agent.yaml"),
    ("deployment.yaml", "deployment-web.yaml"),
    ("review.json", "pod-create-review.json"),
];

/// Returns a writable folder with the files that examples use, and with a home folder.
fn root_of_the_repository() -> tempfile::TempDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let is_document = entry.path().is_file() && [".md", ".yml", ".yaml"].iter().any(|end| name.ends_with(end));
        if is_document || name == "examples" {
            let copied = Command::new("cp").arg("-r").arg(entry.path()).arg(copy.path()).status().unwrap();
            assert!(copied.success(), "{name}");
        }
    }
    for (name, file) in FILES {
        fs::copy(root.join("test_data").join(file), copy.path().join(name)).unwrap();
    }
    let server = fs::read_to_string(root.join("test_data/serve.yaml")).unwrap();
    fs::write(copy.path().join("serve.yaml"), server.replace("test_data/settings-log-agent.json", "settings.yaml"))
        .unwrap();
    fs::write(copy.path().join("policy.wasm"), pillion_preview::module::BYTES).unwrap();
    for folder in [".local/bin", ".local/share/bash-completion/completions", ".zfunc", ".config/fish/completions"] {
        fs::create_dir_all(copy.path().join("home").join(folder)).unwrap();
    }
    fs::create_dir(copy.path().join("tools")).unwrap();
    for name in PROGRAMS {
        symlink(assert_cmd::cargo::cargo_bin!("pillion"), copy.path().join("tools").join(name)).unwrap();
    }
    // kubectl calls its plugins like this.
    let kubectl = copy.path().join("tools/kubectl");
    write_program(&kubectl, "#!/bin/sh\nplugin=kubectl-$1\nshift\nexec \"$plugin\" \"$@\"\n");
    copy
}

/// The load generator is a tool of the repository, and no command of the program.
#[test]
fn servers_are_in_builds_with_their_feature_and_all_other_commands_in_every_build() {
    let command = pillion::args::command(None);
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let mut expected = vec!["run", "annotate", "inject", "explain", "check", "bundle", "manifest"];
    if cfg!(feature = "server") {
        expected.extend(["serve", "controller"]);
    }
    expected.extend(["plan", "status", "rollout", "set", "probe", "uninstall", "schema", "completions", "man"]);
    assert_eq!(names, expected);
    let says_what_is_missing =
        command.get_after_help().is_some_and(|help| help.to_string().contains("Not in this build"));
    assert_eq!(says_what_is_missing, !cfg!(feature = "server"));
}

#[rstest]
fn every_example_works(#[values("pillion", "kubectl-pillion")] program: &str) {
    let root = root_of_the_repository();
    let at = |folder: &str| root.path().join(folder).into_os_string().into_string().unwrap();
    let path = format!("{}:{}", at("tools"), std::env::var("PATH").unwrap());
    // Compiled modules stay in the cache of the user who runs the tests.
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").unwrap_or_else(|| Path::new(&home).join(".cache").into());
    let mut failures = Vec::new();
    for command in commands() {
        let examples = examples(&help(program, &command, "--help"));
        if examples.is_empty() {
            failures.push(format!("{}: no examples", command.get_name()));
        }
        for (line, code) in examples {
            let output = Command::new("bash")
                .args(["-o", "pipefail", "-c", &line])
                .current_dir(root.path())
                .envs([("PATH", &path), ("HOME", &at("home")), ("PROFILE", &at("home/profile.ps1"))])
                .env("XDG_CACHE_HOME", &cache)
                .env("KUBECONFIG", "no-such-file")
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let code = if needs_a_cluster(&line) { 2 } else { code };
            let is_told = !needs_a_cluster(&line) || said.contains("no cluster: ");
            if output.status.code() != Some(code) || !is_told {
                failures.push(format!("{line}\n  {}, not {code}: {said}", output.status));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// An example tells users what they can do, and nothing about the repository and its tests.
#[test]
fn examples_name_no_files_of_the_tests() {
    for command in commands() {
        let text = help("pillion", &command, "--help");
        assert!(!text.contains("test_data") && !text.contains("where there is no cluster"), "{text}");
    }
}

#[test]
fn examples_are_found_with_their_exit_codes() {
    let help = "Usage: x\n\nExamples:\n  a b\n  # exits with 1: no\n  c\n  # plain\n  d\n\nExit codes:\n  0  done\n";
    assert_eq!(examples(help), [("a b".to_owned(), 0), ("c".to_owned(), 1), ("d".to_owned(), 0)]);
}

#[test]
fn help_fits_a_terminal() {
    for program in PROGRAMS {
        for command in commands() {
            for flag in ["-h", "--help"] {
                let text = help(program, &command, flag);
                let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > COLUMNS).collect();
                assert!(wide.is_empty(), "{program} {}: {wide:#?}", command.get_name());
            }
        }
    }
}

/// clap wraps long lines, and a part of a command line is useless.
#[test]
fn examples_are_not_wrapped() {
    for command in commands() {
        let written = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let shown = examples(&help("pillion", &command, "--help"));
        assert_eq!(shown, examples(&written), "{}", command.get_name());
        let of_plugin = examples(&help("kubectl-pillion", &command, "--help"));
        assert_eq!(of_plugin.len(), shown.len(), "{of_plugin:#?}");
        // Only the program's name differs.
        for ((own, _), (plugin, _)) in shown.iter().zip(&of_plugin) {
            let renamed = plugin.replace("kubectl pillion ", "pillion ").replace("kubectl-pillion", "pillion");
            assert_eq!(*own, renamed.replace("_kubectl-pillion", "_pillion"));
            assert_eq!(plugin.matches("kubectl pillion ").count(), calls(own), "{plugin}");
        }
    }
}

/// Returns how often a command line calls pillion.
fn calls(line: &str) -> usize {
    let starts = ["| pillion ", "&& pillion ", "(pillion "];
    usize::from(line.starts_with("pillion ")) + starts.iter().map(|start| line.matches(start).count()).sum::<usize>()
}

#[test]
fn every_command_and_every_argument_is_described() {
    for command in commands() {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.starts_with("The arguments of"), "{name}: {about:?}");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name}: {} has no description", argument.get_id());
        }
    }
}

#[test]
fn a_plugin_of_kubectl_is_called_as_one() {
    for command in commands() {
        let text = help("kubectl-pillion", &command, "--help");
        assert!(text.contains("Usage: kubectl pillion"), "{text}");
        assert!(!text.contains("\n  pillion ") && !text.contains("`pillion "), "{text}");
    }
}
