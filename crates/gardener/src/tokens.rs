//! Rules for the lifetime of tokens (D1 to D3, D11, D12, W5).

use pillion_kubernetes::duration::{self, Duration};
use pillion_kubernetes::field::{Cause, FieldError, FieldErrors};

use super::{Change, Judgement};

const SHORTEST: Duration = Duration::hours(720);
const LONGEST: Duration = Duration::hours(2160);
const NONE: Duration = Duration(0);

/// The message about 0, which kube-apiserver treats as "no maximum".
const ZERO: &str = "0 means no maximum; use 720h to 2160h, or leave the field out";
const EXTENDED: &str = "maxTokenExpiration does not bind the tokens of Pods while extendTokenExpiration is not false: they may live for one year; set extendTokenExpiration to false";

pub(super) fn judge(change: &Change<'_>, judgement: &mut Judgement) {
    let Some(text) = change.new.max else { return };
    let at = change.at.child("maxTokenExpiration");
    let max = match Duration::parse(text) {
        Ok(max) => max,
        Err(wrong) => {
            judgement.invalid.invalid(&at, text, &malformed(&wrong, text));
            return;
        }
    };
    let (cause, detail) = if max == NONE {
        if change.old.max.is_some_and(|old| Duration::parse(old) == Ok(NONE)) {
            judgement.warn(format!("maxTokenExpiration: {ZERO}"));
            return;
        }
        (Cause::Invalid, ZERO)
    } else if max < NONE {
        (Cause::Invalid, "can not be negative")
    } else if max < SHORTEST {
        (Cause::Forbidden, "must be at least 720h (30d)")
    } else if max > LONGEST {
        (Cause::Forbidden, "must be at most 2160h (90d)")
    } else {
        if change.new.extend != Some(false) {
            judgement.warn(EXTENDED);
        }
        return;
    };
    judgement.invalid.add(|| FieldError::new(at, cause, detail).showing(max.text()));
}

/// Returns Go's error message and the remedy.
fn malformed(wrong: &duration::ParseError, text: &str) -> String {
    // Do not repeat a text that is too long for a duration; the error shows its beginning.
    let what = if text.len() > 64 { "time: invalid duration" } else { wrong.as_str() };
    let hours = duration::in_hours(text);
    format!("{what}; use {}", hours.as_deref().unwrap_or("hours, as in 720h"))
}
