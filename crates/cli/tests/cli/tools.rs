//! The scripts that the Makefile calls: `tools/setup` with stand-ins for rustup and package managers, and `tools/parts`.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;
use tempfile::TempDir;

use pillion_samples::repository::root;

/// Programs that the scripts may call on every machine.
const BASICS: [&str; 9] = ["bash", "cat", "chmod", "cut", "dirname", "env", "grep", "sed", "sh"];

/// A rustup that has the toolchain, and the targets and components that the files beside it list.
const RUSTUP: &str = r#"#!/bin/sh
folder=${0%/*}
echo "rustup $*" >> "$folder/calls"
case "$1 $2" in
  "target list") cat "$folder/targets" ;;
  "component list") cat "$folder/components" ;;
esac
"#;

/// A package manager that installs each package as a program of its name, with the few names that differ.
const MANAGER: &str = r#"#!/bin/sh
folder=${0%/*}
echo "${0##*/} $*" >> "$folder/calls"
for package do
  case $package in
    -* | add | install | update) continue ;;
    bats-core) package=bats ;;
    gcc-mingw-w64-x86-64-posix | mingw64-gcc | mingw64-cross-gcc | mingw-w64-gcc | mingw-w64)
      package=x86_64-w64-mingw32-gcc ;;
  esac
  echo '#!/bin/sh' > "$folder/$package" && chmod +x "$folder/$package"
done
"#;

/// A machine: a folder with all programs of its PATH, and a copy of the script.
struct Machine(TempDir);

impl Machine {
    /// Returns a machine with git, make, a C compiler and rustup.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self(folder);
        fs::create_dir(machine.0.path().join("tools")).unwrap();
        fs::create_dir(machine.bin()).unwrap();
        for file in ["tools/setup", "rust-toolchain.toml"] {
            fs::copy(root().join(file), machine.0.path().join(file)).unwrap();
        }
        for name in BASICS {
            symlink(found(name), machine.bin().join(name)).unwrap();
        }
        machine.add("cc", "#!/bin/sh\n");
        machine.add("rustup", RUSTUP);
        // Everybody may write, since some tests run as another user.
        machine.write("targets", "x86_64-unknown-linux-gnu\n");
        machine.write("components", "cargo-x86_64-unknown-linux-gnu\nrustc-x86_64-unknown-linux-gnu\n");
        machine.write("calls", "");
        for folder in [machine.0.path(), &machine.bin()] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
        machine
    }

    fn bin(&self) -> PathBuf {
        self.0.path().join("bin")
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.bin().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }

    /// Adds a program.
    fn add(&self, name: &str, script: &str) {
        self.write(name, script);
        fs::set_permissions(self.bin().join(name), fs::Permissions::from_mode(0o777)).unwrap();
    }

    /// Adds all that `tools/setup test` and `tools/setup lint` look for.
    fn add_all(&self) {
        self.write("targets", "wasm32-wasip1\n");
        self.write("components", "clippy-x86_64-unknown-linux-gnu\nrustfmt-x86_64-unknown-linux-gnu\n");
        for name in ["bats", "jq", "zip"] {
            self.add(name, "#!/bin/sh\n");
        }
    }

    fn setup(&self, part: &str) -> Command {
        let mut command = Command::new(self.0.path().join("tools/setup"));
        command.arg(part).env_clear().env("PATH", self.bin());
        command
    }

    /// Runs the script as a user who may use `sudo`, or as root.
    fn run(&self, part: &str) -> Run {
        self.add("sudo", "#!/bin/sh\n[ \"$1\" != -n ] || shift\nexec \"$@\"\n");
        Run::new(self, &self.setup(part).output().unwrap())
    }

    /// Runs the script as a user who is not root.
    fn run_as_user(&self, part: &str) -> Run {
        let mut command = self.setup(part);
        if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
            command.uid(65534);
        }
        Run::new(self, &command.output().unwrap())
    }
}

/// Returns the path of a program of this machine.
fn found(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.exists()).unwrap()
}

/// The result of a run of the script.
struct Run {
    code: Option<i32>,
    out: String,
    err: String,
    /// The calls that install something.
    installed: Vec<String>,
}

impl Run {
    fn new(machine: &Machine, output: &Output) -> Self {
        let calls = fs::read_to_string(machine.bin().join("calls")).unwrap();
        let is_question = |call: &&str| call.contains(" list ") || call.starts_with("rustup run");
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            installed: calls.lines().filter(|call| !is_question(call)).map(str::to_owned).collect(),
        }
    }
}

fn toolchain() -> String {
    let text = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("channel = \"")).unwrap().trim_end_matches('"').to_owned()
}

#[rstest]
#[case::apt("apt-get", &[
    "apt-get update",
    "apt-get install --yes --no-install-recommends bats jq zip gcc-mingw-w64-x86-64-posix",
])]
#[case::dnf("dnf", &["dnf install --assumeyes bats jq zip mingw64-gcc"])]
#[case::apk("apk", &["apk add bats jq zip mingw-w64-gcc"])]
#[case::pacman("pacman", &["pacman --sync --noconfirm --needed bats jq zip mingw-w64-gcc"])]
#[case::zypper("zypper", &["zypper --non-interactive install bats jq zip mingw64-cross-gcc"])]
#[case::homebrew("brew", &["brew install bats-core jq zip mingw-w64"])]
fn what_is_missing_is_installed(#[case] manager: &str, #[case] expected: &[&str]) {
    let machine = Machine::new();
    machine.add(manager, MANAGER);
    machine.add("go", "#!/bin/sh\n");
    let run = machine.run("ci");
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""), "{}", run.err);
    let toolchain = toolchain();
    let mut wanted = vec![
        format!("rustup target add --toolchain {toolchain} wasm32-wasip1 x86_64-pc-windows-gnu"),
        format!("rustup component add --toolchain {toolchain} clippy rustfmt"),
    ];
    wanted.extend(expected.iter().map(ToString::to_string));
    assert_eq!(run.installed, wanted);
}

#[rstest]
#[case::run("run")]
#[case::module("module")]
#[case::tests("test")]
#[case::lint("lint")]
fn nothing_is_said_or_done_if_nothing_is_missing(#[case] part: &str) {
    let machine = Machine::new();
    machine.add_all();
    machine.add("apt-get", MANAGER);
    let run = machine.run(part);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), "", ""));
    assert_eq!(run.installed, [] as [&str; 0]);
}

#[test]
fn a_first_look_needs_neither_targets_nor_programs() {
    let machine = Machine::new();
    machine.add("apt-get", MANAGER);
    let run = machine.run("run");
    assert_eq!((run.code, run.installed.len()), (Some(0), 0), "{}", run.err);
}

#[test]
fn a_missing_toolchain_is_installed_by_its_name() {
    let machine = Machine::new();
    machine.add("rustup", &RUSTUP.replace("case \"$1 $2\"", "[ \"$1\" != run ] || exit 1\ncase \"$1 $2\""));
    let run = machine.run("run");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(run.installed, [format!("rustup toolchain install {} --profile minimal", toolchain())]);
}

#[test]
fn a_failure_of_the_network_names_the_step_and_the_command() {
    let machine = Machine::new();
    machine.add("rustup", &RUSTUP.replace("case \"$1 $2\"", "[ \"$2\" != add ] || exit 1\ncase \"$1 $2\""));
    let run = machine.run("module");
    assert_eq!(run.code, Some(1));
    let command = format!("rustup target add --toolchain {} wasm32-wasip1", toolchain());
    assert!(run.err.contains("this step needs the network once") && run.err.contains(&command), "{}", run.err);
}

#[rstest]
#[case::with_sudo(true, "run this once, then the command again: sudo sh -c 'apt-get update && apt-get install")]
#[case::without_sudo(false, "run this once, then the command again: as root: apt-get update && apt-get install")]
fn who_may_not_install_gets_the_line_that_an_administrator_runs(#[case] has_sudo: bool, #[case] expected: &str) {
    let machine = Machine::new();
    machine.add("apt-get", MANAGER);
    machine.add("jq", "#!/bin/sh\n");
    if has_sudo {
        machine.add("sudo", "#!/bin/sh\nexit 1\n");
    }
    let run = machine.run_as_user("test");
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("missing: bats zip; ") && run.err.contains(expected), "{}", run.err);
    assert!(run.installed.iter().all(|call| call.starts_with("rustup ")), "{:?}", run.installed);
}

#[rstest]
#[case::no_manager("test", &["rustup", "cc"], "missing: bats jq zip; this machine has no package manager")]
#[case::no_compiler("run", &["rustup"], "a C compiler is missing: install gcc or clang")]
#[case::no_rust("run", &["cc"], "Rust is missing: install rustup")]
#[case::no_go("cluster", &["rustup", "cc"], "Go is missing")]
fn what_setup_does_not_install_is_named(#[case] part: &str, #[case] programs: &[&str], #[case] expected: &str) {
    let machine = Machine::new();
    for name in ["rustup", "cc"] {
        if !programs.contains(&name) {
            fs::remove_file(machine.bin().join(name)).unwrap();
        }
    }
    let run = machine.run(part);
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains(expected), "{}", run.err);
}

#[test]
fn a_package_without_its_program_is_an_error() {
    let machine = Machine::new();
    machine.add("apk", "#!/bin/sh\n");
    let run = machine.run("test");
    assert_eq!(run.code, Some(1));
    assert!(run.err.contains("bats is still missing, although apk installed its package"), "{}", run.err);
}

#[test]
fn an_unknown_part_is_an_error_that_lists_the_parts() {
    let run = Machine::new().run("everything");
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("tools/setup cluster   make test-cluster"), "{}", run.err);
}

fn parts(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(root().join("tools/parts")).current_dir(folder).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn parts_say_how_far_they_are_and_how_long_they_took() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out) = parts(folder.path(), &["make test", "first", "echo one", "second", "echo two"]);
    assert_eq!(code, Some(0));
    let place = |text: &str| out.find(text).unwrap_or_else(|| panic!("{text} is missing: {out}"));
    let places = [
        "== make test, part 1 of 2: first (after 0:0",
        "one",
        "== make test, part 2 of 2: second (after 0:0",
        "two",
        "== make test: times of its parts in minutes",
        "  first\n",
        "  second\n",
        "  all\n",
    ]
    .map(place);
    assert!(places.is_sorted(), "{out}");
}

#[test]
fn a_part_that_fails_ends_the_run_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out) = parts(folder.path(), &["make test", "first", "false; echo no", "second", "touch second"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("  first (failed with exit code 1)\n") && !out.contains("no\n"), "{out}");
    assert!(!folder.path().join("second").exists());
    let (code, _) = parts(folder.path(), &["make test", "first", "exit 7"]);
    assert_eq!(code, Some(7));
}
