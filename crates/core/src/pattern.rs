//! Regular expressions that users write: RE2's syntax, as Go has it.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::Regex;

/// The most repetitions that RE2 allows.
const REPEAT_MAX: u32 = 1000;

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression. The error says what is wrong and what to use instead.
    ///
    /// What RE2 refuses is refused. `\p{...}`, `\P{...}`, `\Q...\E` and `\C` are refused too: the engine is small, and
    /// names of containers and keys of annotations are ASCII.
    pub fn new(text: &str) -> Result<Self, String> {
        Regex::new(&translate(text)?).map(Self).map_err(|error| error.to_string())
    }

    /// Whether the expression matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// The same expression in the dialect of `regex-lite`.
fn translate(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut repeated = false;
    while let Some(one) = rest.next() {
        let was_repeated = std::mem::take(&mut repeated);
        match one {
            '\\' => escape(&mut rest, &mut out)?,
            '[' => class(&mut rest, &mut out)?,
            '(' => group(&mut rest, &mut out)?,
            '*' | '+' | '?' => {
                out.push(one);
                repeated = true;
            }
            '{' => match counts(&rest)? {
                Some(length) => {
                    out.push(one);
                    out.extend(rest.by_ref().take(length));
                    repeated = true;
                }
                None => out.push_str("\\{"),
            },
            '}' => out.push_str("\\}"),
            ']' => out.push_str("\\]"),
            _ => out.push(one),
        }
        if repeated {
            if was_repeated {
                return Err("a repetition of a repetition; use parentheses".to_owned());
            }
            // A question mark here belongs to the repetition.
            out.extend(rest.next_if_eq(&'?'));
        }
    }
    Ok(out)
}

/// What follows a backslash outside of a class.
fn escape(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    let one = rest.next().ok_or("it ends with a backslash")?;
    match one {
        'p' | 'P' => Err("\\p is not supported; list the characters in brackets".to_owned()),
        'Q' => Err("\\Q...\\E is not supported; put a backslash before each special character".to_owned()),
        'C' | 'Z' | 'G' | 'X' | 'R' | 'u' | 'U' => Err(format!("\\{one} is not supported")),
        '<' | '>' => {
            out.push(one);
            Ok(())
        }
        'x' if rest.peek() == Some(&'{') => {
            out.push_str("\\x");
            let digits = rest.clone().take_while(|one| *one != '}').count();
            out.extend(rest.by_ref().take(digits + 1));
            Ok(())
        }
        _ if one.is_ascii_punctuation() => {
            literal(one, out);
            Ok(())
        }
        _ => {
            out.push('\\');
            out.push(one);
            Ok(())
        }
    }
}

/// A character that means itself, inside or outside of a class.
fn literal(one: char, out: &mut String) {
    if "\\.+*?()|[]{}^$-&~#/".contains(one) {
        out.push('\\');
    }
    out.push(one);
}

/// The rest of a class, after its opening bracket.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    out.push('[');
    out.extend(rest.next_if_eq(&'^'));
    let mut first = true;
    while let Some(one) = rest.next() {
        match one {
            ']' if !first => {
                out.push(one);
                return Ok(());
            }
            '\\' => escape(rest, out)?,
            '[' if rest.peek() == Some(&':') => named_class(rest, out)?,
            '[' | ']' | '&' | '~' => literal(one, out),
            _ => out.push(one),
        }
        first = false;
    }
    Err("a bracket is not closed".to_owned())
}

/// The rest of `[:name:]`, inside a class. A bracket and a colon without their closing pair mean themselves.
fn named_class(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    let name: String = rest.clone().skip(1).take_while(|one| one.is_ascii_alphabetic() || *one == '^').collect();
    let mut after = rest.clone().skip(1 + name.chars().count());
    if (after.next(), after.next()) != (Some(':'), Some(']')) {
        literal('[', out);
        return Ok(());
    }
    out.push('[');
    out.extend(rest.by_ref().take(name.len() + 3));
    if name.is_empty() { Err("a class without a name".to_owned()) } else { Ok(()) }
}

/// What follows an opening parenthesis: the flags that RE2 has, or a name, or nothing.
fn group(rest: &mut Peekable<Chars<'_>>, out: &mut String) -> Result<(), String> {
    out.push('(');
    if rest.peek() != Some(&'?') {
        return Ok(());
    }
    out.extend(rest.next());
    while let Some(one) = rest.peek().copied() {
        match one {
            'i' | 'm' | 's' | 'U' | '-' => out.extend(rest.next()),
            ':' | ')' | 'P' | '<' => return Ok(()),
            _ => break,
        }
    }
    Err("(? is not followed by a name, by flags (i, m, s, U) or by a colon".to_owned())
}

/// The length of `n}`, `n,}` or `n,m}` ahead, as RE2 reads it; anything else makes the brace an ordinary character.
fn counts(rest: &Peekable<Chars<'_>>) -> Result<Option<usize>, String> {
    let inside: String = rest.clone().take_while(|one| one.is_ascii_digit() || *one == ',').collect();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (from, to) = inside.split_once(',').unwrap_or((&inside, ""));
    if rest.clone().nth(inside.len()) != Some('}') || from.is_empty() || !is_number(to) {
        return Ok(None);
    }
    for count in [from, to].into_iter().filter(|count| !count.is_empty()) {
        if count.parse::<u32>().map_or(true, |count| count > REPEAT_MAX) {
            return Err(format!("a repetition may have at most {REPEAT_MAX} rounds"));
        }
    }
    Ok(Some(inside.len() + 1))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::unanchored("ai", "main", true)]
    #[case::anchored("^ai$", "main", false)]
    #[case::alternatives("^(app|main)$", "main", true)]
    #[case::named_class("^[[:alpha:]]+$", "main", true)]
    #[case::a_named_class_does_not_end_the_class("^[[:alpha:]-]+$", "a-b", true)]
    #[case::bracket_first_in_a_class("^[]a]+$", "a]", true)]
    #[case::bracket_in_a_class("[a[b]", "[", true)]
    #[case::double_ampersand_in_a_class("^[a&&b]$", "&", true)]
    #[case::brace_without_count("^a{$", "a{", true)]
    #[case::brace_with_an_open_count("^a{,2}$", "a{,2}", true)]
    #[case::count("^a{2}$", "aa", true)]
    #[case::lazy_count("^a{1,2}?$", "aa", true)]
    #[case::escaped_angle_bracket("\\<", "<", true)]
    #[case::escaped_underscore("a\\_b", "a_b", true)]
    #[case::code_point("^\\x{61}*$", "aa", true)]
    #[case::flags("(?i)MAIN", "main", true)]
    #[case::flags_of_a_group("^(?i:M)ain", "main", true)]
    #[case::empty("", "main", true)]
    fn v11_patterns_read_as_re2_reads_them(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(Pattern::new(pattern).unwrap().is_match(text), expected);
    }

    #[rstest]
    #[case::unicode_class("\\p{Lu}", "\\p is not supported")]
    #[case::negated_unicode_class("\\PL", "\\p is not supported")]
    #[case::unicode_class_in_a_class("[\\pL]", "\\p is not supported")]
    #[case::quoted("\\Qa.b\\E", "\\Q...\\E is not supported")]
    #[case::byte("\\C", "\\C is not supported")]
    #[case::open_group("(a", "")]
    #[case::open_class("[a", "a bracket is not closed")]
    #[case::wrong_range("[z-a]", "")]
    #[case::unknown_class("[[:foo:]]", "")]
    #[case::nothing_to_repeat("*", "")]
    #[case::repetition_of_a_repetition("a**", "repetition of a repetition")]
    #[case::count_of_a_count("a{2}{3}", "repetition of a repetition")]
    #[case::too_many("a{1001}", "at most 1000")]
    #[case::far_too_many("a{99999999999}", "at most 1000")]
    #[case::flag_that_re2_has_not("(?x)a b", "flags")]
    #[case::look_ahead("(?=a)", "flags")]
    #[case::trailing_backslash("a\\", "backslash")]
    #[case::back_reference("(a)\\1", "")]
    fn v11_patterns_that_are_refused(#[case] pattern: &str, #[case] says: &str) {
        let error = Pattern::new(pattern).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
