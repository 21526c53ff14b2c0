//! A client that calls an admission server as the API server does: HTTP/2 over one persistent connection, with many
//! concurrent requests. It is meant for load generation and tests.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, like kube-apiserver.
    Http2,
    /// HTTP/1.1: one request at a time.
    Http1,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server listens there, or TLS fails, for example because of a wrong certificate.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        error: io::Error,
    },
    /// The connection broke, or the answer is not HTTP.
    #[error("no answer: {0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be built.
    #[error("no request: {0}")]
    Request(#[from] axum::http::Error),
    /// The name is not a valid server name.
    #[error("invalid server name {0:?}")]
    Name(String),
    /// TLS cannot be set up.
    #[error("no TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    sender: Sender,
    authority: String,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The body.
    pub body: Vec<u8>,
}

/// How to reach a server.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host and port, `127.0.0.1:8443`.
    pub address: String,
    /// The server name that the certificate must be valid for.
    pub name: String,
    /// Root certificates to trust.
    pub roots: Arc<RootCertStore>,
}

impl Client {
    /// Connects. Must be called within a Tokio runtime, which must outlive the connection.
    ///
    /// # Errors
    /// [`ClientError`] if no server listens there, or its certificate is not valid for the name.
    pub async fn connect(target: &Target, protocol: Protocol) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect { address: target.address.clone(), error };
        let name = ServerName::try_from(target.name.clone()).map_err(|_| ClientError::Name(target.name.clone()))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&target.roots))
            .with_no_client_auth();
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        let stream = TcpStream::connect(&target.address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(failed)?;
        let io = TokioIo::new(stream);
        let sender = match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await?;
                // If the connection fails, the pending request returns the error.
                tokio::spawn(async move { drop(connection.await) });
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                let (sender, connection) = builder.timer(TokioTimer::new()).handshake(io).await?;
                tokio::spawn(async move { drop(connection.await) });
                Sender::Http2(sender)
            }
        };
        Ok(Self { sender, authority: target.address.clone() })
    }

    /// Returns another handle of the same connection; `None` for HTTP/1.1, which serves one request at a time.
    pub fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { sender: Sender::Http2(sender.clone()), authority: self.authority.clone() })
            }
        }
    }

    /// Sends JSON in a POST request.
    ///
    /// # Errors
    /// [`ClientError`] if there is no answer. Any HTTP status counts as an answer.
    pub async fn post(&mut self, path: &str, body: impl Into<Body>) -> Result<Answer, ClientError> {
        self.send(Method::POST, path, "application/json", body.into()).await
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// As for [`Client::post`].
    pub async fn get(&mut self, path: &str) -> Result<Answer, ClientError> {
        self.send(Method::GET, path, "", Body::empty()).await
    }

    /// Sends a request with this method, content type and body.
    ///
    /// # Errors
    /// As for [`Client::post`].
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Body,
    ) -> Result<Answer, ClientError> {
        let mut request = Request::builder().method(method);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                let request = request.uri(path).header(header::HOST, &self.authority).body(body)?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                let request = request.uri(format!("https://{}{path}", self.authority)).body(body)?;
                sender.send_request(request).await?
            }
        };
        let status: StatusCode = response.status();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status: status.as_u16(), retry_after, body: body.into() })
    }
}
