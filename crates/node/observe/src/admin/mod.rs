//! Where the administrator asks: HTTP/1.1 on a Unix socket of the node's user, and metrics over TCP if wanted.
//!
//! | request | answer |
//! |---|---|
//! | `GET /healthz` | `{"healthy": true}` |
//! | `GET /readyz` | `{"ready": true}`; 503 while it drains, or a TUN device is not there, with what is missing |
//! | `GET /status` | what [`Control::status`] says |
//! | `GET /exchanges` | `{"exchanges": [...], "live": count}`, oldest first, at most [`crate::VIEW_LIMIT`] |
//! | `GET /usage` | [`crate::UsageView`]: counts by user, route and upstream |
//! | `GET /metrics` | OpenMetrics text; the only path over TCP |
//! | `GET /config` | the document in force, as text and as JSON |
//! | `POST /diff` | body: a document; 200 and how it differs from the one in force, or 422 with what is wrong with it |
//! | `POST /reload` | body: nothing, or the time to confirm it, such as `60s`; 200, or 422 with what is wrong with the configuration |
//! | `GET /refusals` | the refusals that are remembered, the latest first: when, who, what for, and why |
//! | `GET /why/ID` | why this refusal, or this exchange, was refused, step by step; 404 if it is not remembered |
//! | `POST /why` | body: an exchange that is only supposed, as JSON; what would become of it, step by step |
//! | `POST /confirm` | 200, or 409 when it is too late |
//! | `POST /rollback` | as `/reload`; 409 where there is no earlier configuration |
//! | `POST /plugs/NAME` | body: a question or an order to that plug, as JSON; 200, or 422 with the reason why not |
//! | `PUT /log` | body: a log filter; 204, or 422 with what is wrong with it |
//!
//! Errors are `{"error": "..."}`. It proxies nothing, and shows no secret.

mod answer;
pub mod client;
mod host;
mod places;
mod plain;
mod refusal;
mod serve;
pub mod socket;
mod time;

#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::Watch;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Telemetry;

pub use client::{AdminError, call};
pub use refusal::AdminRefusal;
pub use socket::{AdminSocket, bind, default_socket, take};
pub use time::confirm_time;

use answer::{Admin, MetricsOnly};

/// The administrator's commands to the process; implemented where the process is put together.
/// Answers are written as JSON.
pub trait Control: Send + Sync + 'static {
    /// The node, its version, listeners, routes, upstreams and their health.
    type Status: Serialize + Send;

    /// The configured parts that are missing.
    type Missing: Serialize + Send;

    /// The document in force.
    type Document: Serialize + Send;

    /// The differences of two documents, and their effect.
    type Comparison: Serialize + Send;

    /// The result of a change.
    type Report: Serialize + Send;

    /// The account of an exchange, step by step.
    type Account: Serialize + Send;

    /// A refusal in a list.
    type RefusalLine: Serialize + Send;

    /// As it is now.
    fn status(&self) -> Self::Status;

    /// Whether all is there that the document asks for; may block.
    ///
    /// # Errors
    /// The missing parts.
    fn readiness(&self) -> Result<(), Self::Missing>;

    /// The document in force, without its secrets; may block.
    ///
    /// # Errors
    /// Why it cannot be shown.
    fn document(&self) -> Result<Self::Document, AdminRefusal>;

    /// How the document in force differs from the one in `text`, and the effect of applying that;
    /// may block.
    ///
    /// # Errors
    /// The problems of the text.
    fn compare(&self, text: &str) -> Result<Self::Comparison, AdminRefusal>;

    /// Reads the configuration again and applies it; may block. Without a confirmation in time, the
    /// node returns to the earlier one.
    ///
    /// # Errors
    /// The problems of the configuration. Nothing has changed then.
    fn reload(&self, confirm: Option<Duration>) -> Result<Self::Report, AdminRefusal>;

    /// The account of a refusal, by its name, or of an exchange, by its identifier; may block.
    /// `None` if it is not remembered.
    fn why(&self, id: &str) -> Option<Self::Account>;

    /// The refusals that are remembered, the latest first; may block.
    fn refusals(&self) -> Vec<Self::RefusalLine>;

    /// The forecast for a hypothetical exchange, in JSON; may block.
    ///
    /// # Errors
    /// Why the question is invalid.
    fn suppose(&self, question: &str) -> Result<Self::Account, AdminRefusal>;

    /// The answer of the plug of this name to a question or an order of the administrator; may block.
    ///
    /// # Errors
    /// There is no such plug, or it refuses.
    fn ask_plug(&self, name: &str, question: &Value) -> Result<Value, AdminRefusal>;

    /// Keeps the configuration in force.
    ///
    /// # Errors
    /// When it is too late.
    fn confirm(&self) -> Result<Confirmation, AdminRefusal>;

    /// Returns to the configuration before, or to the last that was confirmed; may block.
    ///
    /// # Errors
    /// The problems of the earlier configuration, or that there is none. Nothing has changed then.
    fn roll_back(&self) -> Result<Self::Report, AdminRefusal>;

    /// Changes the log's filter, e.g. to `debug` or `hermes_node=debug,info`.
    ///
    /// # Errors
    /// The mistake in the filter.
    fn log_level(&self, filter: &str) -> Result<(), String>;
}

/// The document in force is kept from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Its revision.
    pub revision: u64,
    /// Whether it was to be confirmed.
    pub confirmed: bool,
}

/// Serves the administrator on `socket` until `watch` drains; then removes its file, if that is ours.
///
/// # Errors
/// When the listener cannot be used at all. Failures to accept are logged and waited out.
pub async fn serve_unix<C: Control>(
    socket: AdminSocket,
    control: Arc<C>,
    telemetry: Arc<Telemetry>,
    watch: Watch,
) -> io::Result<()> {
    let AdminSocket {
        listener,
        file,
        entry,
    } = socket;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    serve::serve(&listener, Arc::new(Admin { control, telemetry }), &watch).await;

    if let Some(file) = file
        && !entry.is_given()
    {
        // Someone may have removed it before us.
        let _ = std::fs::remove_file(file);
    }

    Ok(())
}

/// Serves `GET /metrics`, and nothing else, on `listener` until `watch` drains.
///
/// On a loopback address the `Host` field must name this machine: a web page that had its own name resolve to
/// loopback (DNS rebinding) is refused.
///
/// # Errors
/// When the listener cannot be used at all. Failures to accept are logged and waited out.
pub async fn serve_metrics(
    listener: TcpListener,
    telemetry: Arc<Telemetry>,
    watch: Watch,
) -> io::Result<()> {
    let loopback = listener.local_addr()?.ip().to_canonical().is_loopback();
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    serve::serve(
        &listener,
        Arc::new(MetricsOnly {
            telemetry,
            loopback,
        }),
        &watch,
    )
    .await;

    Ok(())
}
