//! Several workers behind one UDP port.
//!
//! Every worker has a socket of its own on the port (`SO_REUSEPORT`). The kernel chooses by the
//! sender's address and port, which keeps a connection on one socket until its client moves. So a
//! filter chooses instead: packets that carry a connection ID of ours go to the worker that it
//! names; the first packets of a client, whose connection ID is its own, are spread as before.
//!
//! Connections that a client opens from one port meet on one worker, also because the kernel may merge their packets (GRO).

use std::io;
use std::net::UdpSocket;

use crate::os;
use crate::os::Instruction;

/// Load the byte at `k`.
const LOAD: u16 = 0x30;
/// Jump if a bit of `k` is set.
const IF_SET: u16 = 0x45;
/// Jump if equal to `k`.
const IF_EQUAL: u16 = 0x15;
/// And with `k`.
const AND: u16 = 0x54;
/// Return `k`.
const RETURN: u16 = 0x06;
/// Return the loaded value.
const RETURN_LOADED: u16 = 0x16;
/// No socket has this number: the kernel then chooses by the sender.
const BY_SENDER: u32 = u32::MAX;

/// The input of the filter begins at the UDP payload. Layouts: RFC 9000 sections 17.2 (long header:
/// flags, version, length of the destination connection ID, the ID) and 17.3.1 (short header:
/// flags, the ID).
const PROGRAM: [Instruction; 9] = [
    op(LOAD, 0, 0, 0),
    // Bit 7: a long header.
    op(IF_SET, 2, 0, 0x80),
    // Short: the first byte of the connection ID is the worker.
    op(LOAD, 0, 0, 1),
    op(RETURN_LOADED, 0, 0, 0),
    // Long: bits 4 and 5 are the type. Only a Handshake packet surely carries an ID of ours.
    op(AND, 0, 0, 0x30),
    op(IF_EQUAL, 0, 2, 0x20),
    op(LOAD, 0, 0, 6),
    op(RETURN_LOADED, 0, 0, 0),
    op(RETURN, 0, 0, BY_SENDER),
];

const fn op(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Makes the kernel deliver packets to the sockets of their workers. `sockets` must have been bound
/// in the order of their workers, and no other socket to the port.
///
/// # Errors
/// When the system refuses, or has no such filter: then there should be one socket only.
pub fn steer(sockets: &[UdpSocket]) -> io::Result<()> {
    // One of them stands for the group.
    match sockets.first() {
        Some(socket) if sockets.len() > 1 => os::attach_reuseport_filter(socket, &PROGRAM),
        _ => Ok(()),
    }
}
