//! An attempt's verdict on the health of its endpoint.

use hermes_admit::next::Next;
use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, StreamError};
use hermes_upstream::Active;
use http::StatusCode;

/// The endpoint answered. A 5xx of an origin speaks against it; one that a proxy passes on speaks of someone else, whom the
/// client chose.
pub(crate) fn answered(active: &Active, next: &Next, status: StatusCode) {
    if is_server_error(status) && next.receiver() == Receiver::Origin {
        active.answered_badly(status.as_u16());
    } else {
        active.served();
    }
}

/// The exchange broke off before the answer. A request that was not sent, or never could be, is not the endpoint's fault.
pub(crate) fn broke(active: &Active, error: &StreamError) {
    if matches!(
        error.cause,
        Cause::Reset(_) | Cause::Incomplete | Cause::Io(_) | Cause::Protocol(_)
    ) {
        active.failed_because(&error.to_string());
    }
}

/// Whether it is an error of the server, as one above 599 is (RFC 9110, 15).
pub(crate) fn is_server_error(status: StatusCode) -> bool {
    status.as_u16() >= 500
}

/// Whether it is an error of the client or of the server.
pub(crate) fn is_failure(status: StatusCode) -> bool {
    status.is_client_error() || is_server_error(status)
}
