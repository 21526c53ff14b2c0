//! The content of the SidecarSets: agents of a few kinds.

use serde_json::{Map, Value, json};

use super::random::Random;
use super::style::Style;

/// A SidecarSet without its selector.
pub(super) struct Parts {
    /// A unique name.
    pub name: String,
    /// The fields of `spec` for the agent, such as `containers`, `initContainers` and `volumes`.
    pub spec: Map<String, Value>,
}

/// A kind of agent: its name, its image, its variables, and a path that it writes to.
struct Kind {
    name: &'static str,
    image: &'static str,
    variables: &'static [&'static str],
    path: &'static str,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "log-agent",
        image: "logging/fluent-bit",
        variables: &["LOG_LEVEL", "FLUSH_INTERVAL", "OUTPUT_HOST", "OUTPUT_PORT", "BUFFER_LIMIT", "RETRY_LIMIT"],
        path: "/var/log/app",
    },
    Kind {
        name: "mesh-proxy",
        image: "mesh/proxy",
        variables: &[
            "PROXY_CONFIG",
            "ISTIO_META_CLUSTER_ID",
            "ISTIO_META_MESH_ID",
            "TRUST_DOMAIN",
            "CA_ADDR",
            "PILOT_CERT_PROVIDER",
            "OUTBOUND_CAPTURE",
            "INBOUND_CAPTURE",
            "DRAIN_DURATION",
            "CONCURRENCY",
        ],
        path: "/etc/mesh/proxy",
    },
    Kind {
        name: "metrics-exporter",
        image: "metrics/exporter",
        variables: &["SCRAPE_INTERVAL", "LISTEN_ADDRESS", "METRICS_PATH"],
        path: "/etc/exporter",
    },
    Kind {
        name: "security-agent",
        image: "security/runtime-agent",
        variables: &["AGENT_MODE", "BACKEND_URL", "POLICY_BUNDLE", "TENANT", "AUDIT_LEVEL"],
        path: "/var/lib/agent",
    },
    Kind {
        name: "trace-collector",
        image: "tracing/otel-collector",
        variables: &["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "GOMEMLIMIT"],
        path: "/etc/otel",
    },
    Kind {
        name: "secrets-agent",
        image: "secrets/agent",
        variables: &["VAULT_ADDR", "VAULT_ROLE", "VAULT_AUTH_PATH", "TEMPLATE_LEFT_DELIM", "RENEW_INTERVAL"],
        path: "/secrets",
    },
    Kind {
        name: "config-reloader",
        image: "config/reloader",
        variables: &["WATCH_DIR", "RELOAD_URL"],
        path: "/etc/config",
    },
    Kind {
        name: "sql-proxy",
        image: "database/sql-proxy",
        variables: &["INSTANCE", "PORT", "MAX_CONNECTIONS", "TERM_TIMEOUT"],
        path: "/cloudsql",
    },
];

/// The amount of detail in a container.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    /// An image, a few variables and a volume.
    Plain,
    /// Also probes, ports and a security context.
    Full,
    /// Also an init container.
    Prepared,
    /// Also a list of features in the environment.
    Long,
}

impl Detail {
    fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..60 => Self::Plain,
            60..90 => Self::Full,
            90..98 => Self::Prepared,
            _ => Self::Long,
        }
    }
}

/// Returns the agent of one SidecarSet. `index` makes its names unique.
pub(super) fn parts(random: &mut Random, style: Style, index: usize) -> Parts {
    let Some(kind) = KINDS.get(random.below(KINDS.len())) else {
        return Parts { name: String::new(), spec: Map::new() };
    };
    let detail = Detail::draw(random);
    let name = format!("{}-{index:04}", kind.name);
    let mut container = container(random, style, kind, (&name, detail));
    let mut volumes = vec![json!({"name": format!("{name}-data"), "emptyDir": {}})];
    if detail >= Detail::Full && random.percent(50) {
        let config = format!("{name}-config");
        volumes.push(json!({"name": config, "configMap": {"name": config}}));
        if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) {
            mounts.push(json!({"name": config, "mountPath": format!("{}/conf.d", kind.path), "readOnly": true}));
        }
    }
    let mut spec = Map::new();
    if detail >= Detail::Prepared {
        let prepare = json!({
            "name": format!("{name}-init"), "image": container.get("image"), "command": ["/agent", "prepare"],
            "args": ["--out", kind.path], "resources": resources(random),
            "volumeMounts": [{"name": format!("{name}-data"), "mountPath": kind.path}],
        });
        spec.insert("initContainers".to_owned(), json!([prepare]));
    }
    if random.percent(20) {
        spec.insert("imagePullSecrets".to_owned(), json!([{"name": format!("pull-{}", kind.name)}]));
    }
    spec.insert("containers".to_owned(), json!([container]));
    spec.insert("volumes".to_owned(), volumes.into());
    Parts { name, spec }
}

fn container(random: &mut Random, style: Style, kind: &Kind, (name, detail): (&str, Detail)) -> Value {
    let tag = format!("{}.{}.{}", random.between(1, 4), random.below(30), random.below(12));
    // Some images are pinned by digest.
    let digest = if random.percent(10) { format!("@sha256:{}", random.hex(64)) } else { String::new() };
    let mut container = Map::new();
    let mut put = |key: &str, value: Value| container.insert(key.to_owned(), value);
    put("name", name.into());
    put("image", format!("registry.example.com/{}:{tag}{digest}", kind.image).into());
    put("env", variables(random, style, kind, detail).into());
    put("volumeMounts", json!([{"name": format!("{name}-data"), "mountPath": kind.path}]));
    put("podInjectPolicy", random.pick(&["BeforeAppContainer", "AfterAppContainer"]).into());
    if detail >= Detail::Full || random.percent(60) {
        put("resources", resources(random));
    }
    if random.percent(30) {
        put("shareVolumePolicy", json!({"type": "enabled"}));
    }
    if detail >= Detail::Full {
        put("args", json!(["--config", format!("{}/config.yaml", kind.path)]));
        put("ports", json!([{"name": "admin", "containerPort": random.between(9_000, 9_999)}]));
        put("readinessProbe", probe(random, "/ready"));
        if random.percent(50) {
            put("livenessProbe", probe(random, "/live"));
        }
        if random.percent(60) {
            put(
                "securityContext",
                json!({
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
                    "runAsUser": random.between(1_000, 65_000), "capabilities": {"drop": ["ALL"]},
                }),
            );
        }
        if random.percent(20) {
            put("lifecycle", json!({"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 5"]}}}));
        }
    }
    Value::Object(container)
}

fn variables(random: &mut Random, style: Style, kind: &Kind, detail: Detail) -> Vec<Value> {
    let mut variables = Vec::new();
    if random.percent(50) {
        variables.push(json!({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}));
    }
    let count = if detail >= Detail::Full { kind.variables.len() } else { random.between(1, kind.variables.len()) };
    for name in kind.variables.iter().take(count) {
        let value = match style {
            Style::Worst => {
                let length = random.between(64, 512);
                random.noise(length)
            }
            Style::Realistic => value(random),
        };
        variables.push(json!({"name": name, "value": value}));
    }
    if detail == Detail::Long {
        for index in 0..random.between(20, 60) {
            variables.push(json!({"name": format!("FEATURE_{index:02}"), "value": value(random)}));
        }
    }
    variables
}

fn value(random: &mut Random) -> String {
    match random.below(6) {
        0 => random.pick(&["debug", "info", "warn", "error"]).to_owned(),
        1 => random.between(1, 60_000).to_string(),
        2 => format!("{}s", random.between(1, 600)),
        3 => random.pick(&["true", "false"]).to_owned(),
        4 => format!(
            "https://{}.{}.svc.cluster.local:{}/v1/ingest",
            random.pick(&["collector", "gateway", "ca", "vault", "backend"]),
            random.pick(&["observability", "mesh-system", "security", "platform"]),
            random.pick(&["443", "4317", "8200", "8443", "9090", "15012"]),
        ),
        _ => {
            format!("tenant-{},region={}", random.below(10_000), random.pick(&["eu-west-1", "us-east-2", "ap-south-1"]))
        }
    }
}

fn resources(random: &mut Random) -> Value {
    let (cpu, memory) = (10 * random.between(1, 20), 16 * random.between(1, 16));
    json!({
        "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")},
        "limits": {"memory": format!("{}Mi", 2 * memory)},
    })
}

fn probe(random: &mut Random, path: &str) -> Value {
    json!({"httpGet": {"path": path, "port": "admin"}, "periodSeconds": random.between(5, 30)})
}
