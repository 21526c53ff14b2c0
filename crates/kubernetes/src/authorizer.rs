//! Authorization questions to the API server about a user.

use serde_json::Value;

use crate::json;
use crate::rbac::Atom;

/// The content of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The name of the user.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The namespace; `""` means all namespaces.
    pub namespace: String,
    /// The permission that the question asks for.
    pub atom: Atom,
}

/// A service that decides whether a user has a permission.
pub trait Authorizer {
    /// Whether the user has the permission. `Err` means that the question got no answer; it says what to do.
    fn allows(&self, question: &Question) -> Result<bool, String>;
}

/// The author of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// `userInfo.username`.
    pub user: String,
    /// `userInfo.groups`.
    pub groups: Vec<String>,
}

impl Author {
    /// Reads the author from the `userInfo` of an AdmissionRequest.
    pub fn from_user_info(user_info: &Value) -> Self {
        let groups = json::texts(user_info, &["groups"]).into_iter().map(str::to_owned).collect();
        Self { user: json::text(user_info, &["username"]).to_owned(), groups }
    }

    /// Returns the author as which a Pod with this ServiceAccount sends its requests.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }
}
