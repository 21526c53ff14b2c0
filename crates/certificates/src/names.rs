//! The names in a server certificate.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr as _;

/// A name that a certificate cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Not a valid name of a Service or a namespace.
    #[error("{what} \"{name}\" is not a DNS label: use lower-case letters, digits and '-', at most 63")]
    Label {
        /// The kind of name: Service or namespace.
        what: &'static str,
        /// The given name.
        name: String,
    },
    /// Neither a DNS name nor an address.
    #[error("\"{0}\" is neither a DNS name nor an IP address: write it as in \"pillion.example.com\" or \"10.0.0.7\"")]
    Other(String),
}

/// The DNS names and IP addresses (subject alternative names) of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerNames {
    dns: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

impl ServerNames {
    /// Returns the names of a Service within the cluster: the API server calls `<service>.<namespace>.svc`.
    ///
    /// # Errors
    /// [`NameError::Label`] if a name is not a DNS label.
    pub fn of_service(service: &str, namespace: &str) -> Result<Self, NameError> {
        for (what, name) in [("Service", service), ("namespace", namespace)] {
            if !is_label(name) {
                return Err(NameError::Label { what, name: name.to_owned() });
            }
        }
        let short = format!("{service}.{namespace}");
        let dns = BTreeSet::from([format!("{short}.svc"), format!("{short}.svc.cluster.local"), short]);
        Ok(Self { dns, addresses: BTreeSet::new() })
    }

    /// Adds a name: a DNS name, which may start with `*.`, or an IP address.
    ///
    /// # Errors
    /// [`NameError::Other`] if it is neither.
    pub fn and(mut self, name: &str) -> Result<Self, NameError> {
        if let Ok(address) = IpAddr::from_str(name) {
            self.addresses.insert(address);
        } else {
            let lower = name.to_ascii_lowercase();
            let labels = lower.strip_prefix("*.").unwrap_or(&lower);
            if labels.len() > 253 || !labels.split('.').all(is_label) {
                return Err(NameError::Other(name.to_owned()));
            }
            self.dns.insert(lower);
        }
        Ok(self)
    }

    /// Builds the names of an existing certificate. Other kinds of names in the certificate are irrelevant.
    pub(crate) fn read(dns: impl IntoIterator<Item = String>, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let dns = dns.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { dns, addresses: addresses.into_iter().collect() }
    }

    /// Whether all of `wanted` are among these names, literally.
    pub fn cover(&self, wanted: &Self) -> bool {
        wanted.dns.is_subset(&self.dns) && wanted.addresses.is_subset(&self.addresses)
    }

    /// Whether the host of a URL is one of these names.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        match IpAddr::from_str(host.trim_matches(['[', ']'])) {
            Ok(address) => self.addresses.contains(&address),
            Err(_) => self.dns.contains(&host.to_ascii_lowercase()),
        }
    }

    /// Returns the union of both.
    pub(crate) fn with(&self, others: &Self) -> Self {
        Self { dns: &self.dns | &others.dns, addresses: &self.addresses | &others.addresses }
    }

    /// Returns the DNS names, sorted.
    pub fn dns(&self) -> impl Iterator<Item = &str> {
        self.dns.iter().map(String::as_str)
    }

    /// Returns the addresses, sorted.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }
}

impl fmt::Display for ServerNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.dns.iter().cloned().chain(self.addresses().map(|it| it.to_string())).collect();
        f.write_str(&all.join(", "))
    }
}

fn is_label(name: &str) -> bool {
    let fits = (1..=63).contains(&name.len()) && !name.starts_with('-') && !name.ends_with('-');
    fits && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_service_is_called_by_three_names() {
        let names = ServerNames::of_service("pillion", "pillion-system").unwrap();
        let dns: Vec<_> = names.dns().collect();
        assert_eq!(
            dns,
            ["pillion.pillion-system", "pillion.pillion-system.svc", "pillion.pillion-system.svc.cluster.local"]
        );
        assert_eq!(names.addresses().count(), 0);
    }

    #[rstest]
    #[case::upper_case("Pillion", "n")]
    #[case::empty("", "n")]
    #[case::a_dot("a.b", "n")]
    #[case::a_hyphen_at_the_end("a-", "n")]
    #[case::too_long(&"a".repeat(64), "n")]
    #[case::the_namespace("a", "n_s")]
    fn what_is_no_name_of_a_service_is_refused(#[case] service: &str, #[case] namespace: &str) {
        let error = ServerNames::of_service(service, namespace).unwrap_err().to_string();
        assert!(error.ends_with("is not a DNS label: use lower-case letters, digits and '-', at most 63"), "{error}");
    }

    #[rstest]
    #[case::a_name("pillion.example.com", "pillion.example.com")]
    #[case::upper_case("Pillion.Example.COM", "pillion.example.com")]
    #[case::a_wildcard("*.example.com", "*.example.com")]
    #[case::localhost("localhost", "localhost")]
    #[case::an_address("10.0.0.7", "10.0.0.7")]
    #[case::another_address("::1", "::1")]
    fn further_names_may_be_names_or_addresses(#[case] given: &str, #[case] shown: &str) {
        assert_eq!(ServerNames::default().and(given).unwrap().to_string(), shown);
    }

    #[rstest]
    #[case("")]
    #[case("a..b")]
    #[case("a b")]
    #[case("*")]
    #[case("a.*.b")]
    #[case("https://a")]
    fn what_is_neither_is_refused(#[case] given: &str) {
        let error = ServerNames::default().and(given).unwrap_err();
        assert_eq!(error, NameError::Other(given.to_owned()));
    }

    #[test]
    fn more_names_cover_fewer() {
        let few = ServerNames::of_service("a", "b").unwrap();
        let more = few.clone().and("::1").unwrap().and("x").unwrap();
        assert!(more.cover(&few) && more.cover(&more) && !few.cover(&more));
        assert!(more.has_host("[::1]") && more.has_host("X") && more.has_host("a.b.svc") && !few.has_host("x"));
        assert_eq!(few.with(&more), more);
    }
}
