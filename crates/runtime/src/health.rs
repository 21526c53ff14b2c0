//! `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;
use crate::store::Report;

/// Returns the reasons why the controller is not ready, and remarks.
pub type Readiness = Arc<dyn Fn() -> Report + Send + Sync>;

/// Serves for as long as it is polled. Any answer from `/healthz` means that the process is alive.
///
/// # Errors
/// The listener is broken.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, readiness: Readiness) -> std::io::Result<()> {
    let asked = Arc::clone(&readiness);
    let ready = move || {
        let answer = ready_answer(&asked());
        async move { answer }
    };
    let scrape = move || {
        metrics.ready(readiness().problems.is_empty());
        let text = metrics.encoded();
        async move { ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text) }
    };
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape));
    axum::serve(listener, routes).await
}

/// Returns 200 or 503, and one line for each problem and remark.
fn ready_answer(report: &Report) -> (StatusCode, String) {
    let Report { problems, remarks } = report;
    let (status, first) =
        if problems.is_empty() { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") };
    let remarks = remarks.iter().map(|remark| format!("warning: {remark}"));
    let lines: Vec<String> = std::iter::once(first.to_owned()).chain(problems.iter().cloned()).chain(remarks).collect();
    (status, lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::ready(&[], &[], 200, "ok\n")]
    #[case::ready_with_a_remark(&[], &["a: b"], 200, "ok\nwarning: a: b\n")]
    #[case::not_ready(&["a: b", "c: d"], &["e: f"], 503, "not ready\na: b\nc: d\nwarning: e: f\n")]
    fn what_there_is_to_know_is_told_line_by_line(
        #[case] problems: &[&str],
        #[case] remarks: &[&str],
        #[case] status: u16,
        #[case] text: &str,
    ) {
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let answer = ready_answer(&Report { problems: all(problems), remarks: all(remarks) });
        assert_eq!((answer.0.as_u16(), answer.1.as_str()), (status, text));
    }
}
