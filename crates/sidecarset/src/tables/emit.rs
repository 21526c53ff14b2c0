//! Writing of JSON as Go writes a decoded value: field order, omission, zero values (HASH-5 to HASH-7).

use std::ops::Range;

use pillion_json::go::{separate, write_sorted, write_string};
use pillion_kubernetes::json::Object;
use serde_json::Value;

use super::scalar;
use super::{Field, Kind, Omit, Table};

/// The style of the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// The result of `json.Marshal` of the typed struct: fields in declared order.
    Declared,
    /// The result of parsing that JSON into a generic map and marshalling it again (REV-2): keys sorted at every level,
    /// every number a float64.
    Generic,
}

/// Writes the object `value`, or its zero value if it is not an object.
pub(crate) fn write_object(out: &mut String, value: Option<&Value>, table: &Table, style: Style) {
    let object = value.and_then(Value::as_object);
    out.push('{');
    match style {
        Style::Declared => {
            for field in table.fields {
                write_field(out, object, field, style);
            }
        }
        Style::Generic => {
            let mut fields: Vec<&Field> = table.fields.iter().collect();
            fields.sort_by(|one, other| one.name.cmp(other.name));
            for field in fields {
                write_field(out, object, field, style);
            }
        }
    }
    out.push('}');
}

/// Writes a list of objects, or `null` if the list is absent (HASH-3).
pub(crate) fn write_objects(out: &mut String, list: Option<&Value>, table: &Table, style: Style) {
    let Some(list) = list.and_then(Value::as_array) else {
        out.push_str("null");
        return;
    };
    out.push('[');
    for item in list {
        separate(out);
        write_object(out, Some(item), table, style);
    }
    out.push(']');
}

/// Writes a list of objects as [`Style::Declared`]. Returns the ranges in `out` of the field `name` in each object,
/// including the preceding comma. Without these ranges, `out` is the list with that field at its zero value (HASH-4).
/// The field must not be the first one.
pub(crate) fn write_objects_finding(
    out: &mut String,
    list: Option<&Value>,
    table: &Table,
    name: &str,
) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let Some(list) = list.and_then(Value::as_array) else {
        out.push_str("null");
        return found;
    };
    out.push('[');
    for item in list {
        separate(out);
        out.push('{');
        for field in table.fields {
            let start = out.len();
            write_field(out, item.as_object(), field, Style::Declared);
            if field.name == name {
                found.push(start..out.len());
            }
        }
        out.push('}');
    }
    out.push(']');
    found
}

fn write_field(out: &mut String, object: Option<&Object>, field: &Field, style: Style) {
    let value = object.and_then(|object| object.get(field.name)).filter(|value| !value.is_null());
    let left_out = match field.omit {
        Omit::Never | Omit::Null => false,
        Omit::Absent => value.is_none(),
        Omit::Zero => value.is_none_or(|value| is_zero(value, field.kind)),
    };
    if left_out {
        return;
    }
    separate(out);
    write_string(out, field.name);
    out.push(':');
    match value {
        Some(value) => write_value(out, value, field.kind, style),
        None if field.omit == Omit::Null => out.push_str("null"),
        None => write_zero(out, field.kind, style),
    }
}

fn write_value(out: &mut String, value: &Value, kind: Kind, style: Style) {
    match kind {
        Kind::Object(table) => write_object(out, Some(value), table, style),
        Kind::Objects(table) => write_objects(out, Some(value), table, style),
        Kind::TextMap => write_map(out, value, Kind::Text, style),
        Kind::QuantityMap => write_map(out, value, Kind::Quantity, style),
        Kind::Texts | Kind::Any => write_sorted(out, value),
        kind => scalar::write(out, value, kind, style == Style::Generic),
    }
}

fn write_map(out: &mut String, map: &Value, kind: Kind, style: Style) {
    out.push('{');
    for (key, value) in map.as_object().into_iter().flatten() {
        separate(out);
        write_string(out, key);
        out.push(':');
        scalar::write(out, value, kind, style == Style::Generic);
    }
    out.push('}');
}

/// Writes the value of an absent field that is not omitted.
fn write_zero(out: &mut String, kind: Kind, style: Style) {
    match kind {
        Kind::Text => out.push_str("\"\""),
        Kind::Bool => out.push_str("false"),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => out.push('0'),
        Kind::Quantity => write_string(out, scalar::ZERO_QUANTITY),
        Kind::Object(table) => write_object(out, None, table, style),
        Kind::Time | Kind::Objects(_) | Kind::Texts | Kind::TextMap | Kind::QuantityMap | Kind::Any => {
            out.push_str("null");
        }
    }
}

/// Whether Go's `omitempty` omits the value. It never omits a struct, and a quantity is a struct.
fn is_zero(value: &Value, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Text, Value::String(text)) => text.is_empty(),
        (Kind::Bool, Value::Bool(flag)) => !flag,
        (Kind::Int32 | Kind::Int64, Value::Number(number)) => number.as_i64() == Some(0),
        (Kind::Objects(_) | Kind::Texts, Value::Array(list)) => list.is_empty(),
        (Kind::TextMap | Kind::QuantityMap, Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}

/// Returns the JSON of `value` as Go writes it.
pub fn to_string(value: &Value, table: &Table, style: Style) -> String {
    let mut out = String::new();
    write_object(&mut out, Some(value), table, style);
    out
}
