//! Signs of life of a watch: the moments until which everything that changed is in its table.
//!
//! kube's watcher hides them: it consumes bookmarks, and opens watches again by itself. So the client of the watch looks at
//! the answers. An opened watch is a sign of life, and so is each piece of its body, since a watch shows changes in order.
//!
//! A sign of life counts when all that arrived before it is in the table. Each step on the way to the table pulls from the
//! step before, and none of them keeps events back: the body, its lines, the watcher, and the loop that writes the table.
//! So whoever asks the body for a piece has written all the pieces before, and if there is none then, nothing is under way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tower::BoxError;
use tower::util::service_fn;

use super::progress::Progress;
use crate::client::verb;

/// The time limit for an answer of the API server: a page of a list, or the beginning of a watch.
const PATIENCE: Duration = Duration::from_secs(10);
/// The shortest time between the beginnings of two watches, if an API server ends them at once.
const PACE: Duration = Duration::from_secs(1);
/// What an API server has to show of the past when it opens a watch, it shows within this time.
const SETTLES: Duration = Duration::from_millis(50);

/// The API server does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the API server did not answer within {} s", PATIENCE.as_secs())]
pub struct NoAnswer;

/// Returns a client for the one watch with this progress, which gets the signs of life. The watch needs
/// [`Watch::max_staleness`](super::Watch::max_staleness). Lists and the beginning of a watch fail with [`NoAnswer`] in time.
///
/// # Panics
/// Outside a tokio runtime.
pub fn listening(client: Client, progress: Progress) -> Client {
    let namespace = client.default_namespace().to_owned();
    let next = Arc::new(Mutex::new(Instant::now()));
    let service = service_fn(move |request: Request<Body>| {
        let (client, progress, next) = (client.clone(), progress.clone(), Arc::clone(&next));
        async move {
            if verb(request.method(), request.uri().query().unwrap_or_default()) != "watch" {
                return timeout(PATIENCE, whole(client, request)).await.map_err(|_| NoAnswer)?;
            }
            let turn = *next.lock();
            sleep_until(turn).await;
            let at = Instant::now();
            *next.lock() = at + PACE;
            let answer = timeout(PATIENCE, client.send(request)).await.map_err(|_| NoAnswer)??;
            // The body of a refusal says why, and shows no object.
            Ok(if answer.status().is_success() {
                answer.map(|body| Either::Right(StreamBody::new(pieces(body, at, progress))))
            } else {
                answer.map(Either::Left)
            })
        }
    });
    Client::new(service, namespace)
}

/// Returns an answer with its whole body.
async fn whole<R>(client: Client, request: Request<Body>) -> Result<Response<Either<Body, R>>, BoxError> {
    let (head, body) = client.send(request).await?.into_parts();
    let body = body.collect_bytes().await?.to_vec();
    Ok(Response::from_parts(head, Either::Left(Body::from(body))))
}

/// Passes on the pieces of a watch that was asked for at this time, and reports its signs of life.
fn pieces(
    body: Body,
    asked: Instant,
    progress: Progress,
) -> impl Stream<Item = Result<Frame<Bytes>, kube::Error>> + Send {
    // The last sign of life, and how long to wait for something that came before it.
    let signs = (asked, SETTLES);
    stream::unfold((body, signs, progress), |(mut body, (mut sign, wait), progress)| async move {
        let piece = if let Ok(piece) = timeout(wait, body.frame()).await {
            piece?
        } else {
            progress.alive(sign);
            progress.works();
            body.frame().await?
        };
        // Of an incomplete line, the rest is still under way.
        if piece.as_ref().is_ok_and(|piece| piece.data_ref().is_some_and(|data| data.ends_with(b"\n"))) {
            sign = Instant::now();
        }
        Some((piece, (body, (sign, Duration::ZERO), progress)))
    })
}

#[cfg(test)]
mod tests;
