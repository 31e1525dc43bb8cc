//! A UDP socket that says how long datagrams have waited to be read: a machine that is busy is not a path that is slow.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;

use crate::os;

/// A longer wait is not plausible: the clock of the system was set.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(10);

/// A socket with the time of arrival on each datagram.
#[derive(Debug)]
pub struct TimedSocket(UdpSocket);

/// A datagram that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedDatagram {
    /// Bytes of it that were put into the buffer.
    pub length: usize,
    /// Where it came from.
    pub from: SocketAddr,
    /// How long it waited in this machine; zero where the system does not tell.
    pub waited: Duration,
}

impl TimedSocket {
    /// One that does not block.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        os::note_arrivals(&socket)?;
        UdpSocket::from_std(socket).map(Self)
    }

    /// The socket, for all but reading.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.0
    }

    /// Reads a datagram, if one is there; of one that is longer than the buffer, the beginning.
    ///
    /// # Errors
    /// `WouldBlock` without a datagram; or the system's error.
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<TimedDatagram> {
        let (length, from, waited) = os::receive_timed(&self.0, buffer)?;
        let waited = if waited > LONGEST {
            Duration::ZERO
        } else {
            waited
        };
        Ok(TimedDatagram {
            length,
            from,
            waited,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_datagram_that_was_not_read_at_once_has_waited() {
        for local in ["127.0.0.1:0", "[::]:0"] {
            let socket = std::net::UdpSocket::bind(local).unwrap();
            let port = socket.local_addr().unwrap().port();
            let socket = TimedSocket::new(socket).unwrap();
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut buffer = [0; 8];
            let none = socket.try_recv(&mut buffer).unwrap_err();
            assert_eq!(none.kind(), io::ErrorKind::WouldBlock);

            // The kernel begins to note it a little after it was asked to.
            let mut tries = 0;
            loop {
                sender.send_to(b"ping", ("127.0.0.1", port)).unwrap();
                let sent = Instant::now();
                while sent.elapsed() < Duration::from_millis(5) {
                    std::thread::yield_now();
                }

                let at_least = sent.elapsed();
                socket.socket().readable().await.unwrap();
                let came = socket.try_recv(&mut buffer).unwrap();
                assert_eq!(&buffer[..came.length], b"ping");
                assert_eq!(came.from.port(), sender.local_addr().unwrap().port());
                assert!(came.from.ip().to_canonical().is_loopback(), "{came:?}");
                if came.waited >= at_least {
                    break;
                }
                tries += 1;
                assert!(tries < 100, "{local}");
            }
        }
    }
}
