//! Looking at what the API server has now, where a watch is not enough to decide.

use std::fmt::Debug;
use std::future::Future;

use kube::Api;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::write::{PATIENCE, Problem};

/// How many objects one answer may hold.
const PAGE: u32 = 500;

/// One object; nothing where there is none.
///
/// # Errors
/// Where nobody knows: an error of the API server, or no answer in time.
pub async fn one<K>(api: &Api<K>, name: &str) -> Result<Option<K>, Problem>
where
    K: Clone + DeserializeOwned + Debug,
{
    in_time(api.get_opt(name)).await
}

/// Everything in pages, each of which is given to `see` and then forgotten.
///
/// # Errors
/// As for [`one`]; some pages may have been seen then.
pub async fn pages<K>(api: &Api<K>, selection: ListParams, mut see: impl FnMut(K)) -> Result<(), Problem>
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

/// Any request, with a deadline.
///
/// # Errors
/// As for [`one`].
pub async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Problem> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|error| Problem::of(&error)),
        Err(_) => Err(Problem::Failed(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}
