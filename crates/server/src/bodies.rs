//! Receives the bodies of requests, with a bound on the memory of all of them.
//!
//! A request takes a place before its body is read, so that the number of bodies is bounded. A client that sends its
//! body slowly, or never, must not keep others out: if no place or no memory is left, the request whose body has been
//! arriving for the longest time gives way. Requests whose bodies are complete keep their places.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use http_body_util::BodyExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::gate::{AdmittedRequest, Gate};
use crate::line::{Line, Member};

/// Why a body was not received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReceived {
    /// The body is longer than the limit.
    TooLarge,
    /// The client ended the body early.
    Incomplete,
    /// No place or no memory is left, and every other request has its body.
    NoRoom,
    /// The body arrived too slowly while other requests came.
    Displaced,
}

/// The bodies of all requests.
pub(crate) struct Bodies {
    arriving: Arc<Line<Arriving>>,
    memory: Arc<Semaphore>,
}

/// What a request holds while its body arrives.
struct Arriving {
    place: AdmittedRequest,
    memory: Option<OwnedSemaphorePermit>,
}

/// A complete body.
pub(crate) struct Complete {
    bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Deref for Complete {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Bodies {
    /// Allows this number of bytes for all bodies together.
    pub(crate) fn new(memory: usize) -> Self {
        Self { arriving: Arc::default(), memory: Arc::new(Semaphore::new(memory.min(Semaphore::MAX_PERMITS))) }
    }

    /// Waits for a body of at most `limit` bytes. Also returns the place of its request.
    ///
    /// # Errors
    /// [`NotReceived`]. A body that declares a greater length is refused before it is read.
    pub(crate) async fn receive(
        &self,
        gate: &Gate,
        body: &mut Body,
        limit: usize,
    ) -> Result<(Complete, AdmittedRequest), NotReceived> {
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(NotReceived::TooLarge);
        }
        let displace = || self.arriving.displace_oldest().map(|oldest| oldest.place);
        let place = gate.enter().or_else(displace).ok_or(NotReceived::NoRoom)?;
        let (member, displaced) = self.arriving.join(Arriving { place, memory: None });
        let bytes = tokio::select! {
            bytes = self.read(body, &member, declared, limit) => bytes?,
            Ok(()) = displaced => return Err(NotReceived::Displaced),
        };
        let Arriving { place, memory } = member.leave().ok_or(NotReceived::Displaced)?;
        Ok((Complete { bytes, _memory: memory }, place))
    }

    async fn read(
        &self,
        body: &mut Body,
        member: &Member<Arriving>,
        declared: usize,
        limit: usize,
    ) -> Result<Vec<u8>, NotReceived> {
        let mut bytes = Vec::with_capacity(declared);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| NotReceived::Incomplete)?;
            let Some(data) = frame.data_ref() else { continue };
            if data.len() > limit.saturating_sub(bytes.len()) {
                return Err(NotReceived::TooLarge);
            }
            self.take_memory(member, data.len())?;
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    /// Takes memory for a part of a body. If none is left, the oldest request whose body is arriving gives way.
    fn take_memory(&self, member: &Member<Arriving>, length: usize) -> Result<(), NotReceived> {
        let length = u32::try_from(length).map_err(|_| NotReceived::TooLarge)?;
        let take = || Arc::clone(&self.memory).try_acquire_many_owned(length).ok();
        let taken = take().or_else(|| {
            drop(self.arriving.displace_oldest());
            take()
        });
        let taken = taken.ok_or(NotReceived::NoRoom)?;
        let merge = |arriving: &mut Arriving| match &mut arriving.memory {
            Some(memory) => memory.merge(taken),
            none => *none = Some(taken),
        };
        member.change(merge).ok_or(NotReceived::Displaced)
    }
}

/// The most bytes of a refused request's body that are read, and the time for it.
const DISCARDED: usize = 256 * 1024;
const DISCARDING: Duration = Duration::from_secs(1);

/// Reads the rest of the body of a refused request, and throws it away, while the answer is on its way.
///
/// A body that nobody reads makes the server reset its HTTP/2 stream. `h2` soon forgets the stream, and counts each part
/// of the body that comes afterwards as an error of the connection. After a thousand of them it closes the connection,
/// with all requests on it.
pub(crate) fn discard(mut body: Body) {
    let rest = async move {
        let mut left = DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // It does not matter whether the rest came in time.
    tokio::spawn(timeout(DISCARDING, rest));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::Future;
    use std::pin::{Pin, pin};

    use futures_util::stream::{self, StreamExt as _};
    use rstest::rstest;

    use super::*;

    /// Returns a body that sends these bytes and then stays open.
    fn slow(start: &'static [u8]) -> Body {
        let start = stream::iter([Ok::<_, Infallible>(Bytes::from_static(start))]);
        Body::from_stream(start.chain(stream::pending()))
    }

    async fn is_waiting<T>(waiting: &mut Pin<&mut impl Future<Output = T>>) -> bool {
        timeout(Duration::from_millis(10), waiting).await.is_err()
    }

    #[tokio::test]
    async fn slow_bodies_keep_nobody_out() {
        let (bodies, gate) = (Bodies::new(100), Gate::new(1, 1, 1));
        let (mut one, mut other) = (slow(b"a"), slow(b"b"));
        let mut first = pin!(bodies.receive(&gate, &mut one, 10));
        let mut second = pin!(bodies.receive(&gate, &mut other, 10));
        assert!(is_waiting(&mut first).await && is_waiting(&mut second).await);
        let (body, _place) = bodies.receive(&gate, &mut Body::from("quick"), 10).await.unwrap();
        assert_eq!(&*body, b"quick");
        assert_eq!(first.await.err(), Some(NotReceived::Displaced));
        assert!(is_waiting(&mut second).await, "one was enough");
    }

    #[tokio::test]
    async fn complete_bodies_keep_their_places() {
        let (bodies, gate) = (Bodies::new(100), Gate::new(1, 1, 0));
        let first = bodies.receive(&gate, &mut Body::from("first"), 10).await.unwrap();
        assert_eq!(bodies.receive(&gate, &mut Body::from("second"), 10).await.err(), Some(NotReceived::NoRoom));
        drop(first);
        bodies.receive(&gate, &mut Body::from("second"), 10).await.unwrap();
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let (bodies, gate) = (Bodies::new(8), Gate::new(1, 1, 10));
        let mut body = slow(b"123456");
        let mut arriving = pin!(bodies.receive(&gate, &mut body, 10));
        assert!(is_waiting(&mut arriving).await);
        let complete = bodies.receive(&gate, &mut Body::from("1234"), 10).await.unwrap();
        assert_eq!(arriving.await.err(), Some(NotReceived::Displaced));
        assert_eq!(bodies.receive(&gate, &mut Body::from("12345"), 10).await.err(), Some(NotReceived::NoRoom));
        drop(complete);
        assert_eq!(&*bodies.receive(&gate, &mut Body::from("12345678"), 10).await.unwrap().0, b"12345678");
        assert_eq!(gate.waiting(), 0, "every place is free again");
    }

    #[rstest]
    #[case::declared(Body::from("12345"))]
    #[case::not_declared(Body::from_stream(stream::iter([Ok::<_, Infallible>("123"), Ok("45")])))]
    #[tokio::test]
    async fn the_length_is_limited(#[case] mut body: Body) {
        let (bodies, gate) = (Bodies::new(100), Gate::new(1, 1, 1));
        assert_eq!(bodies.receive(&gate, &mut body, 4).await.err(), Some(NotReceived::TooLarge));
        assert_eq!(gate.waiting(), 0);
    }

    /// Discards a body of this many parts of 64 KiB, and returns how many were asked for; one more is its end.
    async fn discarded(parts: usize) -> usize {
        let (send, mut asked) = tokio::sync::mpsc::unbounded_channel();
        let parts = (0..parts).map(|_| Bytes::from(vec![0; 64 * 1024])).map(Some).chain([None]);
        let parts = stream::iter(parts).map(move |part| {
            send.send(()).unwrap();
            part
        });
        let parts = parts.take_while(|part| std::future::ready(part.is_some())).filter_map(std::future::ready);
        discard(Body::from_stream(parts.map(Ok::<_, Infallible>)));
        // The sender is dropped with the body.
        let mut count = 0;
        while asked.recv().await.is_some() {
            count += 1;
        }
        count
    }

    #[tokio::test]
    async fn a_short_body_is_read_to_its_end() {
        assert_eq!(discarded(0).await, 1);
        assert_eq!(discarded(4).await, 5);
    }

    #[tokio::test]
    async fn a_long_body_is_not_read_to_its_end() {
        assert_eq!(discarded(50).await, 5);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_body_that_does_not_come() {
        let (send, dropped) = tokio::sync::oneshot::channel::<()>();
        discard(Body::from_stream(slow(b"a").into_data_stream().map(move |part| {
            let _held = &send;
            part
        })));
        assert!(dropped.await.is_err());
    }
}
