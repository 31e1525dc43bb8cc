//! Requests of the administrator and their answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinError;
use tokio::time::timeout;

use super::places::Waiting;
use super::serve::Answer;
use super::time::confirm_time;
use super::{AdminRefusal, Control, host, plain};
use crate::Telemetry;

/// Bytes of a request's content.
#[doc(alias = "bound")]
const CONTENT_BYTES: usize = 64 * 1024;

/// Bytes of a document, written out whole: files have 4 MiB each at most, and few documents come near to one.
#[doc(alias = "bound")]
const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// Time until a request's content is complete.
#[doc(alias = "bound")]
const CONTENT_TIME: Duration = Duration::from_secs(10);

/// The prefix of the name of a refusal.
const WHY: &str = "/why/";

/// The prefix of the name of a plug.
const PLUGS: &str = "/plugs/";

/// The media type of the metrics for clients that ask for OpenMetrics.
const OPENMETRICS_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// The media type for others.
const PLAIN_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Answers on the Unix socket.
pub(super) struct Admin<C> {
    pub control: Arc<C>,
    pub telemetry: Arc<Telemetry>,
}

/// The missing parts of a node that is not ready.
#[derive(Serialize)]
struct Unready<M> {
    #[serde(flatten)]
    missing: M,
    ready: bool,
}

/// Answers over TCP.
pub(super) struct MetricsOnly {
    pub telemetry: Arc<Telemetry>,
    /// Whether the listener is on a loopback address, so that `Host` must be local.
    pub loopback: bool,
}

impl<C: Control> Answer for Admin<C> {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path().to_owned();
        let Some(allowed) = method_of(&path) else {
            return not_found(&path);
        };

        if !is_allowed(request.method(), &allowed) {
            return not_allowed(&path, &allowed);
        }
        if let Some(id) = path.strip_prefix(WHY) {
            return self.why(id.to_owned()).await;
        }
        if let Some(name) = path.strip_prefix(PLUGS) {
            return self.ask_plug(name.to_owned(), request).await;
        }

        match path.as_str() {
            "/readyz" => self.readiness().await,
            "/status" => self.status().await,
            "/exchanges" => self.exchanges(),
            "/refusals" => self.refusals().await,
            "/metrics" => metrics(&self.telemetry, request.headers()),
            "/usage" => json_answer(StatusCode::OK, &json!(self.telemetry.usage())),
            "/config" => self.document().await,
            "/diff" => self.compare(request).await,
            "/why" => self.suppose(request).await,
            "/reload" => self.reload(request).await,
            "/confirm" => {
                self.change("the confirmation", |control| control.confirm())
                    .await
            }
            "/rollback" => {
                self.change("the return", |control| control.roll_back())
                    .await
            }
            "/log" => self.log(request).await,
            _ => json_answer(StatusCode::OK, &json!({ "healthy": true })),
        }
    }
}

impl Answer for MetricsOnly {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if self.loopback && !host::is_local(request.headers().get(HOST)) {
            return error(
                StatusCode::FORBIDDEN,
                "Host must be an address or localhost",
            );
        }
        match request.uri().path() {
            "/metrics" if is_allowed(request.method(), &Method::GET) => {
                metrics(&self.telemetry, request.headers())
            }
            "/metrics" => not_allowed("/metrics", &Method::GET),
            path => not_found(path),
        }
    }
}

impl<C: Control> Admin<C> {
    /// May wait for a running reload.
    async fn status(&self) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        let status = tokio::task::spawn_blocking(move || control.status()).await;
        judged(status.map(Ok), "the status")
    }

    /// The same.
    async fn readiness(&self) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        match tokio::task::spawn_blocking(move || control.readiness()).await {
            Ok(Ok(())) => json_answer(StatusCode::OK, &json!({ "ready": true })),
            Ok(Err(missing)) => {
                let unready = Unready {
                    missing,
                    ready: false,
                };
                json_answer(StatusCode::SERVICE_UNAVAILABLE, &unready)
            }
            Err(_) => error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the readiness cannot be told",
            ),
        }
    }

    fn exchanges(&self) -> Response<Full<Bytes>> {
        let exchanges = self.telemetry.exchanges();
        json_answer(
            StatusCode::OK,
            &json!({ "exchanges": exchanges, "live": self.telemetry.live_count() }),
        )
    }

    async fn reload(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let text = match content(request, CONTENT_BYTES, "the time").await {
            Ok(text) => text,
            Err(refused) => return refused,
        };

        let time = Some(text.trim()).filter(|text| !text.is_empty());
        match time.map(confirm_time).transpose() {
            Ok(confirm) => {
                self.change("the reload", move |control| control.reload(confirm))
                    .await
            }
            Err(reason) => error(StatusCode::BAD_REQUEST, &reason),
        }
    }

    /// Reads files and perhaps hashes: not on a thread that serves others.
    async fn change<T: Serialize + Send + 'static>(
        &self,
        what: &str,
        change: impl FnOnce(&C) -> Result<T, AdminRefusal> + Send + 'static,
    ) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        match tokio::task::spawn_blocking(move || change(&*control)).await {
            // A port that someone has may be free a moment later, with the same file.
            Ok(Err(refused)) if refused.is_conflict() => {
                json_answer(StatusCode::CONFLICT, &refused)
            }
            other => judged(other, what),
        }
    }

    async fn refusals(&self) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        let listed = tokio::task::spawn_blocking(move || control.refusals()).await;
        match listed {
            Ok(refusals) => json_answer(StatusCode::OK, &json!({ "refusals": refusals })),
            Err(_) => error(
                StatusCode::INTERNAL_SERVER_ERROR,
                "they could not be listed",
            ),
        }
    }

    async fn why(&self, id: String) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        let asked = id.clone();
        let found = tokio::task::spawn_blocking(move || control.why(&asked)).await;
        match found {
            Ok(Some(found)) => json_answer(StatusCode::OK, &found),
            Ok(None) => {
                let reason = format!("no refusal {id} is remembered");
                error(StatusCode::NOT_FOUND, &reason)
            }
            Err(failed) => broken_off("the account", &failed),
        }
    }

    async fn suppose(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let question = match content(request, CONTENT_BYTES, "the question").await {
            Ok(text) => text,
            Err(refused) => return refused,
        };
        let control = Arc::clone(&self.control);
        let found = tokio::task::spawn_blocking(move || control.suppose(&question)).await;
        judged(found, "the forecast")
    }

    async fn ask_plug(&self, name: String, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let text = match content(request, CONTENT_BYTES, "the question").await {
            Ok(text) => text,
            Err(refused) => return refused,
        };
        let question = match serde_json::from_str(&text) {
            Ok(question) => question,
            Err(wrong) => return error(StatusCode::BAD_REQUEST, &format!("no JSON: {wrong}")),
        };
        let control = Arc::clone(&self.control);
        let asked = move || control.ask_plug(&name, &question);
        judged(tokio::task::spawn_blocking(asked).await, "the answer")
    }

    async fn document(&self) -> Response<Full<Bytes>> {
        let control = Arc::clone(&self.control);
        let found = tokio::task::spawn_blocking(move || control.document()).await;
        judged(found, "the document")
    }

    async fn compare(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let text = match content(request, DOCUMENT_BYTES, "the document").await {
            Ok(text) => text,
            Err(refused) => return refused,
        };
        let control = Arc::clone(&self.control);
        let compared = tokio::task::spawn_blocking(move || control.compare(&text)).await;
        judged(compared, "the comparison")
    }

    async fn log(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let filter = match content(request, CONTENT_BYTES, "the filter").await {
            Ok(filter) => filter,
            Err(refused) => return refused,
        };
        match self.control.log_level(filter.trim()) {
            Ok(()) => {
                let mut done = Response::new(Full::default());
                *done.status_mut() = StatusCode::NO_CONTENT;
                done
            }
            Err(reason) => error(StatusCode::UNPROCESSABLE_ENTITY, &reason),
        }
    }
}

/// The account of an exchange, or why there is none.
fn judged(
    found: Result<Result<impl Serialize, AdminRefusal>, JoinError>,
    what: &str,
) -> Response<Full<Bytes>> {
    match found {
        Ok(Ok(found)) => json_answer(StatusCode::OK, &found),
        Ok(Err(refused)) => json_answer(StatusCode::UNPROCESSABLE_ENTITY, &refused),
        Err(failed) => broken_off(what, &failed),
    }
}

fn broken_off(what: &str, failed: &JoinError) -> Response<Full<Bytes>> {
    error(
        StatusCode::INTERNAL_SERVER_ERROR,
        &format!("{what} broke off: {failed}"),
    )
}

/// The text that a request brings, of `most` bytes.
async fn content(
    request: Request<Incoming>,
    most: usize,
    what: &str,
) -> Result<String, Response<Full<Bytes>>> {
    let place = request.extensions().get::<Arc<Waiting>>().cloned();
    if let Some(place) = &place {
        place.sends();
    }
    let collected = timeout(
        CONTENT_TIME,
        Limited::new(request.into_body(), most).collect(),
    );
    let collected = collected.await;
    if let Some(place) = &place {
        place.asked();
    }
    let Ok(content) = collected else {
        let reason = format!("{what} did not arrive in time");
        return Err(error(StatusCode::REQUEST_TIMEOUT, &reason));
    };

    let Ok(content) = content else {
        let reason = format!("{what} is larger than {} KiB, or was cut off", most / 1024);
        return Err(error(StatusCode::PAYLOAD_TOO_LARGE, &reason));
    };

    String::from_utf8(content.to_bytes().into()).map_err(|_| {
        error(
            StatusCode::UNPROCESSABLE_ENTITY,
            &format!("{what} is not UTF-8"),
        )
    })
}

/// The method that a path is asked with; `None` if there is no such path.
fn method_of(path: &str) -> Option<Method> {
    match path {
        "/healthz" | "/readyz" | "/status" | "/exchanges" | "/refusals" | "/metrics" | "/usage"
        | "/config" => Some(Method::GET),
        path if path.starts_with(WHY) => Some(Method::GET),
        path if path.starts_with(PLUGS) => Some(Method::POST),
        "/diff" | "/why" | "/reload" | "/confirm" | "/rollback" => Some(Method::POST),
        "/log" => Some(Method::PUT),
        _ => None,
    }
}

/// `HEAD` is allowed where `GET` is (RFC 9110 section 9.3.2); hyper leaves the content out.
fn is_allowed(method: &Method, allowed: &Method) -> bool {
    method == allowed || (method == Method::HEAD && allowed == Method::GET)
}

/// The metrics in the format that the client asks for. Prometheus asks for OpenMetrics; its tools read the older one only.
fn metrics(telemetry: &Telemetry, fields: &HeaderMap) -> Response<Full<Bytes>> {
    let accepted = fields.get_all(ACCEPT).iter();
    let is_open = accepted
        .filter_map(|formats| formats.to_str().ok())
        .any(|formats| formats.contains("application/openmetrics-text"));

    let text = telemetry.metrics_text();
    if is_open {
        typed(StatusCode::OK, OPENMETRICS_TYPE, text)
    } else {
        typed(StatusCode::OK, PLAIN_TYPE, plain::text(&text))
    }
}

fn not_found(path: &str) -> Response<Full<Bytes>> {
    error(StatusCode::NOT_FOUND, &format!("there is no {path}"))
}

fn not_allowed(path: &str, allowed: &Method) -> Response<Full<Bytes>> {
    let mut answer = error(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("ask {path} with {allowed}"),
    );
    let allow = if allowed == Method::GET {
        "GET, HEAD"
    } else {
        allowed.as_str()
    };

    // A method's name is a field value.
    answer.headers_mut().extend(
        HeaderValue::from_str(allow)
            .ok()
            .map(|value| (ALLOW, value)),
    );

    answer
}

fn error(status: StatusCode, reason: &str) -> Response<Full<Bytes>> {
    json_answer(status, &json!({ "error": reason }))
}

fn json_answer(status: StatusCode, value: &impl Serialize) -> Response<Full<Bytes>> {
    // Every answer has texts for keys, so serialising cannot fail.
    let value = serde_json::to_value(value).unwrap_or_default();
    typed(
        status,
        HeaderValue::from_static("application/json"),
        format!("{value}\n"),
    )
}

fn typed(status: StatusCode, content_type: HeaderValue, content: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(content.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
