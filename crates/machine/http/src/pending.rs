//! An exchange that was opened and whose response is awaited.

use crate::error::{Cause, StreamError};
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
pub struct Pending {
    awaited: Awaited,
    interim: Interim,
}

#[derive(Debug)]
pub(crate) enum Awaited {
    H1(h1::client::NextResponse),
    H2(h2::client::StreamResponse),
    H3(h3::client::RequestStreamResponse),
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
    /// `tunnel` is the sending half of an exchange that asks for a tunnel: on HTTP/1.1, acceptance turns it into plain
    /// bytes. A message needs none.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The peer reset the stream, broke the protocol, sent too many interim responses, or the connection failed; `processed`
    /// says what is known.
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

/// Interim responses (1xx) of one exchange. They pass no window, so a server could send them without end.
#[derive(Debug, Default)]
pub(crate) struct Interim {
    heads: usize,
    bytes: usize,
}

/// Interim responses of an exchange: few have more than one or two, and they pass no window.
#[doc(alias = "bound")]
const INTERIM: usize = 32;

/// Bytes of the fields of all interim responses together: those of one large head.
#[doc(alias = "bound")]
const INTERIM_BYTES: usize = 64 * 1024;

/// Bytes that a field costs beside its name and value (RFC 9113, 6.5.2).
const FIELD_COST: usize = 32;

impl Interim {
    /// Why an exchange fails that has more of them.
    pub(crate) const TOO_MANY: &str = "more than 32 interim responses, or 64 KiB of them";

    /// One more came; false if that is too many. A proxy must pass them on (RFC 9110, 15.2), so none is left out: the exchange fails.
    pub(crate) fn count(&mut self, head: &ResponseHead) -> bool {
        self.bytes += head.fields.size() + FIELD_COST * head.fields.len();
        self.heads += 1;
        self.heads <= INTERIM && self.bytes <= INTERIM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;

    #[test]
    fn interim_responses_are_bounded_in_number_and_size() {
        let small = ResponseHead::new(StatusCode::EARLY_HINTS);
        let mut interim = Interim::default();
        assert!((0..INTERIM).all(|_| interim.count(&small)));
        assert!(!interim.count(&small));

        let mut large = small.clone();
        large.fields.insert(
            "link",
            HeaderValue::from_bytes(&[b'x'; INTERIM_BYTES / 4]).unwrap(),
        );
        let mut interim = Interim::default();
        assert_eq!(
            (0..INTERIM).take_while(|_| interim.count(&large)).count(),
            3
        );
    }
}
