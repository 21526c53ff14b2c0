//! `pillion controller` in a cluster of 50 namespaces: what it makes is what is needed, and while nothing changes it asks
//! for nothing. `make bench-scale` does the same with 2,000, and measures.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A panic is how a test fails.

mod scale;
mod support;

use std::time::Duration;

use scale::corpus::Size;
use scale::requests::{Request, count};
use scale::{BUNDLE, Scene, check, servers};
use support::program;

const SIZE: Size = Size { namespaces: 50, sidecar_sets: 20, pods: 250, seed: 1 };
/// Long enough for a change that is still on its way: controllers wait for 200 ms at most before they look.
const QUIET: Duration = Duration::from_secs(3);
/// The Lease is renewed every two seconds.
const REST: Duration = Duration::from_secs(20);

fn idle(requests: &[Request]) -> Vec<&Request> {
    let touches = |request: &&Request| {
        request.verb == "patch" && request.resource == "configmaps" && request.name.starts_with(BUNDLE)
    };
    let busy: Vec<&Request> = requests.iter().filter(|request| !request.is_idle() && !touches(request)).collect();
    busy
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_gets_what_it_needs_and_then_nothing_is_asked() {
    let cluster = servers().await;
    let mut scene = Scene::prepare(&cluster, SIZE, &program(), QUIET, &|text| eprintln!("{text}")).await;

    let start = scene.start("from nothing").await;
    eprintln!("{start:#?}");
    let found = scene.check().await;
    eprintln!("{found:?}");
    // It would be every isolated set in every namespace.
    assert!(found.secrets > 0 && found.secrets < SIZE.namespaces * SIZE.sidecar_sets / 5, "{found:?}");
    for place in check::samples(&scene.corpus) {
        check::policy(&scene.client, &scene.corpus, place).await;
    }

    let (requests, _) = scene.rest(REST).await;
    assert_eq!(idle(&requests), Vec::<&Request>::new());
    // The Lease and, at most, one touch of the bundle and one watch of each kind that goes on.
    assert!(requests.len() < 60, "{:?}", count(&requests));

    for phase in [
        scene.edit_permissions().await,
        scene.edit_image().await,
        scene.add_namespace().await,
        scene.label_namespaces().await,
        scene.replace_pods().await,
    ] {
        eprintln!("{phase:#?}");
    }
    scene.check().await;

    scene.stop().await;
    let restart = scene.start("restart").await;
    eprintln!("{restart:#?}");
    scene.check().await;

    let lists: Vec<&Request> = scene.log.requests.iter().filter(|request| request.is_unpaged_list()).collect();
    assert_eq!(lists, Vec::<&Request>::new());
}
