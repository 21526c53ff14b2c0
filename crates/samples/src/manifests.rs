//! Manifests that tests of several crates use.

use serde_json::Value;

/// A SidecarSet for Pods with the label `logs: collect`.
pub const SET: &str = "apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {logs: collect}}
  containers:
  - {name: agent, image: 'agent:1', podInjectPolicy: AfterAppContainer}
";
/// A Pod with that label.
pub const POD: &str = "apiVersion: v1
kind: Pod
metadata:
  name: p
  namespace: shop
  labels: {logs: collect}   # this is what the set selects
spec:
  containers:
  - name: app
    image: app:1
";
/// An object without Pods.
pub const SERVICE: &str = "# a comment
apiVersion: v1
kind:   Service
metadata: {name: s}
";

/// Returns a SidecarSet in YAML. `spec` follows its selector.
pub fn set(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: apps.kruise.io/v1beta1\nkind: SidecarSet\nmetadata:\n  name: {name}\nspec:\n  selector:\n    \
         matchLabels: {{logs: collect}}\n{spec}"
    )
}

/// Returns the list of containers of such a SidecarSet, with one of this name.
pub fn agent(name: &str) -> String {
    format!("  containers:\n  - name: {name}\n    image: agent:1\n")
}

/// Returns the names of the containers in the Pod spec at a pointer.
pub fn containers(object: &Value, pointer: &str) -> Vec<String> {
    let containers = object.pointer(&format!("{pointer}/spec/containers")).and_then(Value::as_array).unwrap();
    containers.iter().map(|container| container["name"].as_str().unwrap().to_owned()).collect()
}

pub mod explained {
    //! SidecarSets with every outcome, and what they are injected into.

    /// SidecarSets with every outcome in Namespace `shop`, for Pods with `app: web`.
    pub const SETS: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: NotUpdate}
  initContainers:
    - {name: net, image: net:1, restartPolicy: Always}
  containers:
    - name: agent
      image: agent:1
      upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: empty:1}
      volumeMounts: [{name: spool, mountPath: /spool}]
  volumes: [{name: spool, emptyDir: {}}, {name: spare, emptyDir: {}}]
  patchPodMetadata:
    - {patchPolicy: Retain, annotations: {owner: agents}}
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: api-only}
spec:
  selector: {matchLabels: {app: api}, matchExpressions: [{key: tier, operator: Exists}]}
  containers: [{name: api-only, image: x:1}]
---
apiVersion: apps.kruise.io/v1alpha1
kind: SidecarSet
metadata: {name: elsewhere}
spec:
  namespace: prod
  selector: {matchLabels: {app: web}}
  containers: [{name: elsewhere, image: x:1}]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: paused}
spec:
  selector: {matchLabels: {app: web}}
  injectionStrategy: {paused: true}
  containers: [{name: paused, image: x:1}]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: team}
spec:
  selector: {matchLabels: {app: web}}
  namespaceSelector: {matchLabels: {team: a}}
  containers: [{name: team, image: x:1}]
";

    /// Pods for the SidecarSets.
    pub const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {owner: shop}}
    spec:
      containers: [{name: web, image: nginx:1.27}]
";

    /// The namespace of the Pods.
    pub const NAMESPACE: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: b}}}\n";

    /// A SidecarSet whose container has the name of one of the Pods.
    pub const CLASH: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: clash}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: web, image: x:1}]
";

    /// All of them, as files of a folder.
    pub const FILES: [(&str, &str); 4] =
        [("sets.yaml", SETS), ("web.yaml", DEPLOYMENT), ("namespace.yaml", NAMESPACE), ("clash.yaml", CLASH)];
}

pub mod planned {
    //! SidecarSets with identities, and workloads that get them.

    /// Two sidecars that share an identity, one with its own, and workloads that get them.
    pub const MANIFESTS: &str = "\
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: logs}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: logs, image: logs:1}]
  serviceAccountName: logs
  behaviorWhenServiceAccountInjection: Merge
  serviceAccountPermissions: [{apiGroups: [''], resources: [pods], verbs: [get]}]
  serviceAccountPartners: [metrics]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: metrics}
spec:
  selector: {matchLabels: {app: web}}
  containers: [{name: metrics, image: metrics:1}]
  serviceAccountName: metrics
  behaviorWhenServiceAccountInjection: Merge
  serviceAccountPermissions: [{apiGroups: [''], resources: [nodes], verbs: [get]}]
  serviceAccountPartners: [logs]
---
apiVersion: apps.kruise.io/v1beta1
kind: SidecarSet
metadata: {name: audit}
spec:
  selector: {matchLabels: {app: api}}
  containers: [{name: audit, image: audit:1}]
  serviceAccountName: audit
  serviceAccountMode: Isolate
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web:1}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec: {template: {metadata: {labels: {app: api}}, spec: {containers: [{name: api, image: api:1}]}}}
";
}
