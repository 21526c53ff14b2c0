//! Tokens for services other than the API server (docs/guides/cloud-identities.md, AUD-1, AUD-9).

use futures_util::future::join_all;
use serde_json::json;

use super::World;
use super::sets::{MODES, SERVICES};
use crate::support::kubelet::now;
use crate::support::verifier::{Refused, Verifier};

/// In each mode, each sidecar reads the token for its own service, which accepts it by the issuer's keys alone. No other
/// container can read it.
pub async fn each_sidecar_logs_in_to_its_own_service(world: &World) {
    let place = world.place("audiences").await;
    let services =
        [Verifier::new(world.cluster, SERVICES[0].1).await, Verifier::new(world.cluster, SERVICES[1].1).await];
    let stories = MODES.map(|mode| format!("audiences-{}", mode.to_lowercase()));
    for story in &stories {
        place.pod(story, story, &json!({})).await;
    }
    join_all(stories.iter().map(|story| place.ready(story))).await;

    for (mode, story) in MODES.into_iter().zip(&stories) {
        let apps = match mode {
            "SidecarsOnly" => "nobody lists nothing, reads nothing",
            "Isolate" => "default lists nothing, reads token:default",
            _ => "logs lists pods, reads token:logs",
        };
        place.sees(story, [("app", apps)]).await;
        for (index, (name, audience, path, lifetime)) in SERVICES.into_iter().enumerate() {
            let view = place.look(story, name).await;
            // The files come in the order of their names.
            let mut files = [format!("{path}:logs@{audience}"), "token:logs".to_owned()];
            files.sort_unstable();
            assert_eq!(view.to_string(), format!("logs lists pods, reads {}", files.join(" ")), "{mode} {name}");
            let bearer = services[index].verify(view.token(path), now()).unwrap();
            assert_eq!(bearer.subject, "system:serviceaccount:audiences:logs");
            assert_eq!(bearer.expires - bearer.issued, lifetime, "{mode} {name}");
            let refused = services[1 - index].verify(view.token(path), now());
            assert_eq!(refused, Err(Refused::Audience(vec![audience.to_owned()])));
        }
    }
}
