//! The data of the Helm chart (`charts/pillion/files`): what the templates would otherwise repeat by hand. A test
//! compares the files with these functions, and renews them.
//!
//! Helm cannot run this program, so the chart decides by facts about its settings ([`facts`]). The data say which facts
//! make a part, a look-up or a right necessary. Texts such as [`NAME`] are places that the templates fill in.

mod controllers;
mod facts;
mod parts;
mod schema;

use anyhow::Context as _;
use pillion_yaml::{self as yaml, Tree};
use serde_json::Value;

use super::controller::guard::{self, Limited};
use super::crd::{self, Conversion};

/// Stands for the name of the objects.
const NAME: &str = "@NAME@";
/// Stands for the namespace of the release.
const NAMESPACE: &str = "@NAMESPACE@";
/// Stands for a namespace of `serviceAccounts.protectedNamespaces`.
const PROTECTED: &str = "@PROTECTED@";
/// Stands for a regular expression of `patchPodMetadataWhitelist`.
const ANNOTATION: &str = "@ANNOTATION@";

/// A file of the chart.
#[derive(Clone, Debug)]
pub struct File {
    /// The path below the chart's folder.
    pub path: &'static str,
    /// The content.
    pub text: String,
}

/// Returns the generated files of the chart.
///
/// # Errors
/// If something cannot be serialized, which is a bug in this program.
pub fn files() -> anyhow::Result<Vec<File>> {
    let definition = |conversion: &Conversion| crd::document(NAME, conversion, &Value::Null).object;
    let webhook = Conversion::Webhook(Value::Object(serde_json::Map::new()));
    Ok(vec![
        of_yaml("files/parts.yaml", "The parts of the policy, and the rights for what they read.", &parts::data()?),
        of_yaml("files/controllers.yaml", "The controllers and their rights.", &controllers::data()),
        of_yaml("files/rollout-guard.yaml", "What limits the controller sidecarset-rollout.", &guard()),
        of_yaml("files/settings.yaml", "Defaults of the settings.", &facts::defaults()),
        of_yaml(
            "files/sidecarset-crd.yaml",
            "The SidecarSet definition, without conversion.",
            &definition(&Conversion::None),
        ),
        of_yaml(
            "files/sidecarset-crd-webhook.yaml",
            "The SidecarSet definition, with a webhook that converts.",
            &definition(&webhook),
        ),
        File { path: "values.schema.json", text: schema::text().context("values.schema.json")? },
    ])
}

fn of_yaml(path: &'static str, about: &str, value: &Value) -> File {
    let text = format!(
        "# {about}\n# crates/cli/tests/cli/chart.rs compares this file with the code, and renews it with PILLION_RENEW=1.\n{}",
        yaml::print(&Tree::conventional(value))
    );
    File { path, text }
}

/// Returns the policy that limits rollouts, and its binding, with places to fill in.
fn guard() -> Value {
    let (annotations, protected) = ([ANNOTATION.to_owned()], [PROTECTED.to_owned()]);
    let limited = Limited { name: NAME, account: (NAMESPACE, NAME), annotations: &annotations, protected: &protected };
    let specs = guard::documents(limited).into_iter().map(|document| {
        let kind = pillion_kubernetes::json::text(&document.object, &["kind"]).to_owned();
        (kind, document.object.get("spec").cloned().unwrap_or_default())
    });
    Value::Object(specs.collect())
}
