//! `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// What keeps the controller from being ready; nothing where it is.
pub type Problems = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Serves for as long as it is polled. Alive is who answers.
///
/// # Errors
/// The listener is broken.
pub async fn serve(listener: TcpListener, metrics: Arc<Metrics>, problems: Problems) -> std::io::Result<()> {
    let ready = move || {
        let problems = problems();
        async move {
            if problems.is_empty() {
                (StatusCode::OK, "ok\n".to_owned())
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n")
            }
        }
    };
    let scrape = move || {
        let text = metrics.encoded();
        async move { ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text) }
    };
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scrape));
    axum::serve(listener, routes).await
}
