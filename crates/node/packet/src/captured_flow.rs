//! A flow of UDP that the kernel captured, whose client is told errors as a router on the way tells them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::ErrorSockets;
use hermes_proto::ip::{IcmpError, MIN_MTU_V6, Packet};
use hermes_stack::UdpDatagram;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The shortest time between two errors to one client: it learns by one, and an error that is lost is told of its next datagram.
#[doc(alias = "bound")]
const INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of the headers of IP and UDP.
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;

/// Bytes of a UDP payload that goes on from a captured client whatever the way is: every link of IPv6 carries as much (RFC 8200, section 5),
/// and no client of IPv6 sends less for an error of ICMP.
#[doc(alias = "bound")]
pub const CAPTURED_FLOOR: usize = MIN_MTU_V6 - HEADERS_V6;

/// The two ends of a captured flow, and the sockets for errors to its client.
pub struct CapturedFlow {
    client: SocketAddr,
    target: SocketAddr,
    errors: Arc<ErrorSockets>,
    told: Mutex<Option<Instant>>,
}

impl CapturedFlow {
    /// The flow of this client to this target.
    pub fn new(client: SocketAddr, target: SocketAddr, errors: Arc<ErrorSockets>) -> Self {
        Self {
            client,
            target,
            errors,
            told: Mutex::new(None),
        }
    }

    /// Tells the client that payloads of more than this many bytes do not go on.
    pub(crate) fn refuse_larger(&self, payload: usize) {
        if !self.is_due(Instant::now()) {
            return;
        }
        if let Some(error) = too_big(self.client, self.target, payload) {
            self.errors.send(&error, self.client);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut told = self.told.lock();
        let is_due = told.is_none_or(|last| now.duration_since(last) >= INTERVAL);
        if is_due {
            *told = Some(now);
        }
        is_due
    }
}

/// The message of ICMP about a datagram from `client` to `target`. Ports are all that a host looks for in the packet that an error quotes.
fn too_big(client: SocketAddr, target: SocketAddr, payload: usize) -> Option<Vec<u8>> {
    if client.is_ipv4() != target.is_ipv4() {
        return None;
    }
    let about = UdpDatagram {
        from: client,
        to: target,
        payload: &[],
    };
    let headers = if client.is_ipv4() {
        HEADERS_V4
    } else {
        HEADERS_V6
    };
    let error = IcmpError::TooBig {
        mtu: u16::try_from(payload + headers).unwrap_or(u16::MAX),
    };
    let about = about.to_packet();
    let packet = error.about(&Packet::parse(&about).ok()?, target.ip())?;
    let message = Packet::parse(&packet).ok()?.payload().to_vec();
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn one_error_is_sent_in_its_time() {
        let ends = [address("10.0.1.2:5000"), address("192.0.2.1:53")];
        let flow = CapturedFlow::new(ends[0], ends[1], Arc::default());
        let began = Instant::now();
        let sent = (0..1000).filter(|millis| flow.is_due(began + Duration::from_millis(*millis)));
        assert_eq!(sent.count(), 10);
    }

    #[test]
    fn the_error_has_the_mtu_and_quotes_both_ends() {
        let message = too_big(address("10.0.1.2:5000"), address("192.0.2.1:53"), 1300).unwrap();
        assert_eq!(message[..2], [3, 4]);
        assert_eq!(message[6..8], 1328u16.to_be_bytes());
        let quoted = &message[8..];
        assert_eq!(quoted[12..16], [10, 0, 1, 2]);
        assert_eq!(quoted[16..20], [192, 0, 2, 1]);
        assert_eq!(quoted[20..24], [0x13, 0x88, 0, 53]);

        let message = too_big(address("[fd01::2]:5000"), address("[fd02::2]:53"), 1300).unwrap();
        assert_eq!(message[..2], [2, 0]);
        assert_eq!(message[4..8], 1348u32.to_be_bytes());
        let least = too_big(address("[fd01::2]:5000"), address("[fd02::2]:53"), 900).unwrap();
        assert_eq!(least[4..8], 1280u32.to_be_bytes());
        assert!(too_big(address("10.0.1.2:5000"), address("[fd02::2]:53"), 900).is_none());
    }
}
