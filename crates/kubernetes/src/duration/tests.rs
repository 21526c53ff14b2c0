#![allow(clippy::unreadable_literal)] // As Go prints them.

use proptest::prelude::*;

use super::*;

/// Texts, the nanoseconds that `time.ParseDuration` of Go 1.26 reads from them, and the text that `Duration.String`
/// prints for them.
const READ: [(&str, i64, &str); 32] = [
    (".5s", 500000000, "500ms"),
    ("5.s", 5000000000, "5s"),
    ("0", 0, "0s"),
    ("-0", 0, "0s"),
    ("+0", 0, "0s"),
    ("0s", 0, "0s"),
    ("-0s", 0, "0s"),
    ("1h1h", 7200000000000, "2h0m0s"),
    ("1h30m", 5400000000000, "1h30m0s"),
    ("1m1ms", 60001000000, "1m0.001s"),
    ("1ms1m", 60001000000, "1m0.001s"),
    ("2562047h47m16.854775807s", 9223372036854775807, "2562047h47m16.854775807s"),
    ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
    ("9223372036854775807ns", 9223372036854775807, "2562047h47m16.854775807s"),
    ("-9223372036854775808ns", i64::MIN, "-2562047h47m16.854775808s"),
    ("-9223372036854775808ns9223372036854775808ns", 0, "0s"),
    ("0.100000000000000000000h", 360000000000, "6m0s"),
    ("0.3333333333333333333h", 1200000000000, "20m0s"),
    ("9007199254.740993ms", 9007199254740993, "2501h59m59.254740993s"),
    ("9007199254740993ns", 9007199254740993, "2501h59m59.254740993s"),
    ("0.9223372036854775807h", 3320413933267, "55m20.413933267s"),
    ("0.830103483285477580700h", 2988372539827, "49m48.372539827s"),
    ("1\u{b5}s", 1000, "1\u{b5}s"),
    ("1\u{3bc}s", 1000, "1\u{b5}s"),
    ("1us", 1000, "1\u{b5}s"),
    ("720h", 2592000000000000, "720h0m0s"),
    ("719h59m59.999999999s", 2591999999999999, "719h59m59.999999999s"),
    ("2160h", 7776000000000000, "2160h0m0s"),
    ("2160h0m0.000000001s", 7776000000000001, "2160h0m0.000000001s"),
    ("2160h0.000000001s", 7776000000000001, "2160h0m0.000000001s"),
    ("-720h", -2592000000000000, "-720h0m0s"),
    ("1m60s", 120000000000, "2m0s"),
];

/// Texts that `time.ParseDuration` refuses, and its messages.
const REFUSED: [(&str, &str); 63] = [
    ("", "time: invalid duration \"\""),
    ("+-5s", "time: invalid duration \"+-5s\""),
    ("--5s", "time: invalid duration \"--5s\""),
    ("++5s", "time: invalid duration \"++5s\""),
    ("-+5s", "time: invalid duration \"-+5s\""),
    ("+", "time: invalid duration \"+\""),
    ("-", "time: invalid duration \"-\""),
    (".", "time: invalid duration \".\""),
    ("-.", "time: invalid duration \"-.\""),
    ("+.s", "time: invalid duration \"+.s\""),
    (".s", "time: invalid duration \".s\""),
    ("5.", "time: missing unit in duration \"5.\""),
    ("00", "time: missing unit in duration \"00\""),
    ("0.0", "time: missing unit in duration \"0.0\""),
    ("1h 30m", "time: unknown unit \"h \" in duration \"1h 30m\""),
    (" 1h", "time: invalid duration \" 1h\""),
    ("1h ", "time: unknown unit \"h \" in duration \"1h \""),
    ("PT1H", "time: invalid duration \"PT1H\""),
    ("P30D", "time: invalid duration \"P30D\""),
    ("30d", "time: unknown unit \"d\" in duration \"30d\""),
    ("45d", "time: unknown unit \"d\" in duration \"45d\""),
    ("90d", "time: unknown unit \"d\" in duration \"90d\""),
    ("1w", "time: unknown unit \"w\" in duration \"1w\""),
    ("4w", "time: unknown unit \"w\" in duration \"4w\""),
    ("1y", "time: unknown unit \"y\" in duration \"1y\""),
    ("1H", "time: unknown unit \"H\" in duration \"1H\""),
    ("1Ms", "time: unknown unit \"Ms\" in duration \"1Ms\""),
    ("1mS", "time: unknown unit \"mS\" in duration \"1mS\""),
    ("3000000h", "time: invalid duration \"3000000h\""),
    ("2562047h47m16.854775808s", "time: invalid duration \"2562047h47m16.854775808s\""),
    ("-2562047h47m16.854775809s", "time: invalid duration \"-2562047h47m16.854775809s\""),
    ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
    ("-9223372036854775809ns", "time: invalid duration \"-9223372036854775809ns\""),
    ("1u", "time: unknown unit \"u\" in duration \"1u\""),
    ("1\u{b5}", "time: unknown unit \"\\xc2\\xb5\" in duration \"1\\xc2\\xb5\""),
    ("1e3s", "time: unknown unit \"e\" in duration \"1e3s\""),
    ("1_000s", "time: unknown unit \"_\" in duration \"1_000s\""),
    ("0x10h", "time: unknown unit \"x\" in duration \"0x10h\""),
    ("1,5h", "time: unknown unit \",\" in duration \"1,5h\""),
    ("\u{ff13}h", "time: invalid duration \"\\xef\\xbc\\x93h\""),
    ("5ns5", "time: missing unit in duration \"5ns5\""),
    ("5 s", "time: unknown unit \" s\" in duration \"5 s\""),
    ("infinity", "time: invalid duration \"infinity\""),
    ("null", "time: invalid duration \"null\""),
    ("true", "time: invalid duration \"true\""),
    ("1.1.1s", "time: missing unit in duration \"1.1.1s\""),
    ("..1s", "time: invalid duration \"..1s\""),
    ("1..s", "time: missing unit in duration \"1..s\""),
    ("1h.", "time: invalid duration \"1h.\""),
    ("1h.5", "time: missing unit in duration \"1h.5\""),
    ("1h-30m", "time: unknown unit \"h-\" in duration \"1h-30m\""),
    ("-1h-1h", "time: unknown unit \"h-\" in duration \"-1h-1h\""),
    ("1d12h", "time: unknown unit \"d\" in duration \"1d12h\""),
    ("1h\n", "time: unknown unit \"h\\x0a\" in duration \"1h\\x0a\""),
    ("\t1h", "time: invalid duration \"\\x091h\""),
    ("1h\x00", "time: unknown unit \"h\\x00\" in duration \"1h\\x00\""),
    ("a\"b", "time: invalid duration \"a\\\"b\""),
    ("a\\b", "time: invalid duration \"a\\\\b\""),
    ("\u{65e5}\u{672c}", "time: invalid duration \"\\xe6\\x97\\xa5\\xe6\\x9c\\xac\""),
    ("1\u{65e5}", "time: unknown unit \"\\xe6\\x97\\xa5\" in duration \"1\\xe6\\x97\\xa5\""),
    ("60", "time: missing unit in duration \"60\""),
    ("2592000", "time: missing unit in duration \"2592000\""),
    ("1h\u{a0}", "time: unknown unit \"h\\xc2\\xa0\" in duration \"1h\\xc2\\xa0\""),
];

#[test]
fn d12_durations_are_read_and_printed_as_go_does() {
    for (text, nanoseconds, printed) in READ {
        let duration = Duration::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!((duration.0, duration.to_string().as_str()), (nanoseconds, printed), "{text:?}");
    }
}

#[test]
fn d12_what_go_refuses_is_refused_in_its_words() {
    for (text, message) in REFUSED {
        let error = Duration::parse(text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text:?}");
    }
}

#[test]
fn d12_fractions_are_cut_as_go_does_it_in_floating_point() {
    // The exact result would be 1,199,999,999,999 nanoseconds and a fraction.
    assert_eq!(Duration::parse("0.3333333333333333333h"), Ok(Duration(1_200_000_000_000)));
    // Digits that do not fit into 63 bits are ignored.
    assert_eq!(Duration::parse("0.99999999999999999990000000s"), Ok(Duration(1_000_000_000)));
}

#[test]
fn d12_days_and_weeks_are_suggested_in_hours() {
    for (text, hours) in [("45d", "1080h"), ("30d", "720h"), ("90d", "2160h"), ("0d", "0h"), ("2w", "336h")] {
        assert_eq!(in_hours(text).as_deref(), Some(hours), "{text}");
        assert!(Duration::parse(hours).is_ok());
    }
    for text in ["", "d", "-1d", "+1d", "1.5d", "1h2d", "45", "45h", "45 d", "45D", "99999999999999999999d", "\u{663}d"]
    {
        assert_eq!(in_hours(text), None, "{text}");
    }
}

#[test]
fn hours_are_hours() {
    assert_eq!(Duration::hours(720).to_string(), "720h0m0s");
    assert_eq!(Duration::hours(u32::MAX), Duration(i64::MAX));
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(nanoseconds: i64) {
        let duration = Duration(nanoseconds);
        prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn short_spans_are_read_again(nanoseconds in -5_000_000_000_i64..5_000_000_000) {
        let duration = Duration(nanoseconds);
        prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+0-9.hmsunµμd \\PC]{0,24}") {
        if let Err(error) = Duration::parse(&text) {
            prop_assert!(error.to_string().starts_with("time: "));
        }
    }
}
