//! The volumes that a controller makes of `volumeClaimTemplates`.

use std::collections::BTreeSet;

use pillion_kubernetes::json;
use serde_json::{Value, json};

use crate::Template;

/// Returns the names of the volume claim templates beside a Pod template.
fn names<'a>(object: &'a Value, template: &Template) -> Vec<&'a str> {
    let owner = template.owner_spec(object).unwrap_or(&Value::Null);
    let claims = json::items(owner, &["volumeClaimTemplates"]).iter();
    claims.map(|claim| json::text(claim, &["metadata", "name"])).filter(|name| !name.is_empty()).collect()
}

/// Puts the claims of the Pod `pod` before the volumes of its template, and in place of those of the same names. The
/// order of several claims is random in a cluster.
pub fn mount(object: &Value, template: &Template, pod: &str, spec: &mut json::Object) {
    let names = names(object, template);
    if names.is_empty() {
        return;
    }
    let Some(volumes) = json::list_mut(spec, "volumes") else { return };
    volumes.retain(|volume| !names.contains(&json::text(volume, &["name"])));
    let claims =
        names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-{pod}")}}));
    volumes.splice(0..0, claims);
}

/// Returns a Pod with the volumes that its template has in place of the claims, which no template may keep: first those
/// of the template, in its order, then others.
pub fn unmount(object: &Value, template: &Template, pod: &Value) -> Value {
    let names: BTreeSet<&str> = names(object, template).into_iter().collect();
    let mut pod = pod.clone();
    let own = object.pointer(&template.pointer).map_or(&[][..], |template| json::items(template, &["spec", "volumes"]));
    let name = |volume: &Value| json::text(volume, &["name"]).to_owned();
    if let Some(volumes) = pod.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).filter(|_| !names.is_empty())
    {
        let made = std::mem::take(volumes);
        let is_own = |volume: &&Value| own.iter().any(|own| name(own) == name(volume));
        let kept = own.iter().filter_map(|own| {
            let is_hidden = names.contains(name(own).as_str());
            if is_hidden { Some(own) } else { made.iter().find(|volume| name(volume) == name(own)) }
        });
        let others = made.iter().filter(|volume| !is_own(volume) && !names.contains(name(volume).as_str()));
        *volumes = kept.chain(others).cloned().collect();
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::templates;

    fn set(claims: &[&str], volumes: &Value) -> Value {
        let claims: Vec<Value> = claims.iter().map(|name| json!({"metadata": {"name": name}})).collect();
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {"volumeClaimTemplates": claims, "template": {"spec": {"containers": [{"name": "a"}], "volumes": volumes}}}
        })
    }

    #[test]
    fn claims_come_first_and_hide_volumes_of_their_names() {
        let volumes = json!([{"name": "scratch", "emptyDir": {}}, {"name": "data", "emptyDir": {}}]);
        let set = set(&["data", "log"], &volumes);
        let template = &templates(&set)[0];
        let mut pod = json!({"spec": {"volumes": volumes}});
        mount(&set, template, "db-0", pod["spec"].as_object_mut().unwrap());
        let claim = |name: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": format!("{name}-db-0")}});
        assert_eq!(pod["spec"]["volumes"], json!([claim("data"), claim("log"), {"name": "scratch", "emptyDir": {}}]));

        pod["spec"]["volumes"].as_array_mut().unwrap().push(json!({"name": "new"}));
        let kept = unmount(&set, template, &pod);
        let expected = json!([{"name": "scratch", "emptyDir": {}}, {"name": "data", "emptyDir": {}}, {"name": "new"}]);
        assert_eq!(kept["spec"]["volumes"], expected);
    }

    #[test]
    fn without_claims_a_pod_stays_as_it_is() {
        let set = set(&[], &json!([{"name": "a"}]));
        let template = &templates(&set)[0];
        let pod = json!({"spec": {"volumes": [{"name": "b"}, {"name": "a"}]}});
        assert_eq!(unmount(&set, template, &pod), pod);
        let mut spec = pod["spec"].clone();
        mount(&set, template, "db-0", spec.as_object_mut().unwrap());
        assert_eq!(spec, pod["spec"]);
    }
}
