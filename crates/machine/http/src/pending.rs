//! An exchange that was opened and awaits its response.

use crate::error::{Cause, StreamError};
use crate::head::ResponseHead;
use crate::interim::Interim;
use crate::{Incoming, Outgoing, client};

/// A response head, interim or final.
#[derive(Debug)]
pub enum Event {
    /// An interim response (1xx but 101); more follow.
    Interim(ResponseHead),
    /// The final response and its content.
    Final(ResponseHead, Incoming),
    /// The tunnel was accepted (2xx, or 101 on HTTP/1.1 Upgrade); from now on its bytes arrive and
    /// leave.
    Tunnel(ResponseHead, Incoming),
}

/// The response to come.
#[derive(Debug)]
pub struct Pending {
    awaited: Awaited,
    interim: Interim,
}

#[derive(Debug)]
pub(crate) enum Awaited {
    H1(client::h1::NextResponse),
    H2(client::h2::StreamResponse),
    H3(client::h3::RequestStreamResponse),
}

impl From<Awaited> for Pending {
    fn from(awaited: Awaited) -> Self {
        Self {
            awaited,
            interim: Interim::default(),
        }
    }
}

impl Pending {
    /// The next response head.
    ///
    /// `tunnel` is the sending half of an exchange that asks for a tunnel: on HTTP/1.1, acceptance
    /// turns it into plain bytes. A message needs no such half.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The peer reset the stream, broke the protocol, sent too many interim responses, or the
    /// connection failed; `processed` says whether the peer may have acted.
    pub async fn event(&mut self, tunnel: Option<&mut Outgoing>) -> Result<Event, StreamError> {
        let event = match &mut self.awaited {
            Awaited::H1(pending) => pending.event(tunnel).await,
            Awaited::H2(pending) => pending.event().await,
            // Boxed: exchanges over other versions should not carry the room for it.
            Awaited::H3(pending) => Box::pin(pending.event()).await,
        }?;
        if let Event::Interim(head) = &event
            && !self.interim.count(head)
        {
            return Err(StreamError::new(Cause::Protocol(Interim::TOO_MANY.into())));
        }

        Ok(event)
    }
}
