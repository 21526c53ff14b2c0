//! Writes objects of a cluster, and what the writing commands read before. Every request has time limits.

use std::time::Duration;

use anyhow::Context as _;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pillion_kubernetes::json;
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::sidecar_set::version::Version;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::Kubeconfig;
use super::kind::Kind;
use super::reader::{CONNECT, SILENCE};
use super::trouble::Trouble;

/// The most objects in one answer to a list.
const PAGE: u32 = 500;
/// How long to wait before an eviction is tried again if the API server does not say it.
const LATER: Duration = Duration::from_secs(5);
/// The versions of SidecarSets, the newest first.
const VERSIONS: [Version; 2] = [Version::V1Beta1, Version::V1Alpha1];

/// Why an object was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object is not there.
    #[error("{0} does not exist in the cluster")]
    Missing(String),
    /// The object has changed since it was read.
    #[error("{0} was changed at the same time, so nothing was written; run the command again")]
    Changed(String),
    /// Admission, or a rule of the API server, refuses the object.
    #[error("the cluster refuses to change {object}: {message}")]
    Ruled {
        /// The object, as in `SidecarSet log-agent`.
        object: String,
        /// The message of the API server.
        message: String,
    },
    /// The request failed.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

/// The answer to an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// The Pod goes, in its own time.
    Yes,
    /// The Pod is gone already, or another one has its name.
    Gone,
    /// A PodDisruptionBudget does not allow it now (429).
    Held {
        /// What the API server says.
        message: String,
        /// How long to wait.
        again: Duration,
    },
    /// The API server cannot evict the Pod (500): more than one PodDisruptionBudget selects it.
    Impossible(String),
}

/// Writes to a cluster as one field manager.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    manager: String,
}

impl Writer {
    /// Returns an event loop, and a writer for the chosen cluster. Sends no request.
    ///
    /// # Errors
    /// If there is no such cluster, or its configuration is not usable.
    pub fn new(kubeconfig: &Kubeconfig, manager: &str) -> anyhow::Result<(Runtime, Self)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
        let mut config = runtime.block_on(kubeconfig.config())?;
        config.connect_timeout = Some(CONNECT);
        config.read_timeout = Some(SILENCE);
        config.write_timeout = Some(SILENCE);
        // By default, the client retries for minutes when an API server answers 429, 503 or 504.
        config.default_retry = false;
        // The client spawns a task, which needs the event loop.
        let entered = runtime.enter();
        let client = Client::try_from(config).context("the cluster cannot be asked")?;
        drop(entered);
        Ok((runtime, Self { client, manager: manager.to_owned() }))
    }

    /// Returns a SidecarSet in the newest version that the cluster serves, with its managed fields.
    ///
    /// # Errors
    /// It does not exist, it cannot be read, or the cluster does not serve SidecarSets.
    pub async fn sidecar_set(&self, name: &str) -> Result<Value, WriteError> {
        for version in VERSIONS {
            if let Some(found) = self.get(Kind(version.api_version(), "SidecarSet"), None, name).await? {
                return Ok(found);
            }
        }
        if self.has_no_definition().await {
            return Err(Trouble::NoDefinition.into());
        }
        Err(WriteError::Missing(format!("SidecarSet {name}")))
    }

    /// Whether the cluster does not serve SidecarSets. Without the right to list them, that is not known.
    async fn has_no_definition(&self) -> bool {
        for version in VERSIONS {
            let list = self.list(Kind(version.api_version(), "SidecarSet"), None, "").await;
            if !matches!(list, Ok(None)) {
                return false;
            }
        }
        true
    }

    /// Returns an object; `None` if it does not exist.
    ///
    /// # Errors
    /// The cluster does not answer, or does not allow the request.
    pub async fn get(&self, kind: Kind<'_>, namespace: Option<&str>, name: &str) -> Result<Option<Value>, Trouble> {
        let request = kube::core::Request::new(self.api(kind, namespace).resource_url());
        let failed = |error: kube::Error| Trouble::from_kube(&error, "get", object(kind, namespace, name), kind);
        let request = request.get(name, &kube::api::GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns all objects of a kind, page by page; `None` if the API server does not serve the kind. `labels` is a
    /// selector in the syntax of `kubectl get --selector`; `""` selects all.
    ///
    /// # Errors
    /// The cluster does not answer, or does not allow the request.
    pub async fn list(
        &self,
        kind: Kind<'_>,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Option<Vec<Value>>, Trouble> {
        let failed = |error: &kube::Error| Trouble::from_kube(error, "list", format!("{}s", kind.1), kind);
        let mut items = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        if !labels.is_empty() {
            params = params.labels(labels);
        }
        loop {
            let request = kube::core::Request::new(self.api(kind, namespace).resource_url());
            let request = request.list(&params).map_err(|error| failed(&kube::Error::BuildRequest(error)))?;
            let mut page = match self.client.request::<Value>(request).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
                Err(error) => return Err(failed(&error)),
            };
            if let Some(Value::Array(page)) = page.get_mut("items").map(Value::take) {
                items.extend(page);
            }
            match json::text(&page, &["metadata", "continue"]) {
                "" => return Ok(Some(items)),
                token => params = params.continue_token(token),
            }
        }
    }

    /// Changes an object with a JSON Patch, and returns it as it is then. With `dry_run`, the object is validated and
    /// admitted, but not stored.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch(&self, kind: Kind<'_>, name: &str, patch: &[Value], dry_run: bool) -> Result<Value, WriteError> {
        let named = || object(kind, None, name);
        let operations = serde_json::from_value(Value::Array(patch.to_vec()));
        let operations =
            operations.map_err(|error| Trouble::from_kube(&kube::Error::SerdeError(error), "patch", named(), kind))?;
        let params = PatchParams { dry_run, field_manager: Some(self.manager.clone()), ..PatchParams::default() };
        let request = kube::core::Request::new(self.api(kind, None).resource_url());
        let request = request.patch(name, &params, &Patch::<Value>::Json(operations));
        let request =
            request.map_err(|error| Trouble::from_kube(&kube::Error::BuildRequest(error), "patch", named(), kind))?;
        self.client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status) => match status.code {
                404 => WriteError::Missing(named()),
                409 => WriteError::Changed(named()),
                // A failed `test` has no cause; an invalid object has one for each field.
                422 if status.details.as_ref().is_none_or(|details| details.causes.is_empty())
                    && !is_of_admission(&status.message) =>
                {
                    WriteError::Changed(named())
                }
                400 | 422 => WriteError::Ruled { object: named(), message: status.message.clone() },
                _ if is_of_admission(&status.message) => {
                    WriteError::Ruled { object: named(), message: status.message.clone() }
                }
                _ => Trouble::from_kube(&kube::Error::Api(status), "patch", named(), kind).into(),
            },
            error => Trouble::from_kube(&error, "patch", named(), kind).into(),
        })
    }

    /// Returns a new object as the API server would store it. It is validated and admitted, but not stored.
    ///
    /// # Errors
    /// See [`WriteError`]. It is [`WriteError::Ruled`], too, if a webhook does not answer, or the ServiceAccount of a Pod
    /// does not exist yet.
    pub async fn dry_run(&self, kind: Kind<'_>, namespace: &str, new: &Value) -> Result<Value, WriteError> {
        let named = || format!("a {} in namespace {namespace}", kind.1);
        let params = PostParams { dry_run: true, field_manager: Some(self.manager.clone()) };
        let request = kube::core::Request::new(self.api(kind, Some(namespace)).resource_url());
        let request = request.create(&params, new.to_string().into_bytes());
        let request =
            request.map_err(|error| Trouble::from_kube(&kube::Error::BuildRequest(error), "create", named(), kind))?;
        self.client.request::<Value>(request).await.map_err(|error| match error {
            kube::Error::Api(status)
                if is_of_admission(&status.message)
                    || status.message.contains("failed calling webhook")
                    || status.message.contains("error looking up service account") =>
            {
                WriteError::Ruled { object: named(), message: status.message.clone() }
            }
            error => Trouble::from_kube(&error, "create", named(), kind).into(),
        })
    }

    /// Deletes an object. Returns whether it existed.
    ///
    /// # Errors
    /// The cluster does not answer, or does not allow the request.
    pub async fn delete(&self, kind: Kind<'_>, namespace: &str, name: &str) -> Result<bool, Trouble> {
        let failed =
            |error: &kube::Error| Trouble::from_kube(error, "delete", object(kind, Some(namespace), name), kind);
        let request = kube::core::Request::new(self.api(kind, Some(namespace)).resource_url());
        let request = request.delete(name, &DeleteParams::background());
        let request = request.map_err(|error| failed(&kube::Error::BuildRequest(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Evicts a Pod, if it still has this uid.
    ///
    /// # Errors
    /// The cluster does not answer, does not allow the request, or refuses it for another reason than those of
    /// [`Evicted`].
    pub async fn evict(&self, namespace: &str, name: &str, uid: &str, dry_run: bool) -> Result<Evicted, Trouble> {
        const POD: Kind<'_> = Kind("v1", "Pod");
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let params = PostParams { dry_run, field_manager: Some(self.manager.clone()) };
        let request = kube::core::Request::new(self.api(POD, Some(namespace)).resource_url());
        let body = eviction.to_string().into_bytes();
        let failed = |error: kube::Error| {
            Trouble::of_eviction(&error, format!("the eviction of {}", object(POD, Some(namespace), name)))
        };
        let request = request.create_subresource("eviction", name, &params, body);
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(Evicted::Yes),
            Err(kube::Error::Api(status)) => match status.code {
                404 | 409 => Ok(Evicted::Gone),
                429 => Ok(Evicted::Held { again: again(&status), message: message(&status) }),
                500 if status.message.contains("PodDisruptionBudget") => {
                    Ok(Evicted::Impossible(status.message.clone()))
                }
                _ => Err(failed(kube::Error::Api(status))),
            },
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the time of the API server's clock. Another clock may differ, and the times of objects are of this one.
    ///
    /// # Errors
    /// The cluster does not answer, or its answer has no time.
    pub async fn now(&self) -> anyhow::Result<Timestamp> {
        let request = http::Request::get("/version").body(kube::client::Body::empty()).context("a request")?;
        let unreachable = |error: kube::Error| Trouble::unreachable(&error);
        let answer = self.client.send(request).await.map_err(unreachable)?;
        let date = answer.headers().get(http::header::DATE).context("the cluster's answer has no time")?;
        let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date.as_bytes());
        Ok(Timestamp(time.context("the cluster's answer has no time")?.as_second()))
    }

    fn api(&self, kind: Kind<'_>, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.api()),
            None => Api::all_with(self.client.clone(), &kind.api()),
        }
    }
}

/// Whether a message is that of a webhook or a `ValidatingAdmissionPolicy`, and not of the API server's authorization.
fn is_of_admission(message: &str) -> bool {
    message.contains("admission webhook") || message.contains("ValidatingAdmissionPolicy")
}

fn object(kind: Kind<'_>, namespace: Option<&str>, name: &str) -> String {
    let place = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {place}{name}", kind.1)
}

fn again(status: &kube::core::Status) -> Duration {
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    seconds.map_or(LATER, |seconds| Duration::from_secs(seconds.into()))
}

/// Returns what the API server says about a budget: the cause names it.
fn message(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<&str> = causes.map(|cause| cause.message.as_str()).filter(|text| !text.is_empty()).collect();
    if causes.is_empty() { status.message.clone() } else { causes.join("; ") }
}
