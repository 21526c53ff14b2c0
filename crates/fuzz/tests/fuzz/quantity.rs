//! Quantities as Kubernetes prints them (QTY-1).

use std::cmp::Ordering;

use anyhow::ensure;
use pillion_fuzz::corpus;
use pillion_fuzz::run::FuzzTarget;
use pillion_fuzz::sequence::changed_texts;
use pillion_kubernetes::quantity::{Format, Quantity};
use proptest::prelude::*;
use serde_json::{Value, json};

const WORDS: [&str; 44] = [
    "0",
    "1",
    "5",
    "9",
    "00",
    "000",
    "1000",
    "1024",
    "999",
    "12345678",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    ".",
    ".0",
    ".5",
    ".0000000001",
    ".123456789",
    "+",
    "-",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "Ei",
    "e",
    "E",
    "e3",
    "e-9",
    "E+18",
    "e4096",
    "e-4096",
    "i",
    " ",
];
/// If two floats are closer than this, they do not determine the order of the quantities.
const PRECISION: f64 = 1e-9;
/// Quantities are rounded up to a nano, so the difference of two quantities may deviate by two nanos from that of their
/// values.
const ROUNDED: f64 = 2e-9;
/// The largest binary quantity. Larger ones are cut off.
const BINARY_MAX: f64 = 9.2e18;

#[test]
fn quantities_print_as_they_are_read_and_have_the_order_of_their_values() -> anyhow::Result<()> {
    let inputs = corpus::read("quantity")?;
    let texts: Vec<String> = inputs.iter().filter_map(|named| named.input.as_str().map(str::to_owned)).collect();
    ensure!(texts.len() == inputs.len(), "the corpus holds texts");
    let known: Vec<(Quantity, f64)> = texts.iter().filter_map(|text| read(text)).collect();
    let generated = changed_texts(&texts, &WORDS, 5).prop_map(Value::from);
    FuzzTarget("quantity").run(&inputs, generated, |input| {
        let text = input.as_str().unwrap_or_default();
        same_from_json(text)?;
        let Ok(quantity) = Quantity::parse(text) else { return Ok(()) };
        prints(&quantity)?;
        rounds(&quantity)?;
        known.iter().try_for_each(|other| adds_and_subtracts(&quantity, &other.0))?;
        let Some((_, value)) = read(text) else { return Ok(()) };
        known.iter().try_for_each(|(other, other_value)| compares(&quantity, value, other, *other_value))
    })
}

/// A text in JSON yields the same quantity, or the same error, as the plain text.
fn same_from_json(text: &str) -> anyhow::Result<()> {
    let trimmed = text.trim();
    let (from_json, parsed) = (Quantity::from_json(&json!(trimmed)), Quantity::parse(trimmed));
    ensure!(from_json.is_ok() == parsed.is_ok(), "as JSON it is {from_json:?}, not {parsed:?}");
    if let (Ok(number), Ok(quantity)) = (serde_json::from_str::<serde_json::Number>(text), &parsed) {
        let from_number = Quantity::from_json(&Value::Number(number))?;
        ensure!(from_number == *quantity, "as a number it is {from_number}, not {quantity}");
    }
    Ok(())
}

/// A printed quantity is read as the same quantity, and prints the same again. A binary quantity that no power of 1,024
/// divides has no suffix: it is read as a decimal one, which may have a suffix.
fn prints(quantity: &Quantity) -> anyhow::Result<()> {
    let printed = quantity.to_string();
    let again = Quantity::parse(&printed)?;
    ensure!(again == *quantity, "{printed} is read as another quantity");
    let is_read_as_decimal = quantity.format() == Format::BinarySi && !printed.ends_with('i');
    ensure!(is_read_as_decimal || again.to_string() == printed, "{printed} prints as {again}");
    Ok(())
}

fn rounds(quantity: &Quantity) -> anyhow::Result<()> {
    let (milli, whole) = (quantity.round_up_to_milli(), quantity.round_up_to_whole());
    let positive = |quantity: &Quantity| if quantity.is_negative() { quantity.negated() } else { quantity.clone() };
    ensure!(whole.is_whole() && positive(&whole) >= positive(&milli), "{milli} is rounded to {whole}");
    ensure!(positive(&milli) >= positive(quantity), "{quantity} is rounded to {milli}");
    ensure!(milli.round_up_to_milli() == milli && whole.round_up_to_whole() == whole, "{quantity} is rounded twice");
    ensure!(quantity.is_whole() == (whole == *quantity), "{quantity} is whole, or rounds to {whole}");
    [&milli, &whole, &quantity.negated()].into_iter().try_for_each(prints)?;
    let is_expected = quantity.to_milli_ceil().map_or_else(
        || positive(&milli) > Quantity::from_milli(i64::MAX, Format::DecimalSi),
        |count| Quantity::from_milli(count, Format::DecimalSi) == milli,
    );
    ensure!(is_expected, "{milli} is {:?} thousandths", quantity.to_milli_ceil());
    Ok(())
}

/// Addition and subtraction undo each other, and agree with the order.
fn adds_and_subtracts(one: &Quantity, other: &Quantity) -> anyhow::Result<()> {
    let (Some(sum), Some(difference)) = (one.checked_add(other), one.checked_sub(other)) else { return Ok(()) };
    ensure!(other.checked_add(one).as_ref() == Some(&sum), "{other} + {one} is not {sum}");
    ensure!(sum.checked_sub(other).is_none_or(|back| back == *one), "{sum} - {other} is not {one}");
    let order = difference.cmp(&Quantity::default());
    ensure!(one.cmp(other) == order, "{one} and {other} compare as {:?}, and differ by {difference}", one.cmp(other));
    // Reading cuts off binary quantities of more than 64 bits, as Kubernetes does. A quantity that no power of 1,024
    // divides has no suffix and is read as a decimal one, so only its value stays the same.
    for quantity in
        [&sum, &difference].into_iter().filter(|quantity| quantity.to_i64_ceil().is_some_and(|units| units != i64::MIN))
    {
        ensure!(Quantity::parse(&quantity.to_string())? == *quantity, "{quantity} is read as another quantity");
    }
    Ok(())
}

/// The order is that of the values, within the precision of floats.
fn compares(one: &Quantity, value: f64, other: &Quantity, other_value: f64) -> anyhow::Result<()> {
    let scale = value.abs().max(other_value.abs());
    if (value - other_value).abs() <= scale * PRECISION + ROUNDED {
        return Ok(());
    }
    let expected = value.partial_cmp(&other_value).unwrap_or(Ordering::Equal);
    ensure!(one.cmp(other) == expected, "{one} and {other} compare as {:?}, not {expected:?}", one.cmp(other));
    Ok(())
}

/// Returns a quantity and its value, computed independently, or `None` if that is not exact enough.
fn read(text: &str) -> Option<(Quantity, f64)> {
    let quantity = Quantity::parse(text).ok()?;
    let end = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let number: f64 = number.parse().ok()?;
    let factor = match suffix {
        "" => 1.0,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        _ => match ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|other| *other == suffix) {
            Some(index) => 10_f64.powi(i32::try_from(index).ok()? * 3 - 9),
            None => 10_f64.powi(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        },
    };
    let value = number * factor;
    let is_cut_off = suffix.ends_with('i') && value.abs() > BINARY_MAX;
    (value.is_finite() && !is_cut_off).then_some((quantity, value))
}
