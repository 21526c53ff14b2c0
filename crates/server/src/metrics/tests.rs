use std::time::Duration;

use pillion_host::admission::AdmissionRequest;
use pillion_testkit::metrics::{ANY, Catalogue};
use serde_json::json;

use super::*;
use crate::Endpoint;
use crate::labels::{Fault, KINDS, OPERATIONS};

fn admission(kind: &str, part: &str, operation: &str) -> AdmissionRequest {
    let request = json!({
        "uid": "u", "operation": operation, "subResource": part,
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": "things"}, "userInfo": {},
    });
    serde_json::from_value(request).unwrap()
}

/// Alerts, dashboards and documents are compared with this list.
#[test]
fn the_list_of_metrics_is_what_a_scrape_gives() {
    let metrics = Metrics::new();
    let kinds = KINDS.into_iter().chain(["Shoot", "Unknown"]);
    let parts = kinds.flat_map(|kind| [(kind, ""), (kind, "status")]);
    for ((kind, part), endpoint) in parts.flat_map(|of| Endpoint::ALL.map(|endpoint| (of, endpoint))) {
        for operation in OPERATIONS.into_iter().chain(["UNKNOWN"]) {
            let request = admission(kind, part, operation);
            for code in [400, 403, 422, 503, 599] {
                let refusal = Refusal::by_code(endpoint, &request, Some(code));
                metrics.answered(&Request::new(endpoint, &request, false), Some(&refusal), 0, Duration::ZERO);
            }
            for fault in [Fault::OutOfTime, Fault::Broken] {
                let refusal = Refusal::by_fault(endpoint, &request, fault);
                metrics.answered(&Request::new(endpoint, &request, true), Some(&refusal), 1, Duration::ZERO);
            }
        }
    }
    for rejection in [
        Rejection::Overloaded,
        Rejection::Displaced,
        Rejection::Late,
        Rejection::TooLarge,
        Rejection::Unread,
        Rejection::Malformed,
        Rejection::NoSuchPath,
    ] {
        metrics.rejected(rejection);
    }
    for refused in [Refused::TooMany, Refused::Displaced, Refused::Handshake, Refused::Silent] {
        metrics.lost(refused);
    }
    for is_done in [true, false] {
        metrics.converted(is_done);
        metrics.settings_reloaded(is_done);
    }
    // The kinds are those of --cache-watch.
    metrics.cache_age(ANY, Duration::ZERO);
    metrics.cache_objects(ANY, 1);
    metrics.cache_look_ups(ANY, 1, 1);
    let text = metrics.text().replace(env!("CARGO_PKG_VERSION"), ANY);
    Catalogue::of_text(&text).is_listed("server");
}

#[test]
fn a_file_that_is_not_valid_is_seen_until_it_is() {
    let metrics = Metrics::new();
    let current = || metrics.text().contains("pillion_settings_current 1\n");
    assert!(current());
    metrics.settings_reloaded(false);
    assert!(!current());
    metrics.settings_reloaded(true);
    assert!(current());
}
