//! Answers of the API, as JSON.

use bytes::Bytes;
use hermes_http::ResponseHead;
use hermes_plug::Response;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

use crate::ledger::{AreaPath, Full, PATHS, PATHS_OF_USER};

/// Why a request is not granted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct No {
    pub(crate) status: StatusCode,
    pub(crate) reason: String,
    pub(crate) remedy: &'static str,
}

impl No {
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            status,
            reason: reason.into(),
            remedy,
        }
    }

    pub(crate) fn unknown(name: &str) -> Self {
        let reason = format!("you have no path `{name}`");
        Self::new(
            StatusCode::NOT_FOUND,
            reason,
            "GET /areas/v1/paths lists yours",
        )
    }

    pub(crate) fn response(&self) -> Response {
        let content = json!({ "error": self.reason, "remedy": self.remedy });
        answer(self.status, &content)
    }
}

impl From<Full> for No {
    fn from(full: Full) -> Self {
        let reason = match full {
            Full::Place => format!("this place has {PATHS} paths, as many as may be"),
            Full::User => format!("you have {PATHS_OF_USER} paths here, as many as may be"),
        };
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            reason,
            "withdraw paths that are not needed",
        )
    }
}

pub(crate) fn answer(status: StatusCode, content: &Value) -> Response {
    let mut head = ResponseHead::new(status);
    head.fields
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let text = format!("{content:#}\n");
    Response::Whole(head, Bytes::from(text))
}

pub(crate) fn not_allowed(methods: &'static str) -> Response {
    let mut head = ResponseHead::new(StatusCode::METHOD_NOT_ALLOWED);
    head.fields.insert(ALLOW, HeaderValue::from_static(methods));
    Response::Whole(head, Bytes::new())
}

/// A path as its users see it, without the names of the others.
pub(crate) fn shown(name: &str, path: &AreaPath) -> Value {
    json!({
        "name": name,
        "state": if path.ending { "ending" } else { "ready" },
        "plan": path.plan,
    })
}
