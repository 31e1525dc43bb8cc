//! The two streams that keep the QPACK tables of both sides in step (RFC 9204, 4.2).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::quic::{SendStream, WriteError};
use hermes_proto::h3::{Code, Fault, StreamType};
use hermes_proto::varint;

use super::shared::Shared;

/// Sends the instructions of each table, on streams that are opened with the first one.
pub(crate) async fn write_instructions(shared: Arc<Shared>) -> Result<(), Fault> {
    let tables = &shared.tables;
    let mut encoder = InstructionStream::new(StreamType::QpackEncoder);
    let mut decoder = InstructionStream::new(StreamType::QpackDecoder);

    loop {
        let instructions = tables.take_encoder_instructions();
        encoder.send(&shared, instructions).await?;
        let instructions = tables.take_decoder_instructions();
        decoder.send(&shared, instructions).await?;
        tables.instructions().await;
    }
}

/// One of our two streams.
struct InstructionStream {
    kind: StreamType,
    open: Option<SendStream>,
}

impl InstructionStream {
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
                // Opened with the first instruction: RFC 9204, 4.2 allows to leave out a stream that would say nothing.
                let Ok(stream) = shared.connection.open_uni().await else {
                    return Ok(());
                };
                varint::encode(self.kind.number(), &mut bytes);
                self.open.insert(stream)
            }
        };

        bytes.unsplit(instructions);
        match write_all(stream, bytes.freeze()).await {
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

/// Writes all of these bytes.
pub(crate) async fn write_all(stream: &mut SendStream, bytes: Bytes) -> Result<(), WriteError> {
    let mut pieces = [bytes];
    while !pieces[0].is_empty() {
        stream.write(&mut pieces).await?;
    }
    Ok(())
}
