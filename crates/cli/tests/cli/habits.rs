//! The common behaviour of all commands: exit codes, streams, colours, closed pipes, full disks.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rstest::rstest;

fn pillion(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("pillion"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    command.current_dir(root).args(args).stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const DEPLOYMENT: &str = "test_data/deployment-web.yaml";
const SETS: &str = "test_data/sidecarset-log-agent.yaml";

/// Commands that end with an exit code other than 0 because of their findings, and these codes.
const VERDICTS: [(&[&str], i32); 7] = [
    (&["check", "broken.yaml"], 1),
    (&["check", "-o", "json", "broken.yaml"], 1),
    (&["check", "-o", "github", "broken.yaml"], 1),
    (&["check", "-o", "sarif", "broken.yaml"], 1),
    (&["explain", "clash.yaml"], 1),
    (&["explain", "-o", "json", "clash.yaml"], 1),
    (&["inject", "clash.yaml"], 1),
];

/// Returns a folder with a SidecarSet that a policy refuses, and with a Pod that is refused because it clashes with a
/// SidecarSet.
fn folder_of_verdicts() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata: {name: a}\nspec:\n  selector: {matchLabels: {a: b}}\n  containers: [{name: app, image: a}]\n";
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {a: b}}\nspec: {containers: [{name: app, image: a}]}\n";
    fs::write(folder.path().join("broken.yaml"), set.replace("image: a", "image: 5")).unwrap();
    fs::write(folder.path().join("clash.yaml"), format!("{set}---\n{pod}")).unwrap();
    folder
}

/// `check bad.yaml | grep -q error` must not pass.
#[test]
fn a_closed_pipe_keeps_the_verdict() {
    let folder = folder_of_verdicts();
    for (args, code) in VERDICTS {
        for both in [false, true] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = pillion(args);
            command.current_dir(folder.path()).stdout(writer.try_clone().unwrap());
            let output = if both { command.stderr(writer).output() } else { command.stderr(Stdio::piped()).output() };
            let output = output.unwrap();
            assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
            assert!(!stderr(&output).contains("Broken pipe"), "{args:?}: {}", stderr(&output));
        }
    }
}

/// All commands with long output.
const MUCH: [&[&str]; 8] = [
    &["--help"],
    &["--version"],
    &["help", "explain"],
    &["completions", "zsh"],
    &["explain", DEPLOYMENT, SETS],
    &["explain", DEPLOYMENT, SETS, "-o", "json"],
    &["inject", DEPLOYMENT, SETS],
    &["schema"],
];

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    for args in MUCH {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = pillion(args).stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("error"), "{args:?}: {}", stderr(&output));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for args in MUCH {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = pillion(args).stdout(full).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("No space left on device"), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_closed_stderr_stops_nobody() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("man");
    let status = pillion(&["man", "--out-dir", out.to_str().unwrap()]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(fs::read_dir(out).unwrap().count() > 5);
}

#[rstest]
#[case::no_command(&[], "Usage: pillion")]
#[case::typo(&["expalin"], "a similar subcommand exists: 'explain'")]
#[case::typo_in_a_flag(&["explain", "--setings", "x"], "a similar argument exists: '--settings'")]
#[case::unknown_shell(&["completions", "tcsh"], "possible values: bash")]
#[case::no_folder(&["man"], "--out-dir <DIR>")]
#[case::no_such_file(&["explain", "gone.yaml"], "gone.yaml: No such file or directory")]
#[case::a_file_in_the_way(&["man", "--out-dir", "Cargo.toml"], "Cargo.toml")]
fn mistakes_exit_with_2_and_say_what_is_wrong(#[case] args: &[&str], #[case] says: &str) {
    let output = pillion(args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains(says), "{}", stderr(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_files_is_an_error() {
    let output = pillion(&["man", "--out-dir", "/proc/self/man"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("error: /proc/self/man: "), "{}", stderr(&output));
}

#[rstest]
#[case::into_a_pipe(&[], &[], false)]
#[case::asked_for(&["--color", "always"], &[], true)]
#[case::forced(&[], &[("CLICOLOR_FORCE", "1")], true)]
#[case::not_wanted(&["--color=never"], &[("CLICOLOR_FORCE", "1")], false)]
#[case::not_wanted_by_environment(&[], &[("NO_COLOR", "1")], false)]
#[case::the_flag_wins(&["--color=always"], &[("NO_COLOR", "1")], true)]
fn colours(#[case] args: &[&str], #[case] variables: &[(&str, &str)], #[case] are_there: bool) {
    for command in [&["explain", "gone.yaml"][..], &["explain", "--nonsense"], &["expalin"]] {
        let mut command = pillion(&[args, command].concat());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(stderr(&output).contains('\u{1b}'), are_there, "{command:?}: {}", stderr(&output));
    }
}

#[test]
fn the_version_is_the_packages() {
    let output = pillion(&["--version"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("pillion {}\n", env!("CARGO_PKG_VERSION")));
}

#[rstest]
#[case::bash("bash", "complete -o nospace -o bashdefault -o nosort -F _clap_complete_pillion pillion")]
#[case::zsh("zsh", "#compdef pillion")]
#[case::fish("fish", "--command pillion")]
#[case::elvish("elvish", "edit:completion:arg-completer[pillion]")]
#[case::powershell("powershell", "Register-ArgumentCompleter -Native -CommandName pillion")]
fn completions_are_for_the_shell(#[case] shell: &str, #[case] says: &str) {
    let output = pillion(&["completions", shell]).output().unwrap();
    assert!(output.status.success());
    let script = String::from_utf8(output.stdout).unwrap();
    assert!(script.contains(says), "{script}");
    // The script asks the program.
    let mut asked = pillion(&["--", "pillion", "plan", "--names"]);
    let output = asked.envs([("PILLION_COMPLETE", shell), ("_CLAP_COMPLETE_INDEX", "2")]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("namespace-labels"), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let status = pillion(&["man", "--out-dir", folder.path().to_str().unwrap()]).status().unwrap();
    assert!(status.success());
    for command in pillion::args::command(None).get_subcommands() {
        let name = command.get_name();
        let page = fs::read_to_string(folder.path().join(format!("pillion-{name}.1"))).unwrap();
        assert!(page.contains(".SH OPTIONS"), "{page}");
    }
    let page = fs::read_to_string(folder.path().join("pillion-explain.1")).unwrap();
    // Each example begins with spaces, so it stays on a line of its own.
    assert!(page.contains("\nExamples:\n  pillion explain "), "{page}");
    let page = fs::read_to_string(folder.path().join("pillion.1")).unwrap();
    assert!(page.contains("\nExit codes:\n  0"), "{page}");
    assert!(page.contains("pillion\\-explain(1)"), "{page}");
}

/// Sources whose messages belong to several commands, or to another command than their folder suggests, with these
/// commands.
const SHARED: [(&str, &[&str]); 11] = [
    ("src/preview", &["inject", "explain"]),
    ("src/cluster", &["inject", "explain", "check", "plan"]),
    ("src/cluster/change.rs", &["rollout", "set"]),
    ("src/cluster/git_ops.rs", &["rollout", "set"]),
    ("src/cluster/writer.rs", &["rollout", "set"]),
    ("src/preview/accounts.rs", &["inject", "explain", "run"]),
    ("src/preview/settings.rs", &["inject", "explain", "bundle", "manifest", "plan", "serve", "controller"]),
    ("src/rendering", &["manifest"]),
    ("src/rollouts", &["status"]),
    ("src/daemon", &["serve", "controller"]),
    ("src/tuning.rs", &["controller", "plan"]),
];

/// Returns the commands that write the messages of a source file; empty if there are none.
fn writers(file: &Path) -> Vec<String> {
    let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap().to_owned();
    let shared = SHARED.iter().filter(|(prefix, _)| name.starts_with(prefix)).max_by_key(|(prefix, _)| prefix.len());
    if let Some((_, commands)) = shared {
        return commands.iter().map(|command| (*command).to_owned()).collect();
    }
    let command = name.strip_prefix("src/commands/").and_then(|rest| rest.split(['/', '.']).next());
    command.filter(|command| *command != "mod").map(str::to_owned).into_iter().collect()
}

/// Returns the options in a line of source code, each with the program and the command before it on the line.
fn options(line: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for (start, dashes) in line.match_indices("--") {
        let (before, after) = line.split_at(start);
        let option = after.trim_start_matches(dashes).split(|one: char| !one.is_ascii_lowercase() && one != '-').next();
        let option = option.unwrap_or_default();
        if option.len() < 2
            || option.starts_with('-')
            || before.ends_with(|one: char| one.is_alphanumeric() || one == '-')
        {
            continue;
        }
        let programs = ["kwctl ", "kubectl ", "helm ", "timeout ", "pillion "];
        let called = programs.into_iter().filter_map(|program| Some((before.rfind(program)?, program))).max();
        let command = called.map(|(_, program)| match before.rsplit(program).next() {
            Some(rest) if program == "pillion " => rest.split_whitespace().next().unwrap_or_default().to_owned(),
            _ => String::new(),
        });
        found.push((option.to_owned(), command));
    }
    found
}

#[test]
fn options_that_a_message_names_are_options_of_the_command() {
    let cli = pillion::args::command(None);
    let has = |command: &str, option: &str| {
        let command = cli.find_subcommand(command).unwrap_or_else(|| panic!("no command {command}"));
        let mut longs = command
            .get_arguments()
            .chain(command.get_subcommands().flat_map(clap::Command::get_arguments))
            .chain(cli.get_arguments())
            .flat_map(|argument| argument.get_long().into_iter().chain(argument.get_all_aliases().unwrap_or_default()));
        ["help", "version"].contains(&option) || longs.any(|long| long == option)
    };
    let is_built = |command: &str| cfg!(feature = "server") || !["serve", "controller"].contains(&command);
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for (option, named) in options(line) {
                let commands = named.map_or_else(|| writers(&file), |command| vec![command]);
                for command in commands.iter().filter(|command| !command.is_empty() && is_built(command)) {
                    seen += 1;
                    if !has(command, &option) {
                        wrong.push(format!("{}: {command} has no --{option}", file.display()));
                    }
                }
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert_eq!(wrong, [""; 0]);
}

/// Returns the Rust files below a folder, except for tests.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs"))
        .collect()
}
