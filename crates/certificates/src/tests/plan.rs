//! The plan, case by case.

use std::time::Duration;

use rstest::rstest;

use super::NOW;
use crate::authority::Lifetimes;
use crate::names::ServerNames;
use crate::plan::{AuthorityState, Change, Server, TrustObservations, Trusted, plan};
use crate::time::Time;
use crate::x509::{Id, Validity};

const DAY: Duration = Duration::from_hours(24);
const OLD: Id = Id([1; 32]);
const NEW: Id = Id([2; 32]);

fn life() -> Lifetimes {
    Lifetimes::default()
}

fn names() -> ServerNames {
    ServerNames::of_service("pillion", "sys").unwrap()
}

fn more_names() -> ServerNames {
    names().and("10.0.0.7").unwrap()
}

/// Returns an authority that was created `age` days ago.
fn trusted(id: Id, age: u32) -> Trusted {
    let made = NOW - DAY * age;
    Trusted { id, validity: Validity { from: made, until: made + life().authority }, retired_until: None }
}

fn retired(id: Id, age: u32, until: Time) -> Trusted {
    Trusted { retired_until: Some(until), ..trusted(id, age) }
}

/// Returns a certificate that was created `age` days ago.
fn server(issuer: Id, age: u32) -> Server {
    let made = NOW - DAY * age;
    let validity = Validity { from: made, until: made + life().server };
    Server { issuer, validity, names: names() }
}

fn state(
    trusted: &[Trusted],
    signing: Option<Id>,
    next: Option<Id>,
    server: impl Into<Option<Server>>,
) -> AuthorityState {
    AuthorityState { trusted: trusted.to_vec(), signing, next, server: server.into(), damaged: false }
}

/// Every bundle has held these authorities for `since`.
fn seen(ids: &[Id], since: Duration) -> TrustObservations {
    let mut seen = TrustObservations::default();
    seen.note(Some(ids.to_vec()), NOW - since);
    seen
}

#[rstest]
#[case::nothing_yet(state(&[], None, None, None), &[], vec![Change::Create, Change::Issue(names())])]
#[case::all_is_well(state(&[trusted(OLD, 1)], Some(OLD), None, server(OLD, 1)), &[OLD], vec![])]
#[case::all_is_well_though_no_bundle_says_so(state(&[trusted(OLD, 1)], Some(OLD), None, server(OLD, 1)), &[], vec![])]
#[case::two_thirds_of_a_certificate(state(&[trusted(OLD, 61)], Some(OLD), None, server(OLD, 61)), &[OLD],
    vec![Change::Issue(names())])]
#[case::an_expired_certificate(state(&[trusted(OLD, 91)], Some(OLD), None, server(OLD, 91)), &[OLD],
    vec![Change::Issue(names())])]
#[case::no_certificate(state(&[trusted(OLD, 1)], Some(OLD), None, None), &[OLD], vec![Change::Issue(names())])]
#[case::two_thirds_of_an_authority(state(&[trusted(OLD, 244)], Some(OLD), None, server(OLD, 1)), &[OLD],
    vec![Change::Introduce])]
#[case::an_authority_that_not_everybody_trusts(
    state(&[trusted(OLD, 244), trusted(NEW, 0)], Some(OLD), Some(NEW), server(OLD, 1)), &[OLD], vec![])]
#[case::a_certificate_is_renewed_by_the_old_one_meanwhile(
    state(&[trusted(OLD, 244), trusted(NEW, 0)], Some(OLD), Some(NEW), server(OLD, 61)), &[OLD],
    vec![Change::Issue(names())])]
#[case::an_authority_that_everybody_trusts(
    state(&[trusted(OLD, 244), trusted(NEW, 0)], Some(OLD), Some(NEW), server(OLD, 1)), &[OLD, NEW],
    vec![Change::Promote, Change::Issue(names()), Change::Retire(OLD, NOW + life().server)])]
#[case::the_old_one_is_trusted_while_it_is_needed(
    state(&[retired(OLD, 300, NOW + DAY), trusted(NEW, 50)], Some(NEW), None, server(NEW, 1)), &[OLD, NEW], vec![])]
#[case::and_no_longer(
    state(&[retired(OLD, 300, NOW), trusted(NEW, 50)], Some(NEW), None, server(NEW, 1)), &[OLD, NEW],
    vec![Change::Forget(OLD)])]
#[case::an_expired_authority(
    state(&[trusted(OLD, 365), trusted(NEW, 50)], Some(NEW), None, server(NEW, 1)), &[OLD, NEW],
    vec![Change::Forget(OLD)])]
#[case::an_authority_of_nobody(
    state(&[trusted(OLD, 300), trusted(NEW, 50)], Some(NEW), None, server(NEW, 1)), &[OLD, NEW],
    vec![Change::Retire(OLD, NOW + DAY * 65)])]
#[case::a_lost_key_while_there_is_a_good_certificate(
    state(&[trusted(OLD, 1)], None, None, server(OLD, 1)), &[OLD],
    vec![Change::Introduce, Change::Retire(OLD, NOW + life().server)])]
#[case::a_lost_key_and_no_certificate(
    state(&[trusted(OLD, 1)], None, None, None), &[OLD],
    vec![Change::Create, Change::Issue(names()), Change::Retire(OLD, NOW + life().server)])]
#[case::the_next_one_is_waited_for_while_there_is_a_good_certificate(
    state(&[retired(OLD, 1, NOW + DAY), trusted(NEW, 0)], None, Some(NEW), server(OLD, 1)), &[OLD], vec![])]
#[case::and_not_where_there_is_none(
    state(&[trusted(NEW, 0)], None, Some(NEW), None), &[], vec![Change::Promote, Change::Issue(names())])]
#[case::an_authority_that_expired_before_everybody_trusted_the_next(
    state(&[trusted(OLD, 365), trusted(NEW, 9)], Some(OLD), Some(NEW), None), &[],
    vec![Change::Promote, Change::Issue(names()), Change::Forget(OLD)])]
#[case::a_certificate_of_a_retired_authority(
    state(&[retired(OLD, 300, NOW + DAY), trusted(NEW, 50)], Some(NEW), None, server(OLD, 1)), &[OLD, NEW],
    vec![Change::Issue(names())])]
#[case::is_kept_until_everybody_trusts_the_other(
    state(&[retired(OLD, 300, NOW + DAY), trusted(NEW, 50)], Some(NEW), None, server(OLD, 1)), &[OLD], vec![])]
#[case::an_authority_from_the_future(
    state(&[Trusted { validity: Validity { from: NOW + DAY, until: NOW + DAY * 9 }, ..trusted(OLD, 0) }], Some(OLD), None,
        server(OLD, 1)), &[OLD],
    vec![Change::Create, Change::Issue(names()), Change::Retire(OLD, NOW + DAY * 9)])]
fn what_has_to_change(#[case] state: AuthorityState, #[case] everywhere: &[Id], #[case] expected: Vec<Change>) {
    assert_eq!(plan(&state, &seen(everywhere, DAY), &names(), NOW, &life()), expected);
}

#[test]
fn a_new_authority_signs_only_after_it_was_seen_everywhere_for_a_minute() {
    let waiting = state(&[trusted(OLD, 244), trusted(NEW, 0)], Some(OLD), Some(NEW), server(OLD, 1));
    let after = |seconds| plan(&waiting, &seen(&[OLD, NEW], Duration::from_secs(seconds)), &names(), NOW, &life());
    assert_eq!(after(59), []);
    assert_eq!(after(60).first(), Some(&Change::Promote));
    // An interruption restarts the period: an authority missing once, an unreadable bundle, a clock set back.
    let mut interrupted = seen(&[OLD, NEW], DAY);
    interrupted.note(Some(vec![OLD]), NOW - Duration::from_secs(30));
    interrupted.note(Some(vec![OLD, NEW]), NOW - Duration::from_secs(20));
    assert_eq!(plan(&waiting, &interrupted, &names(), NOW, &life()), []);
    let mut unknown = seen(&[OLD, NEW], DAY);
    unknown.note(None, NOW - Duration::from_secs(30));
    assert_eq!(plan(&waiting, &unknown, &names(), NOW, &life()), []);
    let mut set_back = seen(&[OLD, NEW], Duration::ZERO);
    set_back.note(Some(vec![OLD, NEW]), NOW - DAY);
    assert_eq!(plan(&waiting, &set_back, &names(), NOW - DAY, &life()), []);
}

#[test]
fn replicas_of_two_configurations_do_not_take_each_others_names_away() {
    let old = state(&[trusted(OLD, 1)], Some(OLD), None, server(OLD, 1));
    let changes = plan(&old, &seen(&[OLD], DAY), &more_names(), NOW, &life());
    assert_eq!(changes, [Change::Issue(more_names())]);
    let mut new = old;
    new.server = new.server.map(|server| Server { names: more_names(), ..server });
    assert_eq!(plan(&new, &seen(&[OLD], DAY), &names(), NOW, &life()), []);
    let third = names().and("::1").unwrap();
    let changes = plan(&new, &seen(&[OLD], DAY), &third, NOW, &life());
    assert_eq!(changes, [Change::Issue(more_names().and("::1").unwrap())]);
    // Names that no configuration wants any more are dropped at the renewal.
    new.server = Some(Server { names: more_names(), ..server(OLD, 61) });
    assert_eq!(plan(&new, &seen(&[OLD], DAY), &names(), NOW, &life()), [Change::Issue(names())]);
}

#[test]
fn near_the_end_of_an_authority_certificates_are_not_made_faster_and_faster() {
    let mut late = state(&[trusted(OLD, 364)], Some(OLD), Some(NEW), server(OLD, 80));
    late.trusted.push(trusted(NEW, 100));
    let until = NOW + DAY;
    assert_eq!(late.trusted.first().unwrap().validity.until, until);
    if let Some(server) = &mut late.server {
        server.validity.until = until;
    }
    assert_eq!(plan(&late, &seen(&[OLD], DAY), &names(), NOW, &life()), []);
}

#[test]
fn what_cannot_be_used_is_written_away() {
    let well = state(&[trusted(OLD, 1)], Some(OLD), None, server(OLD, 1));
    let damaged = AuthorityState { damaged: true, ..well };
    assert_eq!(plan(&damaged, &seen(&[OLD], DAY), &names(), NOW, &life()), [Change::Tidy]);
}
