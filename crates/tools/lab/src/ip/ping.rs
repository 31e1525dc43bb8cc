//! ICMP echo (RFC 792), over a socket of our own: a program that pings has timers of its own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, Socket, Type};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Types of messages.
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;

/// Bytes of a message: those of `ping`.
const MESSAGE: usize = 64;

/// Sends one echo request and waits for its answer: how long that took.
///
/// # Errors
/// When no answer comes.
pub fn round_trip(socket: &mut Socket, number: u16) -> Result<Duration> {
    let request = echo_request(number);
    let begin = Instant::now();
    socket
        .write_all(&request)
        .context("sending an echo request")?;

    let mut room = [0; 2048];
    loop {
        let length = socket.read(&mut room).context("no answer to a ping")?;
        if is_answer(&room[..length], number) {
            return Ok(begin.elapsed());
        }
    }
}

/// A socket for echo requests to this address. It needs root.
///
/// # Errors
/// When the system does not allow it.
pub fn open(to: Ipv4Addr) -> Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4))?;
    socket.connect(&SocketAddr::from((to, 0)).into())?;
    socket.set_read_timeout(Some(LIMIT))?;
    Ok(socket)
}

fn echo_request(number: u16) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[0] = ECHO_REQUEST;
    message[4..6].copy_from_slice(&identifier().to_be_bytes());
    message[6..8].copy_from_slice(&number.to_be_bytes());
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

/// Whether a packet, with its IP header, answers the request of this number.
fn is_answer(packet: &[u8], number: u16) -> bool {
    let header = packet
        .first()
        .map_or(0, |first| usize::from(first & 15) * 4);
    let Some(message) = packet.get(header..) else {
        return false;
    };
    let wanted = [identifier().to_be_bytes(), number.to_be_bytes()].concat();
    message.first() == Some(&ECHO_REPLY) && message.get(4..8) == Some(&wanted[..])
}

/// Tells our answers from those of others on this machine.
fn identifier() -> u16 {
    std::process::id() as u16
}

/// RFC 1071.
fn checksum(message: &[u8]) -> u16 {
    let words = message.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_that_of_its_request() {
        let mut answer = vec![0x45; 20];
        let mut message = echo_request(7);
        message[0] = ECHO_REPLY;
        answer.extend_from_slice(&message);
        assert!(is_answer(&answer, 7));
        assert!(!is_answer(&answer, 8));
        assert!(!is_answer(&answer[..22], 7));
        assert_eq!(checksum(&echo_request(7)), 0);
    }
}
