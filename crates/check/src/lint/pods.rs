//! The Pods that the documents show, and the `SidecarSet`s that they get.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use pillion_inject::matching::{Query, is_match, names_of_injected, precedence};
use pillion_kubernetes::json;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use pillion_workload as workload;
use serde_json::Value;

use crate::documents::{Document, Role};
use crate::files::Files;
use crate::subject::Subject;

/// A Pod of the documents, or one that a workload of the documents creates.
pub struct Created<'a> {
    /// The Pod or the workload, as it is written.
    pub object: &'a Value,
    /// The document in messages.
    pub label: String,
    /// Its namespace; `default` if it names none.
    pub namespace: &'a str,
    /// The Pod, as its controller creates it.
    pub pod: Value,
}

/// Returns the Pods of the documents, and one Pod for each template in them.
pub fn created(documents: &[Document]) -> Vec<Created<'_>> {
    let others = documents.iter().filter(|document| document.role == Role::Other);
    let pods = others.flat_map(|document| {
        let object = &document.manifest.value;
        let namespace = namespace(object);
        let label = workload::label(object, namespace);
        workload::templates(object).into_iter().filter_map(move |template| {
            let pod = workload::pod::from_template(object, &template, namespace)?;
            Some(Created { object, label: label.clone(), namespace, pod })
        })
    });
    pods.collect()
}

/// Returns the namespace of an object; `default` if it names none.
pub fn namespace(object: &Value) -> &str {
    match json::text(object, &["metadata", "namespace"]) {
        "" => "default",
        namespace => namespace,
    }
}

/// The Pods that get each `SidecarSet` of a group. They are matched when the first rule asks, and once for all rules.
pub struct Selection<'a> {
    group: &'a [Subject<'a>],
    pods: &'a [Created<'a>],
    documents: &'a [Document],
    found: OnceCell<BTreeMap<&'a str, Vec<&'a Created<'a>>>>,
}

impl<'a> Selection<'a> {
    /// Returns the Pods that get each `SidecarSet` of a group.
    pub fn new(group: &'a [Subject<'a>], pods: &'a [Created<'a>], documents: &'a [Document]) -> Self {
        Self { group, pods, documents, found: OnceCell::new() }
    }

    /// Returns the `SidecarSet`s.
    pub(super) fn group(&self) -> &'a [Subject<'a>] {
        self.group
    }

    /// Returns the Pods that get this `SidecarSet`.
    pub(super) fn pods(&self, subject: &Subject<'_>) -> &[&'a Created<'a>] {
        self.found.get_or_init(|| self.find()).get(subject.set.name()).map_or(&[], Vec::as_slice)
    }

    fn find(&self) -> BTreeMap<&'a str, Vec<&'a Created<'a>>> {
        let compiled: Vec<CompiledSet<'a>> =
            self.group.iter().map(|subject| CompiledSet::new(&subject.prepared)).collect();
        let mut selected: BTreeMap<&str, Vec<&Created<'_>>> = BTreeMap::new();
        for created in self.pods {
            let Ok(pod) = Pod::decode(&created.pod) else { continue };
            let query = Query { pod, namespace: created.namespace, uid: "" };
            // Whether a Namespace that is not given is selected is unknown.
            let selects = |set: &&CompiledSet<'_>| is_match(set, query, &Files(self.documents)).unwrap_or_default();
            let matched: Vec<&CompiledSet<'_>> = compiled.iter().filter(selects).collect();
            // A Namespace that cannot be read leaves nothing out.
            let injected = names_of_injected(&matched, query, &Files(self.documents));
            let injected = injected.unwrap_or_else(|_| precedence::in_effect(&matched));
            for name in injected {
                selected.entry(name).or_default().push(created);
            }
        }
        selected
    }
}
