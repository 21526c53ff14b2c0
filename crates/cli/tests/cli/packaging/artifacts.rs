//! The artifacts: one module, published with several metadata files. Each asks for exactly the requests of its parts,
//! so that what Artifact Hub, Rancher and `kwctl scaffold manifest` make of one is right by itself.

use std::collections::BTreeSet;
use std::fs;

use pillion_admission::settings::{Role, Settings};
use pillion_host::metadata::Metadata;
use pillion_install::rendering::answers::Part;
use pillion_install::rendering::needs::{Needs, Read};
use pillion_yaml::{self as emit, Tree};
use rstest::rstest;
use serde_json::{Value, json};

use super::{annotation, of_yaml, sorted, suggested, yaml};
use crate::support::files::{RULE, combinations, objects, root, text};

/// The variable that makes the tests write the generated files.
const RENEW: &str = "PILLION_RENEW";

/// A published artifact.
pub struct Artifact {
    /// The folder of its files.
    pub folder: &'static str,
    /// The parts of the module's work that it is for.
    pub parts: &'static [Part],
}

/// All artifacts. The first one is the policy that injects.
pub const ARTIFACTS: [Artifact; 8] = [
    Artifact { folder: ".", parts: &[Part::Pods, Part::Sidecarsets] },
    Artifact { folder: "artifacts/assert", parts: &[Part::Assert] },
    Artifact { folder: "artifacts/guards", parts: &[Part::Guards] },
    Artifact { folder: "artifacts/exec", parts: &[Part::Exec] },
    Artifact { folder: "artifacts/images", parts: &[Part::Images] },
    Artifact { folder: "artifacts/token-requests", parts: &[Part::TokenRequests] },
    Artifact { folder: "artifacts/token-secrets", parts: &[Part::TokenSecrets] },
    Artifact { folder: "artifacts/shoots", parts: &[Part::Shoots] },
];

impl Artifact {
    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.folder)
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> Value {
        yaml(&self.path("metadata.yml"))
    }

    /// Returns the suffix of its name: `-guards`.
    fn suffix(&self) -> String {
        self.folder.strip_prefix("artifacts/").map(|name| format!("-{name}")).unwrap_or_default()
    }
}

fn artifact(folder: &str) -> &'static Artifact {
    ARTIFACTS.iter().find(|artifact| artifact.folder == folder).unwrap_or_else(|| panic!("no artifact {folder}"))
}

/// Returns what the parts need if the settings turn everything on, with any SidecarSets.
fn needs() -> Needs {
    let raw = json!({
        "featureGates": {"SidecarSetServiceAccountInjection": true},
        "bundleRef": {"namespace": "pillion-system", "name": "pillion-bundle"},
        "serviceAccounts": {"guards": {"exec": true, "images": true, "tokenRequests": true}},
        "shoots": {"enabled": true},
    });
    Needs::from_settings(&raw, &Settings::decode(raw.clone()).unwrap(), true).unwrap()
}

/// Compares a generated file with the one of the repository, or writes it.
fn compare(path: &str, wanted: &str) {
    if std::env::var_os(RENEW).is_some() {
        fs::write(root().join(path), wanted).unwrap();
    }
    assert!(text(path) == wanted, "{path} is stale; make artifacts-renew writes it");
}

#[test]
fn every_folder_is_an_artifact_and_every_part_is_in_one() {
    let folders: BTreeSet<String> = fs::read_dir(root().join("artifacts"))
        .unwrap()
        .map(|entry| format!("artifacts/{}", entry.unwrap().file_name().into_string().unwrap()))
        .collect();
    assert_eq!(folders, ARTIFACTS.iter().skip(1).map(|artifact| artifact.folder.to_owned()).collect());
    let parts: Vec<Part> = ARTIFACTS.iter().flat_map(|artifact| artifact.parts).copied().collect();
    assert_eq!(parts.len(), Part::ALL.len());
    assert_eq!(parts.into_iter().collect::<BTreeSet<_>>(), Part::ALL.into());
    // The Makefile builds them, and the workflow publishes them.
    let names: Vec<&str> = folders.iter().map(|folder| folder.trim_start_matches("artifacts/")).collect();
    assert!(text("Makefile").contains(&format!("\nARTIFACTS := {}\n", names.join(" "))), "{names:?}");
    let published = format!("artifact: [policy, {}]", names.join(", "));
    assert!(text(".github/workflows/release.yml").contains(&published), "{published}");
}

/// One artifact has exactly the rules of its parts, and says of itself what they do.
#[rstest]
fn an_artifact_is_about_its_parts(
    #[values(
        ".",
        "artifacts/assert",
        "artifacts/exec",
        "artifacts/guards",
        "artifacts/images",
        "artifacts/token-requests",
        "artifacts/token-secrets",
        "artifacts/shoots"
    )]
    folder: &str,
) {
    let (artifact, needs) = (artifact(folder), needs());
    let metadata = artifact.metadata();
    let rules: Value = artifact.parts.iter().flat_map(|part| part.rules()).map(|rule| rule.to_value()).collect();
    assert_eq!(combinations(&metadata["rules"], &RULE), combinations(&rules, &RULE));
    assert_eq!(metadata["rules"].as_array().unwrap().len(), rules.as_array().unwrap().len());
    assert_eq!(metadata["mutating"], json!(artifact.parts.iter().any(|part| part.mutates())));
    let reads: BTreeSet<Read> = artifact.parts.iter().flat_map(|part| needs.parts[part].iter().copied()).collect();
    let kinds = reads.iter().map(|read| json!({"apiVersion": read.kind().0, "kind": read.kind().1}).to_string());
    let listed = metadata.get("contextAwareResources").map(sorted).unwrap_or_default();
    assert_eq!(listed, kinds.collect());
    let mut capabilities = Vec::new();
    if !reads.is_empty() {
        capabilities.push("kubernetes/get_resource");
    }
    let asks = |part: &Part| *part == Part::Exec || *part == Part::Sidecarsets && needs.asks_authors;
    if artifact.parts.iter().any(asks) {
        capabilities.push("kubernetes/can_i");
    }
    assert_eq!(metadata.get("hostCapabilities").cloned().unwrap_or(json!([])), json!(capabilities));

    // kinds of the rules, for Artifact Hub
    let resources = annotation(&metadata, "io.artifacthub.resources");
    let kinds: BTreeSet<String> = resources.split(", ").map(|kind| kind.to_lowercase() + "s").collect();
    let asked = combinations(&rules, &["resources"]);
    let asked = asked.iter().map(|rule| rule[0].split('/').next().unwrap().to_owned()).collect();
    assert_eq!(kinds, asked);
}

#[rstest]
fn artifacts_differ_in_name_and_share_the_rest(
    #[values(
        "artifacts/assert",
        "artifacts/exec",
        "artifacts/guards",
        "artifacts/images",
        "artifacts/token-requests",
        "artifacts/token-secrets",
        "artifacts/shoots"
    )]
    folder: &str,
) {
    let artifact = artifact(folder);
    let (main, of) = (yaml("metadata.yml"), artifact.metadata());
    let suffix = artifact.suffix();
    for key in ["io.kubewarden.policy.title", "io.kubewarden.policy.ociUrl"] {
        assert_eq!(annotation(&of, key), annotation(&main, key) + &suffix);
    }
    for key in ["version", "author", "url", "source", "license"] {
        let key = format!("io.kubewarden.policy.{key}");
        assert_eq!(annotation(&of, &key), annotation(&main, &key), "{key}");
    }
    for key in ["io.kubewarden.policy.description", "io.artifacthub.displayName"] {
        assert_ne!(annotation(&of, key), annotation(&main, key), "{key}");
    }
    for key in ["executionMode", "policyType", "backgroundAudit", "minimumKubewardenVersion"] {
        assert_eq!(of[key], main[key], "{key}");
    }
    // The registry's path is the last word, and the title the first one, in what Kubewarden makes of it.
    let keys: Vec<&String> = of["annotations"].as_object().unwrap().keys().collect();
    assert_eq!(keys, main["annotations"].as_object().unwrap().keys().collect::<Vec<_>>());
    let (_, unknown) = Metadata::from_yaml(&text(&artifact.path("metadata.yml"))).unwrap();
    assert_eq!(unknown, [""; 0]);
}

/// The settings that the usage text shows are valid, and turn the part on.
#[rstest]
fn the_usage_text_names_the_settings(
    #[values(
        "artifacts/assert",
        "artifacts/exec",
        "artifacts/guards",
        "artifacts/images",
        "artifacts/token-requests",
        "artifacts/token-secrets",
        "artifacts/shoots"
    )]
    folder: &str,
) {
    let artifact = artifact(folder);
    let usage = text(&artifact.path("README.md"));
    let (_, block) = usage.split_once("```yaml\n").expect("settings");
    let (block, _) = block.split_once("```").unwrap();
    let raw = of_yaml("usage", block)["settings"].clone();
    let settings = Settings::decode(raw.clone()).unwrap();
    assert_eq!(settings.validate(), []);
    let [part] = artifact.parts else { panic!("one part") };
    assert_eq!(settings.role, if *part == Part::Assert { Role::Assert } else { Role::Inject });
    assert!(
        Needs::from_settings(&raw, &settings, false).unwrap().has(*part),
        "the settings do not turn {} on",
        part.name()
    );
    let metadata = artifact.metadata();
    let version = annotation(&metadata, "io.kubewarden.policy.version");
    let image = format!("registry://{}:v{version}", annotation(&metadata, "io.kubewarden.policy.ociUrl"));
    let command = usage.lines().find(|line| line.starts_with("kwctl scaffold manifest")).expect("the command");
    assert!(command.ends_with(&image), "{command}");
    let reads = metadata.get("contextAwareResources").is_some();
    assert_eq!(command.contains("--allow-context-aware"), reads, "{command}");
}

/// Returns `artifacthub-pkg.yml` as `kwctl scaffold artifacthub` makes it, apart from the order of its keys.
fn package(artifact: &Artifact, created: &str) -> Value {
    let metadata = artifact.metadata();
    let of = |key: &str| annotation(&metadata, key);
    let version = of("io.kubewarden.policy.version");
    let image = format!("{}:v{version}", of("io.kubewarden.policy.ociUrl"));
    let source = of("io.kubewarden.policy.source");
    let author = of("io.kubewarden.policy.author");
    let (name, email) = author.trim_end_matches('>').split_once(" <").expect("Name <address>");
    let list = |value: &Value| emit::print(&Tree::conventional(value));
    let keywords = of("io.artifacthub.keywords");
    let mut annotations = json!({
        "kubewarden/mutation": metadata["mutating"].to_string(),
        "kubewarden/questions-ui": form(artifact),
        "kubewarden/resources": of("io.artifacthub.resources"),
        "kubewarden/rules": list(&metadata["rules"]),
    });
    if let Some(resources) = metadata.get("contextAwareResources") {
        annotations["kubewarden/contextAwareResources"] = list(resources).into();
    }
    json!({
        "version": version,
        "name": of("io.kubewarden.policy.title"),
        "displayName": of("io.artifacthub.displayName"),
        "createdAt": created,
        "description": of("io.kubewarden.policy.description"),
        "license": of("io.kubewarden.policy.license"),
        "homeURL": of("io.kubewarden.policy.url"),
        "containersImages": [{"name": "policy", "image": image}],
        "keywords": keywords.split(", ").collect::<Vec<_>>(),
        "links": [
            {"name": "policy", "url": format!("{source}/releases/download/v{version}/policy.wasm")},
            {"name": "source", "url": source},
        ],
        "install": format!(
            "The policy can be obtained using [kwctl](https://docs.kubewarden.io/howtos/install-kwctl):\n\
             ```console\nkwctl pull {image}\n```\n\
             Then, generate the policy manifest and tune it to your liking. For example:\n\
             ```console\nkwctl scaffold manifest -t ClusterAdmissionPolicy registry://{image}\n```\n"
        ),
        "maintainers": [{"name": name, "email": email}],
        "provider": {"name": "kubewarden"},
        "recommendations": [{"url": "https://artifacthub.io/packages/helm/kubewarden/kubewarden-controller"}],
        "annotations": annotations,
    })
}

/// Returns the day of the release if the changelog has one for the version.
fn released(changelog: &str, version: &str) -> Option<String> {
    let heading = format!("## [{version}] - ");
    changelog.lines().find_map(|line| line.strip_prefix(&heading).map(|day| day.trim().to_owned()))
}

/// The file is the output of `kwctl scaffold artifacthub` for the metadata and the form. The day is that of the release.
#[rstest]
fn artifact_hub_is_told_what_the_metadata_says(
    #[values(
        ".",
        "artifacts/assert",
        "artifacts/exec",
        "artifacts/guards",
        "artifacts/images",
        "artifacts/token-requests",
        "artifacts/token-secrets",
        "artifacts/shoots"
    )]
    folder: &str,
) {
    let artifact = artifact(folder);
    let version = annotation(&artifact.metadata(), "io.kubewarden.policy.version");
    let day = released(&text("CHANGELOG.md"), &version).unwrap_or_else(|| {
        yaml("artifacthub-pkg.yml")["createdAt"].as_str().and_then(|time| time.get(..10)).expect("a day").to_owned()
    });
    assert!(day.len() == 10 && day.starts_with("20"), "{day}");
    let wanted = format!(
        "# What Artifact Hub and Rancher show of the policy. Made of metadata.yml and questions-ui.yml by\n\
         # `make artifacts-renew`; a test keeps the three together.\n{}",
        emit::print(&Tree::conventional(&package(artifact, &format!("{day}T00:00:00Z"))))
    );
    compare(&artifact.path("artifacthub-pkg.yml"), &wanted);
    assert_eq!(objects("artifacthub-pkg.yml", &wanted).len(), 1);
}

#[rstest]
#[case::unreleased("## [Unreleased]\n", None)]
#[case::released("## [0.2.0] - 2027-01-02\n\n## [0.1.0] - 2026-12-24\n", Some("2026-12-24"))]
fn the_day_of_a_release_is_in_the_changelog(#[case] changelog: &str, #[case] day: Option<&str>) {
    assert_eq!(released(changelog, "0.1.0").as_deref(), day);
}

/// Whether the form of an artifact asks for a setting: those that the part reads.
fn asks(part: Part, setting: &str) -> bool {
    let is_about_shoots = setting.starts_with("shoots.");
    match part {
        Part::Shoots => is_about_shoots,
        Part::Images => is_about_guard(setting, "image"),
        Part::TokenRequests => is_about_guard(setting, "tokenRequest") || setting == "serviceAccounts.controllerUser",
        Part::TokenSecrets => setting.starts_with("serviceAccounts.legacyToken"),
        Part::Assert => !is_about_shoots,
        _ => !is_about_shoots && setting != "role",
    }
}

/// Whether a setting is one of this guard of running Pods, or of all of them.
fn is_about_guard(setting: &str, begins: &str) -> bool {
    let guard = setting.strip_prefix("serviceAccounts.guards.");
    guard.is_some_and(|name| name.starts_with(begins) || name == "breakGlassGroups")
}

/// The settings with another default: without them, the part does nothing, or not its work.
fn default(part: Part, setting: &str) -> Option<(&'static str, &'static str)> {
    match (part, setting) {
        (Part::Assert, "role") => Some(("default: Inject", "default: Assert")),
        (Part::Assert | Part::Guards, "featureGates.SidecarSetServiceAccountInjection")
        | (Part::Exec, "serviceAccounts.guards.exec")
        | (Part::Images, "serviceAccounts.guards.images")
        | (Part::TokenRequests, "serviceAccounts.guards.tokenRequests")
        | (Part::Shoots, "shoots.enabled") => Some(("default: false", "default: true")),
        _ => None,
    }
}

/// Returns the form of an artifact. That of the policy that injects is written by hand; the others are parts of it, with
/// the defaults that they need.
fn form(artifact: &Artifact) -> String {
    let whole = text("questions-ui.yml");
    let [part] = artifact.parts else { return whole };
    let mut form =
        "# Rancher's form for the settings of this artifact. Made of questions-ui.yml in the root folder by\n\
                    # `make artifacts-renew`.\nquestions:\n"
            .to_owned();
    let mut changed = 0;
    for question in whole.split("\n  - variable: ").skip(1) {
        let setting = question.lines().next().unwrap();
        if asks(*part, setting) {
            let mut question = question.trim_end().to_owned();
            if let Some((before, after)) = default(*part, setting) {
                assert_eq!(question.matches(before).count(), 1, "{setting}");
                question = question.replace(before, after);
                changed += 1;
            }
            form.extend(["  - variable: ", question.as_str(), "\n\n"]);
        }
    }
    assert_eq!(
        changed,
        match part {
            Part::Assert => 2,
            Part::Guards | Part::Exec | Part::Images | Part::TokenRequests | Part::Shoots => 1,
            _ => 0,
        }
    );
    format!("{}\n", form.trim_end())
}

#[rstest]
fn the_form_of_an_artifact_asks_for_what_it_reads(
    #[values(
        "artifacts/assert",
        "artifacts/exec",
        "artifacts/guards",
        "artifacts/images",
        "artifacts/token-requests",
        "artifacts/token-secrets",
        "artifacts/shoots"
    )]
    folder: &str,
) {
    let artifact = artifact(folder);
    let form = form(artifact);
    compare(&artifact.path("questions-ui.yml"), &form);
    let raw = suggested(&of_yaml("form", &form));
    let settings = Settings::decode(raw.clone()).unwrap();
    assert_eq!(settings.validate(), []);
    let [part] = artifact.parts else { panic!("one part") };
    assert_eq!(settings.role == Role::Assert, *part == Part::Assert);
    assert!(*part == Part::TokenSecrets || Needs::from_settings(&raw, &settings, false).unwrap().has(*part));
}
