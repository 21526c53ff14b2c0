//! Certificates in files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pillion_testkit::api_server::eventually;
use rstest::rstest;
use tempfile::TempDir;

use super::{NOW, TestClock, verify};
use crate::authority::{self, Lifetimes, Pair};
use crate::names::ServerNames;
use crate::time::Time;
use crate::{Files, from_files, pem};

const DAY: Duration = Duration::from_hours(24);

fn names() -> ServerNames {
    ServerNames::of_service("pillion", "sys").unwrap()
}

/// Returns an authority and a server certificate signed by it, both created at `made`.
fn pair(names: &ServerNames, made: Time) -> (Pair, Pair) {
    let life = Lifetimes::default();
    let authority = authority::create(made, &life).unwrap();
    let server = authority::issue(&authority, made + life.authority, names, made, &life).unwrap();
    (authority, server)
}

fn write(folder: &Path, certificate: &str, key: &str) {
    fs::write(folder.join("tls.crt"), certificate).unwrap();
    fs::write(folder.join("tls.key"), key).unwrap();
}

fn write_pair(folder: &Path, pair: &Pair) {
    write(folder, &pem::shown([&pair.certificate]), &pair.key.pem());
}

fn files(folder: &Path) -> Files {
    let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
    Files { certificate, key, names: names(), interval: Duration::from_millis(10) }
}

/// Returns the error for files that a test writes, without the folder.
fn refusal(write: impl FnOnce(&Path)) -> String {
    let folder = TempDir::new().unwrap();
    write(folder.path());
    let error = from_files(files(folder.path()), TestClock::new().clock()).unwrap_err();
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

#[tokio::test]
async fn a_new_pair_is_served_and_a_broken_one_is_told_of() {
    let folder = TempDir::new().unwrap();
    let clock = TestClock::new();
    let (_, first) = pair(&names(), NOW);
    write_pair(folder.path(), &first);
    let certificates = from_files(files(folder.path()), clock.clock()).unwrap();
    let (certificate, status) = (certificates.certificate(), certificates.status());
    let served = || certificate.borrow().cert[0].clone();
    assert_eq!(served(), first.certificate);
    assert!(status.borrow().ready && status.borrow().problems.is_empty());
    assert_eq!(Time::from(status.borrow().expires), NOW + DAY * 90);

    // The key of another certificate.
    clock.advance(DAY);
    let (authority, second) = pair(&names(), NOW + DAY);
    write(folder.path(), &pem::shown([&second.certificate]), &first.key.pem());
    eventually("the pair is told of", || !status.borrow().problems.is_empty()).await;
    let problem = status.borrow().problems[0].clone();
    assert!(problem.contains("is not the key of the first certificate in"), "{problem}");
    assert!(problem.ends_with("; the certificate before it is served on"), "{problem}");
    assert_eq!(served(), first.certificate);

    // Certificate and key match, and the authority follows the certificate.
    write(folder.path(), &pem::shown([&second.certificate, &authority.certificate]), &second.key.pem());
    eventually("the new pair is served", || served() == second.certificate).await;
    assert_eq!(certificate.borrow().cert.len(), 2);
    eventually("all is well", || status.borrow().problems.is_empty()).await;
    assert_eq!(Time::from(status.borrow().expires), NOW + DAY * 91);
    verify(&served(), pem::shown([&authority.certificate]).as_bytes(), clock.now()).unwrap();

    fs::remove_file(folder.path().join("tls.key")).unwrap();
    eventually("the missing file is told of", || !status.borrow().problems.is_empty()).await;
    assert_eq!(served(), second.certificate);
    write_pair(folder.path(), &second);
    eventually("all is well", || status.borrow().problems.is_empty()).await;

    // If it is not renewed, it is still served, but reported.
    clock.advance(DAY * 92);
    eventually("the end is told of", || !status.borrow().problems.is_empty()).await;
    assert_eq!(status.borrow().problems, ["the certificate that is served has expired: renew it"]);
    certificates.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn the_symbolic_link_that_kubernetes_swaps_is_followed() {
    use std::os::unix::fs::symlink;
    let folder = TempDir::new().unwrap();
    let version = |name: &str, pair: &Pair| {
        fs::create_dir(folder.path().join(name)).unwrap();
        write_pair(&folder.path().join(name), pair);
        symlink(name, folder.path().join("..new")).unwrap();
        fs::rename(folder.path().join("..new"), folder.path().join("..data")).unwrap();
    };
    let (_, first) = pair(&names(), NOW);
    version("..1", &first);
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), folder.path().join(name)).unwrap();
    }
    let certificates = from_files(files(folder.path()), TestClock::new().clock()).unwrap();
    let (_, second) = pair(&names(), NOW);
    version("..2", &second);
    let certificate = certificates.certificate();
    eventually("the new pair is served", || certificate.borrow().cert[0] == second.certificate).await;
}

#[tokio::test]
async fn a_certificate_for_other_names_is_served_and_told_of() {
    let folder = TempDir::new().unwrap();
    let (_, other) = pair(&ServerNames::default().and("example.com").unwrap(), NOW);
    write_pair(folder.path(), &other);
    let certificates = from_files(files(folder.path()), TestClock::new().clock()).unwrap();
    let problem = certificates.status().borrow().problems[0].clone();
    let end = "is for example.com, the API server calls pillion.sys, pillion.sys.svc, pillion.sys.svc.cluster.local";
    assert!(problem.ends_with(end), "{problem}");
}

#[rstest]
#[case::no_pem(
    "text",
    "text",
    "\"tls.crt\" holds no certificate: it should be PEM, from \"-----BEGIN CERTIFICATE-----\" on"
)]
#[case::half_a_certificate(
    "-----BEGIN CERTIFICATE-----\nAA",
    "",
    "\"tls.crt\" holds no certificate: it should be PEM, from \"-----BEGIN CERTIFICATE-----\" on"
)]
#[case::no_certificate_in_pem(
    "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n",
    "",
    "\"tls.crt\" holds no certificate: it should be PEM, from \"-----BEGIN CERTIFICATE-----\" on"
)]
fn what_is_no_certificate_is_refused_at_the_start(
    #[case] certificate: &str,
    #[case] key: &str,
    #[case] expected: &str,
) {
    assert_eq!(refusal(|folder| write(folder, certificate, key)), expected);
}

#[test]
fn a_pair_that_cannot_be_served_is_refused_at_the_start() {
    let (authority, server) = pair(&names(), NOW);
    let certificate = pem::shown([&server.certificate]);
    let missing = refusal(|folder| fs::write(folder.join("tls.crt"), &certificate).unwrap());
    assert_eq!(missing, "cannot read \"tls.key\": No such file or directory (os error 2)");
    assert_eq!(
        refusal(|folder| write(folder, &certificate, "text")),
        "\"tls.key\" holds no private key: it should be PEM, from \"-----BEGIN PRIVATE KEY-----\" on, and not encrypted"
    );
    assert_eq!(
        refusal(|folder| write(folder, &certificate, &authority.key.pem())),
        "the key in \"tls.key\" is not the key of the first certificate in \"tls.crt\""
    );
    assert_eq!(
        refusal(|folder| write_pair(folder, &authority)),
        "the first certificate in \"tls.crt\" is not a server's: it is an authority's; the server's own comes first, \
         then those that signed it"
    );
    let expired = pair(&names(), NOW - DAY * 91).1;
    assert_eq!(refusal(|folder| write_pair(folder, &expired)), "the certificate in \"tls.crt\" has expired: renew it");
    let early = pair(&names(), NOW + DAY).1;
    assert_eq!(
        refusal(|folder| write_pair(folder, &early)),
        "the certificate in \"tls.crt\" is not valid yet: renew it"
    );
}
