//! Guards accounts of sidecars against requests for their tokens (AFT-6).

use pillion_kubernetes::authorizer::Author;
use pillion_kubernetes::field::FieldError;
use pillion_kubernetes::outcome::{Code, Reason};

use super::Objections;
use crate::names;
use crate::rules::Rules;

/// The group of nodes.
pub const NODES: &str = "system:nodes";
/// The prefix of the user names of nodes. The plugin `NodeRestriction` takes a user for a node who has both.
pub const NODE_PREFIX: &str = "system:node:";

/// A CREATE of the subresource `token` of a ServiceAccount.
#[derive(Clone, Copy, Debug)]
pub struct TokenRequest<'a> {
    /// The namespace of the request.
    pub namespace: &'a str,
    /// The name of the account in the request. The name in the object may be empty.
    pub account: &'a str,
    /// The user who sends the request.
    pub author: &'a Author,
}

/// Judges a request for a token. Accounts that are neither merged nor listed pass.
pub fn judge(request: TokenRequest<'_>, rules: &Rules) -> Objections {
    let TokenRequest { namespace, account, author } = request;
    let guards = &rules.guards;
    if !guards.token_requests || author.user == rules.controller_user || is_node(author) || guards.breaks_glass(author)
    {
        return Objections::default();
    }
    let reason = if account.is_empty() {
        let error = FieldError::required("request.name", "every TokenRequest has the name of its ServiceAccount");
        Some(Reason::of_field(Code::Undecodable, error))
    } else if names::is_merged(account) || guards.token_request_accounts.iter().any(|of| of.has(namespace, account)) {
        Some(Reason::forbidden(
            "metadata.name",
            format!(
                "only nodes and Pillion's controller request tokens of ServiceAccount \"{account}\" in namespace \
                 \"{namespace}\""
            ),
            "run a Pod whose sidecar has this identity, or change serviceAccounts.guards.tokenRequestAccounts; merged \
             ServiceAccounts are always among them",
        ))
    } else {
        None
    };
    Objections { reasons: reason.into_iter().collect(), warnings: Vec::new() }
}

/// Whether a user is a node, whose requests for tokens `NodeRestriction` judges.
fn is_node(author: &Author) -> bool {
    author.user.starts_with(NODE_PREFIX) && author.groups.iter().any(|group| group == NODES)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::rules::Allowed;
    use crate::running::Guards;

    const MERGED: &str = "sidecarset-merged-7e18f737311b2dc3";
    const CONTROLLER: &str = "system:serviceaccount:pillion-system:pillion-controller";

    fn globs(texts: &[&str]) -> Vec<crate::glob::Glob> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn rules() -> Rules {
        let listed = Allowed { namespaces: globs(&["team-*"]), names: globs(&["vault", "?-agent"]) };
        let guards = Guards {
            token_requests: true,
            token_request_accounts: vec![listed],
            break_glass_groups: vec!["oncall".to_owned()],
            ..Guards::default()
        };
        Rules { guards, ..Rules::default() }
    }

    fn author(user: &str, groups: &[&str]) -> Author {
        Author { user: user.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    fn judged(namespace: &str, account: &str, author: &Author, rules: &Rules) -> Vec<String> {
        let findings = judge(TokenRequest { namespace, account, author }, rules);
        assert_eq!(findings.warnings, [""; 0]);
        findings.reasons.iter().map(|reason| format!("{} {reason}", reason.code.as_u16())).collect()
    }

    #[rstest]
    #[case::a_user("web", MERGED, "ann", &[])]
    #[case::an_admin("web", MERGED, "admin", &["system:masters"])]
    #[case::a_merged_name_of_no_hash("web", "sidecarset-merged-x", "ann", &[])]
    #[case::a_listed_account("team-a", "vault", "ann", &[])]
    #[case::a_listed_account_by_a_glob("team-a", "x-agent", "ann", &[])]
    // NodeRestriction takes only a user with the group and the name for a node.
    #[case::a_group_without_the_name("web", MERGED, "ann", &["system:nodes"])]
    #[case::a_name_without_the_group("web", MERGED, "system:node:n1", &["system:authenticated"])]
    #[case::a_name_that_begins_alike("web", MERGED, "system:nodes:n1", &["system:nodes"])]
    #[case::a_group_that_begins_alike("web", MERGED, "system:node:n1", &["system:nodes:n1"])]
    #[case::the_controller_of_another_namespace("web", MERGED, "system:serviceaccount:web:pillion-controller", &["system:serviceaccounts"])]
    #[case::another_account_of_the_controllers_namespace("web", MERGED, "system:serviceaccount:pillion-system:pillion", &[])]
    #[case::the_controller_in_other_letters("web", MERGED, "System:ServiceAccount:pillion-system:pillion-controller", &[])]
    #[case::the_controller_as_a_group("web", MERGED, "ann", &[CONTROLLER])]
    #[case::the_account_itself("web", MERGED, "system:serviceaccount:web:sidecarset-merged-7e18f737311b2dc3", &[])]
    #[case::kube_controller_manager("web", MERGED, "system:kube-controller-manager", &[])]
    #[case::a_group_for_emergencies_as_a_user("web", MERGED, "oncall", &[])]
    fn aft6_nobody_else_requests_these_tokens(
        #[case] namespace: &str,
        #[case] account: &str,
        #[case] user: &str,
        #[case] groups: &[&str],
    ) {
        let author = author(user, groups);
        assert_eq!(
            judged(namespace, account, &author, &rules()),
            [format!(
                "403 metadata.name: only nodes and Pillion's controller request tokens of ServiceAccount \"{account}\" in \
                 namespace \"{namespace}\"; run a Pod whose sidecar has this identity, or change \
                 serviceAccounts.guards.tokenRequestAccounts; merged ServiceAccounts are always among them"
            )]
        );
        assert_eq!(judged(namespace, account, &author, &Rules::default()), [""; 0], "the guard is off");
    }

    #[rstest]
    #[case::another_account("web", "web", "ann", &[])]
    #[case::another_namespace("web", "vault", "ann", &[])]
    #[case::a_name_that_ends_alike("team-a", "vault2", "ann", &[])]
    #[case::a_name_with_the_prefix_in_it("web", "x-sidecarset-merged-1", "ann", &[])]
    #[case::a_node("web", MERGED, "system:node:n1", &["system:nodes", "system:authenticated"])]
    #[case::the_controller("web", MERGED, CONTROLLER, &["system:serviceaccounts"])]
    #[case::an_emergency("web", MERGED, "ann", &["dev", "oncall"])]
    fn aft6_aft8_others_are_let_through(
        #[case] namespace: &str,
        #[case] account: &str,
        #[case] user: &str,
        #[case] groups: &[&str],
    ) {
        assert_eq!(judged(namespace, account, &author(user, groups), &rules()), [""; 0]);
    }

    #[test]
    fn aft6_a_request_without_a_name_is_refused() {
        let refused = judged("web", "", &author("ann", &[]), &rules());
        assert!(refused.len() == 1 && refused.iter().all(|text| text.starts_with("400 request.name: ")), "{refused:?}");
    }
}
