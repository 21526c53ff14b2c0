//! The requests of one client, counted as an audit log would name them.

use std::collections::BTreeMap;
use std::time::Instant;

use http::Method;
use parking_lot::Mutex;

/// The requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many there were.
    pub requests: u64,
    /// The bytes of their answers.
    pub bytes: u64,
}

/// The requests so far, by verb and resource, such as `patch pods/status`.
pub type Counted = BTreeMap<String, Count>;

/// Counts requests.
#[derive(Debug, Default)]
pub struct Counts(Mutex<CountsState>);

#[derive(Debug, Default)]
struct CountsState {
    counted: Counted,
    last_write: Option<Instant>,
}

impl Counts {
    /// Counts a request.
    pub fn request(&self, name: &str) {
        let mut state = self.0.lock();
        state.counted.entry(name.to_owned()).or_default().requests += 1;
        if is_write(name) {
            state.last_write = Some(Instant::now());
        }
    }

    /// Counts a part of an answer.
    pub fn answered(&self, name: &str, bytes: usize) {
        self.0.lock().counted.entry(name.to_owned()).or_default().bytes += bytes as u64;
    }

    /// Returns what was counted so far.
    pub fn counted(&self) -> Counted {
        self.0.lock().counted.clone()
    }

    /// Returns when something other than the Lease was written last.
    pub fn last_write(&self) -> Option<Instant> {
        self.0.lock().last_write
    }
}

/// Whether a request writes something other than the Lease.
pub fn is_write(name: &str) -> bool {
    let is_read = ["get ", "list ", "watch "].iter().any(|verb| name.starts_with(verb));
    !is_read && !name.ends_with(" leases")
}

/// Returns what was counted after `before`.
pub fn since(before: &Counted, now: &Counted) -> Counted {
    let differences = now.iter().map(|(name, count)| {
        let known = before.get(name).copied().unwrap_or_default();
        (name.clone(), Count { requests: count.requests - known.requests, bytes: count.bytes - known.bytes })
    });
    differences.filter(|(_, count)| *count != Count::default()).collect()
}

/// Returns the name of a request: its verb, as RBAC calls it, and its resource.
pub fn name(method: &Method, path: &str, query: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else { return format!("get {path}") };
    let (["namespaces", _, resource, object @ ..] | [resource, object @ ..]) = rest else {
        return format!("get {path}");
    };
    let part = object.get(1).map(|part| format!("/{part}")).unwrap_or_default();
    let verb = match method.as_str() {
        "GET" if query.split('&').any(|part| matches!(part, "watch=true" | "watch=1")) => "watch",
        "GET" if object.is_empty() => "list",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        _ => "delete",
    };
    format!("{verb} {resource}{part}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::list(Method::GET, "/api/v1/pods", "limit=500", "list pods")]
    #[case::watch(Method::GET, "/api/v1/namespaces/shop/secrets", "a=b&watch=true", "watch secrets")]
    #[case::get(Method::GET, "/apis/apps/v1/namespaces/shop/deployments/web", "", "get deployments")]
    #[case::part(Method::PATCH, "/api/v1/namespaces/shop/pods/web/status", "", "patch pods/status")]
    #[case::of_the_cluster(
        Method::PATCH,
        "/apis/apps.kruise.io/v1alpha1/sidecarsets/log/status",
        "",
        "patch sidecarsets/status"
    )]
    #[case::a_namespace(Method::GET, "/api/v1/namespaces", "limit=500", "list namespaces")]
    #[case::discovery(Method::GET, "/apis/apps.kruise.io/v1alpha1", "", "get /apis/apps.kruise.io/v1alpha1")]
    fn requests_have_the_names_of_rbac(
        #[case] method: Method,
        #[case] path: &str,
        #[case] query: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(name(&method, path, query), expected);
    }

    #[test]
    fn the_lease_is_no_write_and_differences_leave_out_what_did_not_change() {
        let counts = Counts::default();
        counts.request("update leases");
        assert_eq!(counts.last_write(), None);
        counts.request("patch pods");
        assert!(counts.last_write().is_some());
        let before = counts.counted();
        counts.answered("patch pods", 7);
        let expected = Counted::from([("patch pods".to_owned(), Count { requests: 0, bytes: 7 })]);
        assert_eq!(since(&before, &counts.counted()), expected);
    }
}
