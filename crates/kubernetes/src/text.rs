//! Text types that are checked when settings are parsed, so that their users need not check them again.

use serde::Deserialize;
use serde::de::Deserializer;
use thiserror::Error;

use crate::field::shortened;
use crate::name_validation;

/// The maximum length of a text, and of a name that a glob matches, in bytes. A namespace, a slash and a name are
/// shorter.
pub const LENGTH_MAX: usize = 512;

/// The reason why a text is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// The text is empty.
    #[error("must not be empty; write a name, or leave it out")]
    Empty,
    /// The text is longer than anything that it could be compared with.
    #[error("must have at most {LENGTH_MAX} bytes")]
    TooLong,
    /// The text has the wrong format.
    #[error("{:?}: {problem}", shortened(text))]
    Malformed {
        /// The text.
        text: String,
        /// The problem and the remedy.
        problem: &'static str,
    },
}

impl TextError {
    /// Returns the error for a text with the wrong format.
    pub fn malformed(text: &str, problem: &'static str) -> Self {
        Self::Malformed { text: text.to_owned(), problem }
    }
}

/// Defines a text type whose values have passed a check.
#[macro_export]
macro_rules! checked_text {
    ($(#[$meta:meta])* $name:ident, $check:expr) => {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
        #[serde(try_from = "String")]
        $(#[$meta])*
        pub struct $name(String);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::text::TextError;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                let check: fn(&str) -> Result<(), Self::Error> = $check;
                check(&text).map(|()| Self(text))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::text::TextError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }
    };
}
pub use checked_text;

/// Turns a function that returns the problem of a text into a check.
fn of_format(text: &str, wrong: fn(&str) -> Option<&'static str>) -> Result<(), TextError> {
    wrong(text).map_or(Ok(()), |problem| Err(TextError::malformed(text, problem)))
}

/// Checks that a text is not empty, and not longer than [`LENGTH_MAX`].
pub fn check_length(text: &str) -> Result<(), TextError> {
    match text.len() {
        0 => Err(TextError::Empty),
        1..=LENGTH_MAX => Ok(()),
        _ => Err(TextError::TooLong),
    }
}

checked_text!(
    /// An RFC 1123 label.
    #[cfg_attr(feature = "schema", schemars(
        extend("pattern" = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength" = name_validation::DNS_LABEL_MAX)
    ))]
    Label,
    |text| of_format(text, name_validation::dns_label)
);

checked_text!(
    /// An RFC 1123 subdomain.
    #[cfg_attr(feature = "schema", schemars(extend(
        "pattern" = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "maxLength" = name_validation::DNS_SUBDOMAIN_MAX
    )))]
    Subdomain,
    |text| of_format(text, name_validation::dns_subdomain)
);

checked_text!(
    /// The name of a user.
    #[cfg_attr(feature = "schema", schemars(extend("minLength" = 1)))]
    User,
    |text| if text.is_empty() { Err(TextError::Empty) } else { Ok(()) }
);

checked_text!(
    /// A name that is compared literally. Globs are refused because they would match nothing.
    #[cfg_attr(feature = "schema", schemars(extend("minLength" = 1, "pattern" = r"^[^*]*$")))]
    Name,
    |text| {
        check_length(text)?;
        of_format(text, |text| text.contains('*').then_some("is a glob; write each name in full"))
    }
);

/// Deserializes a checked text.
///
/// # Errors
/// The text does not pass the check.
pub fn checked<'de, D: Deserializer<'de>, T: Deserialize<'de> + Into<String>>(
    deserializer: D,
) -> Result<String, D::Error> {
    T::deserialize(deserializer).map(Into::into)
}

/// Deserializes a list of checked texts.
///
/// # Errors
/// The first text that does not pass the check.
pub fn all_checked<'de, D: Deserializer<'de>, T: Deserialize<'de> + Into<String>, C: FromIterator<String>>(
    deserializer: D,
) -> Result<C, D::Error> {
    Vec::<T>::deserialize(deserializer).map(|texts| texts.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::label("kruise-system".parse::<Label>().map(String::from), Ok("kruise-system"))]
    #[case::no_label(
        "A".parse::<Label>().map(String::from),
        Err("\"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character")
    )]
    #[case::subdomain("a.b".parse::<Subdomain>().map(String::from), Ok("a.b"))]
    #[case::user("system:serviceaccount:a:b".parse::<User>().map(String::from), Ok("system:serviceaccount:a:b"))]
    #[case::nobody("".parse::<User>().map(String::from), Err("must not be empty; write a name, or leave it out"))]
    #[case::name("kube-system".parse::<Name>().map(String::from), Ok("kube-system"))]
    #[case::no_name("".parse::<Name>().map(String::from), Err("must not be empty; write a name, or leave it out"))]
    #[case::glob("kube-*".parse::<Name>().map(String::from), Err("\"kube-*\": is a glob; write each name in full"))]
    #[case::too_long("a".repeat(513).parse::<Name>().map(String::from), Err("must have at most 512 bytes"))]
    fn texts_are_checked_before_they_are_made(
        #[case] made: Result<String, TextError>,
        #[case] expected: Result<&str, &str>,
    ) {
        assert_eq!(made.map_err(|error| error.to_string()), expected.map(str::to_owned).map_err(str::to_owned));
    }
}
