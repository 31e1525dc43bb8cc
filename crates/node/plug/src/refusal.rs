//! Answers that this proxy makes itself: one place turns a reason into HTTP.

use bytes::Bytes;
use hermes_http::{Cause, Processed, RefusalReason, ResponseHead, StreamError};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{CACHE_CONTROL, CONTENT_TYPE};
use hermes_proto::proxy_status::{self, PROXY_STATUS, ProxyError};
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::Phase;
use http::{HeaderValue, StatusCode};

/// Why an exchange is answered here and not where it wanted to go.
#[derive(Debug, Clone)]
pub struct Refusal {
    error: ProxyError,
    status: StatusCode,
    details: String,
    next_hop: Option<String>,
    fields: Fields,
    processed: Processed,
    content: Option<Bytes>,
    /// The client went away: it learns nothing any more, and the record says so rather than that it was wrong.
    gone: bool,
    /// The phase and the place in the document, where these are not those that the exchange had come to.
    at: Option<Box<RefusedAt>>,
}

/// The place that refuses an exchange.
#[derive(Debug, Clone)]
struct RefusedAt {
    phase: Phase,
    /// Its place in the document.
    path: String,
    /// The name of the decision to refuse it, where that was logged.
    name: Option<RefusalId>,
}

impl Refusal {
    /// A refusal of this kind (RFC 9209, 2.3), with that kind's recommended status. Nothing was processed.
    pub fn new(error: ProxyError, details: impl Into<String>) -> Self {
        Self {
            error,
            status: error.status(),
            details: details.into(),
            next_hop: None,
            fields: Fields::new(),
            processed: Processed::No,
            content: None,
            gone: false,
            at: None,
        }
    }

    /// The client went away before it was answered. Should it still listen, it gets a 400.
    pub fn client_gone(details: impl Into<String>) -> Self {
        Self {
            gone: true,
            ..Self::new(ProxyError::HttpRequestError, details)
        }
    }

    /// With another status than the recommended one.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// With the next hop that failed.
    #[must_use]
    pub fn next_hop(mut self, next_hop: &str) -> Self {
        self.next_hop = Some(next_hop.to_owned());
        self
    }

    /// With more to say, in parentheses.
    #[must_use]
    pub fn note(mut self, more: &str) -> Self {
        self.details = format!("{} ({more})", self.details);
        self
    }

    /// With these fields in the answer.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.fields = fields;
        self
    }

    /// With the phase that refuses it and its place in the document, as `policy.rules[3]`.
    #[must_use]
    pub fn at(mut self, phase: Phase, path: impl Into<String>) -> Self {
        self.at = Some(Box::new(RefusedAt {
            phase,
            path: path.into(),
            name: None,
        }));
        self
    }

    /// With the name of the decision to refuse it, of a refusal with a place.
    #[must_use]
    pub fn named(mut self, name: RefusalId) -> Self {
        if let Some(at) = &mut self.at {
            at.name = Some(name);
        }
        self
    }

    /// With this content instead of our own words; its type is among the fields.
    #[must_use]
    pub fn content(mut self, content: Bytes) -> Self {
        self.content = Some(content);
        self
    }

    /// A stream towards the next hop that failed before its response began.
    pub fn of_stream(error: &StreamError, next_hop: &str) -> Self {
        let kind = match &error.cause {
            Cause::Reset(_) | Cause::Io(_) | Cause::Closing => ProxyError::ConnectionTerminated,
            Cause::Silent(_) | Cause::Memory(_) => ProxyError::ConnectionTerminated,
            Cause::Alert { .. } => ProxyError::TlsAlertReceived,
            Cause::Incomplete => ProxyError::HttpResponseIncomplete,
            Cause::Protocol(_) => ProxyError::HttpProtocolError,
            Cause::Slow => ProxyError::HttpRequestError,
            Cause::Unsupported(_) => ProxyError::HttpUpgradeFailed,
            Cause::Invalid(_) => ProxyError::ProxyInternalError,
        };

        let mut refusal = Self::new(kind, error.to_string()).next_hop(next_hop);
        refusal.processed = error.processed;
        refusal
    }

    /// The phase that refuses it and its place in the document, where that is known.
    pub fn place(&self) -> Option<(Phase, String)> {
        self.at.as_ref().map(|at| (at.phase, at.path.clone()))
    }

    /// Its name, if it has one already.
    pub fn name(&self) -> Option<RefusalId> {
        self.at.as_ref()?.name
    }

    /// Whether the next hop may have acted on the request.
    pub fn processed(&self) -> Processed {
        self.processed
    }

    /// The status of the answer.
    pub fn code(&self) -> StatusCode {
        self.status
    }

    /// Whether a rule said so, and no failure on the way: it would be the same a moment later.
    pub fn is_final(&self) -> bool {
        self.status.is_client_error()
    }

    /// The reason in words, for logs.
    pub fn reason(&self) -> String {
        let word = if self.gone {
            "client_closed"
        } else {
            self.error.token()
        };
        format!("{word}: {}", self.details)
    }

    /// The reason for a client that is no client of HTTP.
    pub fn for_ingress(&self) -> RefusalReason {
        RefusalReason {
            status: self.status,
            error: self.error,
            details: self.reason(),
        }
    }

    /// The answer: head and content. A client that is not `explained` anything learns only the kind of the failure, and what the
    /// refusal is called.
    pub fn answer(self, node: &str, id: RefusalId, explained: bool) -> (ResponseHead, Bytes) {
        let mut head = ResponseHead {
            fields: self.fields,
            ..ResponseHead::new(self.status)
        };

        let details = explained.then_some(self.details.as_str());
        let next_hop = self.next_hop.as_deref().filter(|_| explained);
        let status = proxy_status::format(node, self.error, details, next_hop);
        let status = proxy_status::named(status, id);
        head.fields.insert(PROXY_STATUS, status);
        head.fields
            .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));

        if let Some(content) = self.content {
            return (head, content);
        }
        head.fields.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("text/plain; charset=utf-8"),
        );
        let content = match details {
            Some(details) => format!("{node}: {}: {details}\n", self.error.token()),
            None => format!("{node}: {}\n", self.error.token()),
        };

        (head, Bytes::from(content))
    }
}
