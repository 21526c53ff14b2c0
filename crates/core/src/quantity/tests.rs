use proptest::prelude::*;
use rstest::rstest;
use serde_json::Value;

use super::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// JSON in; the stored text and the text after rounding up to milli out, or an error.
const E21: &[(&str, Option<(&str, &str)>)] = &[
    (r#""0""#, Some(("0", "0"))),
    (r#""1""#, Some(("1", "1"))),
    (r#"1"#, Some(("1", "1"))),
    (r#"1.5"#, Some(("1500m", "1500m"))),
    (r#""1.5""#, Some(("1500m", "1500m"))),
    (r#""0.5""#, Some(("500m", "500m"))),
    (r#""500m""#, Some(("500m", "500m"))),
    (r#""1000m""#, Some(("1", "1"))),
    (r#""1500m""#, Some(("1500m", "1500m"))),
    (r#""0.1""#, Some(("100m", "100m"))),
    (r#""0.0001""#, Some(("100u", "1m"))),
    (r#""100u""#, Some(("100u", "1m"))),
    (r#""1n""#, Some(("1n", "1m"))),
    (r#""0.1n""#, Some(("1n", "1m"))),
    (r#""1.1n""#, Some(("2n", "1m"))),
    (r#""128974848""#, Some(("128974848", "128974848"))),
    (r#""129e6""#, Some(("129e6", "129e6"))),
    (r#""129E6""#, Some(("129E6", "129E6"))),
    (r#""64e6""#, Some(("64e6", "64e6"))),
    (r#""1e3""#, Some(("1e3", "1e3"))),
    (r#""1.5e3""#, Some(("1500", "1500"))),
    (r#""1e-3""#, Some(("1e-3", "1e-3"))),
    (r#""129M""#, Some(("129M", "129M"))),
    (r#""0.5Gi""#, Some(("512Mi", "512Mi"))),
    (r#""1.5Gi""#, Some(("1536Mi", "1536Mi"))),
    (r#""1024Mi""#, Some(("1Gi", "1Gi"))),
    (r#""1024Ki""#, Some(("1Mi", "1Mi"))),
    (r#""1000Ki""#, Some(("1000Ki", "1000Ki"))),
    (r#""1Gi""#, Some(("1Gi", "1Gi"))),
    (r#""1G""#, Some(("1G", "1G"))),
    (r#""1000M""#, Some(("1G", "1G"))),
    (r#""1000k""#, Some(("1M", "1M"))),
    (r#""1024""#, Some(("1024", "1024"))),
    (r#""1048576""#, Some(("1048576", "1048576"))),
    (r#""0.1Ki""#, Some(("102400m", "102400m"))),
    (r#""0.7Mi""#, Some(("734003200m", "734003200m"))),
    (r#""1.0001Gi""#, Some(("1073849198182400u", "1073849198183m"))),
    (r#""100Gi""#, Some(("100Gi", "100Gi"))),
    (r#""1Ti""#, Some(("1Ti", "1Ti"))),
    (r#""1Pi""#, Some(("1Pi", "1Pi"))),
    (r#""1Ei""#, Some(("1Ei", "1Ei"))),
    (r#""8Ei""#, Some(("9223372036854775807", "9223372036854775807"))),
    (r#""9223372036854775807""#, Some(("9223372036854775807", "9223372036854775807"))),
    (r#""9223372036854775808""#, Some(("9223372036854775808", "9223372036854775808"))),
    (r#""1E""#, Some(("1E", "1E"))),
    (r#""10E""#, Some(("10E", "10E"))),
    (r#""-1""#, Some(("-1", "-1"))),
    (r#""-500m""#, Some(("-500m", "-500m"))),
    (r#""+1""#, Some(("+1", "+1"))),
    (r#""1.""#, Some(("1.", "1."))),
    (r#"".5""#, Some(("500m", "500m"))),
    (r#""1K""#, None),
    (r#""1ki""#, None),
    (r#""1mi""#, None),
    (r#"" 1""#, Some(("1", "1"))),
    (r#""1 Gi""#, None),
    (r#""""#, None),
    (r#""1e""#, None),
    (r#""1eG""#, None),
    (r#""0x10""#, None),
    (r#""1_000""#, None),
    (r#""12345678901234567890""#, Some(("12345678901234567890", "12345678901234567890"))),
    (r#""0.000000000000001""#, Some(("1n", "1m"))),
    (r#""3.14159265358979""#, Some(("3141592654n", "3142m"))),
    (r#""00100""#, Some(("00100", "00100"))),
    (r#""1e100""#, Some(("10e99", "10e99"))),
    (r#""100000000000000000000m""#, Some(("100P", "100P"))),
    (r#"null"#, Some(("0", "0"))),
    (r#"true"#, None),
    (r#""0Mi""#, Some(("0", "0"))),
    (r#""0.0""#, Some(("0", "0"))),
    (r#""1e0""#, Some(("1e0", "1e0"))),
    (r#""5e-9""#, Some(("5e-9", "1e-3"))),
    (r#""5e-10""#, Some(("1e-9", "1e-3"))),
];

#[test]
fn e21_json_becomes_the_canonical_text() {
    for (json, expected) in E21 {
        let value: Value = serde_json::from_str(json).unwrap();
        let got = Quantity::from_json(&value).ok();
        let got = got.map(|quantity| (quantity.to_string(), quantity.round_up_to_milli().to_string()));
        let expected = expected.map(|(text, milli)| (text.to_owned(), milli.to_owned()));
        assert_eq!(got, expected, "{json}");
    }
}
