//! Bytes that a client sends before its tunnel is open: they travel behind the CONNECT, while the next hops still open the tunnel.
//!
//! An attempt of which bytes have left may have had an effect at the target. It is tried again only where the next hop certainly
//! did not begin with it; then the same bytes leave again. Where a route or upstream has a retry policy, nothing leaves early:
//! an operator who configures retries wants an attempt that broke to be made again.

use std::future::poll_fn;

use bytes::Bytes;
use hermes_admit::memory_limits::UNCHARGED;
use hermes_admit::post;
use hermes_http::{Frame, Incoming, Kind, Outgoing, RequestHead, StreamError};
use hermes_net::memory::{Charge, Purpose};
use hermes_plug::arrival::Arrival;

use super::retry::Tries;

/// Bytes of a tunnel that leave before its answer, and are kept until it comes: the first messages
/// of most protocols.
#[doc(alias = "bound")]
const MOST: usize = 16 * 1024;

/// Bytes that one client sends before its tunnel is open. At most one piece of it leaves early, of at most [`MOST`] bytes.
#[derive(Default)]
pub(crate) struct EarlyBytes<'a> {
    incoming: Option<&'a mut Incoming>,
    /// The piece that left with the attempt under way.
    sent: Bytes,
    /// It, where that is more than [`UNCHARGED`].
    charge: Option<Charge>,
    /// Nothing more is to be taken in this attempt.
    over: bool,
    /// The client is gone, and why.
    pub(crate) gone: Option<StreamError>,
}

impl<'a> EarlyBytes<'a> {
    /// Of a CONNECT that leaves as one.
    pub(crate) fn of(tries: &Tries<'_>, arrival: &'a mut Arrival, departing: &RequestHead) -> Self {
        let plain = arrival.kind() == Kind::Connect
            && departing.kind() == Kind::Connect
            && !post::is_post(departing);
        let incoming = if plain && tries.may_send_early() {
            arrival.early()
        } else {
            None
        };

        Self {
            incoming,
            ..Self::default()
        }
    }

    /// An attempt begins: the piece that left with the one before is taken again.
    pub fn begin(&mut self, tries: &Tries<'_>, outgoing: &Outgoing) {
        let sent = std::mem::take(&mut self.sent);
        self.over = !outgoing.takes_early();
        tries.sent_early(false);

        if let Some(incoming) = &mut self.incoming {
            if !sent.is_empty() {
                incoming.unread(sent);
            } else if !self.over {
                incoming.look();
            }
        }
    }

    /// Whether there may be something to [take](Self::next).
    pub(crate) fn is_awaited(&self) -> bool {
        self.incoming.is_some() && !self.over
    }

    /// The next piece; nothing when the client has ended, or is gone.
    pub(crate) async fn next(&mut self) -> Bytes {
        let Some(incoming) = &mut self.incoming else {
            return std::future::pending().await;
        };
        let frame = poll_fn(|cx| incoming.poll_frame(cx)).await;
        self.over = true;

        match frame {
            Some(Ok(Frame::Data(data))) => data,
            Some(Err(error)) => {
                self.gone = Some(error);
                Bytes::new()
            }
            Some(Ok(Frame::Trailers(_))) | None => Bytes::new(),
        }
    }

    /// Sends a piece behind the request, and puts back the part that is too long, or more than its user or source may have.
    pub(crate) fn send(&mut self, tries: &Tries<'_>, mut data: Bytes, outgoing: &mut Outgoing) {
        let most = data.len().min(MOST);
        let kept = if self.charge(tries, most) { most } else { 0 };
        let rest = data.split_off(kept);
        tries.sent_early(!data.is_empty());
        if let Some(incoming) = self.incoming.as_mut().filter(|_| !rest.is_empty()) {
            incoming.unread(rest);
        }

        if !data.is_empty() {
            self.sent = data.clone();
            // A stream that is gone says so where its answer is awaited.
            let _ = outgoing.early(data);
        }
    }

    /// Whether so many bytes may be kept.
    fn charge(&mut self, tries: &Tries<'_>, bytes: usize) -> bool {
        self.charge = None;
        if bytes > UNCHARGED {
            let charge = tries.routed.account().charge(Purpose::Replays, bytes);
            self.charge = charge.ok();
            return self.charge.is_some();
        }
        true
    }

    /// Bytes that left and were accepted with the tunnel.
    pub(crate) fn moved(&self) -> u64 {
        self.sent.len() as u64
    }
}
