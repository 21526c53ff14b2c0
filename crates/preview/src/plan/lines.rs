//! The writes of a plan, summed up for people: one line for what belongs together.

use std::sync::Arc;

use pillion_controllers::preview::{Change, Verb};
use pillion_controllers::registry::Name;
use pillion_kubernetes::lookup::ObjectRef;
use serde_json::Value;

use super::words::words;

/// The maximum number of lines that say the same about different objects.
const ALIKE: usize = 5;
/// The number of objects that are named if there are more.
const NAMED: usize = 3;

/// All that a controller does to one object.
pub(super) struct Sum<'a> {
    /// The controller.
    pub(super) controller: Name,
    /// The kind of write.
    pub(super) verb: Verb,
    /// The object.
    pub(super) object: &'a ObjectRef,
    /// The object before.
    pub(super) before: Option<&'a Arc<Value>>,
    /// The object after.
    pub(super) after: Option<&'a Arc<Value>>,
    why: &'a str,
}

impl Sum<'_> {
    /// Says what happens to the object.
    pub(super) fn words(&self) -> String {
        match (self.before, self.after) {
            (Some(before), Some(after)) if self.verb == Verb::Change => {
                words(self.object.kind, self.why, before, after)
            }
            _ => self.why.to_owned(),
        }
    }

    /// Names the object as kubectl does.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.object.kind, place(self.object))
    }
}

/// A line of the plan.
pub(super) struct Line<'a> {
    /// The controller.
    pub(super) controller: Name,
    /// The kind of write.
    pub(super) verb: Verb,
    objects: Vec<&'a ObjectRef>,
    /// The change of the objects, in words.
    pub(super) words: String,
}

impl Line<'_> {
    /// Names the objects as kubectl does.
    pub(super) fn title(&self) -> String {
        let [first, .., last] = self.objects.as_slice() else {
            let object = self.objects.first();
            return object.map(|object| format!("{} {}", object.kind, place(object))).unwrap_or_default();
        };
        if first.kind != last.kind {
            let kinds: Vec<&str> = self.objects.iter().map(|object| object.kind).collect();
            let before = kinds.split_last().map(|(_, before)| before.join(", ")).unwrap_or_default();
            return format!("{before} and {} {}", last.kind, place(first));
        }
        let named: Vec<String> = self.objects.iter().take(NAMED).map(|object| place(object)).collect();
        let more = self.objects.len().saturating_sub(NAMED);
        format!("{}s {} and {more} more", first.kind, named.join(", "))
    }
}

fn place(object: &ObjectRef) -> String {
    let ObjectRef { namespace, name, .. } = object;
    namespace.as_ref().map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
}

/// Joins the writes of a controller to the same object, in the order of the first ones.
pub(super) fn sums(changes: &[Change]) -> Vec<Sum<'_>> {
    let mut sums: Vec<Sum<'_>> = Vec::new();
    for change in changes {
        let Change { controller, verb, object, why, before, after } = change;
        let goes_on = |sum: &&mut Sum<'_>| {
            sum.controller == *controller && sum.object == object && joined(sum.verb, *verb).is_some()
        };
        match sums.iter_mut().find(goes_on) {
            Some(sum) => {
                sum.verb = joined(sum.verb, *verb).unwrap_or(*verb);
                sum.after = after.as_ref();
                sum.why = why;
            }
            None => sums.push(Sum {
                controller: *controller,
                verb: *verb,
                object,
                before: before.as_ref(),
                after: after.as_ref(),
                why,
            }),
        }
    }
    sums
}

/// Returns the verb for two writes to one object, one after the other, if they are one for people.
fn joined(first: Verb, then: Verb) -> Option<Verb> {
    match (first, then) {
        (Verb::Create, Verb::Change | Verb::Mint) => Some(Verb::Create),
        (Verb::Change, Verb::Change | Verb::Mint | Verb::Evict | Verb::Delete) => Some(then),
        (Verb::Mint, Verb::Change | Verb::Mint) => Some(Verb::Mint),
        _ => None,
    }
}

/// Returns the lines: objects of different kinds that are made together are one, and so are many objects to which the
/// same happens.
pub(super) fn lines<'a>(sums: &[Sum<'a>]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for sum in sums {
        let words = sum.words();
        let is_with = |line: &&mut Line<'_>| {
            line.controller == sum.controller
                && line.verb == sum.verb
                && line.words == words
                && line.objects.iter().all(|object| {
                    object.kind != sum.object.kind
                        && (&object.namespace, &object.name) == (&sum.object.namespace, &sum.object.name)
                })
        };
        if let Some(line) = lines.iter_mut().find(is_with) {
            line.objects.push(sum.object);
        } else {
            lines.push(Line { controller: sum.controller, verb: sum.verb, objects: vec![sum.object], words });
        }
    }
    shortened(lines)
}

/// Makes one line of the lines that say the same about single objects of one kind, if there are too many.
fn shortened(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let is_like = |one: &Line<'_>, other: &Line<'_>| {
        let kind = |line: &Line<'_>| match line.objects.as_slice() {
            [object] => Some(object.kind),
            _ => None,
        };
        kind(one).is_some()
            && (one.controller, one.verb, kind(one), &one.words)
                == (other.controller, other.verb, kind(other), &other.words)
    };
    let mut groups: Vec<Vec<Line<'_>>> = Vec::new();
    for line in lines {
        let group = groups.iter_mut().find(|group| group.first().is_some_and(|first| is_like(first, &line)));
        match group {
            Some(group) => group.push(line),
            None => groups.push(vec![line]),
        }
    }
    let mut shortened = Vec::new();
    for group in groups {
        if group.len() <= ALIKE {
            shortened.extend(group);
            continue;
        }
        let mut group = group.into_iter();
        let Some(mut first) = group.next() else { continue };
        first.objects.extend(group.flat_map(|line| line.objects));
        shortened.push(first);
    }
    shortened
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn change(verb: Verb, kind: &'static str, name: &str, why: &str) -> Change {
        let namespace = Some("shop".to_owned());
        let object = ObjectRef { api_version: "v1", kind, namespace, name: name.to_owned() };
        let before = (verb == Verb::Change).then(|| Arc::new(json!({})));
        let controller = Name::SidecarSetRollout;
        Change { controller, verb, object, why: why.to_owned(), before, after: Some(Arc::new(json!({}))) }
    }

    fn shown(changes: &[Change]) -> Vec<String> {
        let lines = lines(&sums(changes));
        lines.iter().map(|line| format!("{} {}: {}", line.verb.as_str(), line.title(), line.words)).collect()
    }

    #[rstest]
    #[case::made_and_filled(Verb::Create, Verb::Mint, &["create Secret shop/a: then"])]
    #[case::changed_twice(Verb::Change, Verb::Change, &["change Secret shop/a: then"])]
    #[case::changed_and_evicted(Verb::Change, Verb::Evict, &["evict Secret shop/a: then"])]
    #[case::made_again(Verb::Delete, Verb::Create, &["delete Secret shop/a: first", "create Secret shop/a: then"])]
    fn writes_to_one_object_are_one_line(#[case] first: Verb, #[case] then: Verb, #[case] expected: &[&str]) {
        assert_eq!(shown(&[change(first, "Secret", "a", "first"), change(then, "Secret", "a", "then")]), expected);
    }

    #[test]
    fn objects_that_are_made_together_are_one_line() {
        let kinds = ["ServiceAccount", "Role", "RoleBinding"];
        let changes: Vec<Change> = kinds.map(|kind| change(Verb::Create, kind, "a", "for logs")).into();
        assert_eq!(shown(&changes), ["create ServiceAccount, Role and RoleBinding shop/a: for logs"]);
    }

    #[test]
    fn many_pods_to_which_the_same_happens_are_one_line() {
        let pods = |count: usize| -> Vec<Change> {
            (0..count).map(|number| change(Verb::Evict, "Pod", &format!("web-{number}"), "why")).collect()
        };
        assert_eq!(shown(&pods(5)).len(), 5);
        assert_eq!(shown(&pods(9)), ["evict Pods shop/web-0, shop/web-1, shop/web-2 and 6 more: why"]);
    }
}
