//! The outcome of an admission request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::field::FieldError;
use crate::lookup::Failure;

/// The audit annotation with the `SidecarSet`s that a refusal names, ascending, joined by commas.
pub(crate) const REFUSED_BY: &str = "refused-by";
/// The audit annotation with the code of a refusal: `undecodable`, `forbidden`, `invalid` or `unavailable`.
pub(crate) const REFUSED_BECAUSE: &str = "refused-because";

/// The HTTP code of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// 400: the request or its object cannot be decoded.
    Undecodable,
    /// 403: the policy says no.
    Forbidden,
    /// 422: fields of the object are invalid.
    Invalid,
    /// 503: required information is not available; a retry may help.
    Unavailable,
}

impl Code {
    /// Returns the number of the code.
    pub const fn as_u16(self) -> u16 {
        match self {
            Self::Undecodable => 400,
            Self::Forbidden => 403,
            Self::Invalid => 422,
            Self::Unavailable => 503,
        }
    }

    /// Returns the name of the code in audit annotations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
        }
    }
}

/// One reason for a refusal. Messages list reasons in the derived order (`SidecarSet`, field, problem).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reason {
    /// The `SidecarSet` that the reason is about, if any.
    pub sidecar_set: Option<String>,
    /// The field of the `SidecarSet`, of the Pod or of the settings.
    pub field: String,
    /// The problem.
    pub problem: String,
    /// The remedy; empty if the problem implies it.
    pub remedy: String,
    /// The code that this reason calls for.
    pub code: Code,
}

impl Reason {
    /// Creates a reason that is about no `SidecarSet`.
    pub fn new(code: Code, field: impl Into<String>, problem: String, remedy: &str) -> Self {
        Self { sidecar_set: None, field: field.into(), problem, remedy: remedy.to_owned(), code }
    }

    /// Creates a reason because of a rule of the policy ([`Code::Forbidden`]).
    pub fn forbidden(field: impl Into<String>, problem: String, remedy: &str) -> Self {
        Self::new(Code::Forbidden, field, problem, remedy)
    }

    /// Creates a reason from a field error.
    pub fn of_field(code: Code, mut error: FieldError) -> Self {
        let field = std::mem::take(&mut error.path);
        Self::new(code, field, error.to_string(), "")
    }

    /// Creates a reason because `what`, an object of `kind` that is needed, could not be read ([`Code::Unavailable`]).
    pub fn unreadable(field: &str, what: &str, failure: &Failure, kind: (&str, &str)) -> Self {
        let problem = format!("{what} could not be read: {failure}");
        Self::new(Code::Unavailable, field, problem, &failure.remedy(kind.0, kind.1))
    }

    /// Returns the same reason, about a `SidecarSet`.
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

/// A refusal: at least one reason, sorted, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(BTreeSet<Reason>);

/// The maximum length of a refusal's message, in bytes. Further reasons are counted, not printed.
const MESSAGE_MAX: usize = 8 * 1024;

impl Refusal {
    /// Returns the refusal for `reasons`, or `None` if there are none.
    pub fn from_reasons(reasons: impl IntoIterator<Item = Reason>) -> Option<Self> {
        // In one go: an invalid field has many reasons, which differ only at the end of a long text (E18).
        let reasons: BTreeSet<Reason> = reasons.into_iter().collect();
        (!reasons.is_empty()).then_some(Self(reasons))
    }

    /// Returns the reasons, sorted.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        self.0.iter()
    }

    /// Returns the code. If reasons differ, a code that makes a retry pointless wins over one that a retry may cure.
    pub fn code(&self) -> Code {
        self.reasons().map(|reason| reason.code).min().unwrap_or(Code::Forbidden)
    }

    /// Returns the message for the user.
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

    /// Returns the audit annotations with the `SidecarSet`s and the code.
    fn audit(&self) -> BTreeMap<&'static str, String> {
        let sets: BTreeSet<_> = self.reasons().filter_map(|reason| reason.sidecar_set.as_deref()).collect();
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

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object is accepted unchanged.
    Unchanged,
    /// The request is accepted with this object instead.
    Mutated(Value),
    /// The request is refused.
    Refused(Refusal),
}

/// A decision with its warnings and audit annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The decision on a request.
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
