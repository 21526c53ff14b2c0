use proptest::char::range;
use proptest::prelude::*;
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
#[case::range_in_any_case("(?i)^[a-c]$", "B", true)]
#[case::range_over_both_cases("(?i)^[:-a]$", "z", true)]
#[case::range_of_escapes_in_any_case("(?i)^[\\x61-\\x63]$", "B", true)]
#[case::range_that_ends_in_a_hyphen("^[+--]+$", "+,-", true)]
#[case::range_that_begins_with_a_hyphen("^[--a]+$", "-A", true)]
#[case::hyphen_after_a_class("^[\\d-z]+$", "1-z", true)]
#[case::hyphen_is_no_range_after_a_class("^[\\d-z]+$", "x", false)]
#[case::space_has_no_vertical_tab("\\s", "\x0b", false)]
#[case::space_in_a_class_has_no_vertical_tab("[\\s]", "\x0b", false)]
#[case::no_space("^\\S[\\S]$", "\x0ba", true)]
#[case::no_space_in_a_class("[\\S]", "\t", false)]
#[case::named_space("[[:space:]]", "\x0b", true)]
#[case::flag_twice("(?ii)A", "a", true)]
#[case::flag_on_and_off("(?i-i)A", "a", false)]
#[case::name_with_a_digit_first("(?P<1st>a)", "a", true)]
#[case::count_with_a_zero_first("^a{01}$", "a{01}", true)]
#[case::any_count_of_a_group("^(?:ab){2,}$", "ababab", true)]
#[case::optional_repetition("^(a{2})?$", "", true)]
#[case::repetition_behind_flags("^a{2}(?i)?$", "", true)]
#[case::flags_end_with_their_group("^((?i)a)b$", "Ab", true)]
#[case::flags_do_not_outlive_their_group("^((?i)a)b$", "AB", false)]
#[case::word_boundary_before_a_brace("a\\b{b", "a{b", true)]
#[case::nested_rounds("^(a{2}){3}$", "aaaaaa", true)]
#[case::ranges_that_meet_in_any_case("(?i)^[0-Z[-a]$", "z", true)]
#[case::all_but_lower_in_any_case("(?i)^[[:^lower:]a]$", "q", true)]
#[case::upper_in_any_case("(?i)^[[:upper:]]$", "q", true)]
#[case::case_counts_again("(?i)a(?-i)[b]", "aB", false)]
#[case::case_counts_in_a_group("(?i)(?-i:[a])[b]", "aB", true)]
#[case::negated_range_in_any_case("(?i)^[^:-a]$", "z", false)]
#[case::empty("", "main", true)]
fn val11_patterns_read_as_re2_reads_them(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
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
#[case::no_flags("(?)a", "flags")]
#[case::flags_that_end_in_a_minus("(?i-)a", "flags")]
#[case::name_with_a_letter_that_is_not_ascii("(?P<é>a)", "name of a group")]
#[case::name_with_a_point("(?P<a.b>a)", "name of a group")]
#[case::name_without_a_letter("(?P<>a)", "name of a group")]
#[case::same_name("(?P<a>a)(?<a>b)", "same name")]
#[case::nested_rounds_multiply("(a{100}){11}", "at most 1000")]
#[case::fewer_rounds_at_most("a{2,1}", "greater than its maximum")]
#[case::nothing_to_repeat_in_a_group("(*)", "nothing to repeat")]
#[case::nothing_to_repeat_in_an_alternative("a|*", "nothing to repeat")]
#[case::closed_group("a)", "no opening one")]
#[case::range_that_ends_in_a_class("[a-\\d]", "range")]
#[case::word_boundary_in_a_class("[\\b]", "\\b is not supported")]
#[case::end_before_a_line_feed("\\Z", "\\Z is not supported")]
#[case::octal_code("\\012", "back references")]
#[case::code_point_that_is_too_large("\\x{110000}", "hexadecimal")]
#[case::trailing_backslash("a\\", "backslash")]
#[case::back_reference("(a)\\1", "")]
fn val11_patterns_that_are_refused(#[case] pattern: &str, #[case] says: &str) {
    let error = Pattern::new(pattern).unwrap_err().to_string();
    assert!(error.contains(says), "{error}");
}

/// Expressions of meaningful pieces in any order.
fn expression() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "A",
        "Z",
        "z",
        "0",
        "_",
        "-",
        "--",
        " ",
        "\n",
        "é",
        ".",
        "^",
        "$",
        "*",
        "+",
        "?",
        "??",
        "{",
        "}",
        "{2}",
        "{0}",
        "{1,}",
        "{0,2}",
        "{2,1}",
        "{,2}",
        "{1,2",
        "(",
        ")",
        "(?:",
        "(?i)",
        "(?i:",
        "(?s)",
        "(?m)",
        "(?m-i)",
        "(?-s:",
        "(?U)",
        "(?)",
        "(?-)",
        "(?ii)",
        "(?P<n>",
        "(?<m>",
        "(?P<",
        "(?<n>",
        "(?=",
        "|",
        "[",
        "]",
        "[^",
        "[a-z]",
        "[^a-z]",
        "[]",
        "[^]",
        "[a-",
        "[[:alpha:]",
        "[[:^digit:]]",
        "[[:word:]-]",
        "[[:foo:]]",
        "[:",
        ":]",
        "\\d",
        "\\D",
        "\\w",
        "\\W",
        "\\s",
        "\\S",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\Z",
        "\\n",
        "\\t",
        "\\x41",
        "\\x{61}",
        "\\x{110000}",
        "\\x{",
        "\\x4",
        "\\1",
        "\\.",
        "\\-",
        "\\]",
        "\\<",
        "\\e",
        "\\pL",
        "\\",
        "&&",
        "~~",
        "#",
        "/",
        ",",
        "1",
    ]);
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The engine compiles the translation of every accepted expression, and matches every text.
    #[test]
    fn val11_expressions_compile_or_are_refused_by_the_translation(
        expression in expression(), texts in prop::collection::vec("[aAbzZ0_\\- \né,\\]\\[&~:]{0,6}", 6)
    ) {
        if let Ok(pattern) = Pattern::new(&expression) {
            prop_assert!(pattern.regex().is_some(), "{expression:?}: {}", pattern.translation);
            for text in &texts {
                let _ = pattern.is_match(text);
            }
        }
    }

    #[test]
    fn val11_any_text_compiles_or_is_refused(expression: String, text: String) {
        if let Ok(pattern) = Pattern::new(&expression) {
            prop_assert!(pattern.regex().is_some(), "{expression:?}: {}", pattern.translation);
            let _ = pattern.is_match(&text);
        }
    }

    #[test]
    fn val11_an_escaped_text_matches_itself(text in "[ -~]{1,20}") {
        let expression: String = text.chars().flat_map(|one| {
            let escape = if one.is_ascii_alphanumeric() { None } else { Some('\\') };
            escape.into_iter().chain([one])
        }).collect();
        let pattern = Pattern::new(&format!("^{expression}$")).unwrap();
        let longer = format!("{text}!");
        prop_assert!(pattern.is_match(&text) && !pattern.is_match(&longer));
    }

    /// Compares a class with the definition of its range.
    #[test]
    fn val11_a_range_holds_what_lies_between(start in range(' ', '~'), end in range(' ', '~'), folded: bool, negated: bool) {
        let escaped = |one: char| if one.is_ascii_alphanumeric() { one.to_string() } else { format!("\\{one}") };
        let flags = if folded { "(?i)" } else { "" };
        let sign = if negated { "^" } else { "" };
        let expression = format!("{flags}^[{sign}{}-{}]$", escaped(start), escaped(end));
        if start > end {
            prop_assert_eq!(Pattern::new(&expression).unwrap_err(), PatternError::Range);
            return Ok(());
        }
        let pattern = Pattern::new(&expression).unwrap();
        for one in ' '..='~' {
            let mut forms = vec![one];
            if folded {
                forms.extend([one.to_ascii_lowercase(), one.to_ascii_uppercase()]);
            }
            let is_in = forms.iter().any(|form| (start..=end).contains(form));
            prop_assert_eq!(pattern.is_match(&one.to_string()), is_in != negated, "{} on {:?}", expression, one);
        }
    }
}

#[rstest]
#[case::groups("(", ")")]
#[case::groups_without_captures("(?:", ")")]
#[case::repetitions("(?:", ")*")]
#[case::sequences("(b", ")")]
#[case::alternatives("(b|c", "d)")]
#[case::repetitions_behind_flags("", "*(?i)")]
fn nesting_has_a_limit(#[case] open: &str, #[case] close: &str) {
    let nested = |levels| Pattern::new(&format!("{}a{}", open.repeat(levels), close.repeat(levels)));
    for levels in 1..60 {
        match nested(levels) {
            Ok(pattern) => assert!(pattern.regex().is_some(), "{levels}"),
            Err(error) => assert!(error == PatternError::TooDeep && levels > 15, "{levels}: {error}"),
        }
    }
    assert!(nested(1_000).is_err() && nested(100_000).is_err());
    assert!(open.is_empty() || Pattern::new(&open.repeat(100_000)).is_err());
}

#[test]
fn e18_long_expressions_are_refused() {
    let class = |bytes: usize| format!("[{}]", "a".repeat(bytes - 2));
    let too_long = "it has more than 65536 bytes; make several of it";
    assert_eq!(Pattern::new(&class(65_537)).unwrap_err().to_string(), too_long);
    // With one byte less, the expression has too many steps instead.
    assert_ne!(Pattern::new(&class(65_536)).unwrap_err().to_string(), too_long);
}

#[test]
fn repetitions_that_multiply_are_refused() {
    assert!(Pattern::new("(a{100}){10}").is_ok());
    assert!(Pattern::new("(abcdefgh){1000}").is_err_and(|error| error == PatternError::TooLarge));
    assert!(Pattern::new("((a{1000}){1000}){1000}").is_err_and(|error| error == PatternError::TooManyRounds));
    assert!(Pattern::new("((a{0}){1000}){1000}").is_err_and(|error| error == PatternError::TooLarge));
    assert!(Pattern::new("(a{0}){1000}").unwrap().is_match(""));
}

/// The count of steps refuses an expression before the engine does, so the same expressions are too large on every
/// platform.
#[rstest]
#[case::letters(&"a".repeat(STEPS_MAX))]
#[case::alternatives(&"a|".repeat(STEPS_MAX / 2 - 1))]
#[case::optional_letters(&"a?".repeat(STEPS_MAX / 2))]
#[case::groups(&"(a)".repeat(STEPS_MAX))]
#[case::rounds("(?:[a-z]?[0-9]){1000}")]
#[case::classes(&"\\w".repeat(STEPS_MAX / 6))]
#[case::folded(&format!("(?i){}", "a".repeat(STEPS_MAX)))]
fn the_largest_expressions_compile(#[case] expression: &str) {
    let pattern = Pattern::new(expression).unwrap();
    assert!(pattern.regex().is_some());
    assert!(!pattern.is_match("0".repeat(TEXT_MAX).as_str()) || expression.contains(['?', '|', 'w']));
    assert_eq!(Pattern::new(&format!("{expression}{expression}")).unwrap_err(), PatternError::TooLarge);
}

#[test]
fn nested_repetitions_take_time_in_proportion() {
    let pattern = Pattern::new("^((a*)*)*b$").unwrap();
    assert!(!pattern.is_match(&"a".repeat(TEXT_MAX)));
}

/// The translation does not search the rest of an expression repeatedly.
#[rstest]
#[case::braces("{")]
#[case::open_counts("{1,")]
#[case::brackets_and_colons("[[:")]
#[case::names("(?P<")]
#[case::groups("(")]
#[case::code_points("\\x{")]
fn e18_long_expressions_are_refused_at_once(#[case] piece: &str) {
    assert!(Pattern::new(&piece.repeat(1 << 20)).is_err());
}

#[test]
fn e18_what_is_no_name_does_not_match_and_takes_no_effort() {
    let pattern = Pattern::new("a+").unwrap();
    let (name, long) = ("a".repeat(TEXT_MAX), "a".repeat(TEXT_MAX + 1));
    assert!(pattern.is_match(&name) && !pattern.is_match(&long));
    assert!(pattern.effort(&name) > TEXT_MAX && pattern.effort(&long) == 1);
}

#[test]
fn e18_compiling_is_effort_that_the_first_text_takes() {
    let pattern = Pattern::new("(?:abcd){1000}").unwrap();
    let first = pattern.effort("a");
    assert!(!pattern.is_match("a"));
    assert!(first > pattern.effort("a") && pattern.effort("a") > 4_000);
}
