//! Free ports.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::Error;

/// Below the ports that systems assign to connections, so that a port is still free when its server restarts.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;
const TRIES: u8 = 50;

/// Returns a free port of 127.0.0.1. The port is random, so that clusters that start at the same time get different
/// ones, and a server that restarts finds its port free.
///
/// # Errors
///
/// If every port that was tried is taken.
pub fn free() -> Result<u16, Error> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for attempt in 0..TRIES {
        // The only source of randomness in the standard library: every `RandomState` has other keys.
        let drawn = RandomState::new().hash_one(attempt) % u64::from(COUNT);
        let port = FIRST + u16::try_from(drawn).unwrap_or_default();
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = error,
        }
    }
    Err(Error::Port(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_listened_on_and_is_not_one_of_those_for_connections() {
        let port = free().unwrap();

        assert!((20_000..30_000).contains(&port), "{port}");
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
