//! Numbers and percentages: `partition` and `maxUnavailable` (a Kubernetes `IntOrString`).

use serde_json::Value;
use thiserror::Error;

/// A number of Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number.
    Number(i64),
    /// A percentage, as an integer.
    Percent(i64),
}

/// The value is neither an integer nor a text such as `10%`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0} is neither an integer nor a percentage; write it as 2 or \"10%\"")]
pub struct NoAmount(String);

impl TryFrom<&Value> for Amount {
    type Error = NoAmount;

    fn try_from(value: &Value) -> Result<Self, NoAmount> {
        let error = || NoAmount(value.to_string());
        match value {
            Value::Number(number) => number.as_i64().map(Self::Number).ok_or_else(error),
            Value::String(text) => {
                let percent = text.strip_suffix('%').and_then(|number| number.parse().ok());
                percent.map(Self::Percent).ok_or_else(error)
            }
            _ => Err(error()),
        }
    }
}

impl Amount {
    /// Returns the number of Pods out of `total`. A percentage is rounded up. The result may be below 0 or above `total`.
    pub fn scaled_value(self, total: usize) -> i64 {
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => {
                let product = percent.saturating_mul(total);
                // Integer division rounds towards 0, so negative products are rounded up already.
                product / 100 + i64::from(product > 0 && product % 100 != 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_number(json!(3), 10, 3)]
    #[case::none(json!(0), 10, 0)]
    #[case::more_than_all(json!(11), 10, 11)]
    #[case::negative(json!(-1), 10, -1)]
    #[case::exact(json!("10%"), 1000, 100)]
    #[case::rounded_up(json!("5%"), 5, 1)]
    #[case::of_nothing(json!("50%"), 0, 0)]
    #[case::above_all(json!("150%"), 10, 15)]
    #[case::negative_percentage(json!("-15%"), 10, -1)]
    #[case::huge(json!("9223372036854775807%"), 10, i64::MAX / 100 + 1)]
    fn roll34_roll35_percentages_are_rounded_up(#[case] value: Value, #[case] total: usize, #[case] expected: i64) {
        assert_eq!(Amount::try_from(&value).unwrap().scaled_value(total), expected);
    }

    #[rstest]
    #[case::a_text(json!("ten"))]
    #[case::a_number_in_a_text(json!("10"))]
    #[case::a_fraction(json!("1.5%"))]
    #[case::a_fraction_of_a_pod(json!(1.5))]
    #[case::nothing(json!(null))]
    #[case::empty(json!("%"))]
    #[case::beyond_64_bits(json!("9223372036854775808%"))]
    fn other_values_are_refused(#[case] value: Value) {
        let error = Amount::try_from(&value).unwrap_err().to_string();
        assert!(error.starts_with(&value.to_string()), "{error}");
    }
}
