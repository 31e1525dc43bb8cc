//! Addresses of Envoy.

use std::net::IpAddr;

use crate::source::Node;

/// An address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    /// A host, which may be a name, and a port.
    Socket {
        host: String,
        port: u16,
        is_udp: bool,
    },
    /// The path of a Unix socket.
    Pipe(String),
}

impl Address {
    /// The address under `address`.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let address = node.field("address")?;
        if let Some(pipe) = address.field("pipe") {
            pipe.skip(&["mode"]);
            return pipe.text("path").map(|path| Self::Pipe(path.to_owned()));
        }

        let socket = address.field("socket_address")?;
        socket.skip(&["ipv4_compat", "resolver_name"]);
        let is_udp = socket.text("protocol").is_some_and(|name| name == "UDP");
        Some(Self::Socket {
            host: socket.text("address")?.to_owned(),
            port: u16::try_from(socket.number("port_value")?).ok()?,
            is_udp,
        })
    }

    /// Whether strangers can reach it, if it is listened at.
    pub(super) fn is_public(&self) -> bool {
        match self {
            Self::Socket { host, .. } => !host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback()),
            Self::Pipe(_) => false,
        }
    }

    /// The port, of one that has one.
    pub(super) fn port(&self) -> Option<u16> {
        match self {
            Self::Socket { port, .. } => Some(*port),
            Self::Pipe(_) => None,
        }
    }

    /// As our configuration writes it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Pipe(path) => format!("unix:{path}"),
            Self::Socket { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Self::Socket { host, port, .. } => format!("{host}:{port}"),
        }
    }
}
