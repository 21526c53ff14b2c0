//! The scripts that make the files of a release: archives, checksums, the manifest for krew, usage texts, the branch for
//! Artifact Hub.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use regex_lite::Regex;
use rstest::rstest;
use serde_json::{Value, json};

use super::of_yaml;
use crate::support::files::{root, text, write_program};

const TAG: &str = "v1.2.3";

/// Runs a program and returns its exit code with its output.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn script(name: &str) -> Command {
    Command::new(root().join(".ci").join(name))
}

/// Runs a script, which must succeed, and returns what it prints.
fn done(command: &mut Command) -> String {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{command:?}: {err}");
    out
}

const PLATFORMS: [(&str, &str); 6] = [
    ("linux", "amd64"),
    ("linux", "arm64"),
    ("darwin", "amd64"),
    ("darwin", "arm64"),
    ("windows", "amd64"),
    ("windows", "arm64"),
];

/// Makes all files of a release, at another time and in another folder for each call.
fn release(folder: &Path) -> PathBuf {
    let (made, programs, dist) = (folder.join("tree"), folder.join("programs"), folder.join("dist"));
    // The program with a debugger's information is too large to be copied for each platform.
    let program = folder.join("pillion");
    write_program(&program, &format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_pillion")));
    done(script("release/tree").arg(&program).arg(&made));
    assert_eq!(digest(&made.join("pillion")), digest(&program));
    fs::remove_file(made.join("pillion")).unwrap();
    fs::create_dir(&programs).unwrap();
    for (os, arch) in PLATFORMS {
        let tree = programs.join(format!("program-{os}-{arch}"));
        done(Command::new("cp").arg("-r").arg(&made).arg(&tree));
        // Not executable, as it comes out of GitHub's artifacts.
        let suffix = if os == "windows" { ".exe" } else { "" };
        fs::write(tree.join(format!("pillion{suffix}")), format!("pillion for {os} {arch}")).unwrap();
    }
    fs::create_dir(&dist).unwrap();
    fs::write(dist.join("policy.wasm"), "a module").unwrap();
    done(script("release/files").arg(TAG).args([&programs, &dist]).env("SOURCE_DATE_EPOCH", "1700000000"));
    dist
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the lines that tar or zip prints of an archive.
fn listing(archive: &Path) -> Vec<String> {
    let is_zip = archive.extension().is_some_and(|extension| extension == "zip");
    let out = if is_zip {
        done(Command::new("zip").arg("-sf").arg(archive))
    } else {
        done(Command::new("tar").arg("-tvzf").arg(archive))
    };
    out.lines().filter(|line| line.contains("pillion-")).map(|line| line.trim().to_owned()).collect()
}

/// Returns the files in an archive.
fn entries(archive: &Path) -> BTreeSet<String> {
    let last = |line: String| line.rsplit(' ').next().unwrap().to_owned();
    listing(archive).into_iter().map(last).filter(|name| !name.ends_with('/')).collect()
}

fn digest(file: &Path) -> String {
    done(Command::new("sha256sum").arg(file)).split(' ').next().unwrap().to_owned()
}

#[test]
fn archives_have_everything_and_the_same_bytes_each_time() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dist = release(one.path());
    // An archive may have the time in steps of two seconds.
    let step = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 2;
    let first = step();
    while step() == first {
        std::thread::sleep(Duration::from_millis(50));
    }
    let again = release(other.path());
    assert_eq!(names(&dist), names(&again));
    for name in names(&dist) {
        assert_eq!(digest(&dist.join(&name)), digest(&again.join(&name)), "{name}");
    }
    for (os, arch) in PLATFORMS {
        let (suffix, extension) = if os == "windows" { (".exe", "zip") } else { ("", "tar.gz") };
        let name = format!("pillion-{os}-{arch}");
        let archive = dist.join(format!("{name}.{extension}"));
        let entries = entries(&archive);
        for file in [
            &format!("pillion{suffix}"),
            &format!("kubectl-pillion{suffix}"),
            "LICENSE",
            "README.md",
            "CHANGELOG.md",
            "completions/pillion.bash",
            "completions/_pillion",
            "completions/pillion.fish",
            "completions/_pillion.ps1",
            "man/pillion.1",
            "man/pillion-inject.1",
        ] {
            assert!(entries.contains(&format!("{name}/{file}")), "{name} has no {file}: {entries:?}");
        }
        assert!(entries.iter().all(|entry| entry.starts_with(&format!("{name}/"))), "{entries:?}");
    }
    let linux = dist.join("pillion-linux-amd64.tar.gz");
    for line in listing(&linux) {
        let is_program = line.ends_with("/pillion") || line.ends_with("-pillion");
        let mode = if line.starts_with('d') || is_program { "rwxr-xr-x" } else { "rw-r--r--" };
        assert!(line.get(1..10) == Some(mode) && line.contains(" 0/0 "), "{line}");
        // krew unpacks folders and files only.
        assert!(line.starts_with(['d', '-']), "{line}");
        assert!(line.contains("2023-11-1"), "{line}");
    }
    // Both names are the same program.
    let unpacked = one.path().join("unpacked");
    fs::create_dir(&unpacked).unwrap();
    done(Command::new("tar").arg("-xzf").arg(&linux).arg("-C").arg(&unpacked));
    for program in ["pillion", "kubectl-pillion"] {
        let path = unpacked.join("pillion-linux-amd64").join(program);
        assert_eq!(fs::read_to_string(path).unwrap(), "pillion for linux amd64");
    }
}

#[test]
fn checksums_cover_all_files_and_signatures_cover_them() {
    let folder = tempfile::tempdir().unwrap();
    let dist = release(folder.path());
    let sums = fs::read_to_string(dist.join("checksums.txt")).unwrap();
    let listed: Vec<&str> = sums.lines().map(|line| line.split_once("  ").unwrap().1).collect();
    let mut others = names(&dist);
    others.retain(|name| name != "checksums.txt");
    assert_eq!(listed, others);
    done(Command::new("sha256sum").args(["--check", "--strict", "checksums.txt"]).current_dir(&dist));
    // With bills of materials, the chart and the signatures of all, these are the files of a release.
    let mut all: BTreeSet<String> = names(&dist).into_iter().collect();
    all.extend(["policy", "pillion", "chart"].map(|of| format!("{of}-sbom.spdx.json")));
    all.insert(format!("pillion-{}.tgz", TAG.trim_start_matches('v')));
    let signatures: Vec<String> = all.iter().map(|name| format!("{name}.bundle.sigstore")).collect();
    all.extend(signatures);
    let assets = done(script("release/assets").arg(TAG));
    assert_eq!(assets.lines().map(str::to_owned).collect::<BTreeSet<_>>(), all);
    // Artifact Hub links to this one.
    assert!(all.contains("policy.wasm"));
}

/// The rules of krew's `validate-krew-manifest`, and what its installer does with an archive.
#[test]
fn krew_accepts_and_installs_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let dist = release(folder.path());
    let plugin = of_yaml("pillion.yaml", &fs::read_to_string(dist.join("pillion.yaml")).unwrap());
    assert_eq!(plugin["apiVersion"], "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(plugin["kind"], "Plugin");
    // The name is the file's, and safe.
    assert_eq!(plugin["metadata"], json!({"name": "pillion"}));
    let spec = &plugin["spec"];
    assert!(Regex::new(r"^v\d+\.\d+\.\d+$").unwrap().is_match(spec["version"].as_str().unwrap()));
    assert_eq!(spec["version"], TAG);
    let short = spec["shortDescription"].as_str().unwrap();
    assert!(
        !short.is_empty() && short.len() <= 50 && !short.contains(['\n', '\r']) && !short.ends_with('.'),
        "{short}"
    );
    assert!(spec["homepage"].as_str().unwrap().starts_with("https://"));
    let mut keys: Vec<&String> = spec.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["caveats", "description", "homepage", "platforms", "shortDescription", "version"]);

    let mut selected = Vec::new();
    for platform in spec["platforms"].as_array().unwrap() {
        selected.push(installed(platform, &dist));
    }
    selected.sort();
    let mut wanted = PLATFORMS.map(|(os, arch)| (os.to_owned(), arch.to_owned()));
    wanted.sort();
    // Each platform is selected by one entry, so no selectors overlap.
    assert_eq!(selected, wanted);
}

/// Checks an entry for a platform against its archive, and returns the platform.
fn installed(platform: &Value, dist: &Path) -> (String, String) {
    let mut keys: Vec<&String> = platform.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["bin", "files", "selector", "sha256", "uri"]);
    let labels = platform["selector"]["matchLabels"].as_object().unwrap();
    assert_eq!(labels.keys().collect::<Vec<_>>(), ["arch", "os"]);
    assert_eq!(platform["selector"].as_object().unwrap().len(), 1);
    let (base, name) = platform["uri"].as_str().unwrap().rsplit_once('/').unwrap();
    assert_eq!(base, format!("https://github.com/pillion/pillion/releases/download/{TAG}"));
    let archive = dist.join(name);
    let sum = platform["sha256"].as_str().unwrap();
    assert!(Regex::new("^[a-f0-9]{64}$").unwrap().is_match(sum));
    assert_eq!(sum, digest(&archive));
    // krew copies each file into the plugin's folder, and links to `bin` in it.
    let entries = entries(&archive);
    let mut copied = BTreeSet::new();
    for operation in platform["files"].as_array().unwrap() {
        let from = operation["from"].as_str().unwrap();
        assert!(entries.contains(from), "{name} has no {from}");
        assert_eq!(operation["to"], ".");
        copied.insert(from.rsplit('/').next().unwrap());
    }
    assert!(copied.contains(platform["bin"].as_str().unwrap()));
    // Without a licence the plugin is not listed.
    assert!(copied.contains("LICENSE"));
    let label = |key: &str| labels[key].as_str().unwrap().to_owned();
    (label("os"), label("arch"))
}

#[test]
fn a_missing_archive_makes_no_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, err) = run(script("release/krew").arg(TAG).arg(folder.path()));
    assert_eq!(code, 1);
    assert!(err.contains("pillion-linux-amd64.tar.gz is missing"), "{err}");
}

/// Returns the targets of all links in a document.
fn links(document: &str) -> Vec<String> {
    document.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link.to_owned())).collect()
}

#[rstest]
fn links_of_usage_texts_lead_to_the_repository(
    #[values(
        "README.md",
        "artifacts/assert/README.md",
        "artifacts/exec/README.md",
        "artifacts/guards/README.md",
        "artifacts/images/README.md",
        "artifacts/token-requests/README.md",
        "artifacts/token-secrets/README.md",
        "artifacts/shoots/README.md"
    )]
    document: &str,
) {
    let usage = done(script("release/usage").args([document, TAG]));
    let (before, after) = (links(&text(document)), links(&usage));
    assert_eq!(before.len(), after.len());
    let ours = format!("https://github.com/pillion/pillion/blob/{TAG}/");
    let mut rewritten = 0;
    for (before, after) in before.iter().zip(&after) {
        assert!(after.starts_with("https://") || after.starts_with('#'), "{after}");
        if before == after {
            assert!(before.starts_with("http") || before.starts_with('#'), "{before}");
            continue;
        }
        let path = after.strip_prefix(&ours).unwrap_or_else(|| panic!("{after}")).split('#').next().unwrap();
        assert!(root().join(path).exists() && !path.contains(".."), "{path}");
        assert_eq!(
            before.split_once('#').map(|(_, heading)| heading),
            after.split_once('#').map(|(_, heading)| heading)
        );
        rewritten += 1;
    }
    assert!(rewritten > 1, "{after:?}");
    // Nothing else changes.
    let plain = |text: &str| Regex::new(r"\]\([^)]*\)").unwrap().replace_all(text, "]()").into_owned();
    assert_eq!(plain(&usage), plain(&text(document)));
}

#[test]
fn a_link_that_leaves_the_repository_is_an_error() {
    fs::create_dir_all(root().join("target")).unwrap();
    let folder = tempfile::tempdir_in(root().join("target")).unwrap();
    let document = folder.path().join("README.md");
    fs::write(&document, "[up](../../../../README.md)\n").unwrap();
    let path = document.strip_prefix(root()).unwrap();
    let (code, _, err) = run(script("release/usage").arg(path).arg(TAG));
    assert_ne!(code, 0);
    assert!(err.contains("leaves the repository"), "{err}");
}

/// A flat branch: no file but the packages and their descriptions, whose links all lead elsewhere.
#[test]
fn artifact_hub_reads_packages_whose_links_work() {
    let folder = tempfile::tempdir().unwrap();
    done(script("release/artifacthub").arg(TAG).arg(folder.path()));
    assert_eq!(names(folder.path()), ["README.md", "artifacthub-pkg.yml", "artifacthub-repo.yml", "artifacts"]);
    let mut packages = vec![folder.path().to_owned()];
    for name in names(&folder.path().join("artifacts")) {
        let package = folder.path().join("artifacts").join(name);
        assert_eq!(names(&package), ["README.md", "artifacthub-pkg.yml"]);
        packages.push(package);
    }
    assert_eq!(packages.len(), super::artifacts::ARTIFACTS.len());
    let mut titles = BTreeSet::new();
    for package in packages {
        let relative = links(&fs::read_to_string(package.join("README.md")).unwrap());
        let relative: Vec<_> = relative.into_iter().filter(|link| !link.starts_with(['h', '#'])).collect();
        assert_eq!(relative, [""; 0], "{}", package.display());
        let yaml = of_yaml("package", &fs::read_to_string(package.join("artifacthub-pkg.yml")).unwrap());
        titles.insert(yaml["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(titles.len(), super::artifacts::ARTIFACTS.len());
}

/// A copy of the files that `.ci/release/check` reads, at version 1.2.3.
fn versions() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", "version = \"1.2.3\"\n");
    for metadata in ["metadata.yml", "artifacts/guards/metadata.yml"] {
        write(metadata, "annotations:\n  io.kubewarden.policy.version: 1.2.3\n");
    }
    write("charts/pillion/Chart.yaml", "version: 1.2.3\nappVersion: 1.2.3\n");
    write("CHANGELOG.md", "## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n");
    write_program(&folder.path().join(".ci/release/check"), &text(".ci/release/check"));
    folder
}

#[rstest]
#[case::all(None)]
#[case::policy(Some("Cargo.toml"))]
#[case::metadata(Some("metadata.yml"))]
#[case::artifact(Some("artifacts/guards/metadata.yml"))]
#[case::chart(Some("charts/pillion/Chart.yaml"))]
#[case::changelog(Some("CHANGELOG.md"))]
fn a_tag_needs_its_version_everywhere(#[case] stale: Option<&str>) {
    let folder = versions();
    if let Some(stale) = stale {
        let path = folder.path().join(stale);
        let text = fs::read_to_string(&path).unwrap().replace("1.2.3", "1.2.2");
        fs::write(&path, text).unwrap();
    }
    let (code, _, err) = run(Command::new(folder.path().join(".ci/release/check")).arg(TAG));
    match stale {
        None => assert_eq!((code, err.as_str()), (0, "")),
        Some(stale) => {
            assert_eq!(code, 1);
            assert!(!err.is_empty() && err.lines().all(|line| line.starts_with(stale)), "{err}");
        }
    }
}

#[test]
fn a_tag_is_a_version() {
    for tag in ["1.2.3", "v1.2", "vv1.2.3", "v1.2.3 "] {
        assert_eq!(run(script("release/check").arg(tag)).0, 2, "{tag}");
    }
}

#[test]
fn a_file_with_other_bytes_is_not_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.wasm");
    fs::write(&file, "a module").unwrap();
    let sum = digest(&file);
    done(script("same").arg(&sum).arg(&file));
    fs::write(&file, "another module").unwrap();
    let (code, _, err) = run(script("same").arg(&sum).arg(&file));
    assert_eq!(code, 1);
    assert!(err.contains(&sum), "{err}");
    assert_eq!(run(script("same").arg("").arg(&file)).0, 2);
}

/// The flags map the folders that differ between machines.
#[test]
fn folders_of_this_machine_are_mapped() {
    let toml = done(script("remap").arg("toml").env("CARGO_HOME", "/somewhere/cargo").env_remove("CARGO_TARGET_DIR"));
    let flags = toml.trim().trim_matches(['[', ']']).replace('\'', "");
    let flags: Vec<&str> = flags.split(',').collect();
    assert_eq!(flags.len(), 3);
    assert_eq!(flags[0], format!("--remap-path-prefix={}=/pillion", root().display()));
    assert_eq!(flags[1], "--remap-path-prefix=/somewhere/cargo=/cargo");
    assert!(flags[2].contains("/lib/rustlib/src/rust=/rustc/"), "{}", flags[2]);
    let encoded =
        done(script("remap").arg("encoded").env("CARGO_HOME", "/somewhere/cargo").env_remove("CARGO_TARGET_DIR"));
    assert_eq!(encoded.split('\x1f').collect::<Vec<_>>(), flags);
}
