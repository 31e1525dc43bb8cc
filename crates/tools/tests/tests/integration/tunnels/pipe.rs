//! The client's end of a CONNECT tunnel, whatever the version.

use std::net::SocketAddr;

use hermes_tests::h2c::{Client, Stream};
use hermes_tests::raw::{End, Raw};

/// How a client speaks to the entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
}

/// Both ways.
pub const WAYS: [Way; 2] = [Way::H1, Way::H2];

/// An open tunnel. An HTTP/2 tunnel keeps its connection.
pub enum Pipe {
    H1(Raw),
    H2(Stream, Client),
}

/// Why there is no tunnel: status and `Proxy-Status`.
#[derive(Debug)]
pub struct Refused {
    pub status: u16,
    pub reason: String,
}

impl Pipe {
    /// Opens a tunnel.
    pub fn open(way: Way, proxy: SocketAddr, authority: &str) -> Result<Self, Refused> {
        match way {
            Way::H1 => Raw::tunnel(proxy, authority, "")
                .map(Self::H1)
                .map_err(|head| Refused {
                    status: head.status(),
                    reason: head.field("proxy-status").unwrap_or_default(),
                }),
            Way::H2 => {
                let client = Client::connect(proxy);
                let opened = client.tunnel(authority, &[]);
                opened
                    .map(|stream| Self::H2(stream, client))
                    .map_err(|answer| {
                        let reason = answer
                            .fields
                            .get("proxy-status")
                            .map(|value| value.to_str().unwrap().to_owned());
                        Refused {
                            status: answer.status,
                            reason: reason.unwrap_or_default(),
                        }
                    })
            }
        }
    }

    /// Opens a tunnel that must be accepted.
    pub fn to(way: Way, proxy: SocketAddr, target: SocketAddr) -> Self {
        Self::open(way, proxy, &target.to_string())
            .unwrap_or_else(|refused| panic!("{way:?}: {refused:?}"))
    }

    /// Sends.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match self {
            Self::H1(raw) => raw.send(bytes),
            Self::H2(stream, _) => stream.send(bytes),
        }
    }

    /// Reads this many bytes.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        match self {
            Self::H1(raw) => raw.exactly(length),
            Self::H2(stream, _) => stream.exactly(length),
        }
    }

    /// Reads to the end; what came before a reset is not told on HTTP/2.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        match self {
            Self::H1(raw) => raw.rest(),
            Self::H2(stream, _) => match stream.rest() {
                Ok(bytes) => (bytes, End::Closed),
                Err(error) => {
                    assert!(
                        error.is_reset(),
                        "the stream ends, not the connection: {error}"
                    );
                    (Vec::new(), End::Reset)
                }
            },
        }
    }

    /// Ends the direction to the target.
    pub fn finish(&mut self) {
        match self {
            Self::H1(raw) => raw.finish(),
            Self::H2(stream, _) => stream.finish(),
        }
    }

    /// Breaks the tunnel off.
    pub fn reset(self) {
        match self {
            Self::H1(raw) => raw.reset(),
            Self::H2(mut stream, client) => {
                stream.reset();
                // The reset leaves before the connection does.
                drop(client.send(http::Request::new(()), b""));
            }
        }
    }
}
