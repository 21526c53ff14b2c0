//! The installation of Pillion in a cluster: which settings its server, its controllers and its policies have.
//!
//! The chart, `pillion manifest` and the kustomizations label their objects alike, whatever their names and namespaces are.
//! The settings of a process are those of the ConfigMap that its Deployment mounts, and not of one that an earlier version
//! has left behind.
//!
//! Whoever may create Deployments in some namespace can label one like Pillion's, and `rollout undo` writes what it finds
//! in the namespace that the settings name. So a Deployment counts only if a `ClusterRoleBinding` of the installation is
//! about its ServiceAccount: nobody but an administrator can create one.

use anyhow::anyhow;
use std::collections::BTreeSet;

use pillion_admission::settings::Settings;
use pillion_cluster::{Kind, Reader, Trouble};
use pillion_kubernetes::field::joined;
use pillion_kubernetes::json;
use pillion_terminal::Terminal;
use serde_json::Value;

use crate::rendering::document::{PART_OF, PILLION};
use crate::settings;

/// The kind of Kubewarden's policies that Pillion installs.
const POLICY: Kind<'_> = Kind("policies.kubewarden.io/v1", "ClusterAdmissionPolicy");
/// The kind of the processes.
const DEPLOYMENT: Kind<'_> = Kind("apps/v1", "Deployment");
/// The kind of the mounted settings.
const CONFIG_MAP: Kind<'_> = Kind("v1", "ConfigMap");
/// The kind by which an administrator gives the processes their rights.
const BINDING: Kind<'_> = Kind("rbac.authorization.k8s.io/v1", "ClusterRoleBinding");
/// The option of the processes that names the file with the settings.
const SETTINGS: &str = "--settings";
/// The controller that stores revisions.
const ROLLOUT: &str = "sidecarset-rollout";

/// Why the settings of an installation are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The cluster does not answer, or does not allow the request.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The settings of an object cannot be read.
    #[error("the settings of the installation in {source_name} cannot be read: {problem}")]
    Unreadable {
        /// The object.
        source_name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Pillion is installed more than once, in different ways.
    #[error("Pillion is installed more than once, with different settings: {}", .0.join(", "))]
    Several(Vec<String>),
}

/// A part of an installation, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The settings.
    pub settings: Value,
    /// The object with the settings, for messages: `ConfigMap pillion-system/pillion-settings`.
    pub source: String,
    /// The namespace of the process; `None` for a policy.
    pub namespace: Option<String>,
    /// The command line of the process without `pillion`; empty for a policy.
    pub arguments: Vec<String>,
}

/// What is installed in a cluster. Parts with the same settings are one part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Installation {
    /// The servers, and the policies of Kubewarden that inject: what answers the API server.
    admission: Vec<Part>,
    /// The controllers.
    controllers: Vec<Part>,
    /// The command lines of all controllers, without `pillion`.
    command_lines: Vec<Vec<String>>,
    /// Why it is not known whether an administrator has installed these Deployments.
    unproven: Option<Trouble>,
}

/// A Deployment of Pillion and the place of its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    arguments: Vec<String>,
    namespace: String,
    account: String,
    config_map: String,
    key: String,
}

impl Installation {
    /// Looks for an installation. `None` if the cluster has none.
    ///
    /// # Errors
    /// See [`Unknown`]. A right that is missing is an error only if nothing is found without it.
    pub fn find(reader: &Reader) -> Result<Option<Self>, Unknown> {
        let label = format!("{PART_OF}={PILLION}");
        let (mut found, mut trouble) = (Self::default(), None);
        let mut or_empty = |list: Result<Option<Vec<Value>>, Trouble>| match list {
            Ok(list) => Ok(list.unwrap_or_default()),
            Err(forbidden @ Trouble::Forbidden { .. }) => {
                trouble.get_or_insert(forbidden);
                Ok(Vec::new())
            }
            Err(other) => Err(other),
        };
        let deployments = or_empty(reader.try_list(DEPLOYMENT, None, Some(&label)))?;
        let mut processes: Vec<Process> = deployments.iter().filter_map(Process::of_deployment).collect();
        if !processes.is_empty() {
            match reader.try_list(BINDING, None, Some(&label)) {
                Ok(bindings) => {
                    let bindings = bindings.unwrap_or_default();
                    let bound = accounts(&bindings);
                    processes.retain(|process| bound.contains(&(process.namespace.as_str(), process.account.as_str())));
                }
                Err(forbidden @ Trouble::Forbidden { .. }) => found.unproven = Some(forbidden),
                Err(other) => return Err(other.into()),
            }
        }
        for process in processes {
            let read = reader.try_get(CONFIG_MAP, Some(&process.namespace), &process.config_map);
            let config_map = or_empty(read.map(|found| Some(found.into_iter().collect())))?.pop();
            if let Some(part) = config_map.map(|config_map| process.with_settings(&config_map)).transpose()?.flatten() {
                found.add(part);
            }
        }
        let policies = or_empty(reader.try_list(POLICY, None, Some(&label)))?;
        for policy in settings::injecting(policies.iter().collect(), |policy| policy) {
            found.add(Part::of_policy(policy));
        }
        match trouble {
            _ if !found.admission.is_empty() || !found.controllers.is_empty() => Ok(Some(found)),
            Some(trouble) => Err(trouble.into()),
            None => Ok(None),
        }
    }

    fn add(&mut self, part: Part) {
        let is_controller = part.arguments.first().is_some_and(|command| command == "controller");
        if is_controller {
            self.command_lines.push(part.arguments.clone());
        }
        let parts = if is_controller { &mut self.controllers } else { &mut self.admission };
        if !parts.iter().any(|known| known.settings == part.settings) {
            parts.push(part);
        }
    }

    /// Returns the command lines of all controllers, without `pillion`.
    pub fn command_lines(&self) -> &[Vec<String>] {
        &self.command_lines
    }

    /// Returns the part whose settings decide on new Pods: the server or the policy, and the controllers if there is
    /// neither.
    ///
    /// # Errors
    /// [`Unknown::Several`] if there are several with different settings.
    pub fn of_admission(&self) -> Result<Option<&Part>, Unknown> {
        single(if self.admission.is_empty() { &self.controllers } else { &self.admission })
    }

    /// Returns the part whose settings the controllers have: the controllers, and the server or the policy if there are
    /// none. Of several, it is the one that rolls SidecarSets out.
    ///
    /// # Errors
    /// [`Unknown::Several`] if there are several with different settings.
    pub fn of_controllers(&self) -> Result<Option<&Part>, Unknown> {
        let rollouts: Vec<&Part> = self.controllers.iter().filter(|part| part.runs(ROLLOUT)).collect();
        match rollouts.as_slice() {
            [] if self.controllers.is_empty() => single(&self.admission),
            [] => single(&self.controllers),
            [one] => Ok(Some(*one)),
            several => Err(Unknown::Several(several.iter().map(|part| part.source.clone()).collect())),
        }
    }
}

/// Returns the port of the server's Pods that the API server calls. `None` if there is no server, or it may not be read.
pub fn port_of_server(reader: &Reader) -> Option<u64> {
    let label = format!("{PART_OF}={PILLION}");
    reader.try_list(DEPLOYMENT, None, Some(&label)).ok().flatten()?.iter().find_map(port)
}

/// Returns the port for webhooks of a Deployment: the one that its Service calls by name.
fn port(deployment: &Value) -> Option<u64> {
    let containers = json::items(deployment, &["spec", "template", "spec", "containers"]).iter();
    let mut ports = containers.flat_map(|container| json::items(container, &["ports"]));
    let https = ports.find(|port| json::text(port, &["name"]) == "https")?;
    json::at(https, &["containerPort"]).and_then(Value::as_u64)
}

/// Returns namespace and name of the ServiceAccounts that bindings are about.
fn accounts(bindings: &[Value]) -> BTreeSet<(&str, &str)> {
    let subjects = bindings.iter().flat_map(|binding| json::items(binding, &["subjects"]));
    let accounts = subjects.filter(|subject| json::text(subject, &["kind"]) == "ServiceAccount");
    accounts.map(|subject| (json::text(subject, &["namespace"]), json::text(subject, &["name"]))).collect()
}

fn single(parts: &[Part]) -> Result<Option<&Part>, Unknown> {
    match parts {
        [] => Ok(None),
        [part] => Ok(Some(part)),
        several => Err(Unknown::Several(several.iter().map(|part| part.source.clone()).collect())),
    }
}

impl Part {
    fn of_policy(policy: &Value) -> Self {
        Self {
            settings: json::at(policy, &["spec", "settings"]).cloned().unwrap_or_default(),
            source: format!("{} {}", POLICY.1, json::text(policy, &["metadata", "name"])),
            namespace: None,
            arguments: Vec::new(),
        }
    }

    /// Whether the process runs a controller. The option of the controllers is a list that may exclude names.
    fn runs(&self, controller: &str) -> bool {
        let list = self.arguments.iter().find_map(|argument| argument.strip_prefix("--controllers="));
        list.is_some_and(|list| list.split(',').any(|name| name == controller))
    }
}

impl Process {
    /// Returns the process of a Deployment; `None` if it mounts no settings.
    fn of_deployment(deployment: &Value) -> Option<Self> {
        const POD: [&str; 3] = ["spec", "template", "spec"];
        let pod = json::at(deployment, &POD)?;
        json::items(pod, &["containers"]).iter().find_map(|container| {
            let arguments = json::texts(container, &["args"]);
            let path = option(&arguments, SETTINGS)?;
            let (folder, key) = path.rsplit_once('/')?;
            let mounts = json::items(container, &["volumeMounts"]);
            let mount =
                mounts.iter().find(|mount| json::text(mount, &["mountPath"]).trim_end_matches('/') == folder)?;
            let volumes = json::items(pod, &["volumes"]);
            let is_mounted = |volume: &&Value| json::at(volume, &["name"]) == json::at(mount, &["name"]);
            let volume = volumes.iter().find(is_mounted)?;
            let config_map = Some(json::text(volume, &["configMap", "name"])).filter(|name| !name.is_empty())?;
            Some(Self {
                arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
                namespace: json::text(deployment, &["metadata", "namespace"]).to_owned(),
                account: json::text(pod, &["serviceAccountName"]).to_owned(),
                config_map: config_map.to_owned(),
                key: key.to_owned(),
            })
        })
    }

    /// Returns the process with the settings of its ConfigMap; `None` if that has none.
    fn with_settings(self, config_map: &Value) -> Result<Option<Part>, Unknown> {
        let source = format!("ConfigMap {}/{}", self.namespace, self.config_map);
        let Some(text) = json::at(config_map, &["data", &self.key]).and_then(Value::as_str) else { return Ok(None) };
        let settings = settings::of_text(&self.key, text.to_owned())
            .map_err(|error| Unknown::Unreadable { source_name: source.clone(), problem: format!("{error:#}") })?;
        Ok(Some(Part { settings, source, namespace: Some(self.namespace), arguments: self.arguments }))
    }
}

/// Returns the value of an option: `--name=value`, or the argument after `--name`.
fn option<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if let Some(rest) = argument.strip_prefix(name) {
            match rest.strip_prefix('=') {
                Some(value) => return Some(value),
                None if rest.is_empty() => return arguments.next().copied(),
                None => {}
            }
        }
    }
    None
}

/// The namespace of the stored revisions: that of the option, else that of the installation.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SystemNamespace {
    /// The namespace of the stored revisions [default: that of the settings, or of the installation in the cluster].
    #[arg(long, value_name = "NAME")]
    pub system_namespace: Option<String>,
}

impl SystemNamespace {
    /// Returns the namespace.
    ///
    /// # Errors
    /// Those of [`settings_of_controllers`].
    pub fn read(&self, reader: &Reader, terminal: &mut Terminal) -> anyhow::Result<String> {
        match &self.system_namespace {
            Some(given) => Ok(given.clone()),
            None => Ok(settings_of_controllers(reader, terminal)?.system_namespace),
        }
    }
}

/// Returns the settings that the controllers of the installation in the cluster have. Where there is none, they are the
/// defaults; where the user may not read it, too, with a note.
///
/// # Errors
/// If the cluster does not answer, or has several installations whose settings differ.
pub fn settings_of_controllers(reader: &Reader, terminal: &mut Terminal) -> anyhow::Result<Settings> {
    match decoded(reader) {
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(error @ Unknown::Several(_)) => {
            Err(anyhow!("{error}; --settings or --system-namespace says which ones count"))
        }
        Err(Unknown::Trouble(trouble)) if !matches!(trouble, Trouble::Forbidden { .. }) => Err(trouble.into()),
        Err(error) => {
            let default = Settings::default().system_namespace;
            writeln!(
                terminal.err(),
                "note: the settings of the installation are not known, so its system namespace is taken for {default}, the \
                 default; --system-namespace names another one: {error}"
            )?;
            Ok(Settings::default())
        }
    }
}

/// Returns the part of the installation in the cluster whose settings decide on new Pods, and says on `stderr` which
/// object has them. `None`, with a note, if nothing is installed, or if the user may not read it.
///
/// # Errors
/// If the cluster does not answer, or has several installations whose settings differ.
pub fn for_new_pods(reader: &Reader, terminal: &mut Terminal) -> anyhow::Result<Option<Part>> {
    let found = Installation::find(reader).and_then(|found| {
        let found = found.unwrap_or_default();
        Ok(found.of_admission()?.cloned())
    });
    let (found, said) = match found {
        Ok(Some(part)) => {
            let said = format!("settings: {}", part.source);
            (Some(part), said)
        }
        Ok(None) => (None, format!("note: Pillion is not installed in the cluster, so {DEFAULTS}")),
        Err(error @ Unknown::Several(_)) => return Err(anyhow!("{error}; --settings says which ones count")),
        Err(Unknown::Trouble(trouble)) if !matches!(trouble, Trouble::Forbidden { .. }) => return Err(trouble.into()),
        Err(error) => (None, format!("note: the settings of the installation are not known, so {DEFAULTS}: {error}")),
    };
    writeln!(terminal.err(), "{said}")?;
    Ok(found)
}

/// What counts without an installation.
const DEFAULTS: &str = "the default settings count; --settings gives others";

/// Returns the settings that the controllers of the installation in the cluster have; `None` if there is none.
///
/// # Errors
/// See [`Unknown`].
pub fn decoded(reader: &Reader) -> Result<Option<Settings>, Unknown> {
    let Some(found) = Installation::find(reader)? else { return Ok(None) };
    if let Some(trouble) = found.unproven {
        return Err(trouble.into());
    }
    let Some(part) = found.of_controllers()? else { return Ok(None) };
    let settings = Settings::decode(part.settings.clone());
    settings
        .map(Some)
        .map_err(|errors| Unknown::Unreadable { source_name: part.source.clone(), problem: joined(&errors) })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn deployment(arguments: &[&str], mount: &str) -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "ops"},
            "spec": {"template": {"spec": {
                "containers": [
                    {"name": "proxy"},
                    {"name": "pillion", "args": arguments, "volumeMounts": [
                        {"name": "tls", "mountPath": "/etc/tls"}, {"name": "s", "mountPath": mount},
                    ]},
                ],
                "volumes": [{"name": "tls", "secret": {"secretName": "t"}}, {"name": "s", "configMap": {"name": "a-settings"}}],
            }}},
        })
    }

    #[rstest]
    #[case::as_rendered(&["serve", "--settings=/etc/pillion/settings.yaml"], "/etc/pillion", Some("settings.yaml"))]
    #[case::apart(&["controller", "--settings", "/etc/pillion/own.yaml"], "/etc/pillion/", Some("own.yaml"))]
    #[case::without_settings(&["serve", "--settings-file=/etc/pillion/settings.yaml"], "/etc/pillion", None)]
    #[case::mounted_elsewhere(&["serve", "--settings=/etc/pillion/settings.yaml"], "/etc/other", None)]
    #[case::in_no_config_map(&["serve", "--settings=/etc/tls/settings.yaml"], "/etc/pillion", None)]
    #[case::another_program(&[], "/etc/pillion", None)]
    fn the_settings_of_a_process_are_those_that_it_mounts(
        #[case] arguments: &[&str],
        #[case] mount: &str,
        #[case] key: Option<&str>,
    ) {
        let process = Process::of_deployment(&deployment(arguments, mount));
        let place = process.as_ref().map(|it| (it.namespace.as_str(), it.config_map.as_str(), it.key.as_str()));
        assert_eq!(place, key.map(|key| ("ops", "a-settings", key)));
    }

    fn part(arguments: &[&str], system: &str) -> Part {
        Part {
            settings: json!({"systemNamespace": system}),
            source: format!("ConfigMap {system}/{}", arguments.first().unwrap_or(&"policy")),
            namespace: None,
            arguments: arguments.iter().map(ToString::to_string).collect(),
        }
    }

    const POLICY_ALONE: &[&str] = &[];
    const SERVE: &[&str] = &["serve"];
    const BUNDLE: &[&str] = &["controller", "--controllers=bundle"];
    const ROLLOUTS: &[&str] = &["controller", "--controllers=bundle,sidecarset-rollout"];

    #[rstest]
    #[case::nothing(&[], None, None)]
    #[case::a_server_alone(&[(SERVE, "a")], Some("a"), Some("a"))]
    #[case::a_policy_alone(&[(POLICY_ALONE, "a")], Some("a"), Some("a"))]
    #[case::controllers_alone(&[(BUNDLE, "a")], Some("a"), Some("a"))]
    #[case::both(&[(SERVE, "a"), (BUNDLE, "b")], Some("a"), Some("b"))]
    #[case::the_one_that_rolls_out(&[(BUNDLE, "a"), (ROLLOUTS, "b")], None, Some("b"))]
    #[case::twice_the_same(&[(SERVE, "a"), (SERVE, "a")], Some("a"), Some("a"))]
    #[case::twice_with_other_settings(&[(SERVE, "a"), (SERVE, "b"), (BUNDLE, "c")], None, Some("c"))]
    fn each_question_has_its_settings(
        #[case] parts: &[(&[&str], &str)],
        #[case] admission: Option<&str>,
        #[case] controllers: Option<&str>,
    ) {
        let mut found = Installation::default();
        for (arguments, system) in parts {
            found.add(part(arguments, system));
        }
        let system = |part: Result<Option<&Part>, Unknown>| {
            part.ok().flatten().map(|part| json::text(&part.settings, &["systemNamespace"]).to_owned())
        };
        assert_eq!(system(found.of_admission()).as_deref(), admission);
        assert_eq!(system(found.of_controllers()).as_deref(), controllers);
    }

    #[test]
    fn several_installations_are_named() {
        let mut found = Installation::default();
        found.add(part(SERVE, "a"));
        found.add(part(SERVE, "b"));
        assert_eq!(
            found.of_admission().unwrap_err().to_string(),
            "Pillion is installed more than once, with different settings: ConfigMap a/serve, ConfigMap b/serve"
        );
    }
}
