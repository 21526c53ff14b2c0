//! A client whose requests fail, or stop, where a test says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::{Method, Request};
use kube::client::{Body, ClientBuilder};
use kube::core::Status;
use kube::{Client, Config};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The API server answers with this code, and does nothing: 500, 409, 429, 504.
    Refused(u16),
    /// The API server does what it is asked for, but its answer does not arrive.
    AnswerLost,
    /// It stops before it is sent, until [`Faults::resume`]. Who drops the future that waits has killed its program there.
    StopBefore,
    /// The API server does what it is asked for, and the answer stops until [`Faults::resume`].
    StopAfter,
}

/// Requests of a client, numbered from 1, and what happens to one of them.
///
/// Counted is what a program does of its own accord: writes, and reads of what it names. Watches, the lists that they
/// begin with, and discovery are not.
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    stopped: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    planned: Option<(usize, Fault)>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::none()
    }
}

impl Faults {
    /// Everything goes well, and is counted.
    pub fn none() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), stopped: watch::Sender::new(false) }))
    }

    /// This happens to this request, and to no other.
    pub fn at(number: usize, fault: Fault) -> Self {
        let faults = Self::none();
        faults.plan(number, fault);
        faults
    }

    /// From now on, this happens to this request, and to no other.
    pub fn plan(&self, number: usize, fault: Fault) {
        self.state().planned = Some((number, fault));
    }

    /// The requests so far, as `PATCH /api/v1/namespaces/a/serviceaccounts/b?fieldManager=c`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.state().requests.len()
    }

    /// Waits until a request has stopped.
    pub async fn stopped(&self) {
        // It can only fail without a sender, which is here.
        let _ = self.0.stopped.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Lets the request go on that has stopped.
    pub fn resume(&self) {
        self.0.stopped.send_replace(false);
    }

    /// A client for this configuration, which sends nothing twice by itself.
    ///
    /// # Errors
    ///
    /// Where the configuration cannot be used.
    pub fn client(&self, mut config: Config) -> Result<Client, kube::Error> {
        config.default_retry = false;
        config.read_timeout = None;
        Ok(ClientBuilder::try_from(config)?.with_layer(self).build())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, and answers what is to happen to it.
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

/// The error that the API server would answer.
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

/// The service of such a client.
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
