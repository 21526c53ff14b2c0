//! The setting `serviceAccounts.guards`: who may use an identity that a running Pod has (AFT-1).

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::text::{User, all_checked};
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Deserialize;
#[cfg(feature = "schema")]
use serde::Serialize;

use crate::allowed::Allowed;

/// The users who change images of running Pods: Pillion's rollout controller and OpenKruise's manager.
const IMAGE_USERS: [&str; 2] = [
    "system:serviceaccount:pillion-system:pillion-controller-rollout",
    "system:serviceaccount:kruise-system:kruise-manager",
];

/// The setting `serviceAccounts.guards`. [`Default`] is what `{}` decodes to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema, Serialize))]
#[serde(default, deny_unknown_fields, rename_all = "camelCase", expecting = "an object")]
pub struct Guards {
    /// Who opens a container that holds an identity, by `exec`, `attach` or `port-forward`, must be allowed to create
    /// `serviceaccounts/token` of its ServiceAccount.
    // AFT-2
    pub exec: bool,
    /// Users for whom `exec` is not asked.
    #[serde(deserialize_with = "all_checked::<_, User, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<User>"))]
    pub exec_users: Vec<String>,
    /// Only `controllerUser` and nodes request tokens of merged ServiceAccounts, and of those in `tokenRequestAccounts`.
    // AFT-6
    pub token_requests: bool,
    /// Further ServiceAccounts that `tokenRequests` protects. Globs of `*` and `?`.
    pub token_request_accounts: Vec<Allowed>,
    /// Only `imageUsers` change the images of containers that hold an identity, while their Pod runs.
    // AFT-7
    pub images: bool,
    /// The users who may change such images. Your list replaces this one, which has the rollout controller and
    /// OpenKruise's manager.
    #[serde(deserialize_with = "all_checked::<_, User, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<User>"))]
    pub image_users: Vec<String>,
    /// Groups for emergencies: the requests of their members pass all guards of this setting, also while no server
    /// answers.
    // AFT-8
    #[serde(deserialize_with = "all_checked::<_, User, _>")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<User>"))]
    pub break_glass_groups: Vec<String>,
}

impl Default for Guards {
    fn default() -> Self {
        Self {
            exec: false,
            exec_users: Vec::new(),
            token_requests: false,
            token_request_accounts: Vec::new(),
            images: false,
            image_users: IMAGE_USERS.map(str::to_owned).into(),
            break_glass_groups: Vec::new(),
        }
    }
}

impl Guards {
    /// AFT-8: whether a user is in a group for emergencies.
    pub fn breaks_glass(&self, author: &Author) -> bool {
        self.break_glass_groups.iter().any(|group| author.groups.contains(group))
    }
}
