//! CONNECT-UDP clients (RFC 9298) over HTTP/1.1 and HTTP/2, with a capsule codec of their own.

use std::net::SocketAddr;
use std::time::Duration;

use crate::eventually::eventually;
use crate::h2c::{Answer, Client, Stream};
use crate::head::Head;
use crate::raw::Raw;

/// The DATAGRAM capsule (RFC 9297, 3.5).
pub const DATAGRAM: u64 = 0;

/// How long an answer is waited for before it is asked for again.
const AGAIN: Duration = Duration::from_millis(500);

/// A UDP tunnel.
#[derive(Debug)]
pub struct UdpTunnel {
    carrier: Carrier,
}

#[derive(Debug)]
enum Carrier {
    H1(Raw),
    H2(Stream),
}

/// The path of a target (RFC 9298, 2).
pub fn path(host: &str, port: u16) -> String {
    format!(
        "/.well-known/masque/udp/{}/{port}/",
        host.replace(':', "%3A")
    )
}

impl UdpTunnel {
    /// Opens one over HTTP/1.1; `fields` are whole lines such as `user: bob\r\n`.
    ///
    /// # Errors
    /// The head of another answer than 101.
    pub fn h1(proxy: SocketAddr, host: &str, port: u16, fields: &str) -> Result<Self, Head> {
        Self::h1_at(proxy, &path(host, port), fields)
    }

    /// As [`Self::h1`], at this path.
    ///
    /// # Errors
    /// As [`Self::h1`].
    pub fn h1_at(proxy: SocketAddr, path: &str, fields: &str) -> Result<Self, Head> {
        Self::h1_for(proxy, "connect-udp", path, fields)
    }

    /// As [`Self::h1_at`], for this protocol of capsules.
    ///
    /// # Errors
    /// As [`Self::h1`].
    pub fn h1_for(
        proxy: SocketAddr,
        protocol: &str,
        path: &str,
        fields: &str,
    ) -> Result<Self, Head> {
        let mut raw = Raw::connect(proxy);
        raw.send(format!(
            "GET http://{proxy}{path} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             Capsule-Protocol: ?1\r\n{fields}\r\n"
        ));
        let head = raw.head();

        if head.status() == 101 {
            Ok(Self {
                carrier: Carrier::H1(raw),
            })
        } else {
            Err(head)
        }
    }

    /// Opens one on an HTTP/2 connection.
    ///
    /// # Errors
    /// The answer, if it is no success.
    pub fn h2(
        client: &Client,
        proxy: SocketAddr,
        host: &str,
        port: u16,
        fields: &[(&str, &str)],
    ) -> Result<Self, Answer> {
        let uri = format!("http://{proxy}{}", path(host, port));
        let fields: Vec<_> = [("capsule-protocol", "?1")]
            .into_iter()
            .chain(fields.iter().copied())
            .collect();

        client
            .extended("connect-udp", &uri, &fields)
            .map(|stream| Self {
                carrier: Carrier::H2(stream),
            })
    }

    /// A tunnel that was opened by hand.
    pub fn of(raw: Raw) -> Self {
        Self {
            carrier: Carrier::H1(raw),
        }
    }

    /// Opens a tunnel of capsules under this protocol on an HTTP/2 connection.
    ///
    /// # Errors
    /// As [`Self::h2`].
    pub fn h2_for(client: &Client, protocol: &'static str, uri: &str) -> Result<Self, Answer> {
        client
            .extended(protocol, uri, &[("capsule-protocol", "?1")])
            .map(|stream| Self {
                carrier: Carrier::H2(stream),
            })
    }

    /// Breaks the tunnel off.
    pub fn reset(self) {
        match self.carrier {
            Carrier::H1(raw) => raw.reset(),
            Carrier::H2(mut stream) => stream.reset(),
        }
    }

    /// Sends a datagram with context 0.
    pub fn send(&mut self, payload: impl AsRef<[u8]>) {
        let mut value = vec![0];
        value.extend_from_slice(payload.as_ref());
        self.send_capsule(DATAGRAM, &value);
    }

    /// Sends any capsule.
    pub fn send_capsule(&mut self, kind: u64, value: &[u8]) {
        let mut bytes = varint(kind);
        bytes.extend(varint(value.len() as u64));
        bytes.extend_from_slice(value);
        self.send_bytes(&bytes);
    }

    /// Sends bytes of the capsule stream.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match &mut self.carrier {
            Carrier::H1(raw) => raw.send(bytes),
            Carrier::H2(stream) => stream.send(bytes),
        }
    }

    /// Discards all further bytes over HTTP/1.1: for a client that only sends.
    pub fn forget_incoming(&self) {
        if let Carrier::H1(raw) = &self.carrier {
            raw.forget_incoming();
        }
    }

    /// Sends bytes of the capsule stream, if the far end takes them.
    pub fn send_if_open(&mut self, payload: impl AsRef<[u8]>) {
        let mut bytes = varint(DATAGRAM);
        bytes.extend(varint(1 + payload.as_ref().len() as u64));
        bytes.push(0);
        bytes.extend_from_slice(payload.as_ref());
        match &mut self.carrier {
            Carrier::H1(raw) => raw.send_if_open(&bytes),
            Carrier::H2(stream) => stream.send(&bytes),
        }
    }

    /// The payload of the next datagram with context 0; other capsules and contexts are passed over.
    ///
    /// # Panics
    /// When none comes.
    pub fn receive(&mut self) -> Vec<u8> {
        loop {
            let (kind, value) = self.capsule();
            if kind == DATAGRAM && value.first() == Some(&0) {
                return value[1..].to_vec();
            }
        }
    }

    /// The payload of the next datagram with context 0, if something comes within half a second.
    ///
    /// # Panics
    /// When something else comes, and no datagram after it.
    pub fn receive_soon(&mut self) -> Option<Vec<u8>> {
        let came = match &mut self.carrier {
            Carrier::H1(raw) => raw.has_more_within(AGAIN),
            Carrier::H2(stream) => stream.has_more_within(AGAIN),
        };
        came.then(|| self.receive())
    }

    /// Sends a payload until an answer comes: datagrams may be lost where a machine is busy.
    ///
    /// # Panics
    /// When none comes.
    pub fn ask(&mut self, payload: impl AsRef<[u8]>) -> Vec<u8> {
        eventually("an answer in the tunnel", || {
            self.send(payload.as_ref());
            let came = match &mut self.carrier {
                Carrier::H1(raw) => raw.has_more_within(AGAIN),
                Carrier::H2(stream) => stream.has_more_within(AGAIN),
            };
            came.then(|| self.receive())
        })
    }

    /// The next capsule.
    ///
    /// # Panics
    /// When none comes.
    pub fn capsule(&mut self) -> (u64, Vec<u8>) {
        let kind = self.read_varint();
        let length = usize::try_from(self.read_varint()).unwrap();
        (kind, self.exactly(length))
    }

    /// Ends the direction to the proxy.
    pub fn finish(&mut self) {
        match &mut self.carrier {
            Carrier::H1(raw) => raw.finish(),
            Carrier::H2(stream) => stream.finish(),
        }
    }

    /// A field of the answer to a tunnel over HTTP/2.
    ///
    /// # Panics
    /// When it has it not.
    pub fn field(&self, name: &str) -> Option<String> {
        let Carrier::H2(stream) = &self.carrier else {
            return None;
        };
        stream
            .fields
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    }

    /// Reads to the end of the stream, which it returns; `None` if it was broken off.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        match &mut self.carrier {
            Carrier::H1(raw) => match raw.rest() {
                (bytes, crate::raw::End::Closed) => Some(bytes),
                (_, crate::raw::End::Reset) => None,
            },
            Carrier::H2(stream) => stream.rest().ok(),
        }
    }

    fn exactly(&mut self, length: usize) -> Vec<u8> {
        match &mut self.carrier {
            Carrier::H1(raw) => raw.exactly(length),
            Carrier::H2(stream) => stream.exactly(length),
        }
    }

    /// RFC 9000, 16.
    fn read_varint(&mut self) -> u64 {
        let first = self.exactly(1)[0];
        let more = self.exactly((1 << (first >> 6)) - 1);
        more.iter().fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        })
    }
}

/// RFC 9000, 16: the shortest form.
pub fn varint(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let (length, mark) = match value {
        0..0x40 => (1, 0x00),
        0x40..0x4000 => (2, 0x40),
        0x4000..0x4000_0000 => (4, 0x80),
        _ => (8, 0xc0),
    };

    let mut encoded = bytes[8 - length..].to_vec();
    encoded[0] |= mark;
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_those_of_the_specification() {
        assert_eq!(varint(37), [0x25]);
        assert_eq!(varint(15_293), [0x7b, 0xbd]);
        assert_eq!(varint(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
    }
}
