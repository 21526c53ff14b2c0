//! Connections of the API server to a Service reach a port of this machine, or a Pod of a real node. A node's proxy does
//! this in a real cluster. The API server sends such connections through an HTTP proxy (its egress selection
//! `cluster`), which is this module. It sends those to kubelets there, too.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;

use crate::identity::Identity;
use crate::{Error, endpoints};

/// The socket of the proxy, in the folder in which all servers run.
const SOCKET: &str = "services.sock";
/// How long a connection waits for a program that is just starting again.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
/// The most that the head of a request may have, in bytes.
const HEAD: usize = 4096;

/// The address of a Service, with its port, as in `10.96.0.7:443`, and the port of this machine that answers for it.
pub type Routes = BTreeMap<String, u16>;

/// Returns the API server's configuration for connections into the cluster.
pub(crate) fn configuration() -> String {
    let connection = json!({"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": SOCKET}}});
    let configuration = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
        "egressSelections": [{"name": "cluster", "connection": connection}],
    });
    configuration.to_string()
}

/// The proxy. It ends when it is dropped; connections that it has made end with their programs.
pub(crate) struct Proxy {
    socket: PathBuf,
    routes: Arc<Mutex<Routes>>,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts the proxy of a cluster in this folder, without any route. With an administrator's identity, a Service
    /// without a route leads to its Pods.
    pub(crate) fn start(folder: &Path, admin: Option<Identity>) -> Result<Self, Error> {
        let socket = folder.join(SOCKET);
        let listener = UnixListener::bind(&socket).map_err(Error::file(&socket))?;
        let (routes, is_over) = (Arc::<Mutex<Routes>>::default(), Arc::<AtomicBool>::default());
        let (known, over) = (Destinations { routes: Arc::clone(&routes), admin }, Arc::clone(&is_over));
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let known = known.clone();
                // A connection that breaks is the API server's to repeat.
                thread::spawn(move || drop(connect(connection, &known)));
            }
        });
        Ok(Self { socket, routes, is_over })
    }

    /// Replaces all routes.
    pub(crate) fn route(&self, routes: Routes) {
        *self.routes.lock() = routes;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The listener looks at the flag with the next connection.
        drop(UnixStream::connect(&self.socket));
        drop(fs::remove_file(&self.socket));
    }
}

/// What the proxy knows of the addresses that it is asked for.
#[derive(Clone)]
struct Destinations {
    routes: Arc<Mutex<Routes>>,
    admin: Option<Identity>,
}

impl Destinations {
    /// Returns the address of this machine that answers for another one.
    fn find(&self, address: &str) -> Option<SocketAddr> {
        if let Some(port) = self.routes.lock().get(address) {
            return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
        }
        // A kubelet, or a Pod.
        let itself = address.parse().ok().filter(|address: &SocketAddr| address.ip().is_loopback());
        itself.or_else(|| {
            let admin = self.admin.as_ref()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async { endpoints::find(&admin.client().await.ok()?, address).await })
        })
    }
}

/// Answers one request `CONNECT ADDRESS`, and then carries bytes in both directions until both sides have ended.
fn connect(mut client: UnixStream, destinations: &Destinations) -> io::Result<()> {
    let head = head(&mut client)?;
    let address = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    let Some(server) = reach(address, destinations) else {
        return client.write_all(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let there = thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let mut from_server = server;
    let _ = io::copy(&mut from_server, &mut client);
    let _ = client.shutdown(Shutdown::Write);
    let _ = there.join();
    Ok(())
}

/// Reads the head of a request.
fn head(client: &mut UnixStream) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD && client.read(&mut byte)? == 1 {
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Connects to the program behind an address. It may just be starting.
fn reach(address: &str, destinations: &Destinations) -> Option<TcpStream> {
    let started = Instant::now();
    loop {
        let local = destinations.find(address);
        if let Some(stream) = local.and_then(|local| TcpStream::connect(local).ok()) {
            return Some(stream);
        }
        if started.elapsed() > PATIENCE {
            return None;
        }
        thread::sleep(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Sends a request through the proxy, and then a text. Returns what comes back.
    fn ask(folder: &Path, address: &str, text: &str) -> String {
        let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
        write!(stream, "CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let answer = head(&mut stream).unwrap();
        let _ = stream.write_all(text.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        answer.lines().next().unwrap_or_default().to_owned() + "|" + &rest
    }

    #[test]
    fn a_routed_service_answers_and_another_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(folder.path(), None).unwrap();
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        proxy.route(Routes::from([("10.96.0.7:443".to_owned(), server.local_addr().unwrap().port())]));
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            stream.write_all(text.to_uppercase().as_bytes()).unwrap();
        });

        assert_eq!(ask(folder.path(), "10.96.0.7:443", "hello"), "HTTP/1.1 200 OK|HELLO");
        echo.join().unwrap();
        assert_eq!(ask(folder.path(), "10.96.0.8:443", ""), "HTTP/1.1 503 Service Unavailable|");
    }
}
