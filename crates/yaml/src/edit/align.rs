//! Which items of a list are which of another: equal ones, and those of the same name.

use serde_json::Value;

use crate::printing::Tree;

/// A step from a list to another. Steps are in the order of both lists.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    Keep { old: usize, new: &'a Tree },
    Remove { old: usize },
    Add { new: &'a Tree },
}

/// The most pairs of items that are compared: lists of more differ in more than somebody would look at.
const MAX_PAIRS: usize = 1_000_000;

/// Returns the steps that keep the most items. `None` if both lists are very long and differ from end to end.
pub(super) fn align<'a>(old: &[Value], new: &'a [Tree]) -> Option<Vec<Step<'a>>> {
    let common = |pairs: &mut dyn Iterator<Item = (&Value, &Tree)>| pairs.take_while(|(old, new)| new.is(old)).count();
    let head = common(&mut old.iter().zip(new));
    let (old_rest, new_rest) = (old.get(head..)?, new.get(head..)?);
    let tail = common(&mut old_rest.iter().rev().zip(new_rest.iter().rev()));
    let old_middle = old_rest.get(..old_rest.len() - tail)?;
    let new_middle = new_rest.get(..new_rest.len() - tail)?;
    if old_middle.len().checked_mul(new_middle.len())? > MAX_PAIRS {
        return None;
    }
    let keep = |(old, new): (usize, &'a Tree)| Step::Keep { old, new };
    let mut steps: Vec<Step<'a>> = new.iter().take(head).enumerate().map(keep).collect();
    steps.extend(middle(old_middle, new_middle, head)?);
    let behind = (old.len() - tail..).zip(new.iter().skip(new.len() - tail));
    steps.extend(behind.map(keep));
    Some(steps)
}

/// The longest common subsequence, in which equal items weigh more than those of the same name.
fn middle<'a>(old: &[Value], new: &'a [Tree], offset: usize) -> Option<Vec<Step<'a>>> {
    let width = new.len() + 1;
    let mut best = vec![0_u32; (old.len() + 1) * width];
    for (row, value) in old.iter().enumerate().rev() {
        for (column, tree) in new.iter().enumerate().rev() {
            let at = |row: usize, column: usize| best.get(row * width + column).copied().unwrap_or_default();
            let likeness = likeness(value, tree);
            let kept = if likeness > 0 { at(row + 1, column + 1) + likeness } else { 0 };
            let most = kept.max(at(row + 1, column)).max(at(row, column + 1));
            *best.get_mut(row * width + column)? = most;
        }
    }
    let at = |row: usize, column: usize| best.get(row * width + column).copied().unwrap_or_default();
    let (mut row, mut column) = (0, 0);
    let mut steps = Vec::new();
    loop {
        match (old.get(row), new.get(column)) {
            (Some(value), Some(tree))
                if likeness(value, tree) > 0 && at(row, column) == at(row + 1, column + 1) + likeness(value, tree) =>
            {
                steps.push(Step::Keep { old: offset + row, new: tree });
                row += 1;
                column += 1;
            }
            (Some(_), _) if new.get(column).is_none() || at(row, column) == at(row + 1, column) => {
                steps.push(Step::Remove { old: offset + row });
                row += 1;
            }
            (_, Some(tree)) => {
                steps.push(Step::Add { new: tree });
                column += 1;
            }
            // Nothing is left; an old item without a new one was removed above.
            (_, None) => return Some(steps),
        }
    }
}

/// How sure it is that an item became another.
fn likeness(old: &Value, new: &Tree) -> u32 {
    if new.is(old) {
        return 3;
    }
    let is_same = |path: &[&str]| {
        let new = path.iter().try_fold(new, |tree, key| tree.get(key));
        let old = path.iter().try_fold(old, |value, key| value.get(key));
        matches!((old, new), (Some(Value::String(old)), Some(Tree::Scalar(Value::String(new)))) if old == new)
    };
    if is_same(&["name"]) || (is_same(&["kind"]) && is_same(&["metadata", "name"])) {
        return 2;
    }
    let shares = match (old, new) {
        (Value::Object(old), Tree::Map(new)) => {
            new.iter().any(|(key, tree)| old.get(key).is_some_and(|value| tree.is(value)))
        }
        _ => false,
    };
    u32::from(shares && new.get("name").is_none())
}
