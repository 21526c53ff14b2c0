//! Secrets, whole and damaged.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rstest::rstest;

use super::NOW;
use crate::authority::{self, Lifetimes};
use crate::contents::Contents;
use crate::names::ServerNames;
use crate::plan::{Change, TrustObservations, plan};
use crate::secret::{NotOurs, new, read, write};
use crate::x509::Id;

fn names() -> ServerNames {
    ServerNames::of_service("pillion", "sys").unwrap()
}

fn contents() -> Contents {
    let life = Lifetimes::default();
    Contents::default().after(&[Change::Create, Change::Issue(names())], NOW, &life).unwrap()
}

/// Contents in the middle of a rotation, with an authority that will soon be dropped.
fn rotating() -> Contents {
    let life = Lifetimes::default();
    let changes = [Change::Introduce, Change::Promote, Change::Introduce];
    let contents = contents().after(&changes, NOW, &life).unwrap();
    let retired = contents.trusted.first().unwrap().facts.id;
    contents.after(&[Change::Retire(retired, NOW + life.server)], NOW, &life).unwrap()
}

fn set(secret: &mut Secret, key: &str, value: &str) {
    let bytes = ByteString(value.as_bytes().to_vec());
    secret.data.get_or_insert_default().insert(key.to_owned(), bytes);
}

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[test]
fn what_is_written_is_read_again() {
    for contents in [contents(), rotating()] {
        let secret = write(new("sys", "s"), &contents);
        assert_eq!(read(&secret).unwrap(), contents);
        assert_eq!(write(secret.clone(), &contents), secret, "writing the same changes nothing");
    }
    let secret = write(new("sys", "s"), &rotating());
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
    let keys: Vec<_> = secret.data.as_ref().unwrap().keys().collect();
    assert_eq!(keys, ["ca.crt", "ca.key", "next-ca.key", "tls.crt", "tls.key"]);
}

#[test]
fn what_others_put_into_the_secret_stays() {
    let mut secret = write(new("sys", "s"), &rotating());
    set(&mut secret, "notes.txt", "mine");
    secret.metadata.annotations.get_or_insert_default().insert("a".to_owned(), "b".to_owned());
    let secret = write(secret, &contents());
    assert_eq!(text(&secret, "notes.txt"), "mine");
    assert_eq!(
        secret.metadata.annotations.unwrap().into_iter().collect::<Vec<_>>(),
        [("a".to_owned(), "b".to_owned())]
    );
    assert!(!secret.data.unwrap().contains_key("next-ca.key"), "the rotation is over");
}

#[rstest]
#[case::without_labels(|secret: &mut Secret| secret.metadata.labels = None, NotOurs::Label)]
#[case::of_helm(|secret: &mut Secret| {
    secret.metadata.labels.get_or_insert_default().insert("app.kubernetes.io/managed-by".to_owned(), "Helm".to_owned());
}, NotOurs::Label)]
#[case::immutable(|secret: &mut Secret| secret.immutable = Some(true), NotOurs::Immutable)]
fn a_secret_of_somebody_else_is_left_alone(#[case] change: fn(&mut Secret), #[case] expected: NotOurs) {
    let mut secret = write(new("sys", "s"), &contents());
    change(&mut secret);
    assert_eq!(read(&secret), Err(expected));
}

#[rstest]
#[case::everything(&["ca.crt", "ca.key", "tls.crt", "tls.key"], &["ca.crt", "ca.key", "tls.crt"])]
#[case::the_authorities(&["ca.crt"], &["ca.crt", "ca.key"])]
#[case::the_key_of_the_authority(&["ca.key"], &["ca.key"])]
#[case::the_certificate(&["tls.crt"], &["tls.crt"])]
#[case::its_key(&["tls.key"], &["tls.crt"])]
fn of_a_damaged_secret_is_kept_what_can_be_used(#[case] damaged: &[&str], #[case] told: &[&str]) {
    let life = Lifetimes::default();
    let stranger = authority::create(NOW, &life).unwrap();
    let good = contents();
    for replacement in
        ["", "no PEM", "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n", &stranger.key.pem()]
    {
        let mut secret = write(new("sys", "s"), &good);
        for key in damaged {
            set(&mut secret, key, replacement);
        }
        let mut contents = read(&secret).unwrap();
        if !replacement.is_empty() && replacement != "no PEM" {
            assert!(contents.damage.iter().all(|key| told.contains(key)), "{:?}", contents.damage);
            assert!(!contents.damage.is_empty());
        }
        // Whatever is left, the plan completes it, and then changes nothing more.
        let mut seen = TrustObservations::default();
        for round in 0.. {
            assert!(round < 4, "{contents:?}");
            let everywhere: Vec<Id> = contents.trusted.iter().map(|authority| authority.facts.id).collect();
            seen.note(Some(everywhere.clone()), NOW - life.settle);
            let changes = plan(&contents.state(), &seen, &names(), NOW, &life);
            if changes.is_empty() {
                break;
            }
            contents = read(&write(secret.clone(), &contents.after(&changes, NOW, &life).unwrap())).unwrap();
        }
        let state = contents.state();
        assert!(state.signing.is_some() && state.next.is_none() && state.server.is_some() && !state.damaged);
        assert_eq!(state.server.map(|server| server.issuer), state.signing);
    }
}

#[test]
fn an_authority_that_signs_is_never_taken_for_retired() {
    let contents = contents();
    let id = contents.trusted.first().unwrap().facts.id;
    let mut secret = write(new("sys", "s"), &contents);
    let annotation = format!("{id}=5,nonsense,{id},=7,{}=x", "0".repeat(64));
    secret
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("pillion.dev/retired-authorities".to_owned(), annotation);
    assert_eq!(read(&secret).unwrap(), contents);
}

#[test]
fn a_key_shows_itself_in_no_debug_output() {
    let contents = rotating();
    let secret = write(new("sys", "s"), &contents);
    let shown = format!("{contents:?}");
    for key in ["ca.key", "next-ca.key", "tls.key"] {
        let pem = text(&secret, key);
        let line = pem.lines().nth(1).unwrap();
        assert!(!shown.contains(line));
    }
}
