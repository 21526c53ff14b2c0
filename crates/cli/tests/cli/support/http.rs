//! An HTTP server on a loopback address, for stand-ins of an API server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::Value;

/// The date in the server's answers.
const DATE: &str = "Fri, 02 Jan 2026 03:04:05 GMT";

/// Starts a server, which ends with the test. `answer` gets a request as `PATCH /path?query`, and its body, and returns
/// the status and the body of the answer. Returns the server's address.
pub fn start(answer: impl Fn(&str, &[u8]) -> (u16, Value) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = Arc::clone(&answer);
            std::thread::spawn(move || serve(&stream.unwrap(), &*answer));
        }
    });
    address
}

fn serve(stream: &TcpStream, answer: &impl Fn(&str, &[u8]) -> (u16, Value)) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let (mut header, mut length) = (String::new(), 0);
        while reader.read_line(&mut header).ok()? > 2 {
            let lower = header.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            header.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (code, answer) = answer(first.trim_end().trim_end_matches(" HTTP/1.1"), &body);
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {code} X\r\nDate: {DATE}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        (&*stream).write_all([head, answer].concat().as_bytes()).ok()?;
    }
}
