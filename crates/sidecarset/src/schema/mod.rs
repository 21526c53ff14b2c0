//! The one table of fields.
//!
//! Constant tables of the fields of a `SidecarSet` and of the core/v1 types in it: key, kind, and when a field is
//! left out of its JSON (`sidecarset.md`, Appendix B and sections 1.2 to 1.5). Four things walk them: decoding,
//! normalising, emission for hashes and revisions, and the warning about unknown fields.

mod container;
mod decode;
mod emit;
mod header;
mod meta;
mod pod;
mod reference;
mod scalar;
mod security;
mod shape;
mod sidecar_set;
#[cfg(test)]
mod tests;
mod time;
mod unknown;
mod volume;
mod volume_claim;
mod volume_legacy;

pub use self::container::{SIDECAR_CONTAINER, VOLUME_MOUNT};
pub use self::decode::decode;
pub use self::emit::{Style, to_string, write_object, write_objects, write_objects_finding};
pub use self::header::expect_text;
pub use self::meta::{CONTROLLER_REVISION, LABEL_SELECTOR, OBJECT_META};
pub use self::pod::POD;
pub use self::shape::check_shape;
pub use self::sidecar_set::{REVISION_SPEC, SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1};
pub use self::unknown::unknown;
pub use self::volume::VOLUME;

/// The type of a field, as the reference's Go types have it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `string`.
    Text,
    /// `metav1.Time`: RFC 3339 text.
    Time,
    /// `bool`.
    Bool,
    /// `int32`.
    Int32,
    /// `int64`.
    Int64,
    /// `intstr.IntOrString`.
    IntOrString,
    /// `resource.Quantity`.
    Quantity,
    /// A nested struct.
    Object(&'static Schema),
    /// `[]struct`.
    Objects(&'static Schema),
    /// `[]string`.
    Texts,
    /// `map[string]string`.
    TextMap,
    /// `map[string]resource.Quantity`.
    QuantityMap,
    /// Passed through, whatever it is.
    Any,
}

/// When a field is left out of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Never: an absent field is written as its zero value (`""`, `0`, `false`, `null` for a list, `{}` for a struct).
    Never,
    /// Where it is the zero value: `""`, `0`, `false`, an empty list or map.
    Zero,
    /// Where it is absent: a Go pointer, whose zero value counts as present.
    Absent,
    /// Never: an absent field is written as `null`, a Go pointer or time without `omitempty`.
    Null,
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The JSON key.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// When it is left out.
    pub omit: Omit,
}

/// The fields of one type, in the order in which its JSON has them.
#[derive(Debug)]
pub struct Schema {
    /// The name of the type, for people; the module has no use for it.
    #[cfg(not(target_family = "wasm"))]
    pub name: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

impl Schema {
    /// A table.
    const fn new(name: &'static str, fields: &'static [Field]) -> Self {
        #[cfg(target_family = "wasm")]
        let _ = name;
        Self {
            #[cfg(not(target_family = "wasm"))]
            name,
            fields,
        }
    }

    /// The field with this key. Keys are case-sensitive, as they are to the reference's decoder.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// A field that is written even where it is zero or absent.
const fn always(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Never }
}

/// A field that is left out where it is zero.
const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Zero }
}

/// A field that is left out where it is absent.
const fn pointer(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Absent }
}

/// A field that is written as `null` where it is absent.
const fn nullable(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Null }
}
