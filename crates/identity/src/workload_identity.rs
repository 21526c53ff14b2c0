//! The webhooks with which clouds give the containers of a Pod tokens of the Pod's ServiceAccount (TOK-14).
//!
//! They mount a token into every container of a Pod whose ServiceAccount is set up for the cloud, also into sidecars. Each
//! leaves out the containers that an annotation of the Pod names. Read in amazon-eks-pod-identity-webhook
//! (`pkg/handler/handler.go`) and azure-workload-identity 1.6 (`pkg/webhook`).

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "schema")]
use serde::Serialize;

/// The webhook of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
pub enum CloudWebhook {
    /// The webhook of EKS, for roles of ServiceAccounts and for EKS Pod Identity (amazon-eks-pod-identity-webhook).
    #[serde(rename = "EKS")]
    Eks,
    /// The webhook of AKS (azure-workload-identity).
    #[serde(rename = "AKS")]
    Aks,
}

/// The names of the volumes of EKS: for roles of ServiceAccounts, and for EKS Pod Identity.
const OF_EKS: [&str; 2] = ["aws-iam-token", "eks-pod-identity-token"];
/// The name of the volume of AKS before azure-workload-identity 1.6.
const OF_AKS: &str = "azure-identity-token";
/// The prefix of the name of the volume since then. A hash of the Pod's name follows.
const OF_AKS_PREFIX: &str = "azure-workload-identity-reserved-";

impl CloudWebhook {
    /// Returns the webhook that adds a volume of this name.
    pub(crate) fn of_volume(name: &str) -> Option<Self> {
        if OF_EKS.contains(&name) {
            return Some(Self::Eks);
        }
        (name == OF_AKS || name.starts_with(OF_AKS_PREFIX)).then_some(Self::Aks)
    }

    /// Returns the name of the cloud in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eks => "EKS",
            Self::Aks => "AKS",
        }
    }

    /// Returns the annotation of a Pod with the containers that the webhook leaves out.
    pub const fn annotation(self) -> &'static str {
        match self {
            Self::Eks => "eks.amazonaws.com/skip-containers",
            Self::Aks => "azure.workload.identity/skip-containers",
        }
    }

    /// Returns what separates two containers in the annotation.
    const fn separator(self) -> char {
        match self {
            Self::Eks => ',',
            Self::Aks => ';',
        }
    }

    /// Whether a value of the annotation names a container, as the webhook reads it.
    fn names(self, value: &str, container: &str) -> bool {
        match self {
            // The first line that is not empty, as CSV. Spaces count.
            Self::Eks => value
                .lines()
                .find(|line| !line.is_empty())
                .is_some_and(|line| line.split(',').any(|name| name == container)),
            Self::Aks => value.split(';').any(|name| name.trim() == container),
        }
    }

    /// Returns a value of the annotation that also names these containers; `None` if `value` does. What the user wrote
    /// stays, behind them: the webhook of EKS reads only the first line.
    pub fn naming<'a>(self, value: &str, containers: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let value = value.trim_start_matches(['\r', '\n']);
        let mut named: Vec<&str> = Vec::new();
        for container in containers {
            if !self.names(value, container) && !named.contains(&container) {
                named.push(container);
            }
        }
        if named.is_empty() {
            return None;
        }
        named.extend(Some(value).filter(|value| !value.trim().is_empty()));
        Some(named.join(self.separator().encode_utf8(&mut [0; 4])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::roles_of_accounts("aws-iam-token", Some(CloudWebhook::Eks))]
    #[case::pod_identity("eks-pod-identity-token", Some(CloudWebhook::Eks))]
    #[case::azure_before("azure-identity-token", Some(CloudWebhook::Aks))]
    #[case::azure_now("azure-workload-identity-reserved-0123456789abcdef", Some(CloudWebhook::Aks))]
    #[case::of_the_user("my-aws-iam-token", None)]
    fn tok14_volumes_of_clouds_are_known_by_their_names(#[case] volume: &str, #[case] expected: Option<CloudWebhook>) {
        assert_eq!(CloudWebhook::of_volume(volume), expected);
    }

    #[rstest]
    #[case::no_value(CloudWebhook::Eks, "", Some("agent,proxy"))]
    #[case::of_the_user(CloudWebhook::Eks, "web", Some("agent,proxy,web"))]
    #[case::one_of_them(CloudWebhook::Eks, "web,agent", Some("proxy,web,agent"))]
    #[case::both(CloudWebhook::Eks, "proxy,web,agent", None)]
    #[case::a_space_is_a_part_of_the_name(CloudWebhook::Eks, "web, agent,proxy", Some("agent,web, agent,proxy"))]
    #[case::a_part_of_a_name(CloudWebhook::Eks, "agent-2,proxy", Some("agent,agent-2,proxy"))]
    #[case::only_the_first_line_counts(CloudWebhook::Eks, "web\nagent,proxy", Some("agent,proxy,web\nagent,proxy"))]
    #[case::no_value_of_azure(CloudWebhook::Aks, " ", Some("agent;proxy"))]
    #[case::spaces_of_azure(CloudWebhook::Aks, "web; agent ;proxy", None)]
    #[case::commas_of_azure(CloudWebhook::Aks, "agent,proxy", Some("agent;proxy;agent,proxy"))]
    fn tok15_containers_join_those_of_the_user(
        #[case] webhook: CloudWebhook,
        #[case] value: &str,
        #[case] expected: Option<&str>,
    ) {
        assert_eq!(webhook.naming(value, ["agent", "proxy", "agent"]).as_deref(), expected);
    }

    proptest! {
        /// The webhook reads every name, and a second admission adds none.
        #[test]
        fn tok15_a_container_is_added_once(
            value in "[a-c,; \"\n]{0,12}",
            containers in prop::collection::vec("[a-c]{1,2}", 1..4),
        ) {
            for webhook in [CloudWebhook::Eks, CloudWebhook::Aks] {
                let names = || containers.iter().map(String::as_str);
                let once = webhook.naming(&value, names()).unwrap_or_else(|| value.clone());
                prop_assert!(names().all(|name| webhook.names(&once, name)), "{once:?}");
                prop_assert_eq!(webhook.naming(&once, names()), None);
                prop_assert!(value.trim().is_empty() || once.ends_with(value.trim_start_matches('\n')));
            }
        }
    }
}
