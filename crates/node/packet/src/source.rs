//! Where one direction of packets comes from.

use std::future::Future;
use std::pin::Pin;

use hermes_http::Incoming;
use hermes_observe::Exchange;
use hermes_proto::datagram::DatagramFormat;

use super::end::PacketReader;
use super::quic_datagrams::QuicDatagrams;
use super::stream::{CapsuleStream, Reached};
use super::{ChargedBounds, PacketEnd};

/// Where packets come from.
pub enum Source {
    /// An end that this node has itself.
    End(PacketReader),
    /// Capsules.
    Stream(Capsules),
}

/// A stream of capsules that is read, and the QUIC datagrams beside it.
pub struct Capsules {
    pub(crate) stream: CapsuleStream,
    pub(crate) beside: QuicDatagrams,
    /// The format of its packets.
    pub(crate) format: DatagramFormat,
}

impl Source {
    /// Reads an end.
    pub fn end(end: &PacketEnd) -> Self {
        Self::End(end.reader())
    }

    /// Reads a stream of such packets.
    pub fn stream(mut incoming: Incoming, format: DatagramFormat) -> Self {
        let beside = QuicDatagrams::new(incoming.datagrams());
        Self::Stream(Capsules {
            stream: CapsuleStream::new(incoming),
            beside,
            format,
        })
    }

    /// Lets so much of a stream's datagrams wait where they cannot go on. Other ends have their own bounds.
    pub fn set_bounds(&mut self, bounds: ChargedBounds) {
        if let Self::Stream(capsules) = self {
            capsules.beside.set_bounds(bounds);
        }
    }

    /// Keeps the last packets of an end of this node, as if they had not been sent.
    pub fn keep(&mut self) {
        if let Self::End(reader) = self {
            reader.keep();
        }
    }

    /// Waits for `done`. Datagrams that come meanwhile wait within their bounds; capsules do in their stream.
    pub async fn during<W: Future>(&mut self, done: Pin<&mut W>, exchange: &Exchange) -> W::Output {
        match self {
            Self::Stream(capsules) => capsules.beside.during(done, exchange).await,
            Self::End(_) => done.await,
        }
    }

    /// Waits for the end of a stream, and drops its data.
    pub async fn drain(&mut self) {
        if let Self::Stream(capsules) = self {
            while let Some(Ok(_)) = capsules.stream.next().await {}
        }
    }

    /// Whether the last read ended within a capsule with its first piece passed on: nothing else
    /// can follow it there, and the rest of it can go nowhere else.
    pub fn is_within(&self) -> bool {
        matches!(self, Self::Stream(capsules) if capsules.stream.reached == Reached::Passed)
    }

    /// Whether the next reader here begins with a capsule.
    pub fn is_between(&self) -> bool {
        matches!(self, Self::Stream(capsules) if capsules.stream.reached == Reached::Between)
            || self.is_end()
    }

    /// Whether it is an end of this node's: such a one never says that it is over.
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }

    /// Whether it is a UDP session, which ends by silence.
    pub fn is_udp(&self) -> bool {
        match self {
            Self::End(reader) => reader.format() == DatagramFormat::UDP,
            Self::Stream(_) => false,
        }
    }
}
