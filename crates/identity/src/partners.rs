//! SidecarSets that trust each other: partners (IDF-7, IDF-8).

pub use pillion_sidecarset::sidecar_set::origin::Origin;

use super::declared::{Declared, PARTNERS};

/// A SidecarSet as seen by another one that may be in the same Pod.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The name of the SidecarSet.
    pub name: &'a str,
    /// Its identity fields.
    pub declared: &'a Declared,
    /// Where it comes from.
    pub origin: Origin,
}

impl Side<'_> {
    /// Whether the two SidecarSets trust each other: they name each other, or both are of the settings (IDF-8).
    pub fn trusts(&self, other: &Side<'_>) -> bool {
        self.is_of_settings_with(other) || are_partners(self.name, self.declared, other.name, other.declared)
    }

    /// Whether both SidecarSets are of the settings (IDF-8).
    pub fn is_of_settings_with(&self, other: &Side<'_>) -> bool {
        self.origin == Origin::Settings && other.origin == Origin::Settings
    }
}

/// Whether two SidecarSets name each other as partners (IDF-8). A set is no partner of itself.
pub fn are_partners(name: &str, declared: &Declared, other_name: &str, other: &Declared) -> bool {
    let names = |declared: &Declared, wanted: &str| declared.partners.iter().any(|partner| partner == wanted);
    name != other_name && names(declared, other_name) && names(other, name)
}

/// Returns what to write, and where, so that two SidecarSets trust each other. They do not yet.
pub fn remedy(one: &Side<'_>, other: &Side<'_>) -> String {
    let line = |of: &Side<'_>, partner: &Side<'_>| {
        let is_there = of.declared.partners.iter().any(|name| name == partner.name);
        let place = if of.origin == Origin::Settings { " in the policy's settings" } else { "" };
        (!is_there)
            .then(|| format!("\"{}\" to spec.{} of SidecarSet \"{}\"{place}", partner.name, PARTNERS.name, of.name))
    };
    let lines: Vec<String> = [line(one, other), line(other, one)].into_iter().flatten().collect();
    format!("add {}", lines.join(" and "))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn naming(partners: &[&str]) -> Declared {
        Declared { partners: partners.iter().map(|name| (*name).to_owned()).collect(), ..Declared::default() }
    }

    #[rstest]
    #[case::each_other(&["b"], &["a"], true)]
    #[case::among_others(&["x", "b"], &["a", "y"], true)]
    #[case::one_alone(&["b"], &[], false)]
    #[case::the_other_alone(&[], &["a"], false)]
    #[case::somebody_else(&["c"], &["c"], false)]
    fn idf8_partners_name_each_other(#[case] a: &[&str], #[case] b: &[&str], #[case] are: bool) {
        let (a, b) = (naming(a), naming(b));
        assert_eq!((are_partners("a", &a, "b", &b), are_partners("b", &b, "a", &a)), (are, are));
    }

    #[rstest]
    #[case::neither(&[], &[], r#"add "b" to spec.serviceAccountPartners of SidecarSet "a" in the policy's settings and "a" to spec.serviceAccountPartners of SidecarSet "b""#)]
    #[case::one(&["b"], &[], r#"add "a" to spec.serviceAccountPartners of SidecarSet "b""#)]
    fn trust2_the_remedy_names_the_missing_lines(#[case] a: &[&str], #[case] b: &[&str], #[case] text: &str) {
        let (a, b) = (naming(a), naming(b));
        let one = Side { name: "a", declared: &a, origin: Origin::Settings };
        let other = Side { name: "b", declared: &b, origin: Origin::Cluster };
        assert_eq!(remedy(&one, &other), text);
    }

    #[rstest]
    #[case::of_the_settings(Origin::Settings, Origin::Settings, true)]
    #[case::of_the_cluster(Origin::Cluster, Origin::Cluster, false)]
    #[case::of_either(Origin::Settings, Origin::Cluster, false)]
    fn idf8_sets_of_the_settings_trust_each_other(#[case] one: Origin, #[case] other: Origin, #[case] trust: bool) {
        let declared = Declared::default();
        let side = |name, origin| Side { name, declared: &declared, origin };
        assert_eq!(side("a", one).trusts(&side("b", other)), trust);
        assert_eq!(side("b", other).trusts(&side("a", one)), trust);
    }
}
