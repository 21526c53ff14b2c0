//! Glob patterns for names.

use pillion_kubernetes::text::{LENGTH_MAX, check_length, checked_text};

checked_text!(
    /// A pattern for names: `*` matches any number of characters, `?` matches one. It has at least one byte and at most
    /// [`LENGTH_MAX`].
    #[cfg_attr(feature = "schema", schemars(extend("minLength" = 1)))]
    Glob,
    check_length
);

impl Glob {
    /// Whether the pattern matches the whole text. Returns `false` for a text of more than [`LENGTH_MAX`] bytes: the
    /// work is proportional to the product of both lengths.
    ///
    /// # Examples
    /// ```
    /// use pillion_identity::glob::Glob;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// for (glob, text, matched) in [
    ///     ("team-*", "team-a", true),
    ///     ("team-*", "my-team-a", false), // the whole text must match
    ///     ("team-?", "team-ab", false),
    ///     ("*-agent", "log-agent", true),
    ///     ("[ab]", "a", false),           // brackets are ordinary characters
    /// ] {
    ///     assert_eq!(glob.parse::<Glob>()?.matches(text), matched);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn matches(&self, text: &str) -> bool {
        if text.len() > LENGTH_MAX {
            return false;
        }
        let (mut glob, mut text) = (self.as_str().chars(), text.chars());
        // The rest of the glob after the last star, and the position in the text to retry it from. With each retry the
        // star takes one more character.
        let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
        loop {
            let at = text.clone();
            match (glob.next(), text.next()) {
                (None, None) => return true,
                (Some('*'), _) => {
                    text = at;
                    star = Some((glob.clone(), text.clone()));
                }
                (Some('?'), Some(_)) => {}
                (Some(one), Some(other)) if one == other => {}
                _ => {
                    let Some((rest, mut resume)) = star.take() else { return false };
                    if resume.next().is_none() {
                        return false;
                    }
                    glob = rest.clone();
                    text = resume.clone();
                    star = Some((rest, resume));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::literal("logs", "logs", true)]
    #[case::longer("logs", "logs2", false)]
    #[case::shorter("logs", "log", false)]
    #[case::everything("*", "", true)]
    #[case::prefix("team-*", "team-a", true)]
    #[case::nothing_after_the_prefix("team-*", "team-", true)]
    #[case::other_prefix("team-*", "steam-a", false)]
    #[case::suffix("*-agent", "log-agent", true)]
    #[case::suffix_twice("*-agent", "agent-agent", true)]
    #[case::middle("a*b*c", "aXbXbXc", true)]
    #[case::middle_missing("a*b*c", "aXcXb", false)]
    #[case::one("team-?", "team-a", true)]
    #[case::not_two("team-?", "team-ab", false)]
    #[case::not_none("team-?", "team-", false)]
    #[case::stars("**", "x", true)]
    #[case::no_brackets("[ab]", "a", false)]
    fn idv5_globs(#[case] glob: &str, #[case] text: &str, #[case] matched: bool) {
        assert_eq!(glob.parse::<Glob>().unwrap().matches(text), matched);
    }

    #[test]
    fn e18_globs_and_texts_have_a_limit() {
        assert!("".parse::<Glob>().is_err() && "*".repeat(LENGTH_MAX + 1).parse::<Glob>().is_err());
        let glob: Glob = "*".repeat(LENGTH_MAX).parse().unwrap();
        assert!(glob.matches(&"x".repeat(LENGTH_MAX)) && !glob.matches(&"x".repeat(LENGTH_MAX + 1)));
    }

    proptest! {
        #[test]
        fn a_glob_of_stars_and_a_part_of_the_text_matches(before in "[a-c]*", part in "[a-c]*", after in "[a-c]*") {
            let glob: Glob = format!("*{part}*").parse().unwrap();
            let text = format!("{before}{part}{after}");
            prop_assert!(glob.matches(&text));
        }
    }
}
