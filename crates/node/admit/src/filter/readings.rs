//! Requests as some servers read their paths and others do not. A filter is asked about each reading: what it would deny an origin that reads
//! the path so, it denies.

use std::borrow::Cow;

use hermes_config::model::Document;
use hermes_http::RequestHead;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::Phase;
use hermes_rules::normalise;
use hermes_rules::route::{AmbiguousPath, Unmatched, readings};
use http::StatusCode;
use http::uri::PathAndQuery;

use super::facts::exchange_kind;

/// Readings of one path that filters are asked about. An ordinary path with parameters and encoded slashes has three; each is one more
/// question, so a path with more is refused.
#[doc(alias = "bound")]
const READINGS: usize = 4;

/// The heads of the other readings of a request; of most there are none.
///
/// # Errors
/// There are more than filters are asked about.
pub fn other_readings(
    document: &Document,
    head: &RequestHead,
) -> Result<Vec<RequestHead>, Refusal> {
    if document.defaults.insecure_paths {
        return Ok(Vec::new());
    }
    let paths = readings(exchange_kind(head.kind()), head.path());
    if let Some(one) = paths.get(READINGS) {
        let said = "filters are not asked about so many readings";
        return Err(refusal(&AmbiguousPath::new(head.path(), one, said)));
    }

    paths.iter().map(|path| with_path(head, path)).collect()
}

fn with_path(head: &RequestHead, path: &str) -> Result<RequestHead, Refusal> {
    let query = head.path.as_ref().and_then(PathAndQuery::query);
    let path = match query {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}")),
        None => PathAndQuery::try_from(path),
    };
    let path = path.map_err(|error| {
        Refusal::new(ProxyError::HttpRequestError, error.to_string())
            .status(StatusCode::BAD_REQUEST)
    })?;

    Ok(RequestHead {
        path: Some(path),
        ..head.clone()
    })
}

/// Path and query as routes compare them, so that a server which denies `/admin/` denies `//admin/` and `/%61dmin/`, too.
pub(super) fn path_of(head: &RequestHead) -> Cow<'_, str> {
    let Some(path) = head
        .path
        .as_ref()
        .filter(|path| path.as_str().starts_with('/'))
    else {
        return Cow::Borrowed("/");
    };
    match (normalise(path.path()), path.query()) {
        (Cow::Borrowed(_), _) => Cow::Borrowed(path.as_str()),
        (compared, None) => compared,
        (compared, Some(query)) => Cow::Owned(format!("{compared}?{query}")),
    }
}

/// The refusal of an exchange that takes no route; `details` are those where none matches.
pub fn unmatched(unmatched: &Unmatched, details: impl FnOnce() -> String) -> Refusal {
    match unmatched {
        Unmatched::NoRoute => Refusal::new(ProxyError::DestinationNotFound, details())
            .status(StatusCode::NOT_FOUND)
            .at(Phase::Route, "routes"),
        Unmatched::Ambiguous(path) => refusal(path),
    }
}

/// The refusal of a request whose path would be decided on otherwise by some of its readers.
fn refusal(path: &AmbiguousPath) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, path.to_string())
        .status(StatusCode::BAD_REQUEST)
        .at(Phase::Route, "defaults.insecure_paths")
}
