//! An exchange that was opened and whose response is awaited.

use crate::error::StreamError;
use crate::head::ResponseHead;
use crate::{Incoming, Outgoing, h1, h2, h3};

/// A response head, interim or final.
#[derive(Debug)]
pub enum Event {
    /// An interim response (1xx but 101); more follow.
    Interim(ResponseHead),
    /// The final response and its content.
    Final(ResponseHead, Incoming),
    /// The tunnel was accepted (2xx, or 101 on HTTP/1.1 Upgrade); what arrives and leaves now are its bytes.
    Tunnel(ResponseHead, Incoming),
}

/// The response to come.
#[derive(Debug)]
pub enum Pending {
    /// HTTP/1.1.
    H1(h1::client::Pending),
    /// HTTP/2.
    H2(h2::client::Pending),
    /// HTTP/3.
    H3(h3::client::Pending),
}

impl Pending {
    /// The next response head.
    ///
    /// `tunnel` is the sending half of an exchange that asks for a tunnel: on HTTP/1.1, acceptance turns it into plain
    /// bytes. A message needs none.
    ///
    /// # Errors
    /// The peer reset the stream, broke the protocol, or the connection failed; `processed` says what is known.
    pub async fn event(&mut self, tunnel: Option<&mut Outgoing>) -> Result<Event, StreamError> {
        match self {
            Self::H1(pending) => pending.event(tunnel).await,
            Self::H2(pending) => pending.event().await,
            Self::H3(pending) => pending.event().await,
        }
    }
}
