//! Whether two selectors can match the same object.

use std::collections::BTreeSet;

use super::{Op, Requirement, Selector};

/// Whether some set of labels satisfies both selectors (product.md, Q-5).
///
/// Exact: labels are independent of each other, so the answer is "yes" when for every key there is a state (absent,
/// or some value) that satisfies all requirements on that key. There are more values than anybody can exclude, so
/// `NotIn` never rules the presence of a label out.
pub fn overlap(one: &Selector<'_>, other: &Selector<'_>) -> bool {
    let mut all: Vec<&Requirement<'_>> = one.requirements().iter().chain(other.requirements()).collect();
    all.sort_by(|one, other| one.key.cmp(other.key));
    all.chunk_by(|left, right| left.key == right.key).all(satisfiable)
}

/// Whether all labels that satisfy `one` satisfy `other`: nothing satisfies `one` and breaks a requirement of `other`.
pub fn implies(one: &Selector<'_>, other: &Selector<'_>) -> bool {
    other.requirements().iter().all(|requirement| {
        let broken = Requirement {
            op: match requirement.op {
                Op::In => Op::NotIn,
                Op::NotIn => Op::In,
                Op::Exists => Op::DoesNotExist,
                Op::DoesNotExist => Op::Exists,
            },
            ..*requirement
        };
        !overlap(one, &Selector::only(broken))
    })
}

/// Whether one label can satisfy all of these requirements on it.
fn satisfiable(requirements: &[&Requirement<'_>]) -> bool {
    if requirements.iter().all(|requirement| requirement.admits(None)) {
        return true;
    }
    if requirements.iter().any(|requirement| requirement.op == Op::DoesNotExist) {
        return false;
    }
    let mut finite = requirements.iter().filter(|requirement| requirement.op == Op::In);
    let Some(first) = finite.next() else {
        return true;
    };
    let mut left: BTreeSet<&str> = first.values.iter().collect();
    for requirement in finite {
        let allowed: BTreeSet<&str> = requirement.values.iter().collect();
        left.retain(|value| allowed.contains(value));
    }
    for requirement in requirements.iter().filter(|requirement| requirement.op == Op::NotIn) {
        for value in requirement.values.iter() {
            left.remove(value);
        }
    }
    !left.is_empty()
}
