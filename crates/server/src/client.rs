//! A client that calls an admission server as the API server does: HTTP/2 over one persistent connection, with many
//! concurrent requests. It is meant for load generation and tests.

use std::io;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The HTTP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/2, like kube-apiserver.
    Http2,
    /// HTTP/1.1: one request at a time.
    Http1,
    /// HTTP/2 or HTTP/1.1, as the server chooses in the TLS handshake.
    Negotiated,
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

const HTTP_1: &[u8] = b"http/1.1";
const HTTP_2: &[u8] = b"h2";

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

impl Sender {
    async fn http1(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, ClientError> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // If the connection fails, the pending request returns the error.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self::Http1(sender))
    }

    async fn http2(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, ClientError> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.timer(TokioTimer::new()).handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self::Http2(sender))
    }

    async fn exchange(&mut self, request: Request<Body>) -> Result<Response<Incoming>, ClientError> {
        Ok(match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }
}

async fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A POST request that is built once and sent repeatedly, over connections to the same server.
#[derive(Clone, Debug)]
pub struct Prepared {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
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
pub struct TlsServer {
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
    pub async fn connect(target: &TlsServer, protocol: Protocol) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect { address: target.address.clone(), error };
        let name = ServerName::try_from(target.name.clone()).map_err(|_| ClientError::Name(target.name.clone()))?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(Arc::clone(&target.roots))
            .with_no_client_auth();
        config.alpn_protocols = match protocol {
            Protocol::Http1 => vec![HTTP_1.to_vec()],
            Protocol::Http2 => vec![HTTP_2.to_vec()],
            Protocol::Negotiated => vec![HTTP_2.to_vec(), HTTP_1.to_vec()],
        };
        let stream = tcp(&target.address).await.map_err(failed)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(failed)?;
        let is_http2 = match protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Negotiated => stream.get_ref().1.alpn_protocol() == Some(HTTP_2),
        };
        let sender = if is_http2 { Sender::http2(stream).await? } else { Sender::http1(stream).await? };
        Ok(Self { sender, authority: target.address.clone() })
    }

    /// Connects without TLS, with HTTP/1.1. `address` is host and port. Must be called within a Tokio runtime, which
    /// must outlive the connection.
    ///
    /// # Errors
    /// [`ClientError`] if no server listens there.
    pub async fn connect_plain(address: &str) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connect { address: address.to_owned(), error };
        let stream = tcp(address).await.map_err(failed)?;
        Ok(Self { sender: Sender::http1(stream).await?, authority: address.to_owned() })
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
        let (uri, mut headers) = self.head(path)?;
        if !content_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).map_err(invalid)?);
        }
        let mut request = Request::builder().method(method).uri(uri).body(body)?;
        *request.headers_mut() = headers;
        let response = self.sender.exchange(request).await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, retry_after, body: body.into() })
    }

    /// Builds a POST request with JSON, for [`Client::repeat`].
    ///
    /// # Errors
    /// [`ClientError`] if the path is not valid.
    pub fn prepare(&self, path: &str, body: impl Into<Bytes>) -> Result<Prepared, ClientError> {
        let (uri, mut headers) = self.head(path)?;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Prepared { uri, headers, body: body.into() })
    }

    /// Sends a prepared request and returns the status. The body of the answer is received and thrown away.
    ///
    /// # Errors
    /// As for [`Client::post`].
    pub async fn repeat(&mut self, prepared: &Prepared) -> Result<u16, ClientError> {
        let mut request = Request::new(Body::from(prepared.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = prepared.uri.clone();
        *request.headers_mut() = prepared.headers.clone();
        let mut response = self.sender.exchange(request).await?;
        while let Some(frame) = response.body_mut().frame().await {
            frame?;
        }
        Ok(response.status().as_u16())
    }

    /// Returns the address and the headers of a request for this path, which the protocols write differently.
    fn head(&self, path: &str) -> Result<(Uri, HeaderMap), ClientError> {
        let mut headers = HeaderMap::new();
        let uri = match self.sender {
            Sender::Http1(_) => {
                headers.insert(header::HOST, HeaderValue::from_str(&self.authority).map_err(invalid)?);
                path.parse()
            }
            Sender::Http2(_) => format!("https://{}{path}", self.authority).parse(),
        };
        Ok((uri.map_err(invalid)?, headers))
    }
}

fn invalid(error: impl Into<axum::http::Error>) -> ClientError {
    ClientError::Request(error.into())
}

#[cfg(test)]
mod tests {
    use pillion_certificates::TemporaryAuthority;
    use rstest::rstest;
    use rustls::ServerConfig;
    use rustls::sign::SingleCertAndKey;
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// Answers each HTTP/1.1 request with the length of its body in bytes, until the client closes the connection.
    async fn echo(stream: impl AsyncRead + AsyncWrite + Unpin) {
        let mut stream = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                let text = length.to_string();
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            line.clear();
        }
    }

    /// Starts a TLS server that agrees to these protocols, and returns how to reach it.
    async fn secured(protocols: &[&[u8]]) -> TlsServer {
        let authority = TemporaryAuthority::new().unwrap();
        let key = SingleCertAndKey::from(authority.certificate(&["localhost"]).unwrap());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(key));
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            echo(TlsAcceptor::from(Arc::new(config)).accept(stream).await.unwrap()).await;
        });
        TlsServer { address, name: "localhost".to_owned(), roots: authority.roots().unwrap() }
    }

    #[rstest]
    #[case::both(&[HTTP_2, HTTP_1], true)]
    #[case::both_but_it_prefers_the_old_one(&[HTTP_1, HTTP_2], false)]
    #[case::the_old_one(&[HTTP_1], false)]
    #[case::no_negotiation(&[], false)]
    #[tokio::test]
    async fn the_server_decides_on_the_protocol(#[case] protocols: &[&[u8]], #[case] is_http2: bool) {
        let mut client = Client::connect(&secured(protocols).await, Protocol::Negotiated).await.unwrap();
        assert_eq!(client.share().is_some(), is_http2);
        if !is_http2 {
            assert_eq!(client.post("/", "four").await.unwrap().body, b"4");
        }
    }

    #[tokio::test]
    async fn a_prepared_request_is_sent_repeatedly_without_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = tokio::spawn(async move { echo(listener.accept().await.unwrap().0).await });
        let mut client = Client::connect_plain(&address).await.unwrap();
        let prepared = client.prepare("/mutate", "body").unwrap();
        for _ in 0..3 {
            assert_eq!(client.repeat(&prepared).await.unwrap(), 200);
        }
        assert_eq!(client.post("/", "12345").await.unwrap().body, b"5");
        assert!(client.prepare("no path", "").is_err());
        drop(client);
        served.await.unwrap();
    }
}
