//! `pillion controller` in a cluster of 50 namespaces: it creates exactly the required objects, and sends no needless
//! requests while nothing changes. `make bench-scale` does the same with 2,000 namespaces, and measures.

use std::collections::BTreeMap;
use std::time::Duration;

use pillion_testenv::until;

use crate::scale::corpus::Size;
use crate::scale::requests::Request;
use crate::scale::{BUNDLE, EDITED, Scene, check, servers};
use crate::support::{SOON, program};

const SIZE: Size = Size { namespaces: 50, sidecar_sets: 20, pods: 250, seed: 1 };
/// Long enough for a pending change: controllers delay a reconciliation by at most 200 ms.
const QUIET: Duration = Duration::from_secs(3);
/// The Lease is renewed every two seconds.
const REST: Duration = Duration::from_secs(12);

/// Returns the requests that neither follow a change nor keep anything alive.
fn needless(requests: &[Request]) -> Vec<&Request> {
    let keeps = |request: &&Request| {
        let renews = request.verb == "update" && request.resource == "leases";
        let touches = request.verb == "patch" && request.resource == "configmaps" && request.name.starts_with(BUNDLE);
        renews || touches || request.verb == "watch"
    };
    requests.iter().filter(|request| !keeps(request)).collect()
}

/// Checks that the controller counts every request that the API server received.
async fn assert_counted(scene: &mut Scene<'_>) {
    let agree = async || {
        let before = scene.metrics().await?.requests();
        let mut log = scene.log.clone();
        log.update();
        (scene.metrics().await?.requests() == before).then_some((before, log.since(0).to_vec()))
    };
    let (counted, had) = until("a moment without requests", SOON, agree).await.unwrap();
    let mut expected = BTreeMap::<String, usize>::new();
    for request in had.iter().filter(|request| request.verb != "watch") {
        let verb = if matches!(request.verb.as_str(), "get" | "list") { "read" } else { &request.verb };
        *expected.entry(verb.to_owned()).or_default() += 1;
    }
    assert_eq!(counted, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gets_what_it_needs_and_then_nothing_is_asked() {
    let cluster = servers().await;
    let mut scene = Scene::prepare(&cluster, SIZE, &program(), QUIET, |_| {}).await;

    let start = scene.start("from nothing").await;
    let found = scene.check().await;
    // A Secret for every isolated set in every namespace would be more.
    assert!(found.secrets > 0 && found.secrets < SIZE.namespaces * SIZE.sidecar_sets / 5, "{found:?}");
    assert_eq!(start.requests["create serviceaccounts"], found.merged, "{start:?}");
    assert_eq!(start.requests["create serviceaccounts/token"], found.secrets, "{start:?}");
    for place in check::samples(&scene.corpus) {
        check::policy(&scene.client, &scene.corpus, place).await;
    }
    assert_counted(&mut scene).await;

    let requests = scene.rest(REST).await.requests;
    assert_eq!(needless(&requests), Vec::<&Request>::new());

    let edit = scene.edit_permissions().await;
    let followed = scene.corpus.places.iter().flat_map(|place| scene.corpus.merged(place));
    let followed = followed.filter(|sets| sets.contains(&EDITED.to_owned())).count();
    // Before it writes a Role, the controller checks for other bindings of its accounts (IDC-5).
    let expected = [
        ("list rolebindings", followed),
        ("patch configmaps", 1),
        ("patch roles", followed),
        ("patch sidecarsets/status", 1),
    ];
    assert_eq!(edit.requests, counts(&expected));
    scene.check().await;

    let edit = scene.edit_image().await;
    assert_eq!(edit.requests, counts(&[("patch configmaps", 1), ("patch sidecarsets/status", 1)]));
    // Two controllers compare each namespace once, when the edit is in the bundle.
    let places = f64::from(u32::try_from(scene.corpus.places.len()).unwrap());
    assert!(edit.reconciliations < 2.5 * places, "{edit:?}");
    let added = scene.add_namespace().await;
    assert_eq!(added.requests["create rolebindings"], 1, "{added:?}");
    scene.check().await;
    for phase in [scene.label_namespaces().await, scene.replace_pods().await] {
        assert_eq!(phase.requests, BTreeMap::new(), "{}", phase.name);
    }

    // A restarted controller finds nothing to do.
    scene.stop().await;
    let restart = scene.start("restart").await;
    let asked = |what: &str| ["list ", "get "].iter().any(|verb| what.starts_with(verb));
    assert!(restart.requests.keys().all(|what| asked(what) || what == "patch configmaps"), "{restart:?}");
    scene.check().await;

    let lists: Vec<&Request> = scene.log.requests.iter().filter(|request| request.is_unpaged_list()).collect();
    assert_eq!(lists, Vec::<&Request>::new());
}

fn counts(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect()
}
