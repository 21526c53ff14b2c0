//! The tables of fields.
//!
//! Constant tables of the fields of a `SidecarSet` and of the core/v1 types in it: the key, the kind, and when the
//! field is omitted from JSON (API-6 to API-9, API-16). Decoding, normalization, the output for hashes and revisions,
//! and the warning about unknown fields use the same tables.

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
pub use self::emit::{Style, to_string};
pub(crate) use self::emit::{write_objects, write_objects_finding};
pub(crate) use self::header::expect_text;
pub use self::meta::{CONTROLLER_REVISION, OBJECT_META};
pub use self::pod::POD;
pub use self::shape::check_shape;
pub(crate) use self::sidecar_set::REVISION_SPEC;
pub use self::sidecar_set::{SIDECAR_SET_V1ALPHA1, SIDECAR_SET_V1BETA1};
pub use self::unknown::{Unknown, unknown};
pub use self::volume::VOLUME;

/// The type of a field, as in the reference's Go types.
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
    Object(&'static Table),
    /// `[]struct`.
    Objects(&'static Table),
    /// `[]string`.
    Texts,
    /// `map[string]string`.
    TextMap,
    /// `map[string]resource.Quantity`.
    QuantityMap,
    /// Any JSON, passed through unchanged.
    Any,
}

/// The condition under which a field is omitted from the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omit {
    /// Never omitted: an absent field is written as its zero value (`""`, `0`, `false`, `null` for a list, `{}` for a
    /// struct).
    Never,
    /// Omitted if it has the zero value: `""`, `0`, `false`, an empty list or map.
    Zero,
    /// Omitted if it is absent. The field is a Go pointer, whose zero value counts as present.
    Absent,
    /// Never omitted: an absent field is written as `null`. The field is a Go pointer or time without `omitempty`.
    Null,
}

/// One field of a type.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The JSON key.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The condition under which the field is omitted.
    pub omit: Omit,
}

/// The fields of one type, in the order of its JSON.
#[derive(Debug)]
pub struct Table {
    /// The name of the type.
    pub name: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}

impl Table {
    /// Creates a table.
    const fn new(name: &'static str, fields: &'static [Field]) -> Self {
        Self { name, fields }
    }

    /// Returns the field with this key. Keys are case-sensitive, as in the reference's decoder.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Returns a field that is written even if it is zero or absent.
const fn always(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Never }
}

/// Returns a field that is omitted if it is zero.
const fn optional(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Zero }
}

/// Returns a field that is omitted if it is absent.
const fn pointer(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Absent }
}

/// Returns a field that is written as `null` if it is absent.
const fn nullable(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit: Omit::Null }
}
