//! Manifests that `pillion manifest` renders.

use std::fs;

use clap::FromArgMatches as _;
use pillion_install::rendering::options::Kubewarden;
use pillion_install::rendering::{document, kubewarden};
use pillion_install::settings;
use pillion_samples::repository::root;
use rstest::rstest;

use super::support::{check, folder};

/// `pillion check` has no findings in the rendered manifests.
#[rstest]
#[case::sidecars_alone("test_data/settings-log-agent.json", &[])]
#[case::isolate("examples/identity-isolate/settings.yaml", &[])]
#[case::merge("examples/identity-merge/settings.yaml", &["--any-sidecar-sets"])]
#[case::deploy("deploy/policy-pods.yaml", &[])]
#[case::kubewarden("examples/kubewarden/settings.yaml", &[])]
#[case::manifests("examples/kubewarden/settings.yaml", &["--sidecar-sets", "manifests"])]
fn check_accepts_what_is_rendered(#[case] settings: &str, #[case] flags: &[&str]) {
    let flags = std::iter::once("pillion").chain(flags.iter().copied());
    let arguments = <Kubewarden as clap::Args>::augment_args(clap::Command::new("pillion")).get_matches_from(flags);
    let options = Kubewarden::from_arg_matches(&arguments).unwrap();
    let given = settings::with_policy(&root().join(settings)).unwrap().value;
    let rendered = kubewarden::render(&settings::assemble(given, &[]).value, &options).unwrap();
    let here = folder(&[]);
    for (index, document) in rendered.documents.iter().enumerate() {
        fs::write(here.path().join(format!("{index}.yaml")), document::to_yaml([document]).unwrap()).unwrap();
    }
    // Some of the SidecarSets have an emptyDir, and no Pods tell whether their nodes may go.
    let answer = check(here.path(), &["--warnings-as-errors", "--disable", "local-volume", "."], "");
    assert_eq!((answer.code, answer.out.as_str()), (0, ""), "{}", answer.err);
}
