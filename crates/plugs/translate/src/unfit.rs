//! Messages that cannot be translated.

use http::StatusCode;

/// Why a message cannot be translated, as its sender is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// Of the refusal, where the message is a request.
    pub(crate) status: StatusCode,
    /// With its place.
    pub(crate) reason: String,
}

impl Unfit {
    /// For this reason.
    pub(crate) fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }

    /// The content is not what it says it is, or has no meaning in the other interface.
    pub(crate) fn content(reason: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("its content: {reason}"))
    }

    /// The content is longer than so many bytes.
    pub(crate) fn too_long(most: usize) -> Self {
        let reason = format!("its content, or an element of it, is longer than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    }

    /// Of an answer: the fault is not the client's.
    pub(crate) fn of_answer(self) -> Self {
        Self {
            status: StatusCode::BAD_GATEWAY,
            reason: format!("the answer of the new interface: {}", self.reason),
        }
    }
}
