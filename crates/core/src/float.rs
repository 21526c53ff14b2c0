//! 64-bit floats, from decimal text and to it.
//!
//! The standard library does the same, faster, with 35 KB of code and tables: a tenth of the module for a few literals
//! in expressions. Here it is long arithmetic on whole numbers, and a property test compares the two.

/// Digits that are looked at one by one. A number halfway between two floats has at most 767; of more it only counts
/// whether one of them is not zero.
const DIGITS_MAX: usize = 780;
/// The bits of a mantissa, the hidden one included.
const MANTISSA: usize = 53;
/// The exponent of the smallest float above zero: 2⁻¹⁰⁷⁴.
const LEAST: i64 = -1074;

/// The float next to a decimal number: digits with at most one point, and perhaps an exponent; no sign.
///
/// What is beyond the largest float is infinite. `None` where it is no such number.
pub fn parse(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = whole.to_owned();
    digits.push_str(fraction);
    let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(&digits) || !is_digits(unsigned) {
        return None;
    }
    let significant = digits.trim_start_matches('0').as_bytes();
    // Beyond this every number is infinite, or zero, however long its text is.
    let exponent = unsigned.parse().map_or(i64::MAX / 4, |exponent: i64| exponent.min(i64::MAX / 4))
        * if exponent.starts_with('-') { -1 } else { 1 };
    let length = |text: &[u8]| i64::try_from(text.len()).unwrap_or(i64::MAX / 4);
    let magnitude = exponent + length(significant) - length(fraction.as_bytes());
    if significant.is_empty() || magnitude < -330 {
        return Some(0.0);
    }
    if magnitude > 310 {
        return Some(f64::INFINITY);
    }
    let mut number = Whole(Vec::new());
    for digit in significant.iter().take(DIGITS_MAX) {
        number.scale(10, u32::from(digit - b'0'));
    }
    let dropped = significant.get(DIGITS_MAX..).unwrap_or_default();
    if !dropped.is_empty() {
        number.scale(10, u32::from(dropped.iter().any(|digit| *digit != b'0')));
    }
    let taken = significant.len().min(DIGITS_MAX + 1);
    Some(nearest(number, magnitude - i64::try_from(taken).unwrap_or_default()))
}

/// The float next to `number * 10^exponent`; `number` is not zero.
fn nearest(mut number: Whole, exponent: i64) -> f64 {
    let mut divisor = Whole(vec![1]);
    let scaled = if exponent < 0 { &mut divisor } else { &mut number };
    for _ in 0..exponent.unsigned_abs() {
        scaled.scale(10, 0);
    }
    // The quotient gets two bits more than a mantissa, or three; near zero less, since the last bit has its place.
    let size = |whole: &Whole| i64::try_from(whole.bits()).unwrap_or_default();
    let shift = (size(&divisor) - size(&number) + 55).min(2 - LEAST);
    let by = usize::try_from(shift.unsigned_abs()).unwrap_or_default();
    let scaled = if shift < 0 { &mut divisor } else { &mut number };
    scaled.shift(by);
    let (mut mantissa, rest) = number.divided(divisor);
    let mut power = -shift;
    let excess = (64 - mantissa.leading_zeros() as usize).saturating_sub(MANTISSA).max(2);
    let half = 1_u64 << (excess - 1);
    let below = mantissa & (2 * half - 1);
    mantissa >>= excess;
    if below > half || (below == half && (rest || mantissa % 2 == 1)) {
        mantissa += 1;
    }
    power += i64::try_from(excess).unwrap_or_default();
    let hidden = 1_u64 << (MANTISSA - 1);
    match mantissa.checked_sub(hidden) {
        // Without the hidden bit: one of those next to zero.
        None => f64::from_bits(mantissa),
        // A mantissa that has been rounded up to 2⁵³ carries into the exponent, as it should.
        Some(fraction) => match u64::try_from(power - LEAST + 1) {
            Ok(exponent) if exponent < 2047 => f64::from_bits((exponent << (MANTISSA - 1)) + fraction),
            _ => f64::INFINITY,
        },
    }
}

/// The shortest decimal number that reads as `value`, without an exponent; of several the one next to it.
pub fn shown(value: f64) -> String {
    let bits = value.abs().to_bits();
    let hidden = 1_u64 << (MANTISSA - 1);
    let fraction = bits & (hidden - 1);
    let biased = i64::try_from(bits >> (MANTISSA - 1)).unwrap_or_default();
    let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
    if biased == 2047 {
        return if value.is_nan() { "NaN".to_owned() } else { [sign, "inf"].concat() };
    }
    let (mantissa, power) = if biased == 0 { (fraction, LEAST) } else { (fraction + hidden, biased - 1 + LEAST) };
    if power < 0 && (-power) < 64 && mantissa.trailing_zeros() >= u32::try_from(-power).unwrap_or(u32::MAX) {
        // A whole number that a float holds exactly: every digit counts.
        return [sign, &(mantissa >> -power).to_string()].concat();
    }
    // Exactly `number / 10^decimals`.
    let mut number = Whole(Vec::new());
    number.scale(1, u32::try_from(mantissa >> 32).unwrap_or_default());
    number.shift(32);
    number.scale(1, u32::try_from(mantissa & u64::from(u32::MAX)).unwrap_or_default());
    let steps = usize::try_from(power.unsigned_abs()).unwrap_or_default();
    let decimals = if power < 0 { steps } else { 0 };
    if power < 0 {
        (0..steps).for_each(|_| number.scale(5, 0));
    } else {
        number.shift(steps);
    }
    let exact = number.into_decimal();
    let (digits, zeros) = shortest(&exact, decimals, value.abs());
    let mut out = digits;
    out.extend(std::iter::repeat_n('0', zeros.saturating_sub(decimals)));
    let decimals = decimals.saturating_sub(zeros);
    if decimals > 0 {
        let missing = (decimals + 1).saturating_sub(out.len());
        out.insert_str(0, &"0".repeat(missing));
        out.insert(out.len() - decimals, '.');
        out.truncate(out.trim_end_matches('0').trim_end_matches('.').len());
    }
    out.insert_str(0, sign);
    out
}

/// The shortest beginning of `exact` (or one more in its last digit) that reads as `value`, and how many digits are
/// left out after it. `exact` has `decimals` of its digits after the point.
fn shortest(exact: &str, decimals: usize, value: f64) -> (String, usize) {
    for length in 1..exact.len() {
        let (kept, dropped) = exact.split_at_checked(length).unwrap_or((exact, ""));
        let reads = |digits: &str| {
            let exponent =
                i64::try_from(dropped.len()).unwrap_or_default() - i64::try_from(decimals).unwrap_or_default();
            parse(&format!("{digits}e{exponent}")).is_some_and(|read| read.to_bits() == value.to_bits())
        };
        let above = kept.parse::<u64>().map_or_else(|_| kept.to_owned(), |kept| (kept + 1).to_string());
        // Halfway there is no nearest: the standard library then goes up.
        let down_is_nearer = dropped < ["5", &"0".repeat(dropped.len() - 1)].concat().as_str();
        let (first, second) = if down_is_nearer { (kept, above.as_str()) } else { (above.as_str(), kept) };
        if let Some(found) = [first, second].into_iter().find(|digits| reads(digits)) {
            return (found.to_owned(), dropped.len());
        }
    }
    (exact.to_owned(), 0)
}

/// A whole number of any size: 32 bits each, lowest first, the highest not zero.
struct Whole(Vec<u32>);

/// The low half.
fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

impl Whole {
    /// How many bits it has.
    fn bits(&self) -> usize {
        self.0.len() * 32 - self.0.last().map_or(0, |limb| limb.leading_zeros() as usize)
    }

    /// Multiplies by `factor` and adds `more`.
    fn scale(&mut self, factor: u32, more: u32) {
        let mut carry = u64::from(more);
        for limb in &mut self.0 {
            let value = u64::from(*limb) * u64::from(factor) + carry;
            *limb = low(value);
            carry = value >> 32;
        }
        if carry > 0 {
            self.0.push(low(carry));
        }
    }

    /// Multiplies by 2^`bits`.
    fn shift(&mut self, bits: usize) {
        if self.0.is_empty() {
            return;
        }
        self.0.splice(..0, std::iter::repeat_n(0, bits / 32));
        self.scale(1 << (bits % 32), 0);
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    fn is_below(&self, other: &Self) -> bool {
        self.0.len() < other.0.len() || (self.0.len() == other.0.len() && self.0.iter().rev().lt(other.0.iter().rev()))
    }

    /// Takes away `other`, which is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0;
        let others = other.0.iter().chain(std::iter::repeat(&0));
        for (limb, other) in self.0.iter_mut().zip(others) {
            let value = u64::from(*limb).wrapping_sub(u64::from(*other)).wrapping_sub(borrow);
            *limb = low(value);
            borrow = value >> 63;
        }
        self.trim();
    }

    /// The quotient, which must be below 2⁵⁷, and whether there is a rest.
    fn divided(mut self, mut divisor: Self) -> (u64, bool) {
        const STEPS: usize = 57;
        divisor.shift(STEPS - 1);
        let mut quotient = 0;
        for _ in 0..STEPS {
            quotient *= 2;
            if !self.is_below(&divisor) {
                self.subtract(&divisor);
                quotient += 1;
            }
            self.shift(1);
        }
        (quotient, !self.0.is_empty())
    }

    /// Its digits; `0` for zero.
    fn into_decimal(mut self) -> String {
        let mut digits = Vec::new();
        while !self.0.is_empty() {
            let mut rest = 0;
            for limb in self.0.iter_mut().rev() {
                let value = (rest << 32) + u64::from(*limb);
                *limb = low(value / 10);
                rest = value % 10;
            }
            digits.push(b'0' + u8::try_from(rest).unwrap_or_default());
            self.trim();
        }
        if digits.is_empty() {
            digits.push(b'0');
        }
        digits.reverse();
        String::from_utf8(digits).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn same(text: &str) {
        let expected: f64 = text.parse().unwrap();
        assert_eq!(parse(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
    }

    #[rstest]
    #[case::zero("0")]
    #[case::no_whole(".5")]
    #[case::no_fraction("5.")]
    #[case::capital("1E3")]
    #[case::sign("1e+3")]
    #[case::halfway_to_even("9007199254740993")]
    #[case::above_halfway("9007199254740993.0000000000000000000000000000000000000001")]
    #[case::largest("1.7976931348623157e308")]
    #[case::just_not_infinite("1.7976931348623158e308")]
    #[case::infinite("1.7976931348623159e308")]
    #[case::far_too_large("1e99999999999999999999")]
    #[case::far_too_small("1e-99999999999999999999")]
    #[case::zero_with_an_exponent("0e999999999999999999999")]
    #[case::smallest("5e-324")]
    #[case::half_of_the_smallest("2.4703282292062327e-324")]
    #[case::more_than_half_of_the_smallest("2.4703282292062328e-324")]
    #[case::largest_without_the_hidden_bit("2.2250738585072011e-308")]
    #[case::smallest_with_it("2.2250738585072014e-308")]
    fn texts_read_as_the_nearest_float(#[case] text: &str) {
        same(text);
    }

    #[test]
    fn long_texts_count_to_their_last_digit() {
        same(&format!("9007199254740993{}", "0".repeat(290)));
        same(&format!("9007199254740993.{}1", "0".repeat(5000)));
        same(&format!("0.{}7", "0".repeat(5000)));
        same(&format!("1{}e-5000", "0".repeat(5000)));
    }

    #[rstest]
    fn other_texts_are_no_numbers(
        #[values(
            "", ".", "e", "e5", ".e5", "1e", "1e+", "1..2", "1.2.3", "-1", "+1", "1e1e1", "1e--1", "inf", "NaN", "1_0"
        )]
        text: &str,
    ) {
        assert_eq!(parse(text), None);
    }

    #[rstest]
    fn floats_are_shown_as_the_standard_library_shows_them(
        #[values(
            0.0, -0.0, 0.1, 0.3, -1.5, 100.0, 123.456, 1e21, 1e23, 9_007_199_254_740_993.0, 9.5, 2e-44, f64::MAX, f64::MIN_POSITIVE, 5e-324, f64::INFINITY,
            f64::NEG_INFINITY, f64::NAN
        )]
        value: f64,
    ) {
        assert_eq!(shown(value), value.to_string());
    }

    #[test]
    fn powers_of_two_are_shown_as_the_standard_library_shows_them() {
        for power in (-1074..1024).step_by(7) {
            let value = 2_f64.powi(power);
            assert_eq!(shown(value), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn decimals_read_as_the_standard_library_reads_them(text in "[0-9]{1,25}(\\.[0-9]{0,25})?(e[+-]?[0-9]{1,3})?") {
            same(&text);
        }

        #[test]
        fn every_float_survives(bits: u64) {
            let value = f64::from_bits(bits & !(1 << 63));
            if value.is_finite() {
                prop_assert_eq!(shown(value), value.to_string());
                prop_assert_eq!(parse(&shown(value)), Some(value));
                prop_assert_eq!(parse(&format!("{value:e}")), Some(value));
                // Halfway to the next one: the exact text of it.
                let next = f64::from_bits(value.to_bits() + 1);
                let between = format!("{value:.1100}");
                prop_assert_eq!(parse(&between), Some(value));
                prop_assert!(!next.is_finite() || parse(&next.to_string()) == Some(next));
            }
        }

        #[test]
        fn whole_numbers_are_shown_as_the_standard_library_shows_them(value: i64) {
            #[allow(clippy::cast_precision_loss)]
            let value = value as f64;
            prop_assert_eq!(shown(value), value.to_string());
        }
    }
}
