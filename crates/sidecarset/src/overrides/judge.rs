//! Compares what a Pod and its Namespace ask for with what the author of a `SidecarSet` allows (OVR-4 to OVR-7).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

use pillion_kubernetes::field::shortened;
use pillion_kubernetes::quantity::Quantity;
use pillion_pattern::Pattern;

use crate::expression::{Section, Slot};
use crate::made;
use crate::pod;
use crate::sidecar_set::SidecarSet;

use super::asked::{Asked, By, Field, ISTIO};
use super::rules::{Allowed, ImageTag, OutOfBounds, Rules, Source};
use super::{OVERRIDES, PREFIX};

/// The maximum effort of all expressions for one Pod (E18).
const EFFORT_MAX: usize = pillion_pattern::EFFORT_MAX / 4;

/// The annotations that ask for overrides.
pub struct Annotations<'a> {
    pod: &'a dyn Fn(&str) -> Option<&'a str>,
    namespace: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The effort that is left for expressions.
    effort: Cell<usize>,
}

impl<'a> Annotations<'a> {
    /// Takes a function for the annotations of the Pod, and one for those of its Namespace.
    pub fn new(pod: &'a dyn Fn(&str) -> Option<&'a str>, namespace: &'a dyn Fn(&str) -> Option<&'a str>) -> Self {
        Self { pod, namespace, effort: Cell::new(EFFORT_MAX) }
    }

    /// Whether an expression matches a whole value. `None` if that is too much effort.
    fn matches(&self, expression: &str, value: &str) -> Option<bool> {
        let Ok(pattern) = Pattern::new(&format!("^(?:{expression})$")) else { return Some(false) };
        self.effort.set(self.effort.get().checked_sub(pattern.effort(value))?);
        Some(pattern.is_match(value))
    }
}

/// What comes of all overrides of a `SidecarSet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// What its author wants for a Pod that asks for what is not allowed.
    pub out_of_bounds: OutOfBounds,
    /// One for each field that somebody asks for, by container.
    pub overrides: Vec<Override>,
}

/// What comes of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The name of the container in the `SidecarSet`.
    pub container: String,
    /// The field. `None` if the whole annotation cannot be read, or has no effect.
    pub field: Option<Field>,
    /// Who asks.
    pub by: By,
    /// What comes of it.
    pub ruling: Ruling,
}

/// What comes of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It is allowed.
    Allowed {
        /// The value that the container gets.
        value: String,
        /// What is allowed, in words: `up to 1Gi`.
        bounds: String,
    },
    /// It is not allowed (OVR-6).
    OutOfBounds {
        /// Why, in words.
        problem: String,
        /// The nearest amount that is allowed; `None` if the container gets what the `SidecarSet` says.
        nearest: Option<String>,
    },
    /// The annotation cannot be read. It has no effect, and a new Pod is refused.
    Unreadable {
        /// Why, in words.
        problem: String,
    },
    /// The `SidecarSet` allows no overrides at all. The annotation has no effect (OVR-7).
    NoRules,
}

impl Override {
    /// Returns the annotation that asks.
    pub fn annotation(&self) -> String {
        self.by.annotation(&self.container)
    }

    /// Returns the value that the container gets; `None` if it gets what the `SidecarSet` says.
    pub fn value(&self) -> Option<&str> {
        match &self.ruling {
            Ruling::Allowed { value, .. } => Some(value),
            Ruling::OutOfBounds { nearest, .. } => nearest.as_deref(),
            Ruling::Unreadable { .. } | Ruling::NoRules => None,
        }
    }

    /// Whether a new Pod is refused for it.
    pub fn refuses(&self, out_of_bounds: OutOfBounds) -> bool {
        match self.ruling {
            Ruling::Unreadable { .. } => true,
            Ruling::OutOfBounds { .. } => out_of_bounds == OutOfBounds::Refuse,
            Ruling::Allowed { .. } | Ruling::NoRules => false,
        }
    }

    /// Returns what is wrong, in words; `None` if nothing is.
    pub fn problem(&self) -> Option<String> {
        let field = self.field.as_ref().map(|field| format!(": {field}")).unwrap_or_default();
        let of = format!("of the {}{field}", self.by.kind());
        match &self.ruling {
            Ruling::Allowed { .. } => None,
            Ruling::OutOfBounds { problem, .. } | Ruling::Unreadable { problem } => Some(format!("{of} {problem}")),
            Ruling::NoRules => Some(format!("{of} has no effect, the SidecarSet allows no overrides")),
        }
    }

    /// Returns what to do about a problem.
    pub fn remedy(&self) -> String {
        match (&self.ruling, self.by) {
            (Ruling::Unreadable { .. }, By::Istio(_)) => "write an amount, as in 250m or 512Mi".to_owned(),
            (Ruling::Unreadable { .. }, By::Pod | By::Namespace) => {
                r#"write JSON, as in {"resources": {"limits": {"memory": "512Mi"}}}"#.to_owned()
            }
            _ => format!("ask the author of the SidecarSet for {OVERRIDES}, or change the annotation"),
        }
    }
}

/// Judges what a Pod and its Namespace ask for in the sidecars of a `SidecarSet`. An annotation of the Pod counts before
/// Istio's, and this before the one of the Namespace, field by field.
///
/// `rules` are those of the `SidecarSet`; `None` if it has none, or none that can be read.
pub fn judge(set: &SidecarSet, rules: Option<&Rules>, annotations: &Annotations<'_>) -> Judged {
    let names = made::sidecars(set).map(|(_, _, sidecar)| pod::name(sidecar));
    let own = |container: &str| (annotations.pod)(&format!("{PREFIX}{container}"));
    let Some(rules) = rules else {
        let ignored = names.filter(|name| own(name).is_some()).map(|name| Override {
            container: name.to_owned(),
            field: None,
            by: By::Pod,
            ruling: Ruling::NoRules,
        });
        return Judged { overrides: ignored.collect(), ..Judged::default() };
    };
    let nothing = Allowed::default();
    let mut overrides = Vec::new();
    for container in names {
        let allowed = rules.containers.get(container).unwrap_or(&nothing);
        let mut asked = BTreeMap::new();
        let of = |field, by, ruling| Override { container: container.to_owned(), field, by, ruling };
        let mut ask = |by: By, read: Result<Asked, String>| match read {
            Err(problem) => overrides.push(of(None, by, Ruling::Unreadable { problem })),
            Ok(Asked(fields)) if by == By::Namespace || rules.from.contains(&Source::Pod) => {
                asked.extend(fields.into_iter().map(|(field, value)| (field, (value, by))));
            }
            // They do not take the place of what the Namespace asks for.
            Ok(Asked(fields)) => {
                let problem = "is not allowed, the SidecarSet lets Namespaces change it, but not Pods";
                overrides.extend(fields.into_keys().map(|field| of(Some(field), by, out_of_bounds(problem))));
            }
        };
        if rules.from.contains(&Source::Namespace)
            && let Some(text) = (annotations.namespace)(&format!("{PREFIX}{container}"))
        {
            ask(By::Namespace, Asked::parse(text));
        }
        for (key, amount) in ISTIO.into_iter().filter(|_| allowed.istio_annotations) {
            if let Some(text) = (annotations.pod)(key) {
                ask(By::Istio(key), Asked::parse_istio(amount, text));
            }
        }
        if let Some(text) = own(container) {
            ask(By::Pod, Asked::parse(text));
        }
        let first = overrides.len();
        overrides.extend(asked.into_iter().map(|(field, (value, by))| {
            let ruling = within(&field, value, allowed, annotations);
            of(Some(field), by, ruling)
        }));
        keep_requests_below_limits(overrides.get_mut(first..).unwrap_or_default());
    }
    Judged { out_of_bounds: rules.out_of_bounds, overrides }
}

fn out_of_bounds(problem: impl Into<String>) -> Ruling {
    Ruling::OutOfBounds { problem: problem.into(), nearest: None }
}

fn within(field: &Field, value: String, allowed: &Allowed, annotations: &Annotations<'_>) -> Ruling {
    const NOT_ALLOWED: &str = "is not allowed, the SidecarSet lets nobody change it";
    match field {
        Field::Amount(section, slot) => within_bounds(value, (*section, *slot), allowed),
        Field::Variable(name) => match allowed.variable(name) {
            None => out_of_bounds(NOT_ALLOWED),
            // A reference to another variable could hand its value, perhaps a secret, to somebody else.
            Some(_) if value.contains("$(") => {
                out_of_bounds("is not allowed, its value must not refer to another variable")
            }
            Some(expression) => match annotations.matches(expression, &value) {
                Some(true) => Ruling::Allowed { value, bounds: format!("values of the form {expression}") },
                Some(false) => {
                    let (shown, form) = (shortened(&value), shortened(expression));
                    out_of_bounds(format!("is {shown:?}, which is not of the allowed form {form}"))
                }
                None => out_of_bounds("is not allowed, comparing it is too much work with so many overrides"),
            },
        },
        Field::ImageTag if allowed.image_tags.is_empty() => out_of_bounds(NOT_ALLOWED),
        Field::ImageTag => {
            let tags = List(&allowed.image_tags);
            match allowed.image_tags.iter().find(|tag| tag.tag() == value || tag.as_str() == value) {
                Some(tag) => Ruling::Allowed { value: tag.as_str().to_owned(), bounds: format!("one of {tags}") },
                None => out_of_bounds(format!("is {:?}, which is not one of the allowed {tags}", shortened(&value))),
            }
        }
    }
}

fn within_bounds(value: String, (section, slot): (Section, Slot), allowed: &Allowed) -> Ruling {
    let Some(bounds) = allowed.bounds(slot) else {
        return out_of_bounds("is not allowed, the SidecarSet lets nobody change it");
    };
    let (min, max) = (&bounds.min, &bounds.max);
    let in_words = if min.is_zero() { format!("up to {max}") } else { format!("{min} to {max}") };
    // The annotation was read, so this is an amount.
    let Ok(amount) = Quantity::parse(&value) else { return out_of_bounds("is no amount") };
    let is_no_limit = section == Section::Limits && amount.is_zero();
    if is_no_limit {
        // Kubernetes takes a limit of zero as none.
        let problem = format!("is no limit, the SidecarSet allows {in_words}");
        return Ruling::OutOfBounds { problem, nearest: Some(max.to_string()) };
    }
    let nearest = if amount > *max {
        max
    } else if amount < *min {
        min
    } else {
        return Ruling::Allowed { value, bounds: in_words };
    };
    Ruling::OutOfBounds {
        problem: format!("is {value}, the SidecarSet allows {in_words}"),
        nearest: Some(nearest.to_string()),
    }
}

/// Rules out requests above the limit that is asked for as well.
fn keep_requests_below_limits(of_container: &mut [Override]) {
    let amount = |section: Section, slot: Slot, all: &[Override]| {
        let field = Some(Field::Amount(section, slot));
        let index = all.iter().position(|one| one.field == field)?;
        let text = all.get(index)?.value()?.to_owned();
        Some((index, Quantity::parse(&text).ok()?, text))
    };
    for slot in [Slot::Cpu, Slot::Memory] {
        let of = |section| amount(section, slot, of_container);
        let (Some((_, limit, limit_text)), Some((index, request, text))) = (of(Section::Limits), of(Section::Requests))
        else {
            continue;
        };
        if request > limit
            && let Some(above) = of_container.get_mut(index)
        {
            let problem = format!("is {text}, above the limit {limit_text}");
            above.ruling = Ruling::OutOfBounds { problem, nearest: Some(limit_text) };
        }
    }
}

/// Tags in a message.
struct List<'a>(&'a [ImageTag]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        let tags: Vec<&str> = self.0.iter().take(SHOWN).map(ImageTag::tag).collect();
        f.write_str(&tags.join(", "))?;
        if self.0.len() > SHOWN { f.write_str(", ...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
