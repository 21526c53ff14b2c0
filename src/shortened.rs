//! A payload without the text of a bundle.
//!
//! The bundle of a thousand SidecarSets is nine tenths of a payload, but an admission reads only few of its bytes.
//! `serde_json` needs seven instructions for each byte, memchr a fraction of one (docs/design.md).

use std::borrow::Cow;

use memchr::{memchr2, memmem};
use pillion_bundle::PREFIX;

/// A payload, and the text that was cut out of it.
pub struct Shortened<'a> {
    /// The payload, in which only [`PREFIX`] is left of the text.
    pub text: Cow<'a, [u8]>,
    /// The text that was cut out, which begins with [`PREFIX`].
    pub bundle: Option<&'a [u8]>,
}

impl<'a> Shortened<'a> {
    /// Cuts a text out of a payload if it is the only one that begins like a bundle, and has no escapes.
    ///
    /// The text may be in any place of the payload. It belongs to the settings only if their bundle is exactly
    /// [`PREFIX`] afterwards, without escapes.
    pub fn new(payload: &'a [u8]) -> Self {
        cut(payload).unwrap_or(Self { text: payload.into(), bundle: None })
    }
}

fn cut(payload: &[u8]) -> Option<Shortened<'_>> {
    let beginning = format!("\"{PREFIX}");
    let quote = memmem::find(payload, beginning.as_bytes())?;
    let (before, text) = payload.split_at_checked(quote + 1)?;
    let (bundle, after) = text.split_at_checked(memchr2(b'"', b'\\', text)?)?;
    let is_the_only_one = memmem::find(after, beginning.as_bytes()).is_none();
    (after.starts_with(b"\"") && is_the_only_one)
        .then(|| Shortened { text: [before, PREFIX.as_bytes(), after].concat().into(), bundle: Some(bundle) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(r#"{"settings":{}}"#, None)]
    #[case::one(r#"{"settings":{"bundle":"pillion-bundle-3:a:b"}}"#, Some(("pillion-bundle-3:a:b", r#"{"settings":{"bundle":"pillion-bundle-3:"}}"#)))]
    #[case::another_format(r#"{"settings":{"bundle":"pillion-bundle-2:a:b"}}"#, None)]
    #[case::two(r#"["pillion-bundle-3:a","pillion-bundle-3:b"]"#, None)]
    #[case::with_an_escape(r#"["pillion-bundle-3:a\n"]"#, None)]
    #[case::with_an_escaped_quote(r#"["pillion-bundle-3:a\""]"#, None)]
    #[case::within_a_text(r#"["a\"pillion-bundle-3:a"]"#, Some(("pillion-bundle-3:a", r#"["a\"pillion-bundle-3:"]"#)))]
    #[case::without_an_end(r#"["pillion-bundle-3:a"#, None)]
    fn one_text_without_escapes_is_cut_out(#[case] payload: &str, #[case] expected: Option<(&str, &str)>) {
        let shortened = Shortened::new(payload.as_bytes());
        let (bundle, text) = expected.map_or((None, payload), |(bundle, text)| (Some(bundle.as_bytes()), text));
        assert_eq!((shortened.bundle, &*shortened.text), (bundle, text.as_bytes()));
    }
}
