//! A simulation that serves a cluster of its own.

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt as _};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::log::Log;

fn served() -> Simulation {
    Simulation::serving(|| NOW)
}

fn configuration(name: &str, data: &str) -> ConfigMap {
    serde_json::from_value(map(name, &json!({"x": data}))).expect("a ConfigMap")
}

/// Returns the next events of a watch, as text.
async fn events(maps: &Api<ConfigMap>, params: &WatchParams, version: &str, count: usize) -> Vec<String> {
    let events = maps.watch(params, version).await.expect("a watch").take(count);
    let told = events.map_ok(|event| match event {
        WatchEvent::Added(object) => format!("added {}", object.name_any()),
        WatchEvent::Modified(object) => format!("modified {}", object.name_any()),
        WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
        WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.resource_version),
        WatchEvent::Error(error) => format!("error {}", error.code),
    });
    told.try_collect().await.expect("events")
}

async fn version(maps: &Api<ConfigMap>) -> String {
    maps.list(&ListParams::default()).await.expect("a list").metadata.resource_version.expect("a version")
}

#[tokio::test]
async fn a_watch_shows_the_changes_after_its_version() {
    let simulation = served();
    let maps = maps(&simulation);
    maps.create(&PostParams::default(), &configuration("early", "1")).await.expect("it is created");
    let seen = version(&maps).await;
    maps.create(&PostParams::default(), &configuration("a", "1")).await.expect("it is created");
    let change = json!({"data": {"x": "2"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await.expect("it is patched");
    let other: Api<ConfigMap> = Api::namespaced(simulation.client(), "news");
    let elsewhere = ConfigMap { data: None, ..configuration("b", "1") };
    let elsewhere =
        ConfigMap { metadata: kube::core::ObjectMeta { namespace: None, ..elsewhere.metadata }, ..elsewhere };
    other.create(&PostParams::default(), &elsewhere).await.expect("it is created elsewhere");
    maps.delete("a", &DeleteParams::default()).await.expect("it is deleted");
    let params = WatchParams::default();
    assert_eq!(events(&maps, &params, &seen, 3).await, ["added a", "modified a", "deleted a"]);
    assert_eq!(simulation.take_writes(), [], "nobody reads them");
}

#[tokio::test]
async fn a_watch_waits_for_changes() {
    let simulation = served();
    let maps = maps(&simulation);
    let watch = maps.watch(&WatchParams::default(), "0").await.expect("a watch");
    pin_mut!(watch);
    assert!(futures_util::poll!(watch.next()).is_pending());
    maps.create(&PostParams::default(), &configuration("a", "1")).await.expect("it is created");
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
}

#[tokio::test]
async fn an_object_comes_and_goes_with_the_labels_that_a_watch_selects() {
    let simulation = served();
    let maps = maps(&simulation);
    let labelled = |label: &str| json!({"metadata": {"labels": {"app": label}}});
    maps.create(&PostParams::default(), &configuration("a", "1")).await.expect("it is created");
    for label in ["web", "web", "shop"] {
        let change = json!({"data": {"x": label.len().to_string()}});
        for change in [&labelled(label), &change] {
            maps.patch("a", &PatchParams::default(), &Patch::Merge(change)).await.expect("it is patched");
        }
    }
    let params = WatchParams::default().labels("app=web");
    assert_eq!(events(&maps, &params, "0", 3).await, ["added a", "modified a", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_gets_bookmarks_and_ends() {
    let simulation = served();
    let maps = maps(&simulation);
    let now = version(&maps).await;
    let params = WatchParams::default().timeout(150);
    assert_eq!(events(&maps, &params, &now, 9).await, [format!("bookmark {now}"), format!("bookmark {now}")]);
}

#[tokio::test]
async fn what_is_forgotten_cannot_be_watched() {
    let world = World::new(Vec::new(), None, Some(Arc::new(Log::remembering(1_000))), || NOW);
    let simulation = Simulation { world: Arc::new(world), namespace: "default".to_owned() };
    let maps = maps(&simulation);
    maps.create(&PostParams::default(), &configuration("a", "1")).await.expect("it is created");
    for number in 0..10 {
        let change = json!({"data": {"x": format!("{number:200}")}});
        maps.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await.expect("it is patched");
    }
    assert_eq!(events(&maps, &WatchParams::default(), "1", 9).await, ["error 410"]);
}

#[rstest]
#[case::pages(Some(2), None, &[2, 2, 1])]
#[case::as_long_as_the_list(Some(5), None, &[5])]
#[case::without_limit(None, None, &[5])]
#[case::of_selected_objects(Some(1), Some("metadata.name=map-3"), &[1, 0])]
#[case::of_no_object(Some(1), Some("metadata.name=map-5"), &[0])]
#[tokio::test]
async fn lists_come_in_pages(#[case] limit: Option<u32>, #[case] fields: Option<&str>, #[case] expected: &[usize]) {
    let simulation = served();
    for number in 0..5 {
        simulation.put(map(&format!("map-{number}"), &json!({})));
    }
    let maps = maps(&simulation);
    let (mut lengths, mut names) = (Vec::new(), Vec::new());
    let field_selector = fields.map(str::to_owned);
    let mut params = ListParams { limit, field_selector, ..ListParams::default() };
    loop {
        let page = maps.list(&params).await.expect("a page");
        lengths.push(page.items.len());
        names.extend(page.items.iter().map(kube::ResourceExt::name_any));
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => params.continue_token = Some(next),
            None => break,
        }
    }
    assert_eq!(lengths, expected);
    let is_selected = |name: &String| fields.is_none_or(|fields| fields.ends_with(name.as_str()));
    assert_eq!(names, (0..5).map(|number| format!("map-{number}")).filter(is_selected).collect::<Vec<_>>());
}

/// Two writers read an object, and both change it.
#[tokio::test]
async fn writes_come_one_after_the_other() {
    let simulation = served();
    let maps = maps(&simulation);
    maps.create(&PostParams::default(), &configuration("a", "1")).await.expect("it is created");
    let patches = (0..20).map(|number| {
        let maps = maps.clone();
        async move {
            let change = json!({"data": {format!("key-{number}"): "1"}});
            maps.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await
        }
    });
    let answers = futures_util::future::join_all(patches).await;
    assert!(answers.iter().all(Result::is_ok));
    let data = maps.get("a").await.expect("it is there").data.expect("data");
    assert_eq!(data.len(), 21);
}
