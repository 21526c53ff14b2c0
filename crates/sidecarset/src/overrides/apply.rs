//! Writes overrides into sidecars (OVR-8).

use std::borrow::Cow;
use std::collections::BTreeMap;

use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::quantity::Quantity;
use serde_json::{Value, json};

use crate::expression::{Section, Slot};
use crate::image;
use crate::pod;
use crate::sidecar::List;
use crate::sidecar_set::SidecarSet;

use super::asked::Field;
use super::judge::Judged;

/// The values that the containers of a `SidecarSet` get instead of its own: by the name of the container, and by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Values(BTreeMap<String, BTreeMap<Field, String>>);

impl From<&Judged> for Values {
    fn from(judged: &Judged) -> Self {
        let mut values = BTreeMap::<String, BTreeMap<Field, String>>::new();
        for one in &judged.overrides {
            if let (Some(field), Some(value)) = (&one.field, one.value()) {
                values.entry(one.container.clone()).or_default().insert(field.clone(), value.to_owned());
            }
        }
        Self(values)
    }
}

impl Values {
    /// Writes the values into the containers of a `SidecarSet`.
    pub fn apply_to(&self, set: &mut SidecarSet) {
        if self.0.is_empty() {
            return;
        }
        let Some(spec) = set.as_value_mut().as_object_mut().and_then(|set| set.get_mut("spec")) else { return };
        for list in List::ALL {
            let containers = spec.get_mut(list.key()).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(fields) = self.0.get(pod::name(container)) {
                    write(container, fields);
                }
            }
        }
    }

    /// Returns a container with its values.
    pub fn in_container<'c>(&self, container: &'c Value) -> Cow<'c, Value> {
        let Some(fields) = self.0.get(pod::name(container)) else { return Cow::Borrowed(container) };
        let mut overridden = container.clone();
        write(&mut overridden, fields);
        Cow::Owned(overridden)
    }
}

fn write(container: &mut Value, fields: &BTreeMap<Field, String>) {
    let Some(container) = container.as_object_mut() else { return };
    for (field, value) in fields {
        write_field(container, field, value);
    }
    for field in fields.keys() {
        if let Field::Amount(section, slot) = *field
            && !fields.contains_key(&Field::Amount(section.other(), slot))
        {
            take_along(container, section, slot);
        }
    }
}

/// Keeps the request at most as high as the limit, as Kubernetes wants it, after one of them was overridden: the other one
/// follows.
fn take_along(container: &mut Object, overridden: Section, slot: Slot) {
    let is_computed = container.get("resourcesPolicy").is_some_and(Value::is_object);
    let Some(amounts) = amounts_mut(container) else { return };
    let amount = |section: Section| json::at(amounts.get(section.key())?, &[slot.variable()]).cloned();
    let (Some(value), Some(other)) = (amount(overridden), amount(overridden.other())) else { return };
    let followed = if is_computed {
        let bound = if overridden == Section::Limits { "min" } else { "max" };
        let (Some(expression), Some(value)) = (other.as_str().filter(|text| !text.is_empty()), value.as_str()) else {
            return;
        };
        format!("{bound}({expression}, {value})").into()
    } else {
        let [limit, request] = match overridden {
            Section::Limits => [&value, &other],
            Section::Requests => [&other, &value],
        };
        let (Ok(limit), Ok(request)) = (Quantity::from_json(limit), Quantity::from_json(request)) else { return };
        if request <= limit {
            return;
        }
        value
    };
    if let Some(amounts) = json::object_mut(amounts, overridden.other().key()) {
        amounts.insert(slot.variable().to_owned(), followed);
    }
}

/// Returns where a container has its amounts. What a `resourcesPolicy` computes replaces the resources (EXPR-3), and an
/// amount is an expression, too.
fn amounts_mut(container: &mut Object) -> Option<&mut Object> {
    if container.get("resourcesPolicy").is_some_and(Value::is_object) {
        json::object_mut(json::object_mut(container, "resourcesPolicy")?, "resourcesExpr")
    } else {
        json::object_mut(container, "resources")
    }
}

fn write_field(container: &mut Object, field: &Field, value: &str) {
    match field {
        Field::Amount(section, slot) => {
            let amounts = amounts_mut(container).and_then(|amounts| json::object_mut(amounts, section.key()));
            if let Some(amounts) = amounts {
                amounts.insert(slot.variable().to_owned(), value.into());
            }
        }
        Field::Variable(name) => {
            let variable = json!({"name": name, "value": value});
            let Some(variables) = json::list_mut(container, "env") else { return };
            match variables.iter_mut().find(|known| pod::name(known) == name) {
                Some(known) => *known = variable,
                None => variables.push(variable),
            }
        }
        Field::ImageTag => {
            let image = container.get("image").and_then(Value::as_str);
            if let Some(image) = image.and_then(|image| image::with_tag(image, value)) {
                container.insert("image".to_owned(), image.into());
            }
        }
    }
}
