//! Texts that the settings check while they are read: whoever has such a text need not check it again.

use serde::Deserialize;
use serde::de::Deserializer;
use thiserror::Error;

use crate::field::shortened;
use crate::format;

/// The longest text, and the longest name that a glob matches, in bytes: a namespace, a slash and a name are less.
pub const LENGTH_MAX: usize = 512;

/// Why a text is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// It is empty.
    #[error("must not be empty; write a name, or leave it out")]
    Empty,
    /// It is longer than anything that it could be compared with.
    #[error("must have at most {LENGTH_MAX} bytes")]
    TooLong,
    /// It has another form than it needs.
    #[error("{:?}: {problem}", shortened(text))]
    Malformed {
        /// The text.
        text: String,
        /// What is wrong, and what to write.
        problem: &'static str,
    },
}

impl TextError {
    fn malformed(text: &str, problem: &'static str) -> Self {
        Self::Malformed { text: text.to_owned(), problem }
    }
}

/// A text that is only made if a check finds nothing wrong.
#[macro_export]
macro_rules! checked_text {
    ($(#[$meta:meta])* $name:ident, $check:expr) => {
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
        #[serde(try_from = "String")]
        $(#[$meta])*
        pub struct $name(String);

        impl $name {
            /// The text.
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

/// A check out of one that says what is wrong with a text.
fn of_format(text: &str, wrong: fn(&str) -> Option<&'static str>) -> Result<(), TextError> {
    wrong(text).map_or(Ok(()), |problem| Err(TextError::malformed(text, problem)))
}

/// Checks that a text is not empty, and not longer than a namespace, a slash and a name.
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
        extend("pattern" = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength" = format::DNS_LABEL_MAX)
    ))]
    Label,
    |text| of_format(text, format::dns_label)
);

checked_text!(
    /// An RFC 1123 subdomain.
    #[cfg_attr(feature = "schema", schemars(extend(
        "pattern" = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "maxLength" = format::DNS_SUBDOMAIN_MAX
    )))]
    Subdomain,
    |text| of_format(text, format::dns_subdomain)
);

checked_text!(
    /// The name of a user.
    #[cfg_attr(feature = "schema", schemars(extend("minLength" = 1)))]
    User,
    |text| if text.is_empty() { Err(TextError::Empty) } else { Ok(()) }
);

checked_text!(
    /// A name that is compared as it is: a glob among such names would stand for nothing.
    #[cfg_attr(feature = "schema", schemars(extend("minLength" = 1, "pattern" = r"^[^*]*$")))]
    Name,
    |text| {
        check_length(text)?;
        of_format(text, |text| format::has(text, b'*').then_some("is a glob; write each name in full"))
    }
);

/// Reads a checked text.
///
/// # Errors
/// What is wrong with it.
pub fn checked<'de, D: Deserializer<'de>, T: Deserialize<'de> + Into<String>>(
    deserializer: D,
) -> Result<String, D::Error> {
    T::deserialize(deserializer).map(Into::into)
}

/// Reads a list of checked texts.
///
/// # Errors
/// What is wrong with the first wrong one.
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
