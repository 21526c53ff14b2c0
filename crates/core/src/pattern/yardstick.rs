//! The yardstick: RE2's syntax translated for `regex-lite`, as the module did before it had an engine of its own.

use std::iter::Peekable;
use std::str::Chars;

use regex_lite::Regex;

/// The most repetitions that RE2 allows.
const REPEAT_MAX: u32 = 1000;

/// The expression, compiled by `regex-lite`.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    Regex::new(&translate(text)?).map_err(|error| error.to_string())
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
