#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use pillion_sidecarset::controller_revision::ControllerRevision;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_sidecarset::sidecar_set::decode::decode;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use rstest::rstest;
use serde_json::{Value, json};

use super::base64;
use super::catalog::Catalog;
use super::sections::{Tag, number};
use super::write::{Row, text_of, write_rows};
use super::*;

fn set(name: &str, spec: Value) -> SidecarSet {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/c:1"}]}
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    SidecarSet::from_decoded(set)
}

fn labelled(name: &str, value: &str) -> SidecarSet {
    set(name, json!({"selector": {"matchLabels": {"app": value}}}))
}

fn some() -> Vec<SidecarSet> {
    vec![
        labelled("b", "web"),
        labelled("a", "shop"),
        set("c", json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}})),
        set(
            "d",
            json!({
                "selector": {"matchLabels": {"app": "web"}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prod"}}
            }),
        ),
    ]
}

fn names(bundle: &Bundle<'_>, namespace: &str, labels: Value) -> Vec<String> {
    let found = bundle.sets_for(namespace, labels.as_object()).unwrap();
    found.iter().map(|set| set.name().to_owned()).collect()
}

#[test]
fn e18_a_bundle_gives_no_more_than_its_length_allows() {
    let long = |name: &str| {
        SidecarSet::from_decoded(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": name, "annotations": {"note": "a".repeat(1_000_000)}},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "containers": [{"name": "c", "image": "i:1"}]}
        }))
    };
    let sets = [long("a"), long("b"), long("c")];
    let text = write(&sets[..2]);
    assert_eq!(Bundle::read(text.as_bytes()).unwrap().verify().map(|sets| sets.len()), Ok(2));
    let text = write(&sets);
    assert!(text.len() < 100_000, "{}", text.len());
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    assert_eq!(bundle.verify(), Err(BundleError::TooLong));
    assert_eq!(bundle.verify_each(|_| ()), Err(BundleError::TooLong));
    let labels = json!({"app": "x"});
    assert_eq!(bundle.sets_for("shop", labels.as_object()), Err(BundleError::TooLong));
    let labels = json!({"app": "y"});
    assert_eq!(bundle.sets_for("shop", labels.as_object()).map(|sets| sets.len()), Ok(0));
}

#[rstest]
#[case::few(1_000, true)]
#[case::many(2_000, false)]
fn e18_a_bundle_of_nothing_is_refused(#[case] count: usize, #[case] is_read: bool) {
    let text = write(&vec![SidecarSet::from_decoded(json!({})); count]);
    let read = Bundle::read(text.as_bytes()).map(|bundle| bundle.len());
    let wrong = BundleError::Damaged("it has more SidecarSets than its length allows");
    assert_eq!(read, if is_read { Ok(count) } else { Err(wrong) });
}

#[test]
fn e18_a_bundle_with_a_name_twice_is_refused() {
    let text = write(&[labelled("a", "web"), labelled("b", "web"), labelled("a", "shop")]);
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    let twice = BundleError::Damaged("a SidecarSet is there twice, or not in its place");
    assert_eq!(bundle.verify(), Err(twice.clone()));
    assert_eq!(bundle.verify_each(|_| ()), Err(twice.clone()));
    // Only sets that are opened are checked.
    let sets = |label: &str| bundle.sets_for("n", json!({"app": label}).as_object()).map(|sets| sets.len());
    assert_eq!((sets("web"), sets("shop")), (Ok(2), Ok(1)));
    let same = write(&[labelled("a", "web"), labelled("a", "web")]);
    let labels = json!({"app": "web"});
    assert_eq!(Bundle::read(same.as_bytes()).unwrap().sets_for("n", labels.as_object()), Err(twice));
}

#[test]
fn e18_a_bundle_of_short_containers_is_refused() {
    let crowded = |name: &str| {
        SidecarSet::from_decoded(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": "x"}}, "containers": vec![json!({"name": "a"}); 2_000]}
        }))
    };
    // Defaults make the sets in a bundle longer, but a crafted bundle may omit them.
    let mut set = crowded("a");
    for key in [pillion_sidecarset::names::HASH, pillion_sidecarset::names::HASH_WITHOUT_IMAGE] {
        set.as_value_mut()["metadata"]["annotations"][key] = json!("h");
    }
    let text = write(&[set]);
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    assert_eq!(bundle.verify(), Err(BundleError::TooDense));
    assert_eq!(bundle.verify_each(|_| ()), Err(BundleError::TooDense));
    assert_eq!(bundle.sets_for("shop", json!({"app": "x"}).as_object()), Err(BundleError::TooDense));
    assert_eq!(
        BundleError::TooDense.to_string(),
        "has too many short containers and volumes: beyond a thousand containers, each needs 448 bytes of SidecarSets and each volume 80"
    );
}

#[rstest]
#[case::the_same_label("n", json!({"selector": {"matchLabels": {"app": "shop"}}}), &["a", "c"])]
#[case::its_own_name("b", json!({"selector": {"matchLabels": {"app": "shop"}}}), &["a", "b", "c"])]
#[case::another_label("n", json!({"selector": {"matchLabels": {"tier": "db"}}}), &["a", "b", "c", "d"])]
#[case::no_pod_has_both("n", json!({"selector": {"matchLabels": {"app": "db"}}}), &["c"])]
#[case::another_namespace(
    "n",
    json!({
        "selector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev"}}
    }),
    &["b", "c"]
)]
#[case::the_namespace_of_v1alpha1_counts_as_any(
    "n",
    json!({
        "selector": {"matchLabels": {"app": "web"}}, "namespace": "prod",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dev"}}
    }),
    &["b", "c", "d"]
)]
#[case::no_selector("n", json!({}), &[])]
#[case::its_base("n", json!({"base": "d"}), &["d"])]
fn val50_a_set_is_compared_with_those_whose_pods_it_may_select(
    #[case] name: &str,
    #[case] spec: Value,
    #[case] expected: &[&str],
) {
    let text = write(&some());
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    let mut sent = set(name, spec).into_value();
    if let Some(base) = sent["spec"].as_object_mut().unwrap().remove("base") {
        sent["metadata"]["annotations"] =
            json!({(pillion_sidecarset::names::CANARY): "true", (pillion_sidecarset::names::BASE): base});
    }
    let beside = bundle.sets_beside(&sent).unwrap();
    assert_eq!(beside.iter().map(SidecarSet::name).collect::<Vec<_>>(), expected);
    let all = bundle.sets().unwrap();
    assert!(beside.iter().all(|set| all.contains(set)));
}

#[test]
fn a_pod_finds_the_sets_that_can_match_it() {
    let text = write(&some());
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    assert_eq!(bundle.len(), 4);
    assert_eq!(names(&bundle, "dev", json!({"app": "web"})), ["b", "c"]);
    assert_eq!(names(&bundle, "prod", json!({"app": "web", "x": "y"})), ["b", "c", "d"]);
    assert_eq!(names(&bundle, "dev", json!({"app": "shop"})), ["a", "c"]);
    assert_eq!(names(&bundle, "dev", json!({})), [""; 0]);
}

fn stored() -> ControllerRevision {
    ControllerRevision::decode(json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 4,
        "metadata": {"name": "a-4", "uid": "u", "annotations": {"kruise.io/sidecarset-hash": "h", "x": "y"}},
        "data": {"spec": {"$patch": "replace", "containers": [{"name": "c", "image": "old"}], "volumes": null}}
    }))
    .unwrap()
}

#[test]
fn a_set_has_its_stored_version_with_it_and_nothing_else_of_it_changes() {
    let plain = set("a", json!({"injectionStrategy": {"revision": {"revisionName": "a-4"}}}));
    let text = write(&[plain.clone().with_revision(&stored()), labelled("b", "web")]);
    let sets = Bundle::read(text.as_bytes()).unwrap().verify().unwrap();
    let mut each = Vec::new();
    Bundle::read(text.as_bytes()).unwrap().verify_each(|set| each.push(set.clone())).unwrap();
    assert_eq!(each, sets);
    assert_eq!(sets[0], prepared(&plain).with_revision(&stored()));
    let revision = sets[0].revision().unwrap();
    assert_eq!((revision.name(), revision.annotation("kruise.io/sidecarset-hash")), ("a-4", "h"));
    assert_eq!((revision.data(), revision.annotation("x")), (stored().data(), ""));
    assert_eq!(sets[1].revision(), None);
    assert_eq!(write(&sets), text);
}

#[test]
fn nobody_brings_a_stored_version_in_with_a_manifest() {
    let mut smuggled = set("a", json!({})).into_value();
    smuggled["controllerRevision"] = stored().as_value().clone();
    let smuggled = decode(smuggled).unwrap().into_sidecar_set();
    assert_eq!((smuggled.revision(), &smuggled), (None, &set("a", json!({}))));
}

#[test]
fn hash10_a_bundle_holds_what_was_put_into_it_defaulted_and_hashed() {
    let text = write(&some());
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    let mut expected: Vec<SidecarSet> = some().iter().map(prepared).collect();
    expected.sort_by(|one, other| one.name().cmp(other.name()));
    assert_eq!(bundle.sets().unwrap(), expected);
    assert_eq!(bundle.verify(), Ok(expected));
}

#[test]
fn the_order_of_the_sets_does_not_matter() {
    let mut turned = some();
    turned.reverse();
    assert_eq!(write(&some()), write(&turned));
}

#[test]
fn an_empty_bundle_is_one() {
    let text = write(&[]);
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    assert!(bundle.is_empty() && bundle.verify().is_ok());
    assert_eq!(bundle.sets_for("dev", None), Ok(Vec::new()));
}

#[test]
fn what_is_no_bundle_of_this_format_says_so() {
    let error = |text: &str| Bundle::read(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(error(""), "is no bundle: it does not start with \"pillion-bundle-3:\"; make one with `pillion bundle`");
    for format in [1, 2, 4] {
        let remedy = "make it anew with `pillion bundle`, or update the policy if that is older";
        assert_eq!(
            error(&format!("pillion-bundle-{format}:abc:def")),
            format!("has the format {format}, and this policy reads format 3; {remedy}")
        );
    }
    assert!(error("pillion-bundle-x:abc:def").starts_with("is no bundle"));
    assert_eq!(error("pillion-bundle-3:abc:AAAA"), "is damaged (it ends early); make it anew with `pillion bundle`");
}

/// Returns the sections of a bundle, in their order.
fn parts_of(text: &str) -> Vec<(Tag, Vec<u8>)> {
    let data = text.rsplit_once(':').unwrap().1.as_bytes();
    let data = base64::decode(data, 0, base64::decoded_len(data)).unwrap();
    let count = number(&data, 0).unwrap();
    let mut start = 4 + count * 8;
    (0..count)
        .map(|index| {
            let entry = &data[4 + index * 8..][..8];
            let (first, length) = (start, number(entry, 1).unwrap());
            start += length;
            (*entry.first_chunk().unwrap(), data[first..start].to_vec())
        })
        .collect()
}

#[test]
fn sections_stand_where_the_directory_says() {
    let text = write(&some());
    let parts = parts_of(&text);
    let tags: Vec<&Tag> = parts.iter().map(|(tag, _)| tag).collect();
    assert_eq!(tags, [b"ANCH", b"ROWS", b"DICT", b"SETS", b"hash"]);
    assert_eq!(text_of(&parts), text);
}

#[test]
fn a_bundle_without_digests_gives_the_same_sets() {
    let text = write(&some());
    let mut parts = parts_of(&text);
    parts.retain(|(tag, _)| tag != b"hash");
    let without = text_of(&parts);
    assert!(without.len() < text.len());
    assert_eq!(Bundle::read(without.as_bytes()).unwrap().verify(), Bundle::read(text.as_bytes()).unwrap().verify());
}

#[rstest]
#[case::an_unknown_one_that_has_to_be_known(|parts: &mut Vec<_>| parts.push((*b"NEWS", vec![1])), "has a section \"NEWS\", which this policy does not know; update the policy")]
#[case::none(Vec::clear, "is damaged (a section is not there); make it anew with `pillion bundle`")]
#[case::one_twice(|parts: &mut Vec<_>| parts.push((*b"ANCH", vec![])), "is damaged (it has a section twice); make it anew with `pillion bundle`")]
#[case::one_too_few(|parts: &mut Vec<_>| parts.retain(|(tag, _)| tag != b"DICT"), "is damaged (a section is not there); make it anew with `pillion bundle`")]
#[case::too_many(|parts: &mut Vec<_>| parts.extend((0..99).map(|n| ([b'x', b'x', b'x', n], vec![]))), "is damaged (it has too many sections); make it anew with `pillion bundle`")]
#[case::no_rows(|parts: &mut Vec<(Tag, Vec<u8>)>| parts[1].1.clear(), "is damaged (it ends early); make it anew with `pillion bundle`")]
fn sections_that_cannot_be_read_are_refused(#[case] change: fn(&mut Vec<(Tag, Vec<u8>)>), #[case] says: &str) {
    let mut parts = parts_of(&write(&some()));
    change(&mut parts);
    assert_eq!(Bundle::read(text_of(&parts).as_bytes()).unwrap_err().to_string(), says);
}

#[test]
fn digests_are_verified_when_they_are_read() {
    let mut parts = parts_of(&write(&some()));
    let hashes = &mut parts[4].1;
    hashes[5] ^= 1;
    let text = text_of(&parts);
    let bundle = Bundle::read(text.as_bytes()).unwrap();
    assert_eq!(bundle.sets(), Err(BundleError::Damaged("the checksum of a set is another")));
}

/// Labels with few keys and values, so that sets match Pods.
fn labels() -> impl Strategy<Value = Value> {
    let pair = (select(vec!["app", "team", "tier"]), select(vec!["a", "b", "c"]));
    proptest::collection::vec(pair, 0..4)
        .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key, json!(value))).collect())
}

fn selector() -> impl Strategy<Value = Value> {
    let values = subsequence(vec!["a", "b", "c"], 1..3);
    let operator = select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let expression = (select(vec!["app", "team", "kubernetes.io/metadata.name"]), operator, values).prop_map(
        |(key, operator, values)| {
            let values = if operator.ends_with("In") { json!(values) } else { json!([]) };
            json!({"key": key, "operator": operator, "values": values})
        },
    );
    (labels(), proptest::collection::vec(expression, 0..2))
        .prop_map(|(labels, expressions)| json!({"matchLabels": labels, "matchExpressions": expressions}))
}

proptest! {
    #[test]
    fn exactly_the_sets_that_match_are_found(
        selectors in proptest::collection::vec((selector(), proptest::option::of(selector())), 0..12),
        labels in labels(),
        namespace in select(vec!["a", "b"]),
    ) {
        let sets: Vec<SidecarSet> = selectors.into_iter().enumerate().map(|(index, (selector, namespaces))| {
            let spec = match namespaces {
                Some(namespaces) => json!({"selector": selector, "namespaceSelector": namespaces}),
                None => json!({"selector": selector}),
            };
            set(&format!("s{index:02}"), spec)
        }).collect();
        let text = write(&sets);
        let bundle = Bundle::read(text.as_bytes()).unwrap();
        let found = bundle.sets_for(namespace, labels.as_object()).unwrap();
        for set in &sets {
            let compiled = CompiledSet::new(set);
            let matches = compiled.is_candidate(namespace)
                && compiled.selector.as_ref().is_ok_and(|selector| selector.selects(labels.as_object()));
            prop_assert_eq!(matches, found.iter().any(|found| found.name() == set.name()), "{}", set.as_value());
        }
    }

    /// This version reads a bundle in which a later version added sections.
    #[test]
    fn unknown_sections_that_are_optional_are_passed_over(
        tag in "[a-z][A-Za-z]{3}", bytes: Vec<u8>, at: Index, labels in labels()
    ) {
        let text = write(&some());
        let mut parts = parts_of(&text);
        let tag: Tag = *tag.as_bytes().first_chunk().unwrap();
        prop_assume!(&tag != b"hash");
        parts.insert(at.index(parts.len() + 1), (tag, bytes));
        let longer = text_of(&parts);
        let (bundle, same) = (Bundle::read(longer.as_bytes()).unwrap(), Bundle::read(text.as_bytes()).unwrap());
        prop_assert_eq!(bundle.verify(), same.verify());
        prop_assert_eq!(bundle.sets_for("prod", labels.as_object()), same.sets_for("prod", labels.as_object()));
    }

    #[test]
    fn a_flipped_byte_is_found(position: Index, by in 1_u8..) {
        let text = write(&some());
        let mut bytes = text.into_bytes();
        let position = position.index(bytes.len());
        bytes[position] ^= by;
        let verified = Bundle::read(&bytes).and_then(|bundle| bundle.verify());
        prop_assert!(verified.is_err(), "byte {position}, by {by}");
        let each = Bundle::read(&bytes).and_then(|bundle| bundle.verify_each(|_| ()));
        prop_assert_eq!(each.err(), verified.err());
    }

    #[test]
    fn no_sections_panic(
        parts in proptest::collection::vec((select(vec!["ANCH", "ROWS", "DICT", "SETS", "hash"]), any::<Vec<u8>>()), 0..6),
        rows in proptest::collection::vec(0_u32..40, 0..12)
    ) {
        let mut parts: Vec<(Tag, Vec<u8>)> =
            parts.into_iter().map(|(tag, bytes)| (*tag.as_bytes().first_chunk().unwrap(), bytes)).collect();
        for (_, bytes) in parts.iter_mut().filter(|(tag, _)| tag == b"ROWS") {
            *bytes = rows.iter().flat_map(|number| number.to_le_bytes()).collect();
        }
        let text = text_of(&parts);
        if let Ok(bundle) = Bundle::read(text.as_bytes()) {
            let _ = (bundle.verify(), bundle.sets_for("a", None), bundle.sets());
        }
    }

    /// Any change to the text is an error.
    #[test]
    fn damage_is_found(position: Index, digit in select(vec!['A', 'z', '0', '_', '!', 'é'])) {
        let text = write(&some());
        let mut characters: Vec<char> = text.chars().collect();
        let position = position.index(characters.len());
        prop_assume!(characters[position] != digit);
        characters[position] = digit;
        let changed: String = characters.into_iter().collect();
        let verified = Bundle::read(changed.as_bytes()).and_then(|bundle| bundle.verify());
        prop_assert!(verified.is_err(), "{changed}");
    }

    #[test]
    fn no_text_panics(text in "(pillion-bundle-3:)?[A-Za-z0-9_:-]*") {
        if let Ok(bundle) = Bundle::read(text.as_bytes()) {
            let _ = (bundle.verify(), bundle.sets_for("a", None), bundle.sets());
        }
    }

    /// A truncated bundle is not a valid bundle.
    #[test]
    fn every_beginning_is_refused(length: Index) {
        let text = write(&some());
        let cut: String = text.chars().take(length.index(text.len())).collect();
        prop_assert!(Bundle::read(cut.as_bytes()).and_then(|bundle| bundle.verify()).is_err());
    }
}

fn catalog(sets: &[SidecarSet]) -> Catalog {
    Catalog::read(write(sets)).unwrap()
}

#[test]
fn a_catalog_refuses_what_a_bundle_refuses() {
    let text = write(&some());
    assert_eq!((catalog(&some()).len(), catalog(&[]).is_empty()), (4, true));
    assert_eq!(Catalog::read("x".to_owned()).unwrap_err(), BundleError::NotABundle);
    let damaged = text.replacen(':', ":0", 2);
    assert!(matches!(Catalog::read(damaged).unwrap_err(), BundleError::Damaged(_)));
}

proptest! {
    /// A bundle of the matching sets gives what the whole bundle gives.
    #[test]
    fn a_catalog_finds_the_sets_of_the_bundle(
        sets in subsequence(some(), 0..=4),
        namespace in select(vec!["prod", "shop", ""]),
        labels in select(vec![json!({"app": "web"}), json!({"app": "shop", "x": 1}), json!({"app": 2}), json!({})]),
    ) {
        let catalog = catalog(&sets);
        let found = catalog.matching(namespace, labels.as_object());
        let whole = Bundle::read(catalog.text().as_bytes()).unwrap().sets_for(namespace, labels.as_object()).unwrap();
        let text = catalog.bundle_of(&found).unwrap();
        let part = Bundle::read(text.as_bytes()).unwrap();
        prop_assert_eq!(part.len(), found.len());
        prop_assert_eq!(part.sets_for(namespace, labels.as_object()).unwrap(), whole);
    }
}

/// A controller reads the same bundles again and again. What it has opened before must not hide damage.
#[test]
fn set1_opened_sets_are_remembered_until_no_bundle_has_them() {
    let one = write(&[labelled("a", "a"), labelled("b", "b")]);
    let other = write(&[labelled("b", "b"), labelled("c", "c")]);
    let memo = Memo::default();
    let sets = |text: &str| memo.sets(&Bundle::read(text.as_bytes()).unwrap());
    for text in [&one, &other, &one] {
        assert_eq!(sets(text), Bundle::read(text.as_bytes()).unwrap().verify());
    }
    assert_eq!(memo.lengths().0, 3, "both bundles have \"b\"");

    let mut damaged = one.clone().into_bytes();
    let last = damaged.last_mut().unwrap();
    *last = if *last == b'A' { b'B' } else { b'A' };
    assert_eq!(sets(str::from_utf8(&damaged).unwrap()), Err(BundleError::Damaged("the checksum is another")));

    for _ in 0..3 {
        memo.forget_unused();
        sets(&one).unwrap();
    }
    assert_eq!(memo.lengths().0, 3);
    memo.forget_unused();
    assert_eq!(memo.lengths().0, 2, "no bundle has \"c\"");
}

/// A plan that creates ConfigMaps is made again to fill them, and most changes concern a few of the shards.
#[test]
fn set1_bundles_that_were_written_before_are_remembered() {
    let memo = Memo::default();
    let rows = ["a", "b", "c"].map(|name| Row::new(&labelled(name, name)));
    let [a, b, c] = rows.each_ref();
    for (rows, texts) in [(vec![a, b], 1), (vec![a, c], 2), (vec![a, b], 2)] {
        assert_eq!(memo.text(&rows), write_rows(rows.iter().copied()));
        assert_eq!(memo.lengths().1, texts);
    }
    for _ in 0..3 {
        memo.forget_unused();
        memo.text(&[a, b]);
    }
    assert_eq!(memo.lengths().1, 2);
    memo.forget_unused();
    assert_eq!(memo.lengths().1, 1);
}

/// The digests are in a section of their own, so two bundles may store one set with different hashes.
#[test]
fn set1_an_opened_set_has_the_hashes_of_its_bundle() {
    let text = write(&[labelled("a", "a")]);
    let mut parts = parts_of(&text);
    parts[4].1 = layout::hash_row(&[1; DIGESTS]);
    let with_others = text_of(&parts);
    let memo = Memo::default();
    let [sets, others] = [&text, &with_others].map(|text| {
        let bundle = Bundle::read(text.as_bytes()).unwrap();
        let sets = memo.sets(&bundle);
        assert_eq!(sets, bundle.verify());
        sets.unwrap()
    });
    assert_ne!(sets[0].hash(), others[0].hash());
}
