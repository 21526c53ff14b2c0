//! What an admission answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::field::FieldError;
use crate::lookup::Failure;

/// The `SidecarSet`s that a refusal names, ascending, joined by commas.
pub const REFUSED_BY: &str = "refused-by";
/// Why it was refused, by code: `undecodable`, `forbidden`, `invalid` or `unavailable`.
pub const REFUSED_BECAUSE: &str = "refused-because";

/// The HTTP code of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// 400: the request or its object cannot be decoded.
    Undecodable,
    /// 403: the policy says no.
    Forbidden,
    /// 422: fields of the object are invalid.
    Invalid,
    /// 503: something that is needed could not be asked; trying again may help.
    Unavailable,
}

impl Code {
    /// The number.
    pub const fn as_u16(self) -> u16 {
        match self {
            Self::Undecodable => 400,
            Self::Forbidden => 403,
            Self::Invalid => 422,
            Self::Unavailable => 503,
        }
    }

    /// The name in audit annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
        }
    }
}

/// One reason to refuse. The derived order (`SidecarSet`, field, text) is the order in messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// The `SidecarSet` that it is about, where it is about one.
    pub sidecar_set: Option<String>,
    /// The field of the `SidecarSet`, of the Pod or of the settings.
    pub field: String,
    /// What is wrong.
    pub problem: String,
    /// What to do about it; empty where the problem says it.
    pub remedy: String,
    /// The code that this reason asks for.
    pub code: Code,
}

impl Reason {
    /// A reason that is about no `SidecarSet`.
    pub fn new(code: Code, field: impl Into<String>, problem: String, remedy: &str) -> Self {
        Self { sidecar_set: None, field: field.into(), problem, remedy: remedy.to_owned(), code }
    }

    /// The policy says no ([`Code::Forbidden`]).
    pub fn forbidden(field: impl Into<String>, problem: String, remedy: &str) -> Self {
        Self::new(Code::Forbidden, field, problem, remedy)
    }

    /// A field is wrong.
    pub fn of_field(code: Code, mut error: FieldError) -> Self {
        let field = std::mem::take(&mut error.path);
        Self::new(code, field, error.to_string(), "")
    }

    /// `what` is needed, and could not be read ([`Code::Unavailable`]); it is an object of `kind`.
    pub fn unreadable(field: &str, what: &str, failure: &Failure, kind: (&str, &str)) -> Self {
        let problem = format!("{what} could not be read: {failure}");
        Self::new(Code::Unavailable, field, problem, &failure.remedy(kind.0, kind.1))
    }

    /// The same reason, about a `SidecarSet`.
    #[must_use]
    pub fn about(self, sidecar_set: &str) -> Self {
        Self { sidecar_set: Some(sidecar_set.to_owned()), ..self }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.sidecar_set {
            write!(f, "SidecarSet \"{name}\": ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// A refusal: at least one reason, sorted, none twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(BTreeSet<Reason>);

/// The longest message of a refusal, in bytes; the rest is counted, not printed.
const MESSAGE_MAX: usize = 8 * 1024;

impl Refusal {
    /// The refusal for `reasons`, or nothing where there are none.
    pub fn of(reasons: impl IntoIterator<Item = Reason>) -> Option<Self> {
        let reasons: BTreeSet<Reason> = reasons.into_iter().collect();
        (!reasons.is_empty()).then_some(Self(reasons))
    }

    /// The reasons, sorted.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.0.iter()
    }

    /// The code: where reasons differ, what makes a retry pointless wins over what a retry may cure.
    pub fn code(&self) -> Code {
        self.reasons().map(|reason| reason.code).min().unwrap_or(Code::Forbidden)
    }

    /// The message for the user.
    pub fn message(&self) -> String {
        let mut message = String::new();
        let mut left_out = 0_usize;
        for reason in self.reasons() {
            let text = reason.to_string();
            if !message.is_empty() && message.len() + text.len() > MESSAGE_MAX {
                left_out += 1;
                continue;
            }
            if !message.is_empty() {
                message.push_str("; ");
            }
            message.push_str(&text);
        }
        if left_out > 0 {
            // Writing to a String cannot fail.
            let _ = write!(message, "; and {left_out} more");
        }
        message
    }

    /// The audit annotations that name the `SidecarSet`s and the code.
    fn audit(&self) -> BTreeMap<&'static str, String> {
        let sets: BTreeSet<&str> = self.reasons().filter_map(|reason| reason.sidecar_set.as_deref()).collect();
        let mut annotations = BTreeMap::from([(REFUSED_BECAUSE, self.code().name().to_owned())]);
        if !sets.is_empty() {
            annotations.insert(REFUSED_BY, Vec::from_iter(sets).join(","));
        }
        annotations
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Self(BTreeSet::from([reason]))
    }
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted as it is.
    Unchanged,
    /// Accepted as this object.
    Mutated(Value),
    /// Refused.
    Refused(Refusal),
}

/// A decision with what goes beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The decision.
    pub verdict: Verdict,
    /// Texts for the user; the policy cuts them to the API server's limits.
    pub warnings: Vec<String>,
    /// Annotations of the audit event, by name.
    pub audit: BTreeMap<&'static str, String>,
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        let audit = match &verdict {
            Verdict::Refused(refusal) => refusal.audit(),
            Verdict::Unchanged | Verdict::Mutated(_) => BTreeMap::new(),
        };
        Self { verdict, warnings: Vec::new(), audit }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Verdict::Refused(refusal).into()
    }
}
