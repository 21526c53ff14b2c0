//! Tools that keep an object as Git or a chart has it, and set back what others write.

use pillion_kubernetes::json;
use serde_json::Value;

/// A tool that owns an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The name of the tool.
    pub tool: &'static str,
    /// Where the object says so, as in `annotation argocd.argoproj.io/tracking-id`.
    pub sign: &'a str,
    /// What to do instead.
    pub remedy: &'static str,
}

const IN_GIT: &str = "change it in Git";
const IN_CHART: &str = "change the values of the release, or use `helm rollback`";

/// A mark that a tool leaves.
struct Mark {
    tool: &'static str,
    /// `labels` or `annotations`.
    field: &'static str,
    key: &'static str,
    sign: &'static str,
    remedy: &'static str,
}

/// The marks, in the order in which they are looked for: Flux installs charts with Helm's own marks.
const MARKS: [Mark; 5] = [
    Mark {
        tool: "Argo CD",
        field: "annotations",
        key: "argocd.argoproj.io/tracking-id",
        sign: "annotation argocd.argoproj.io/tracking-id",
        remedy: IN_GIT,
    },
    Mark {
        tool: "Argo CD",
        field: "labels",
        key: "argocd.argoproj.io/instance",
        sign: "label argocd.argoproj.io/instance",
        remedy: IN_GIT,
    },
    Mark {
        tool: "Flux",
        field: "labels",
        key: "kustomize.toolkit.fluxcd.io/name",
        sign: "label kustomize.toolkit.fluxcd.io/name",
        remedy: IN_GIT,
    },
    Mark {
        tool: "Flux",
        field: "labels",
        key: "helm.toolkit.fluxcd.io/name",
        sign: "label helm.toolkit.fluxcd.io/name",
        remedy: IN_GIT,
    },
    Mark {
        tool: "Helm",
        field: "annotations",
        key: "meta.helm.sh/release-name",
        sign: "annotation meta.helm.sh/release-name",
        remedy: IN_CHART,
    },
];

/// Field managers, and their tools.
const MANAGERS: [(&str, &str); 3] =
    [("argocd-controller", "Argo CD"), ("kustomize-controller", "Flux"), ("helm-controller", "Flux")];

/// Returns the tool that owns an object; `None` if there is no sign of one.
pub fn owner(object: &Value) -> Option<Owner<'_>> {
    let of_managers = || {
        let managers = json::items(object, &["metadata", "managedFields"]).iter();
        managers.map(|entry| json::text(entry, &["manager"])).find_map(|manager| {
            let (sign, tool) = MANAGERS.iter().find(|(name, _)| *name == manager)?;
            Some(Owner { tool, sign, remedy: IN_GIT })
        })
    };
    let marked = |mark: &&Mark| json::at(object, &["metadata", mark.field, mark.key]).is_some();
    let (charts, others): (Vec<&Mark>, Vec<&Mark>) = MARKS.iter().filter(marked).partition(|mark| mark.tool == "Helm");
    let of = |mark: &&Mark| Owner { tool: mark.tool, sign: mark.sign, remedy: mark.remedy };
    others.first().map(of).or_else(of_managers).or_else(|| charts.first().map(of))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::argo_cd(json!({"annotations": {"argocd.argoproj.io/tracking-id": "a:b"}}), Some("Argo CD"))]
    #[case::argo_cd_by_label(json!({"labels": {"argocd.argoproj.io/instance": "a"}}), Some("Argo CD"))]
    #[case::argo_cd_by_manager(json!({"managedFields": [{"manager": "kubectl"}, {"manager": "argocd-controller"}]}), Some("Argo CD"))]
    #[case::flux(json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "a"}}), Some("Flux"))]
    #[case::flux_by_manager(json!({"managedFields": [{"manager": "kustomize-controller"}]}), Some("Flux"))]
    #[case::chart_of_flux(
        json!({"labels": {"helm.toolkit.fluxcd.io/name": "a"}, "annotations": {"meta.helm.sh/release-name": "a"}}), Some("Flux")
    )]
    #[case::chart_of_flux_by_manager(
        json!({"managedFields": [{"manager": "helm-controller"}], "annotations": {"meta.helm.sh/release-name": "a"}}), Some("Flux")
    )]
    #[case::helm(json!({"annotations": {"meta.helm.sh/release-name": "a"}}), Some("Helm"))]
    #[case::a_label_that_charts_set(json!({"labels": {"app.kubernetes.io/instance": "a"}}), None)]
    #[case::people(json!({"managedFields": [{"manager": "kubectl-client-side-apply"}]}), None)]
    #[case::nothing(json!({}), None)]
    fn the_tool_is_known_by_what_it_leaves(#[case] metadata: Value, #[case] expected: Option<&str>) {
        let object = json!({"metadata": metadata});
        assert_eq!(owner(&object).map(|owner| owner.tool), expected);
    }
}
