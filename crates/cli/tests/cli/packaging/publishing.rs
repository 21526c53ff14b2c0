//! The scripts that make something public, with stand-ins for the programs that talk to GitHub and registries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rstest::rstest;

use crate::support::files::{root, write_program};

/// GitHub's releases, in the folder `$STATE`: `tag` and `draft` of the only release, its files in `assets`, and every
/// command in `log`. `$BREAK` is a file whose upload fails.
const GH: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "$*" >>"$STATE/log"
case "$1 $2" in
  "release view")
    [[ $(cat "$STATE/tag" 2>/dev/null) == "$3" ]] || { echo "release not found" >&2; exit 1; }
    if [[ $* == *isDraft* ]]; then cat "$STATE/draft"; else ls "$STATE/assets"; fi ;;
  "release list") [[ $(cat "$STATE/draft" 2>/dev/null) != true ]] || cat "$STATE/tag" ;;
  "release create") echo "$3" >"$STATE/tag"; echo true >"$STATE/draft" ;;
  "release upload")
    shift 4
    for file in "$@"; do
      [[ $(basename "$file") != "${BREAK:-}" ]] || { echo "upload failed" >&2; exit 1; }
      cp "$file" "$STATE/assets/"
    done ;;
  "release edit")
    shift 3
    while (($#)); do
      case $1 in
        --tag) echo "$2" >"$STATE/tag"; shift ;;
        --draft=false) echo false >"$STATE/draft" ;;
      esac
      shift
    done ;;
  *) echo "unknown: $*" >&2; exit 1 ;;
esac
"#;

/// A registry, in the folder `$STATE`: the last module that was pushed. With `$BREAK` it returns other bytes.
const KWCTL: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "kwctl $*" >>"$STATE/log"
case $1 in
  push)
    cp "$4" "$STATE/pushed"
    name=${5#registry://}
    echo "{\"immutable_ref\": \"registry://${name%:*}@sha256:$(sha256sum <"$4" | cut -c 1-64)\"}" ;;
  pull) cp "$STATE/pushed" "$3"; [[ -z ${BREAK:-} ]] || echo more >>"$3" ;;
  *) exit 1 ;;
esac
"#;

const HELM: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "helm $*" >>"$STATE/log"
case $1 in
  package) echo chart >"$8/pillion-$4.tgz" ;;
  push) cp "$2" "$STATE/pushed"; echo "Pushed: $3"; [[ -n ${MUTE:-} ]] || echo "Digest: sha256:$(sha256sum <"$2" | cut -c 1-64)" ;;
  pull) cp "$STATE/pushed" "$6/pillion-$4.tgz"; [[ -z ${BREAK:-} ]] || echo more >>"$6/pillion-$4.tgz" ;;
  *) exit 1 ;;
esac
"#;

const COSIGN: &str = r#"#!/usr/bin/env bash
set -euo pipefail
echo "cosign $*" >>"$STATE/log"
[[ $1 != sign-blob ]] || touch "$4"
"#;

/// A folder with the stand-ins, and what they remember.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().unwrap());
        for folder in ["bin", "assets", "dist"] {
            fs::create_dir(stage.path(folder)).unwrap();
        }
        for (name, script) in [("gh", GH), ("kwctl", KWCTL), ("helm", HELM), ("cosign", COSIGN)] {
            let path = stage.path("bin").join(name);
            write_program(&path, script);
        }
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new(root().join(".ci/release").join(script));
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.path("bin").display())).env("STATE", self.0.path());
        command.env_remove("HELM").env_remove("CHART");
        command
    }

    /// Writes all files of a release.
    fn with_files(self, tag: &str) -> Self {
        let names = self.command("assets").arg(tag).output().unwrap();
        for name in String::from_utf8(names.stdout).unwrap().lines() {
            fs::write(self.path("dist").join(name), name).unwrap();
        }
        self
    }

    /// Lets GitHub have a release.
    fn with_release(self, tag: &str, is_draft: bool) -> Self {
        fs::write(self.path("tag"), tag).unwrap();
        fs::write(self.path("draft"), is_draft.to_string()).unwrap();
        self
    }

    fn publish(&self, tag: &str, broken: &str) -> Output {
        self.command("publish").arg(tag).arg(self.path("dist")).env("BREAK", broken).output().unwrap()
    }

    fn state(&self) -> (String, bool) {
        let read = |name: &str| fs::read_to_string(self.path(name)).unwrap().trim().to_owned();
        (read("tag"), read("draft") == "true")
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Returns the commands that change something on GitHub.
    fn changes(&self) -> Vec<String> {
        let mut log = self.log();
        log.retain(|line| !line.starts_with("release view") && !line.starts_with("release list"));
        log
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[rstest]
#[case::the_draft_has_its_tag(Some("v1.2.3"))]
#[case::the_draft_has_another_tag(Some("v1.2.4"))]
#[case::there_is_no_draft(None)]
fn a_draft_gets_all_files_and_becomes_public_last(#[case] draft: Option<&str>) {
    let mut stage = Stage::new().with_files("v1.2.3");
    if let Some(draft) = draft {
        stage = stage.with_release(draft, true);
    }
    let output = stage.publish("v1.2.3", "");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stage.state(), ("v1.2.3".to_owned(), false));
    assert_eq!(count(&stage.path("assets")), count(&stage.path("dist")));
    let changes = stage.changes();
    let publishing: Vec<_> = changes.iter().filter(|line| line.contains("--draft=false")).collect();
    assert_eq!(publishing, [changes.last().unwrap()]);
    assert!(changes.last().unwrap().ends_with("--prerelease=false --latest"), "{changes:?}");
}

#[test]
fn a_prerelease_is_not_the_latest() {
    let stage = Stage::new().with_files("v1.2.3-rc.1");
    let output = stage.publish("v1.2.3-rc.1", "");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stage.changes().last().unwrap().ends_with("--draft=false --prerelease --latest=false"));
}

#[test]
fn a_failed_upload_leaves_a_draft_and_can_run_again() {
    let stage = Stage::new().with_files("v1.2.3").with_release("v1.2.3", true);
    let output = stage.publish("v1.2.3", "policy.wasm");
    assert!(!output.status.success());
    assert_eq!(stage.state(), ("v1.2.3".to_owned(), true));
    assert!(count(&stage.path("assets")) > 0);
    let output = stage.publish("v1.2.3", "");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stage.state(), ("v1.2.3".to_owned(), false));
}

#[test]
fn a_public_release_stays_as_it_is() {
    let stage = Stage::new().with_files("v1.2.3");
    assert!(stage.publish("v1.2.3", "").status.success());
    let before = stage.changes();
    let output = stage.publish("v1.2.3", "");
    assert!(output.status.success() && stderr(&output).contains("public already"), "{}", stderr(&output));
    assert_eq!(stage.changes(), before);
    fs::remove_file(stage.path("assets/policy.wasm")).unwrap();
    let output = stage.publish("v1.2.3", "");
    assert!(!output.status.success() && stderr(&output).contains("not all there"), "{}", stderr(&output));
    assert_eq!(stage.changes(), before);
}

#[test]
fn a_draft_with_an_unknown_file_stays_a_draft() {
    let stage = Stage::new().with_files("v1.2.3").with_release("v1.2.3", true);
    fs::write(stage.path("assets/stranger"), "").unwrap();
    let output = stage.publish("v1.2.3", "");
    assert!(!output.status.success() && stderr(&output).contains("> stranger"), "{}", stderr(&output));
    assert_eq!(stage.state(), ("v1.2.3".to_owned(), true));
}

#[rstest]
#[case::missing("checksums.txt", "< checksums.txt")]
#[case::unknown("", "> stranger")]
fn incomplete_files_are_not_uploaded(#[case] missing: &str, #[case] says: &str) {
    let stage = Stage::new().with_files("v1.2.3").with_release("v1.2.3", true);
    if missing.is_empty() {
        fs::write(stage.path("dist/stranger"), "").unwrap();
    } else {
        fs::remove_file(stage.path("dist").join(missing)).unwrap();
    }
    let output = stage.publish("v1.2.3", "");
    assert!(!output.status.success() && stderr(&output).contains(says), "{}", stderr(&output));
    assert_eq!(stage.log(), [""; 0]);
}

const REPOSITORY: &str = "ghcr.io/pillion/policies/pillion";

#[rstest]
#[case::the_same("", true)]
#[case::other_bytes("yes", false)]
fn a_pushed_module_is_pulled_and_compared(#[case] broken: &str, #[case] succeeds: bool) {
    let stage = Stage::new();
    let module = stage.path("annotated.wasm");
    fs::write(&module, "a module").unwrap();
    let output =
        stage.command("push-policy").arg(&module).args([REPOSITORY, "v1.2.3"]).env("BREAK", broken).output().unwrap();
    assert_eq!(output.status.success(), succeeds, "{}", stderr(&output));
    let digest = "sha256:".to_owned() + &sum(&module);
    if succeeds {
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{digest}\n"));
    } else {
        assert!(output.stdout.is_empty() && stderr(&output).contains("is not"), "{}", stderr(&output));
    }
    // It is pulled by its digest, not by a tag that another may have moved.
    assert!(stage.log()[1].ends_with(&format!("registry://{REPOSITORY}@{digest}")), "{:?}", stage.log());
}

fn sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[rstest]
#[case::the_same("", "", true)]
#[case::other_bytes("yes", "", false)]
#[case::no_digest("", "yes", false)]
fn a_pushed_chart_is_pulled_and_compared(#[case] broken: &str, #[case] mute: &str, #[case] succeeds: bool) {
    let stage = Stage::new();
    let output = stage
        .command("push-chart")
        .args(["v1.2.3", "oci://ghcr.io/pillion/charts"])
        .arg(stage.path("charts"))
        .env("BREAK", broken)
        .env("MUTE", mute)
        .output()
        .unwrap();
    assert_eq!(output.status.success(), succeeds, "{}", stderr(&output));
    let log = stage.log();
    assert!(log[0].starts_with("helm package charts/pillion --version 1.2.3 --app-version 1.2.3 "), "{log:?}");
    if succeeds {
        let package = stage.path("charts/pillion-1.2.3.tgz");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("sha256:{}\n", sum(&package)));
    }
}

#[test]
fn signatures_are_of_a_digest_and_in_both_formats() {
    let stage = Stage::new();
    let image = format!("{REPOSITORY}@sha256:{}", "0".repeat(64));
    assert!(stage.command("sign").arg(&image).arg("--recursive").status().unwrap().success());
    let formats = [("false", "false"), ("true", "true")];
    let wanted = formats.map(|(bundle, config)| {
        format!("cosign sign --yes --new-bundle-format={bundle} --use-signing-config={config} --recursive {image}")
    });
    assert_eq!(stage.log(), wanted);
    let output = stage.command("sign").arg(format!("{REPOSITORY}:v1.2.3")).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "a tag can be moved");
}

#[test]
fn every_file_gets_its_signature_once() {
    let stage = Stage::new();
    for name in ["a.tar.gz", "b.zip"] {
        fs::write(stage.path("dist").join(name), "").unwrap();
    }
    for _ in 0..2 {
        assert!(stage.command("sign-files").arg(stage.path("dist")).status().unwrap().success());
        assert_eq!(count(&stage.path("dist")), 4);
    }
    assert!(stage.path("dist/a.tar.gz.bundle.sigstore").is_file());
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The branch has the folder's content and nothing else, with one commit for each release.
#[test]
fn a_branch_gets_the_content_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (origin, clone, content) =
        (folder.path().join("origin.git"), folder.path().join("clone"), folder.path().join("content"));
    git(folder.path(), &["init", "--quiet", "--bare", origin.to_str().unwrap()]);
    git(folder.path(), &["init", "--quiet", clone.to_str().unwrap()]);
    git(&clone, &["remote", "add", "origin", origin.to_str().unwrap()]);
    fs::write(clone.join("kept"), "").unwrap();
    fs::create_dir_all(content.join("artifacts")).unwrap();
    let branch = |message: &str| {
        let mut command = Command::new(root().join(".ci/release/branch"));
        command.arg(&content).args(["artifacthub", message]).current_dir(&clone);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    fs::write(content.join("README.md"), "one").unwrap();
    fs::write(content.join("artifacts/old"), "").unwrap();
    branch("Release v1.2.2");
    fs::remove_file(content.join("artifacts/old")).unwrap();
    fs::write(content.join("README.md"), "two").unwrap();
    branch("Release v1.2.3");
    branch("Release v1.2.3");
    assert_eq!(git(&origin, &["log", "--format=%s", "artifacthub"]), "Release v1.2.3\nRelease v1.2.2");
    assert_eq!(git(&origin, &["ls-tree", "-r", "--name-only", "artifacthub"]), "README.md");
    assert_eq!(git(&origin, &["show", "artifacthub:README.md"]), "two");
    // The working copy is as it was.
    assert_eq!(git(&clone, &["status", "--porcelain"]), "?? kept");
}
