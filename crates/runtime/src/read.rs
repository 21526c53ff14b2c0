//! Direct reads from the API server, for decisions that must not rely on a watch.

use std::fmt::Debug;
use std::future::Future;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::effects::PATIENCE;
use crate::problem::{WriteProblem, classify};

/// The maximum number of objects in one answer.
const PAGE: u32 = 500;

/// Returns one object; `None` if it does not exist.
///
/// # Errors
/// The existence of the object is unknown: an error of the API server, or no answer in time.
pub async fn one<K>(api: &Api<K>, name: &str) -> Result<Option<K>, WriteProblem>
where
    K: Clone + DeserializeOwned + Debug,
{
    in_time(api.get_opt(name)).await
}

/// Lists objects in pages and gives each object to `see`. No page is kept.
///
/// # Errors
/// As for [`one`]. Some pages may have been passed to `see` by then.
pub async fn pages<K>(api: &Api<K>, selection: ListParams, mut see: impl FnMut(K)) -> Result<(), WriteProblem>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = selection.limit(PAGE);
    loop {
        let page = in_time(api.list(&params)).await?;
        page.items.into_iter().for_each(&mut see);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(()),
        }
    }
}

/// Runs any request with a deadline.
///
/// # Errors
/// As for [`one`].
pub async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, WriteProblem> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|error| classify(&error)),
        Err(_) => Err(WriteProblem::Failed(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}
