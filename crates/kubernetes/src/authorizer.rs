//! Who may do what: questions to the API server about an author.

use serde_json::Value;

use crate::json;
use crate::rbac::Atom;

/// A SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Who.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// Where; `""` is everywhere.
    pub namespace: String,
    /// What.
    pub atom: Atom,
}

/// Somebody who knows who may do what.
pub trait Authorizer {
    /// Whether it is allowed; `Err` where nobody could be asked, with what to do.
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
    /// The author, from the `userInfo` of an AdmissionRequest.
    pub fn of(user_info: &Value) -> Self {
        let mut groups = Vec::new();
        for group in json::texts(user_info, &["groups"]) {
            groups.push(group.to_owned());
        }
        Self { user: json::text(user_info, &["username"]).to_owned(), groups }
    }

    /// The author that a Pod of this ServiceAccount is.
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
