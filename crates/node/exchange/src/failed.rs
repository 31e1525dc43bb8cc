//! An exchange that could not be forwarded.

use hermes_http::Responder;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;

/// What is still to be answered.
pub(crate) enum Unanswered {
    /// Nothing of it was touched.
    Arrival(Arrival),
    /// Its content was, or may have been, read.
    Responder(Responder),
}

/// An exchange that could not be forwarded, and why.
pub(crate) struct Failed {
    pub(crate) unanswered: Unanswered,
    pub(crate) refusal: Refusal,
}
