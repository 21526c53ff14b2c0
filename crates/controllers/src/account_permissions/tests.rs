use pillion_kubernetes::rbac::Atom;
use pillion_plan::account_permissions::{Account, Question};
use serde_json::json;

use super::ask::spec;

#[test]
fn esc9_a_question_is_about_the_account_and_its_groups() {
    let question = Question {
        account: Account::new("shop", "agent"),
        namespace: "shop".to_owned(),
        atom: Atom::new("", "pods/exec", None, "create"),
        binding: None,
    };
    assert_eq!(
        serde_json::to_value(spec(&question)).unwrap(),
        json!({
            "user": "system:serviceaccount:shop:agent",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
            "resourceAttributes": {
                "namespace": "shop", "group": "", "resource": "pods", "subresource": "exec", "verb": "create"
            },
        })
    );
}
