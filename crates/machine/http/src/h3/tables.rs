//! The QPACK tables of a connection (RFC 9204).

use std::sync::Arc;

use bytes::BytesMut;
use hermes_net::PeerAddress;
use hermes_net::memory::ConnectionCharges;
use hermes_proto::h1::MessageLimits;
use hermes_proto::h3::{Code, Fault, FieldSectionLimits, Received};
use hermes_proto::qpack::{QpackDecoder, QpackEncoder, SectionEncoder};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bytes of the dynamic table that we keep for the peer of a link. A stranger gets no table.
#[doc(alias = "bound")]
pub(crate) const HEADER_TABLE: usize = 4096;

/// Both tables. Their locks are held for a section or a few instructions, never across a wait.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Bytes of our table; 0 if no tables are used, in either direction.
    table: usize,
    /// Limits of received heads.
    pub(crate) limits: FieldSectionLimits,
    /// Limits of received trailers.
    trailers: FieldSectionLimits,
    /// The charges for received sections.
    pub(crate) charges: Arc<ConnectionCharges>,
    decoder: Mutex<QpackDecoder>,
    encoder: Mutex<QpackEncoder>,
    /// Wakes the writer of instructions.
    wake: Notify,
}

/// The bounds of messages' field sections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SectionBounds {
    /// Bounds of heads.
    pub(crate) heads: FieldSectionLimits,
    trailers: FieldSectionLimits,
}

impl SectionBounds {
    pub(crate) fn of(message: &MessageLimits) -> Self {
        let section = |bytes| FieldSectionLimits {
            bytes,
            lines: message.fields,
        };
        Self {
            heads: section(message.head_bytes),
            trailers: section(message.trailer_bytes),
        }
    }
}

impl Tables {
    /// Tables of which ours takes so many bytes, for sections with these limits that come from this peer.
    pub(crate) fn new(table: usize, bounds: SectionBounds, peer: &PeerAddress) -> Self {
        Self {
            table,
            limits: bounds.heads,
            trailers: bounds.trailers,
            charges: ConnectionCharges::of(peer),
            decoder: Mutex::new(QpackDecoder::new(table)),
            encoder: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// No tables: written sections refer to no entries.
    pub(crate) fn none() -> Self {
        let none = FieldSectionLimits { bytes: 0, lines: 0 };
        let bounds = SectionBounds {
            heads: none,
            trailers: none,
        };
        Self::new(0, bounds, &PeerAddress::Unix { uid: None })
    }

    /// The capacity of ours that we announce.
    pub(crate) fn announced(&self) -> u64 {
        self.table as u64
    }

    /// The peer has announced this capacity. A link uses it; a stranger's table is not worth the
    /// memory of its entries.
    pub(crate) fn allow(&self, capacity: u64) {
        if self.table > 0 {
            self.encoder.lock().allow(capacity);
        }
    }

    /// Whether sections depend on the stream on which they leave.
    pub(crate) fn are_used(&self) -> bool {
        self.encoder.lock().uses_table()
    }

    /// Reads a head that came on this stream.
    pub(crate) fn read<T, E: From<Fault>>(
        &self,
        stream: u64,
        section: &[u8],
        with: impl FnOnce(Received<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.read_within(stream, section, self.limits, with)
    }

    /// Reads trailers that came on this stream.
    pub(crate) fn read_trailers<T, E: From<Fault>>(
        &self,
        stream: u64,
        section: &[u8],
        with: impl FnOnce(Received<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.read_within(stream, section, self.trailers, with)
    }

    fn read_within<T, E: From<Fault>>(
        &self,
        stream: u64,
        section: &[u8],
        limits: FieldSectionLimits,
        with: impl FnOnce(Received<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut decoder = self.decoder.lock();
        let read = with(Received {
            section,
            stream,
            limits,
            decoder: &mut decoder,
        });

        self.wake_for(&decoder);
        // A peer that reads no acknowledgements would let them pile up here.
        if decoder.is_unheard() {
            return Err(unheard().into());
        }
        read
    }

    /// Writes a section that is to leave on this stream.
    pub(crate) fn write<E>(
        &self,
        stream: u64,
        with: impl FnOnce(SectionEncoder<'_>) -> Result<(), E>,
    ) -> Result<BytesMut, E> {
        let mut encoder = self.encoder.lock();
        let mut section = BytesMut::new();
        with(encoder.section(stream, &mut section))?;
        if encoder.has_instructions() {
            self.wake.notify_one();
        }
        Ok(section)
    }

    /// This stream is not read any more; it may have unread sections.
    pub(crate) fn cancel(&self, stream: u64) {
        let mut decoder = self.decoder.lock();
        // RFC 9204, 4.4.2: lets the peer's encoder evict the entries that unread sections refer to.
        decoder.cancel(stream);
        self.wake_for(&decoder);
    }

    fn wake_for(&self, decoder: &QpackDecoder) {
        if decoder.has_instructions() {
            self.wake.notify_one();
        }
    }

    /// The instructions of our encoder that are to be sent.
    pub(crate) fn take_encoder_instructions(&self) -> BytesMut {
        self.encoder.lock().take_instructions()
    }

    /// The instructions of our decoder that are to be sent.
    pub(crate) fn take_decoder_instructions(&self) -> BytesMut {
        self.decoder.lock().take_instructions()
    }

    /// Resolves when there may be instructions to send, also those from before the call.
    pub(crate) async fn instructions(&self) {
        self.wake.notified().await;
    }

    /// Handles input of the peer's encoder stream.
    pub(crate) fn encoder_says(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut decoder = self.decoder.lock();
        let handled = decoder.handle(bytes);
        self.wake_for(&decoder);
        handled.map_err(|_| {
            Fault::connection(
                Code::QpackEncoderStreamError,
                "an instruction for which the dynamic table has no room",
            )
        })
    }

    /// Handles input of the peer's decoder stream.
    pub(crate) fn decoder_says(&self, bytes: &[u8]) -> Result<(), Fault> {
        self.encoder.lock().handle(bytes).map_err(|_| {
            Fault::connection(
                Code::QpackDecoderStreamError,
                "an instruction about a section that was not sent",
            )
        })
    }
}

fn unheard() -> Fault {
    Fault::connection(
        Code::ExcessiveLoad,
        "instructions about field sections are not read",
    )
}
