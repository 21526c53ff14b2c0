//! Names of images: what a runtime reports is not always what the spec says.

use pillion_testenv::Image;
use serde_json::json;

use super::{AGENT, AT_ONCE, Scene, cluster, sidecar};

/// A name with another content after [`Scene::run`].
const MUTABLE: &str = "agent:mutable";

/// Two names of one image, which no other test uses: the runtime reports either of them.
fn copies() -> [Image; 2] {
    ["one", "other"].map(|tag| Image::busybox(format!("docker.io/library/copy:{tag}")).file("version", "copy"))
}

fn mutable(version: &str) -> Image {
    Image::busybox(format!("docker.io/library/{MUTABLE}")).file("version", version)
}

fn by_digest() -> Image {
    Image::busybox("docker.io/library/fixed:v1").file("version", "fixed").by_digest().unwrap()
}

/// The images of these tests.
pub fn images() -> Vec<Image> {
    let latest = Image::busybox("docker.io/library/busybox:latest");
    copies().into_iter().chain([mutable("before"), by_digest(), latest]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn roll20_each_change_restarts_the_container_once_by_whatever_name_it_is_reported() {
    let scene = Scene::new(cluster().await).await;
    // The policy of an image with the tag `latest` would be another one, and no upgrade in place changes that.
    let container = sidecar(&json!({"imagePullPolicy": "IfNotPresent"}));
    let fields = json!({"containers": [container], "updateStrategy": {"maxUnavailable": 2}});
    scene.run(&scene.set(&json!({}), &fields), 2).await;
    let digest = by_digest();
    let digest = digest.name().trim_start_matches("docker.io/library/");

    let mut restarts = 0;
    for (image, version) in [
        // Two tags of one image.
        ("copy:one", Some("copy")),
        ("copy:other", Some("copy")),
        ("copy:one", Some("copy")),
        // Another spelling of a tag.
        ("docker.io/library/copy:one", Some("copy")),
        (digest, Some("fixed")),
        // No tag and no registry.
        ("busybox", None),
        (MUTABLE, Some("before")),
    ] {
        let release = async || scene.place.release(AGENT, image).await;
        let took = scene.rolled_out_as(image, release, |_, _| true).await;

        restarts += 1;
        assert_eq!(scene.restarts(AGENT).await, [restarts; 2], "{image}: {}", scene.told().await);
        assert!(took.seconds < AT_ONCE.as_secs_f64(), "{image}: {} s", took.seconds);
        if let Some(version) = version {
            assert_eq!(scene.versions(AGENT).await, [version; 2], "{image}");
        }
    }

    // The tag gets another content, as in a registry: the next change to it brings that.
    for node in scene.cluster.real_nodes() {
        node.import(&[mutable("after")]).await.unwrap();
    }
    scene.released("agent:v1").await;
    scene.released(MUTABLE).await;
    assert_eq!(scene.versions(AGENT).await, ["after"; 2]);
    assert_eq!(scene.restarts("app").await, [0; 2]);
}
