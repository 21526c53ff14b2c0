//! Connections on which a client can break the rules: bytes over TLS, and frames of HTTP/2.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use pillion_server::client::TlsServer;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The error code of a client that has lost interest.
const CANCEL: u32 = 8;
/// The length of a frame's header.
const HEAD: usize = 9;

/// Connects with TLS. `protocol` is `h2` or `http/1.1`.
pub(super) async fn connect(target: &TlsServer, protocol: &str) -> anyhow::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(Arc::clone(&target.roots))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(&target.address).await.context("connect")?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(target.name.clone())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.context("TLS")
}

/// Returns the start of an HTTP/2 connection.
pub(super) fn hello() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Returns the head of a POST request. `is_whole` says that no body follows.
pub(super) fn post(stream: u32, path: &str, is_whole: bool) -> Vec<u8> {
    // Fields of the static table (RFC 7541, appendix A): the method and the scheme whole, of the others the name.
    let mut block = vec![0x83, 0x87];
    for (name, value) in [(&[0x04][..], path), (&[0x01], "localhost"), (&[0x0f, 0x10], "application/json")] {
        block.extend_from_slice(name);
        block.push(u8::try_from(value.len()).unwrap_or_default());
        block.extend_from_slice(value.as_bytes());
    }
    frame(HEADERS, END_HEADERS | if is_whole { END_STREAM } else { 0 }, stream, &block)
}

/// Returns the reset of a stream.
pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(RESET, 0, stream, &CANCEL.to_be_bytes())
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    [length.get(1..).unwrap_or_default(), &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Frames that a server sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReceivedFrames {
    /// Heads of answers.
    pub(super) answers: u64,
    /// Whether it said that it closes the connection.
    pub(super) is_goodbye: bool,
}

/// Reads frames until the server closes the connection, or says nothing for this time.
pub(super) async fn read_frames(stream: &mut (impl AsyncRead + Unpin), patience: Duration) -> ReceivedFrames {
    let mut received = ReceivedFrames::default();
    while let Ok(Ok(kind)) = timeout(patience, next_frame(stream)).await {
        match kind {
            HEADERS => received.answers += 1,
            GOAWAY => received.is_goodbye = true,
            _ => {}
        }
    }
    received
}

/// Reads a frame, and returns its type.
async fn next_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<u8> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await?;
    let [high, middle, low, kind, ..] = head;
    let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, high, middle, low])).unwrap_or_default()];
    stream.read_exact(&mut payload).await?;
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_are_written_and_heard() {
        assert_eq!(reset(5), [0, 0, 4, 3, 0, 0, 0, 0, 5, 0, 0, 0, 8]);
        let frames = [post(1, "/mutate", true), reset(1), frame(GOAWAY, 0, 0, &[0; 8]), post(3, "/", false)].concat();
        let received = read_frames(&mut frames.as_slice(), Duration::from_secs(1)).await;
        assert_eq!(received, ReceivedFrames { answers: 2, is_goodbye: true });
    }
}
