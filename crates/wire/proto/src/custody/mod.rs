//! Custody: how a node pulls messages from a neighbour over UDP, where the network between them comes and goes. Ours, version 1.
//!
//! Custody carries *objects*: the two parts of an exchange, its request and its response, each a
//! run of bytes that grows until its total is known. The receiver asks for ranges of it, the sender
//! answers from its store, and neither needs to have heard the other lately. [`CustodyPacket`] is
//! the content of a UDP datagram, [`CustodyFrame`] of its sealed part, and [`ReplayWindow`] says
//! which packet numbers are new.
//!
//! # Layout
//!
//! Integers with a width are in network byte order, the others are
//! [variable-length](crate::varint). The high half of a datagram's first byte is the version, the
//! low half is the kind:
//!
//! ```text
//! 0x11 HELLO    epoch u32 of who speaks, cookie 16 or all zero, then the first message of a handshake
//! 0x12 RETRY    epoch u32 of the HELLO, cookie 16
//! 0x13 ANSWER   epoch u32 of the HELLO, epoch u32 of who speaks, then the second message
//! 0x14 SEALED   epoch u32 of who hears, packet number u64, then frames, sealed under the keys of that epoch
//! ```
//!
//! The first message of a handshake carries a stamp of 8 bytes: when it was begun, in nanoseconds since the Unix epoch, told coarsely. Each is
//! greater than those before, so that a HELLO that someone repeats takes nothing from the newest. One without a stamp has 0. A RETRY answers a
//! HELLO without a good cookie and a SEALED of an epoch that is not known, unless that is shorter than the RETRY.
//!
//! A frame is a type and its fields. An object is the 16 bytes of its exchange and one byte, 0 for the request and 1 for the
//! response. *Extent* is a byte, whose lowest bit says that the total is known, the total if so, and the bytes that are
//! available from the beginning on without a gap.
//!
//! ```text
//! 0x00 PADDING
//! 0x01 REQ      object, serial, taken, limit, count, count times (gap, length)
//! 0x02 DATA     object, serial of the REQ, extent, offset, length, bytes
//! 0x03 STATUS   object, serial of the REQ, extent
//! 0x04 ERR      object, code
//! 0x05 FIN      object, code
//! 0x06 OFFER    exchange 16, seconds to keep u32, 1 if it may be acted on once only, extent of the request
//! 0x07 CHALLENGE  8 bytes
//! 0x08 RESPONSE   8 bytes
//! ```
//!
//! *Taken* is the end of the bytes that the receiver has in custody: everything before it can be
//! freed. A gap is the distance between a range and the end of the one before. In DATA the second
//! bit of the extent's byte says that the bytes were at hand when the REQ came, so that the time
//! between the two is that of the path.

mod frame;
mod packet;
mod replay;

pub use frame::{
    CustodyFrame, CustodyRange, ErrCode, Extent, FinCode, MAX_RANGES, ObjectId, ObjectPart,
    decode_frames,
};
pub use packet::{COOKIE, CustodyPacket, MAX_CUSTODY_DATAGRAM, PACKET_HEADER};
pub use replay::{REPLAY_WINDOW, ReplayWindow};

/// Why a datagram of custody is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CustodyError {
    /// The input ends too early.
    #[error("the datagram is cut off")]
    Truncated,
    /// The datagram is of no known version or kind.
    #[error("the datagram is of no known kind")]
    Unknown,
    /// A field has a value that it cannot have.
    #[error("{0} is not valid")]
    Invalid(&'static str),
}

/// Decodes arbitrary bytes, as a datagram, as frames, and as packet numbers: every value that
/// decodes survives a round trip.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    packet::fuzz_one(data);
    frame::fuzz_one(data);
    replay::fuzz_one(data);
}
