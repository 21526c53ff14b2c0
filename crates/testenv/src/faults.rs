//! A client whose requests fail or stop at a point that a test chooses.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::core::Status;
use kube::{Client, Config};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The API server answers with this code and does nothing: 500, 409, 429, 504.
    Refused(u16),
    /// The API server performs the request, but its answer is lost.
    AnswerLost,
    /// The request stops before it is sent, until [`Faults::resume`]. Dropping the waiting future simulates a program
    /// killed at this point.
    StopBefore,
    /// The API server performs the request, and the answer stops until [`Faults::resume`].
    StopAfter,
}

/// Counts the requests of a client from 1, and applies a fault to one of them.
///
/// Only requests that a program makes on its own count: writes, and reads of named objects. Watches, their initial
/// lists, and discovery do not count.
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

struct Shared {
    state: Mutex<FaultsState>,
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct FaultsState {
    requests: Vec<String>,
    planned: Option<(usize, Fault)>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

impl Faults {
    /// Counts requests without any fault.
    pub fn none() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), stopped: watch::Sender::new(false) }))
    }

    /// Applies this fault only to the request with this number.
    pub fn at(number: usize, fault: Fault) -> Self {
        let faults = Self::none();
        faults.plan(number, fault);
        faults
    }

    /// From now on, applies this fault only to the request with this number.
    pub fn plan(&self, number: usize, fault: Fault) {
        self.state().planned = Some((number, fault));
    }

    /// Returns the requests so far, as `PATCH /api/v1/namespaces/a/serviceaccounts/b?fieldManager=c`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.state().requests.len()
    }

    /// Waits until a request has stopped.
    pub async fn stopped(&self) {
        // This only fails without a sender, which `self` holds.
        let _ = self.0.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Resumes the stopped request.
    pub fn resume(&self) {
        self.0.stopped.send_replace(false);
    }

    /// Returns a client for this configuration that does not retry.
    ///
    /// # Errors
    ///
    /// If the configuration is not usable.
    pub fn client(&self, mut config: Config) -> Result<Client, kube::Error> {
        config.default_retry = false;
        config.read_timeout = None;
        Ok(ClientBuilder::try_from(config)?.with_layer(self).build())
    }

    fn state(&self) -> MutexGuard<'_, FaultsState> {
        self.0.state.lock()
    }

    /// Counts a request, and returns its fault.
    fn next(&self, request: &Request<Body>) -> Option<Fault> {
        let (method, target) = (request.method(), request.uri().path_and_query().map_or("", |target| target.as_str()));
        if !is_counted(method, target) {
            return None;
        }
        let mut state = self.state();
        state.requests.push(format!("{method} {target}"));
        let number = state.requests.len();
        state.planned.filter(|(planned, _)| *planned == number).map(|(_, fault)| fault)
    }

    async fn stop(&self) {
        self.0.stopped.send_replace(true);
        let _ = self.0.stopped.subscribe().wait_for(|stopped| !*stopped).await;
    }
}

fn is_counted(method: &Method, target: &str) -> bool {
    if method != Method::GET {
        return true;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let has = |name: &str| query.split('&').any(|part| part.split('=').next() == Some(name));
    let is_discovery = path.split('/').count() <= if path.starts_with("/apis/") { 4 } else { 3 };
    !has("watch") && !is_discovery && (!has("limit") || has("fieldSelector"))
}

/// Returns the error that the API server would answer.
fn refusal(code: u16) -> kube::Error {
    let (message, reason) = match code {
        409 => {
            ("the object has been modified; please apply your changes to the latest version and try again", "Conflict")
        }
        429 => ("too many requests, please try again later", "TooManyRequests"),
        504 => ("the request did not complete within the allotted time", "Timeout"),
        _ => ("an error on the server has prevented the request from succeeding", "InternalError"),
    };
    kube::Error::Api(Box::new(Status::failure(message, reason).with_code(code)))
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Faulty { inner, faults: self.clone() }
    }
}

/// The service of a client with faults.
#[derive(Clone)]
pub struct Faulty<S> {
    inner: S,
    faults: Faults,
}

impl<S> Service<Request<Body>> for Faulty<S>
where
    S: Service<Request<Body>, Error = BoxError> + Send,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = self.faults.next(&request);
        if let Some(Fault::Refused(code)) = fault {
            return Box::pin(async move { Err(refusal(code).into()) });
        }
        let (answer, faults) = (self.inner.call(request), self.faults.clone());
        Box::pin(async move {
            if fault == Some(Fault::StopBefore) {
                faults.stop().await;
            }
            let answer = answer.await;
            match fault {
                Some(Fault::StopAfter) => faults.stop().await,
                Some(Fault::AnswerLost) => return Err("the connection was closed before the answer".into()),
                _ => {}
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_does_of_its_own_accord_is_counted() {
        let counted = |target: &str| is_counted(&Method::GET, target);
        assert!(is_counted(&Method::POST, "/api/v1/namespaces/a/serviceaccounts?"));
        assert!(counted("/api/v1/namespaces/a/serviceaccounts/b"));
        assert!(counted("/api/v1/namespaces/a/pods?limit=1&fieldSelector=spec.serviceAccountName%3Db"));
        assert!(!counted("/api/v1/pods?watch=true&resourceVersion=1"));
        assert!(!counted("/api/v1/pods?limit=500"));
        assert!(!counted("/api/v1"));
        assert!(!counted("/apis/apps.kruise.io/v1alpha1"));
        assert!(counted("/apis/apps.kruise.io/v1alpha1/sidecarsets/a"));
    }

    #[tokio::test]
    async fn one_request_stops_until_it_is_resumed() {
        let faults = Faults::at(2, Fault::StopBefore);
        let mut client = faults.layer(tower::service_fn(async |_: Request<Body>| Ok::<_, BoxError>(())));
        let request = || Request::post("/api/v1/namespaces").body(Body::empty()).unwrap();
        client.call(request()).await.unwrap();
        let second = tokio::spawn(client.call(request()));
        faults.stopped().await;
        assert!(!second.is_finished());
        faults.resume();
        second.await.unwrap().unwrap();
        client.call(request()).await.unwrap();
        assert_eq!(faults.requests(), ["POST /api/v1/namespaces"; 3]);
    }

    #[tokio::test]
    async fn a_refused_request_does_not_reach_the_api_server() {
        let faults = Faults::at(1, Fault::Refused(409));
        let mut client = faults.layer(tower::service_fn(async |_: Request<Body>| Ok::<_, BoxError>(())));
        let request = || Request::post("/api/v1/namespaces").body(Body::empty()).unwrap();
        let error = client.call(request()).await.unwrap_err().downcast::<kube::Error>().unwrap();
        assert!(matches!(&*error, kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict"));
        client.call(request()).await.unwrap();
    }
}
