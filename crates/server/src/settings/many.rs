//! Settings with many SidecarSets, which are checked in portions.
//!
//! Thousands of SidecarSets need more memory than an evaluation has, and as values they take many times the memory of
//! their text. Therefore their text is cut into portions, and the module checks one portion after the other. Sets that
//! the module would compare with each other are in the same portion.

use std::collections::HashMap;
use std::fmt;

use pillion_admission::settings::{SIDECAR_SETS, Settings};
use pillion_bundle::catalog::Catalog;
use pillion_bundle::{Bundle, BundleError};
use pillion_host::Module;
use pillion_kubernetes::field::FieldError;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::prepare::prepared;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::catalogs::Catalogs;
use super::groups::{Groups, PORTION, may_have_account};
use super::{Parse, SettingsError};

/// The length from which settings are checked in portions.
const MANY: usize = PORTION;

/// The length of the SidecarSets in a bundle: the module can read it, whatever they are.
const BUNDLED: usize = 1024 * 1024;

const BUNDLE: &str = "bundle";

/// Long settings in JSON, of which only the outermost object has been read.
pub(crate) struct Many<'a> {
    /// The text of the settings without SidecarSets.
    rest: String,
    sets: Sets<'a>,
}

enum Sets<'a> {
    Manifests(Vec<&'a RawValue>),
    Bundle(String),
}

/// The members of an object, of which no key is there twice.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        struct Each;
        impl<'a> Visitor<'a> for Each {
            type Value = Vec<(String, &'a RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        let mut text = serde_json::Deserializer::from_slice(bytes);
        let members = text.deserialize_map(Each).ok()?;
        text.end().ok()?;
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        keys.array_windows().all(|[one, next]| one != next).then_some(Self(members))
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

impl<'a> Many<'a> {
    /// Reads long settings. Returns `None` for any others: short ones, those in YAML or within a policy, those with
    /// both forms of SidecarSets, and what cannot be read.
    pub(crate) fn find(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < MANY { None } else { Self::read(bytes) }
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut members = Members::read(bytes)?;
        let sets = match (members.take(SIDECAR_SETS), members.take(BUNDLE)) {
            (Some(list), None) => Sets::Manifests(serde_json::from_str(list.get()).ok()?),
            (None, Some(text)) => Sets::Bundle(serde_json::from_str(text.get()).ok()?),
            _ => return None,
        };
        if members.take("kind").is_some() {
            return None;
        }
        let rest = serde_json::to_string(&members.0.into_iter().collect::<HashMap<_, _>>()).ok()?;
        Some(Self { rest, sets })
    }

    /// Checks the settings with the module, and compiles their SidecarSets. Returns the settings without SidecarSets,
    /// the bundles, and, if there are several, one more of the sets with a ServiceAccount.
    ///
    /// # Errors
    /// [`SettingsError`] if a server cannot use them. Of several portions, those of the first one with errors are told.
    pub(super) fn check(self, module: &Module, parse: &Parse) -> Result<Checked, SettingsError> {
        let Value::Object(rest) = parse(self.rest.as_bytes()).map_err(SettingsError::Invalid)? else {
            return Err(SettingsError::NotAnObject);
        };
        let with = |key: &str, sets: Value| {
            let mut settings = rest.clone();
            settings.insert(key.to_owned(), sets);
            Value::Object(settings)
        };
        let mut groups = Groups::new(&rest);
        let (catalogs, with_accounts) = match self.sets {
            Sets::Manifests(manifests) => {
                let read = |index: usize| manifests.get(index).map_or(Ok(Value::Null), |text| manifest(text, parse));
                for index in 0..manifests.len() {
                    let manifest = read(index)?;
                    match decode(manifest.clone()) {
                        Ok(set) => groups.add(&prepared(&set)),
                        // The module says what is wrong.
                        Err(problem) => {
                            valid(module, &with(SIDECAR_SETS, vec![manifest].into()), &[index])?;
                            return Err(problem);
                        }
                    }
                }
                for portion in groups.portions() {
                    let sets = portion.iter().map(|index| read(*index)).collect::<Result<Vec<Value>, _>>()?;
                    valid(module, &with(SIDECAR_SETS, sets.into()), &portion)?;
                }
                compile(&groups.lengths, |index| decode(read(index)?))?
            }
            Sets::Bundle(text) => {
                let bundle = Bundle::read(text.as_bytes()).map_err(|error| invalid(&error))?;
                bundle.verify_each(|set| groups.add(set)).map_err(|error| invalid(&error))?;
                let catalog = catalog(text)?;
                for portion in groups.portions() {
                    let part = catalog.bundle_of(&portion).map_err(|error| invalid(&error))?;
                    valid(module, &with(BUNDLE, part.into()), &portion)?;
                }
                (catalog.into(), None)
            }
        };
        Ok((rest, catalogs, with_accounts))
    }
}

/// Settings without SidecarSets, the bundles, and one more of the sets with a ServiceAccount.
type Checked = (Map<String, Value>, Catalogs, Option<String>);

/// Compiles sets of these lengths into as few bundles as necessary.
fn compile(
    lengths: &[usize],
    read: impl Fn(usize) -> Result<SidecarSet, SettingsError>,
) -> Result<(Catalogs, Option<String>), SettingsError> {
    let mut catalogs = Catalogs::default();
    let mut with_accounts = Vec::new();
    let mut start = 0;
    while start < lengths.len() {
        let mut length = 0;
        let fits = |more: &&usize| {
            length += **more;
            length <= BUNDLED
        };
        let count = lengths.iter().skip(start).take_while(fits).count().max(1);
        let mut problem = None;
        let sets = (start..start + count).map_while(|index| match read(index) {
            Ok(set) => Some(set.for_settings()),
            Err(error) => {
                problem = Some(error);
                None
            }
        });
        let sets = sets.inspect(|set| {
            if may_have_account(set) {
                with_accounts.push(set.clone());
            }
        });
        let text = pillion_bundle::write_each(sets);
        if let Some(problem) = problem {
            return Err(problem);
        }
        catalogs.push(catalog(text)?);
        start += count;
    }
    if catalogs.text().is_some() || with_accounts.is_empty() {
        return Ok((catalogs, None));
    }
    let text = pillion_bundle::write(&with_accounts);
    // The module must be able to read all of them.
    let read = Bundle::read(text.as_bytes()).and_then(|bundle| bundle.verify_each(|_| ()));
    read.map_err(|error| invalid(&error))?;
    Ok((catalogs, Some(text)))
}

/// Reads the text of a manifest as the settings are read.
fn manifest(text: &RawValue, parse: &Parse) -> Result<Value, SettingsError> {
    let settings = format!("{{\"{SIDECAR_SETS}\":[{text}]}}");
    let mut settings = parse(settings.as_bytes()).map_err(SettingsError::Invalid)?;
    let manifest = settings.get_mut(SIDECAR_SETS).and_then(|sets| sets.get_mut(0));
    Ok(manifest.map(Value::take).unwrap_or_default())
}

fn decode(manifest: Value) -> Result<SidecarSet, SettingsError> {
    let mut settings = Map::new();
    settings.insert(SIDECAR_SETS.to_owned(), vec![manifest].into());
    let told = |errors: Vec<FieldError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let decoded = Settings::decode(settings.into()).map_err(|errors| SettingsError::Invalid(told(errors)))?;
    decoded.sidecar_sets.into_iter().next().ok_or_else(|| SettingsError::Invalid("a SidecarSet is missing".to_owned()))
}

/// Has the module check the settings with a portion of the SidecarSets.
fn valid(module: &Module, settings: &Value, portion: &[usize]) -> Result<(), SettingsError> {
    let verdict = module.validate_settings(settings).map_err(SettingsError::Unchecked)?;
    if verdict.valid {
        return Ok(());
    }
    Err(SettingsError::Invalid(renumbered(&verdict.message.unwrap_or_default(), portion)))
}

/// Returns a message in which the SidecarSets have their numbers in the settings instead of those in the portion.
fn renumbered(message: &str, portion: &[usize]) -> String {
    let start = format!("{SIDECAR_SETS}[");
    let mut parts = message.split(start.as_str());
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(&start);
        let number = part.split_once(']').and_then(|(number, rest)| Some((number.parse::<usize>().ok()?, rest)));
        match number.and_then(|(number, rest)| Some((portion.get(number)?, rest))) {
            Some((number, rest)) => text.extend([number.to_string().as_str(), "]", rest]),
            None => text.push_str(part),
        }
    }
    text
}

fn catalog(text: String) -> Result<Catalog, SettingsError> {
    Catalog::read(text).map_err(|error| invalid(&error))
}

fn invalid(error: &BundleError) -> SettingsError {
    SettingsError::Invalid(format!("the SidecarSets together: {error}"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn manifest_of(name: &str, container: &str) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "containers": [{"name": container, "image": "i:1"}]},
        })
    }

    fn set(manifest: Value) -> SidecarSet {
        prepared(&decode(manifest).unwrap())
    }

    #[rstest]
    #[case::manifests(r#"{"systemNamespace": "x", "sidecarSets": [{}]}"#, true)]
    #[case::a_bundle(r#"{"bundle": "b"}"#, true)]
    #[case::both(r#"{"bundle": "b", "sidecarSets": []}"#, false)]
    #[case::neither(r#"{"systemNamespace": "x"}"#, false)]
    #[case::no_list(r#"{"sidecarSets": {}}"#, false)]
    #[case::a_key_twice(r#"{"sidecarSets": [], "role": "Inject", "role": "Inject"}"#, false)]
    #[case::a_policy(r#"{"kind": "ClusterAdmissionPolicy", "sidecarSets": []}"#, false)]
    #[case::yaml("sidecarSets: []", false)]
    #[case::more_than_an_object(r#"{"sidecarSets": []} {}"#, false)]
    fn settings_with_one_form_in_json_are_cut(#[case] text: &str, #[case] is_cut: bool) {
        assert_eq!(Many::read(text.as_bytes()).is_some(), is_cut);
        assert!(Many::find(text.as_bytes()).is_none(), "it is short");
    }

    #[test]
    fn sets_that_share_something_are_in_one_portion() {
        let mut groups = Groups::new(&Map::new());
        let many = 2 * PORTION / 512;
        for index in 0..many {
            groups.add(&set(manifest_of(&format!("s{index}"), &format!("c{}", index % (many / 2)))));
        }
        let mut canary = manifest_of("canary", "own");
        canary["metadata"]["annotations"] =
            json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "s7"});
        groups.add(&set(canary));
        groups.add(&set(manifest_of("s9", "another")));
        let portions = groups.portions();
        assert!(portions.len() > 2, "{}", portions.len());
        let of = |index: usize| portions.iter().position(|portion| portion.contains(&index)).unwrap();
        for index in 0..many / 2 {
            assert_eq!(of(index), of(index + many / 2), "the same container");
        }
        assert_eq!((of(many), of(many + 1)), (of(7), of(9)), "the base, and the same name");
        let mut all = portions.concat();
        all.sort_unstable();
        assert_eq!(all, (0..many + 2).collect::<Vec<_>>());
    }

    #[test]
    fn with_identities_sets_with_an_account_are_in_one_portion() {
        let groups = |rest: Value| {
            let mut groups = Groups::new(rest.as_object().unwrap());
            for index in 0..2_000 {
                let mut manifest = manifest_of(&format!("s{index}"), &format!("c{index}"));
                if index % 999 == 0 {
                    manifest["spec"]["serviceAccountName"] = "agent".into();
                }
                groups.add(&set(manifest));
            }
            [0, 999, 1998].map(|index| groups.first(index))
        };
        assert_eq!(groups(json!({"featureGates": {}})), [0, 0, 0]);
        assert_eq!(groups(json!({})), [0, 999, 1998]);
    }

    #[test]
    fn messages_name_the_numbers_of_the_settings() {
        let message = "sidecarSets[1].spec: Required; sidecarSets[0]: x; sidecarSets[9]; sidecarSets[x]";
        let expected = "sidecarSets[8].spec: Required; sidecarSets[5]: x; sidecarSets[9]; sidecarSets[x]";
        assert_eq!(renumbered(message, &[5, 8]), expected);
    }

    #[test]
    fn too_many_sets_for_one_bundle_become_several() {
        let read = |index: usize| {
            let mut manifest = manifest_of(&format!("s{index}"), &format!("c{index}"));
            if index == 3 {
                manifest["spec"]["serviceAccountName"] = "agent".into();
            }
            Ok(set(manifest))
        };
        let (one, none) = compile(&[BUNDLED / 2; 2], read).unwrap();
        assert!(one.text().is_some() && none.is_none());
        let (several, with_accounts) = compile(&[BUNDLED / 2 + 1; 5], read).unwrap();
        assert!(several.text().is_none());
        let names = |text: &str| -> Vec<String> {
            let sets = Bundle::read(text.as_bytes()).unwrap().sets().unwrap();
            sets.iter().map(|set| set.name().to_owned()).collect()
        };
        assert_eq!(names(&with_accounts.unwrap()), ["s3"]);
        let labels = json!({"app": "s4"});
        let matching = several.matching("n", labels.as_object());
        assert_eq!(matching, [4]);
        assert_eq!(names(&several.bundle_of(&matching).unwrap()), ["s4"]);
        assert_eq!(names(&several.bundle_of(&[0, 2, 3]).unwrap()), ["s0", "s2", "s3"]);
        let beside = several.bundle_beside(&manifest_of("s2", "c")).unwrap();
        assert_eq!(names(&beside), ["s2"]);
    }

    #[test]
    fn a_set_that_cannot_be_read_stops_it() {
        let read = |_: usize| Err(SettingsError::Invalid("broken".to_owned()));
        assert!(matches!(compile(&[1], read), Err(SettingsError::Invalid(text)) if text == "broken"));
    }
}
