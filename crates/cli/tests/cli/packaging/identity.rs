//! The identity of the signers: all documents and files that name it name the workflow that signs.

use serde_json::{Value, json};

use super::{annotation, yaml};
use crate::support::files::text;

const WORKFLOW: &str = ".github/workflows/release.yml";
const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// Returns owner and name of the repository.
fn repository() -> (String, String) {
    let source = annotation(&yaml("metadata.yml"), "io.kubewarden.policy.source");
    let path = source.strip_prefix("https://github.com/").expect("a repository of GitHub");
    let (owner, name) = path.split_once('/').expect("owner/name");
    (owner.to_owned(), name.to_owned())
}

/// Returns what certificates say: the workflow's file, and behind it the tag that started it.
fn identity() -> String {
    let (owner, name) = repository();
    format!("https://github.com/{owner}/{name}/{WORKFLOW}@refs/tags/")
}

fn jobs() -> Vec<(String, Value)> {
    let workflow = super::workflow(WORKFLOW);
    let jobs = workflow["jobs"].as_object().unwrap();
    jobs.iter().map(|(name, job)| (name.clone(), job.clone())).collect()
}

fn runs(job: &Value) -> impl Iterator<Item = &str> {
    job["steps"].as_array().into_iter().flatten().filter_map(|step| step["run"].as_str())
}

/// A certificate names the workflow with the job. A job of a workflow that another one calls has the identity of that
/// workflow.
#[test]
fn the_workflow_signs_in_its_own_jobs_when_a_tag_is_pushed() {
    let workflow = super::workflow(WORKFLOW);
    assert_eq!(workflow["on"], json!({"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+*"]}}));
    let mut signing = Vec::new();
    for (name, job) in jobs() {
        let signs = runs(&job).any(|run| run.contains(".ci/release/sign"));
        let attests = job["steps"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|step| step["uses"].as_str().is_some_and(|action| action.starts_with("actions/attest")));
        let permissions = &job["permissions"];
        assert_eq!(permissions["id-token"] == "write", signs || attests, "{name}");
        assert_eq!(permissions["attestations"] == "write", attests, "{name}");
        assert!(!signs || job.get("uses").is_none(), "{name} signs in another workflow");
        if signs {
            assert!(attests, "{name} signs, and says nothing of the origin");
            signing.push(name.clone());
        }
        if let Some(called) = job["uses"].as_str() {
            assert!(called.starts_with("./"), "{name} would give {called} the rights to sign");
        }
    }
    signing.sort();
    assert_eq!(signing, ["chart", "files", "image-manifest", "policies"]);
}

#[test]
fn the_verification_config_trusts_the_workflow_and_nothing_else() {
    let (owner, repo) = repository();
    assert_eq!(
        yaml("deploy/verification-config.yml"),
        json!({"apiVersion": "v1", "allOf": [
            {"kind": "githubAction", "owner": owner, "repo": repo},
            {"kind": "genericIssuer", "issuer": ISSUER, "subject": {"urlPrefix": identity()}},
        ]})
    );
}

/// Every identity and issuer in the document is ours, and every kind of thing that is signed has a command.
#[test]
fn the_document_names_the_workflow() {
    let document = text("SECURITY.md");
    let identity = identity();
    let named: Vec<&str> = document.split("--certificate-identity ").skip(1).collect();
    assert!(named.len() >= 2, "{}", named.len());
    for command in named {
        assert!(command.starts_with(&format!("{identity}vX.Y.Z")), "{}", command.lines().next().unwrap());
    }
    let (owner, name) = repository();
    let signer = format!("{owner}/{name}/{WORKFLOW}");
    let words = document.split_whitespace().map(|word| word.trim_matches(['`', '.']));
    let other: Vec<_> = words
        .filter(|word| word.contains(".github/workflows") && !word.starts_with(&identity) && *word != signer)
        .collect();
    assert_eq!(other, [""; 0]);
    for issuer in document.split("--certificate-oidc-issuer ").skip(1) {
        assert!(issuer.starts_with(ISSUER), "{}", issuer.lines().next().unwrap());
    }
    for part in [
        "kwctl verify --verification-config-path verification-config.yml registry://ghcr.io/OWNER/policies/pillion:vX.Y.Z",
        "cosign verify ghcr.io/OWNER/NAME:vX.Y.Z",
        "cosign verify ghcr.io/OWNER/charts/NAME:X.Y.Z",
        "cosign verify-blob --bundle",
        "gh attestation verify",
        "--signer-workflow OWNER/NAME/.github/workflows/release.yml",
        "verificationConfig",
    ] {
        let part = part.replace("OWNER", &owner).replace("NAME", &name);
        assert!(document.contains(&part), "SECURITY.md has no {part}");
    }
}

/// The registry's names in the workflow are those of the metadata and of the documents.
#[test]
fn the_workflow_pushes_what_the_metadata_names() {
    let text = text(WORKFLOW);
    let (owner, _) = repository();
    let published = text.replace("${{ github.repository_owner }}", &owner);
    for name in ["ghcr.io/pillion/policies/pillion", "ghcr.io/pillion/pillion", "ghcr.io/pillion/charts"] {
        assert!(published.contains(&format!(" {name}")), "{name}");
    }
    assert_eq!(annotation(&yaml("metadata.yml"), "io.kubewarden.policy.ociUrl"), "ghcr.io/pillion/policies/pillion");
}
