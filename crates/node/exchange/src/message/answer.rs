//! The answer of the next hop, before any of it is the client's.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;

use hermes_admit::snapshot::Snapshot;
use hermes_http::{Incoming, Outgoing, Pending, ResponseHead};
use hermes_packet::{Broken, Side};
use hermes_upstream::{Active, Hop};

use crate::pump::{Direction, Source, pump};
use crate::reach::retry::Replay;

/// The answer of the next hop. Delivering it drives the rest of the request, too.
pub(crate) struct Answer<'a> {
    /// As it came: nothing of the connection to the next hop is removed yet.
    pub(crate) head: ResponseHead,
    pub(crate) content: Incoming,
    /// The request's content, which may still be on its way out.
    pub(crate) upload: Upload<'a>,
    /// Kept until the content has passed: the other half of the exchange, and its place on the endpoint.
    pub(crate) _stream: AnsweredStream,
}

/// The stream that an answer comes on.
pub(crate) struct AnsweredStream {
    pub(crate) _pending: Pending,
    pub(crate) _active: Active,
}

/// The content of a request on its way out.
pub(crate) struct Upload<'a> {
    /// `None` once all of it was sent, or no more is wanted.
    sending: Option<Sending<'a>>,
    /// The stream after that: dropping it before the answer has come would reset it.
    _sent: Option<Outgoing>,
    /// The request has no content.
    pub(crate) is_empty: bool,
    /// Where it goes.
    pub(crate) hop: Hop,
}

type Sending<'a> = Pin<Box<dyn Future<Output = (Result<(), Broken>, Outgoing)> + Send + 'a>>;

impl<'a> Upload<'a> {
    /// Of this content. Nothing is sent before [`Self::sent`] is polled.
    pub(crate) fn new(
        content: &'a mut Replay<'_>,
        mut outgoing: Outgoing,
        rules: &'a Snapshot,
        hop: Hop,
    ) -> Self {
        let is_empty = content.is_end();
        let sending = async move {
            // `Replay` counts the bytes of the client, and those that are sent again only once.
            let moved = AtomicU64::new(0);
            let direction = Direction {
                from: Side::Client,
                moved: &moved,
                rules: Some(rules),
            };
            let sent = pump(content, &mut outgoing, direction).await;
            (sent, outgoing)
        };

        Self {
            sending: Some(Box::pin(sending)),
            _sent: None,
            is_empty,
            hop,
        }
    }

    /// Of a request without content, which was sent.
    pub(crate) fn over(outgoing: Outgoing) -> Self {
        Self {
            sending: None,
            _sent: Some(outgoing),
            is_empty: true,
            hop: Hop::Origin,
        }
    }

    /// Whether there is nothing more to send.
    pub(crate) fn is_over(&self) -> bool {
        self.sending.is_none()
    }

    /// Sends the content. May be dropped and called again; never resolves after it is over.
    ///
    /// # Errors
    /// The client or the next hop broke.
    pub(crate) async fn sent(&mut self) -> Result<(), Broken> {
        let Some(sending) = &mut self.sending else {
            return std::future::pending().await;
        };
        let (sent, outgoing) = sending.await;
        self.sending = None;
        self._sent = Some(outgoing);
        sent
    }
}
