//! The file of one exchange: records that are only appended, each with checked sums.
//!
//! ```text
//!  0        1        4          12       16            20           24
//! +--------+--------+----------+--------+-------------+------------+---------
//! | kind   | zeros  | offset   | length | CRC content | CRC header | content
//! +--------+--------+----------+--------+-------------+------------+---------
//! ```
//!
//! Numbers are big-endian; the sums are CRC-32 (ISO 3309), the second one of the 20 bytes before it. A record that is cut off at the end of
//! a file was being written when the process ended, and is forgotten. Anything else that does not fit its sums makes the whole file worthless:
//! which of its bytes are right cannot be said.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use hermes_proto::custody::ObjectPart;

/// Bytes before the content of a record.
pub(super) const HEADER: usize = 24;

/// Bytes of content in one record: few enough to be checked whenever some of them are read.
#[doc(alias = "bound")]
pub const RECORD: usize = 4096;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The terms of the exchange; the first record.
    Terms,
    /// Bytes of an object, from an offset on.
    Bytes(ObjectPart),
    /// The offset is the length of an object.
    Total(ObjectPart),
    /// The other side will offer the exchange to no one else.
    Confirmed,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Terms => 1,
            Self::Bytes(ObjectPart::Request) => 2,
            Self::Bytes(ObjectPart::Response) => 3,
            Self::Total(ObjectPart::Request) => 4,
            Self::Total(ObjectPart::Response) => 5,
            Self::Confirmed => 6,
        }
    }

    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Terms,
            2 => Self::Bytes(ObjectPart::Request),
            3 => Self::Bytes(ObjectPart::Response),
            4 => Self::Total(ObjectPart::Request),
            5 => Self::Total(ObjectPart::Response),
            6 => Self::Confirmed,
            _ => return None,
        })
    }
}

/// A record that was read.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: Kind,
    pub(super) offset: u64,
    pub(super) content: Bytes,
}

/// The record at a place of a file, if there is one.
#[derive(Debug)]
pub(super) enum Found {
    /// A record that fits its sums.
    Record(Record),
    /// The file ends here, or in the middle of a record.
    End,
    /// Something else.
    Damaged,
}

/// A record as it is written.
pub(super) fn encode(kind: Kind, offset: u64, content: &[u8]) -> BytesMut {
    let mut record = BytesMut::with_capacity(HEADER + content.len());
    record.put_u8(kind.number());
    record.put_bytes(0, 3);
    record.put_u64(offset);
    record.put_u32(content.len() as u32);
    record.put_u32(crc32fast::hash(content));
    let sum = crc32fast::hash(&record);
    record.put_u32(sum);
    record.put_slice(content);
    record
}

/// Reads the record at a place of a file, whose length is given.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(file: &File, at: u64, end: u64) -> io::Result<Found> {
    if end < at + HEADER as u64 {
        return Ok(Found::End);
    }
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, at)?;
    let mut fields = &header[..];
    let kind = Kind::of(fields.get_u8());
    let zeros = fields.get_uint(3);
    let offset = fields.get_u64();
    let length = fields.get_u32() as usize;
    let content_sum = fields.get_u32();
    let header_sum = fields.get_u32();

    // The header first: a length that is damaged would lead anywhere.
    let is_whole = header_sum == crc32fast::hash(&header[..HEADER - 4]);
    let Some(kind) = kind.filter(|_| is_whole && zeros == 0 && length <= RECORD) else {
        return Ok(Found::Damaged);
    };
    let content_at = at + HEADER as u64;
    if end < content_at + length as u64 {
        return Ok(Found::End);
    }
    let mut content = vec![0; length];
    file.read_exact_at(&mut content, content_at)?;
    if crc32fast::hash(&content) != content_sum {
        return Ok(Found::Damaged);
    }
    Ok(Found::Record(Record {
        kind,
        offset,
        content: content.into(),
    }))
}
