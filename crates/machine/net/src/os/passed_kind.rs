//! The kind of a socket that another process opened.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The kind of a passed socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassedKind {
    /// Accepts TCP connections here.
    Tcp(SocketAddr),
    /// Receives UDP datagrams here.
    Udp(SocketAddr),
    /// Accepts connections on this file.
    Unix(PathBuf),
    /// A queue of the TUN device of this name.
    TunQueue(String),
    /// A pipe: the turn of another process at a TUN device.
    Pipe,
    /// Not a socket that could be served, and why.
    Unusable(&'static str),
}

impl fmt::Display for PassedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "TCP at {address}"),
            Self::Udp(address) => write!(f, "UDP at {address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::TunQueue(device) => write!(f, "a queue of TUN device {device}"),
            Self::Pipe => f.write_str("a pipe"),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}
