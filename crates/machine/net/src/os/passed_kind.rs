//! What a socket is that another process opened.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What a passed socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PassedKind {
    /// It accepts TCP connections here.
    Tcp(SocketAddr),
    /// It receives UDP datagrams here.
    Udp(SocketAddr),
    /// It accepts connections on this file.
    Unix(PathBuf),
    /// Nothing that could be served, and why.
    Unusable(&'static str),
}

impl fmt::Display for PassedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "TCP at {address}"),
            Self::Udp(address) => write!(f, "UDP at {address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}
