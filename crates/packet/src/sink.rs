//! Where one direction of datagrams leads.

use std::sync::Arc;

use hermes_http::h3::DatagramSender;
use hermes_http::{Outgoing, Reset, StreamError};
use hermes_observe::Exchange;
use tokio::sync::Mutex;

use super::UdpEnd;
use super::shared::Shared;

/// Where datagrams go. A stream is shared by the lanes that lead there: a writer holds it to the end of a capsule.
#[derive(Clone)]
pub enum Sink {
    /// UDP.
    Udp(UdpEnd),
    /// Capsules, and QUIC datagrams where there are any.
    Stream(Arc<Mutex<Shared>>, Option<DatagramSender>),
}

impl Sink {
    /// Writes a stream.
    pub fn stream(outgoing: Outgoing) -> Self {
        let quic = outgoing.datagrams();
        Self::Stream(Arc::new(Mutex::new(Shared::new(outgoing))), quic)
    }

    /// Whether no one is writing there, and the next writer begins with a capsule.
    pub fn is_between(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Stream(stream, _) => stream.try_lock().is_ok_and(|stream| stream.is_between()),
        }
    }

    /// Ends a stream; UDP has no end.
    pub async fn finish(&self) -> Result<(), StreamError> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Stream(outgoing, _) => outgoing.lock().await.finish().await,
        }
    }

    /// Where QUIC datagrams go beside it.
    pub(crate) fn quic(&self) -> Option<&DatagramSender> {
        if let Self::Stream(_, quic) = self {
            quic.as_ref()
        } else {
            None
        }
    }

    /// Accounts for datagrams that were dropped before the tunnel saw them.
    pub fn settle(&self, exchange: &Exchange) {
        if let Self::Udp(udp) = self {
            udp.settle(exchange);
        }
    }

    /// Resets a stream.
    pub fn reset(&self, reset: Reset) {
        if let Self::Stream(outgoing, _) = self
            && let Ok(mut outgoing) = outgoing.try_lock()
        {
            outgoing.reset(reset);
        }
    }
}
