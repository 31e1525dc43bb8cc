//! A connection to a scanner, and the heads of ICAP on it.

use std::io;

use bytes::{Bytes, BytesMut};
use hermes_config::model::EndpointAddress;
use hermes_net::{ReadHalf, Stream, WriteHalf};
use hermes_proto::fields::Fields;
use hermes_proto::h1::{self, MessageLimits};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::outside::OutsideStream;

/// Bytes of the head of an answer of ICAP, with the heads within it.
#[doc(alias = "bound")]
pub(super) const HEAD: usize = 128 * 1024;

/// The reading half, with the bytes that were read too many.
pub(super) struct IcapReader {
    half: ReadHalf,
    pub(super) buffer: BytesMut,
}

/// The head of an answer of ICAP.
#[derive(Debug)]
pub(super) struct IcapHead {
    pub(super) status: u16,
    pub(super) fields: Fields,
}

/// Connects.
pub(super) async fn connect(to: &EndpointAddress) -> io::Result<(IcapReader, WriteHalf)> {
    let stream = Stream::from(OutsideStream::connect(to).await?);
    let (half, write) = stream.split();
    let reader = IcapReader {
        half,
        buffer: BytesMut::new(),
    };
    Ok((reader, write))
}

impl IcapReader {
    /// Reads more bytes into the buffer; false at the end.
    pub(super) async fn more(&mut self) -> io::Result<bool> {
        self.buffer.reserve(16 * 1024);
        Ok(self.half.read_buf(&mut self.buffer).await? > 0)
    }

    /// The next head.
    pub(super) async fn head(&mut self) -> io::Result<IcapHead> {
        loop {
            if let Some(head) = self.decode()? {
                return Ok(head);
            }
            // A scanner that only ever sends fields would take memory for as long as it likes.
            if self.buffer.len() > HEAD {
                return Err(invalid("it answers with a head without end"));
            }
            if !self.more().await? {
                return Err(invalid("it ended before its answer"));
            }
        }
    }

    /// The next bytes, so many of them.
    pub(super) async fn exactly(&mut self, length: usize) -> io::Result<BytesMut> {
        if length > HEAD {
            return Err(invalid("it gives a head without end"));
        }
        while self.buffer.len() < length {
            if !self.more().await? {
                return Err(invalid("it ended in the midst of a head"));
            }
        }
        Ok(self.buffer.split_to(length))
    }

    /// A head of ICAP is one of HTTP/1.1 but for its first word (RFC 3507, 4.3.3).
    fn decode(&mut self) -> io::Result<Option<IcapHead>> {
        const OWN: &[u8] = b"ICAP/1.0";
        const SAME: &[u8] = b"HTTP/1.1";
        let seen = self.buffer.len().min(OWN.len());
        if self.buffer[..seen] != OWN[..seen] {
            return Err(invalid("it does not speak ICAP"));
        }
        let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let mut head = self.buffer.split_to(end + 4);
        head[..OWN.len()].copy_from_slice(SAME);
        let read = h1::decode_response(&mut head, &MessageLimits::of_responses(), &Method::GET);
        match read {
            Ok(Some(head)) => Ok(Some(IcapHead {
                status: head.status.as_u16(),
                fields: head.fields,
            })),
            Ok(None) | Err(_) => Err(invalid("its head is malformed")),
        }
    }
}

/// Writes a chunk (RFC 9112, 7.1); an empty one would be the last.
pub(super) async fn write_chunk(write: &mut WriteHalf, data: &Bytes) -> io::Result<()> {
    if data.is_empty() {
        return Ok(());
    }
    let size = format!("{:x}\r\n", data.len());
    write.write_all(size.as_bytes()).await?;
    write.write_all(data).await?;
    write.write_all(b"\r\n").await
}

pub(super) fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
