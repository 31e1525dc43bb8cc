//! An exchange that was opened on a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::{Outgoing, Pending};

use crate::endpoint::Active;

/// An exchange that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The content to send; on HTTP/1.1 the head is held back until content or a flush follows.
    pub outgoing: Outgoing,
    /// The response to come.
    pub pending: Pending,
    /// Counts the exchange; to be kept until it is over.
    pub active: Active,
    /// As in [`Checkout`](crate::Checkout).
    pub endpoint: Arc<str>,
    /// As in [`Checkout`](crate::Checkout).
    pub address: Option<SocketAddr>,
    /// As in [`Checkout`](crate::Checkout).
    pub reused: bool,
}
