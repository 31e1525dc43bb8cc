//! Tunnels of bytes that outlive the path to them: ours, between two nodes that agree.
//!
//! The nearer end asks for a session in the request for a tunnel, by the field [`FIELD`]; the end
//! where the tunnel becomes a TCP connection answers with a [`Grant`]. From then on the bytes of
//! the tunnel, whatever its form, are a stream of capsules (RFC 9297, 3.2): those of connect-tcp
//! (draft-ietf-httpbis-connect-tcp), and three of our own. Proxies in between see a tunnel as any
//! other, and may carry it in the form of CONNECT, connect-tcp or POST: the capsules are within its
//! bytes, so that a change of form loses no capsule.
//!
//! ```text
//! DATA       { Type = 0x2028d7f2, Length, Bytes (..) }
//! FINAL_DATA { Type = 0x2028d7f3, Length, Bytes (..) }
//! ACK        { Type = 0x2d7c51ab, Length, Received (varint) }
//! RESUME     { Type = 0x2d7c51aa, Length, Session (128), Epoch (64), Received (varint) }
//! RESET      { Type = 0x2d7c51ac, Length, Code (varint), Reason (..) }
//! ```
//!
//! *Received* counts the bytes of a direction from its beginning; its end counts as one more. The
//! sender keeps all bytes that the peer has not received. When the path breaks, or is left for
//! another, the nearer end asks for the tunnel again with a [`Ticket`]; both ends then say RESUME
//! first, and go on with the byte that the other one lacks. *Epoch* is drawn when the process that
//! keeps the session starts: a restarted process has another one, and no state of the tunnel.
//! *Code* is an error code of HTTP/2 (RFC 9113, 7), and ends the tunnel.
//!
//! [`ResumableEnd`] is one end of such a tunnel, without the streams.

mod capsules;
mod end;
mod field;
mod window;

pub use capsules::{ResumableDecoder, ResumableError, ResumablePiece, ResumeOf};
pub use end::{Delivery, LEAST_WINDOW, ResumableEnd};
pub use field::{FIELD, Grant, Request, Ticket};

/// Bytes of a session's name.
pub const SESSION: usize = 16;

/// Decodes arbitrary bytes as capsules, and as values of the field.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    capsules::fuzz_one(data);
    field::fuzz_one(data);
    end::fuzz_one(data);
}
