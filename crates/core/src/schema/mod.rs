//! The one table of fields.
//!
//! Constant tables of the fields of a `SidecarSet` and of the core/v1 types in it: key, kind, and when a field is
//! left out of its JSON (`sidecarset.md`, Appendix B and sections 1.2 to 1.5). Four things walk them: decoding,
//! normalising, emission for hashes and revisions, and the warning about unknown fields.

/// The type of a field, as the reference's Go types have it.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `string`, `[]byte` or a time.
    Text,
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
    /// The name of the type, for messages.
    pub name: &'static str,
    /// The fields.
    pub fields: &'static [Field],
}
