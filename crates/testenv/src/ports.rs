//! Free ports.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use parking_lot::Mutex;

use crate::Error;

/// Below the ports that systems assign to connections, so that a port is still free when its server restarts.
const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;
const TRIES: u8 = 50;

/// The ports that this process has given out, as UDP sockets of the same numbers, which no server of the tests needs.
/// The system closes them when the process ends, however it ends.
static GIVEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Returns a free TCP port of 127.0.0.1, which no other call returns in any process while this one runs. So two servers
/// that start at the same time get different ports, and a server that restarts finds its port free.
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
        match claim(port) {
            Ok(claim) => {
                GIVEN.lock().push(claim);
                return Ok(port);
            }
            Err(error) => last = error,
        }
    }
    Err(Error::Port(last))
}

/// Takes a port for this process, unless another process has taken it or a server listens on it.
fn claim(port: u16) -> io::Result<UdpSocket> {
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    Ok(claim)
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

    #[test]
    fn a_port_is_given_out_once_also_while_nobody_listens_on_it() {
        let port = free().unwrap();

        let error = claim(port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_is_not_given_out_while_somebody_listens_on_it() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = server.local_addr().unwrap().port();

        assert_eq!(claim(port).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
