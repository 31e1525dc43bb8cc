//! The QPACK tables of a connection (RFC 9204), and the two streams that keep them in step.

use std::sync::Arc;

use bytes::BytesMut;
use hermes_net::PeerAddress;
use hermes_net::memory::ConnectionCharges;
use hermes_net::quic::{SendStream, WriteError};
use hermes_proto::h1::MessageLimits;
use hermes_proto::h3::{Code, Fault, FieldSectionLimits, Received, StreamType};
use hermes_proto::qpack::{QpackDecoder, QpackEncoder, SectionEncoder};
use hermes_proto::varint;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::drive;
use super::shared::Shared;

/// Bytes of the dynamic table that we keep for the peer of a link. A stranger gets no table.
#[doc(alias = "bound")]
pub(crate) const HEADER_TABLE: usize = 4096;

/// Both tables. Their locks are held for a section or a few instructions, never across a wait.
#[derive(Debug)]
pub(crate) struct Tables {
    /// Bytes of our table; 0 if no tables are used, in either direction.
    table: usize,
    /// Of every field section that comes.
    pub(crate) limits: FieldSectionLimits,
    /// Of those that are trailers.
    trailers: FieldSectionLimits,
    /// Their charge.
    pub(crate) charges: Arc<ConnectionCharges>,
    decoder: Mutex<QpackDecoder>,
    encoder: Mutex<QpackEncoder>,
    /// There is something to send.
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
        self.read_within((stream, section), self.limits, with)
    }

    /// Reads trailers that came on this stream.
    pub(crate) fn read_trailers<T, E: From<Fault>>(
        &self,
        stream: u64,
        section: &[u8],
        with: impl FnOnce(Received<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.read_within((stream, section), self.trailers, with)
    }

    fn read_within<T, E: From<Fault>>(
        &self,
        (stream, section): (u64, &[u8]),
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
        decoder.cancel(stream);
        self.wake_for(&decoder);
    }

    fn wake_for(&self, decoder: &QpackDecoder) {
        if decoder.has_instructions() {
            self.wake.notify_one();
        }
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

/// Sends the instructions of each table, on streams that are opened with the first one.
pub(crate) async fn write(shared: Arc<Shared>) -> Result<(), Fault> {
    let tables = &shared.tables;
    let mut encoder = Stream::new(StreamType::QpackEncoder);
    let mut decoder = Stream::new(StreamType::QpackDecoder);

    loop {
        let instructions = tables.encoder.lock().take_instructions();
        encoder.send(&shared, instructions).await?;
        let instructions = tables.decoder.lock().take_instructions();
        decoder.send(&shared, instructions).await?;
        tables.wake.notified().await;
    }
}

/// One of our two streams.
struct Stream {
    kind: StreamType,
    open: Option<SendStream>,
}

impl Stream {
    fn new(kind: StreamType) -> Self {
        Self { kind, open: None }
    }

    async fn send(&mut self, shared: &Shared, instructions: BytesMut) -> Result<(), Fault> {
        if instructions.is_empty() {
            return Ok(());
        }

        let mut bytes = BytesMut::new();
        let stream = match &mut self.open {
            Some(stream) => stream,
            None => {
                let Ok(stream) = shared.connection.open_uni().await else {
                    return Ok(());
                };
                varint::encode(self.kind.number(), &mut bytes);
                self.open.insert(stream)
            }
        };

        bytes.unsplit(instructions);
        match drive::write(stream, bytes.freeze()).await {
            // RFC 9204, section 4.2: it must not be stopped.
            Err(WriteError::Stopped(_)) => Err(Fault::connection(
                Code::ClosedCriticalStream,
                "a stream of QPACK was stopped",
            )),
            // The others see it when the connection ends.
            _ => Ok(()),
        }
    }
}
