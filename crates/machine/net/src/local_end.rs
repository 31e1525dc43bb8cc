//! Where connections that this machine opens leave from: addresses of its own, or an interface.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};

use crate::os::{self, FOREIGN_SOCKET_MARK};

/// The local end of outgoing sockets; by default the machine's routes choose it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalEnd {
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    interface: Option<Arc<str>>,
    client: ClientEnd,
    /// Connections open with their first bytes, where the system can (RFC 7413).
    pub(crate) is_fast: bool,
    /// Connections may use several networks at once, where the system and the peer can (RFC 8684).
    pub(crate) is_multipath: bool,
}

/// Whether the client of an exchange is seen at the far end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ClientEnd {
    /// It is not.
    #[default]
    Hidden,
    /// It is, once it is known.
    Kept,
    /// It is this one.
    Of(SocketAddr),
}

/// How the port of a socket is chosen, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The system, once it is known where the socket is to be connected to: of two connections to different addresses both may have one.
    WhenConnected,
    /// The system, now.
    Now,
}

/// Why nothing can be opened from there.
#[derive(Debug)]
struct Unusable {
    what: String,
    why: String,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for Unusable {}

impl LocalEnd {
    /// Chosen by the machine's routes.
    pub const ANY: Self = Self {
        ipv4: None,
        ipv6: None,
        interface: None,
        client: ClientEnd::Hidden,
        is_fast: false,
        is_multipath: false,
    };

    /// These addresses, of which the last of each family counts, and this interface.
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>, interface: Option<&str>) -> Self {
        let mut end = Self {
            interface: interface.map(Arc::from),
            ..Self::ANY
        };
        for address in addresses {
            match address.to_canonical() {
                IpAddr::V4(address) => end.ipv4 = Some(address),
                IpAddr::V6(address) => end.ipv6 = Some(address),
            }
        }
        end
    }

    /// The same, where sockets have the address and port of the client that they are opened for.
    #[must_use]
    pub fn keeping_clients(self, keeps: bool) -> Self {
        let client = match keeps {
            true => ClientEnd::Kept,
            false => ClientEnd::Hidden,
        };
        Self { client, ..self }
    }

    /// The same, where a connection may open with its first bytes (TCP Fast Open): once one to a peer has been, the next is there at once, and
    /// fails with what is written or read, if it does. For a peer that waits for bytes.
    #[must_use]
    pub fn opening_fast(self, is_fast: bool) -> Self {
        Self { is_fast, ..self }
    }

    /// The same, where a connection may use several networks of both ends at once (Multipath TCP), if the peer takes part.
    #[must_use]
    pub fn over_multipath(self, is_multipath: bool) -> Self {
        Self {
            is_multipath,
            ..self
        }
    }

    /// Whether a connection may use several networks.
    #[must_use]
    pub fn is_multipath(&self) -> bool {
        self.is_multipath
    }

    /// For an exchange of this client.
    #[must_use]
    pub fn for_client(self, client: Option<SocketAddr>) -> Self {
        match (self.client, client) {
            (ClientEnd::Kept, Some(client)) => Self {
                client: ClientEnd::Of(SocketAddr::new(client.ip().to_canonical(), client.port())),
                ..self
            },
            _ => self,
        }
    }

    /// Makes a socket leave from here towards an address.
    ///
    /// # Errors
    /// There is no such address or interface, no address of the family of `towards`, or the process
    /// lacks a privilege; in words, of the kind `InvalidInput`, without an error number.
    pub(crate) fn bind(
        &self,
        socket: SockRef<'_>,
        towards: SocketAddr,
        port: Port,
    ) -> io::Result<()> {
        self.bind_interface(&socket)?;
        if let ClientEnd::Of(client) = self.client
            && client.is_ipv4() == towards.is_ipv4()
        {
            let bound = bind_as(&socket, client);
            return bound.map_err(|error| unusable(format!("the address of {client}"), &error));
        }

        let address: IpAddr = match (towards, self.ipv4, self.ipv6) {
            (_, None, None) => return Ok(()),
            (SocketAddr::V4(_), Some(address), _) => address.into(),
            (SocketAddr::V6(_), _, Some(address)) => address.into(),
            _ => {
                let family = if towards.is_ipv4() { "IPv4" } else { "IPv6" };
                let what = "local_address".to_owned();
                let why = format!("there is no address of {family}");
                return Err(invalid(Unusable { what, why }));
            }
        };

        if port == Port::WhenConnected {
            // Without it the port is chosen now, and is one connection's alone.
            let _ = os::choose_port_when_connected(&socket);
        }
        let bound = socket.bind(&SocketAddr::new(address, 0).into());
        bound.map_err(|error| unusable(format!("local address {address}"), &error))
    }
}

impl LocalEnd {
    /// A socket for datagrams at this address, which leave by the interface. Another address has no say: this one was chosen.
    ///
    /// # Errors
    /// There is no such address or interface, the process lacks a right or descriptors.
    pub fn udp_at(&self, address: SocketAddr) -> io::Result<std::net::UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
        self.bind_interface(&SockRef::from(&socket))?;
        socket.bind(&address.into())?;
        Ok(socket.into())
    }

    /// A socket that waits for connections at this address, by the interface.
    ///
    /// # Errors
    /// As [`Self::udp_at`], or the port is taken.
    pub(crate) fn tcp_at(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        self.bind_interface(&SockRef::from(&socket))?;
        // The last connection of the port may be over for less than a minute.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    }

    fn bind_interface(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let Some(interface) = &self.interface else {
            return Ok(());
        };
        let bound = os::bind_to_interface(socket, interface);
        bound.map_err(|error| unusable(format!("interface {interface}"), &error))
    }
}

/// Gives a socket the address of a client, and its port unless that is taken: two connections of one port to one server cannot be told apart.
fn bind_as(socket: &SockRef<'_>, client: SocketAddr) -> io::Result<()> {
    os::take_foreign_addresses(socket)?;
    os::mark(socket, FOREIGN_SOCKET_MARK)?;
    // Connections of one client port to several servers share it.
    socket.set_reuse_address(true)?;
    match socket.bind(&client.into()) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            socket.bind(&SocketAddr::new(client.ip(), 0).into())
        }
        bound => bound,
    }
}

fn unusable(what: String, error: &io::Error) -> io::Error {
    let why = match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "the process may not (CAP_NET_RAW, before Linux 5.7)".to_owned()
        }
        Some(Errno::NODEV) => "this machine has no such interface".to_owned(),
        Some(Errno::ADDRNOTAVAIL) => "it is not an address of this machine".to_owned(),
        _ => error.to_string(),
    };
    invalid(Unusable { what, why })
}

fn invalid(unusable: Unusable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, unusable)
}

/// Whether an error is one of [`LocalEnd::bind`].
pub(crate) fn is_unusable(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unusable>())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::connect::{ConnectErrorKind, tcp_from};

    fn end(addresses: &[&str], interface: Option<&str>) -> LocalEnd {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        LocalEnd::new(addresses, interface)
    }

    /// Why nothing is opened from there.
    async fn refused(end: LocalEnd, towards: SocketAddr) -> String {
        let limit = std::time::Duration::from_secs(5);
        let error = tcp_from(&[towards], limit, &end).await.unwrap_err();
        assert_eq!(error.kind, ConnectErrorKind::Local, "{error}");
        let udp = crate::UdpSocket::connected_from(towards, &end).await;
        let said = udp.unwrap_err().to_string();
        assert!(error.to_string().ends_with(&said), "{error} {said}");
        said
    }

    #[tokio::test]
    async fn connections_and_datagrams_leave_from_the_address() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let towards = listener.local_addr().unwrap();
        let limit = std::time::Duration::from_secs(5);
        let end = end(&["::1", "127.0.0.9"], Some("lo"));

        let stream = tcp_from(&[towards], limit, &end).await.unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, stream.local_addr().unwrap());
        assert_eq!(peer.ip().to_string(), "127.0.0.9");

        let target = UdpSocket::bind("127.0.0.1:0").unwrap();
        let towards = target.local_addr().unwrap();
        let socket = crate::UdpSocket::connected_from(towards, &end)
            .await
            .unwrap();
        socket.send_segments(None, b"a", None).await.unwrap();
        let (_, from) = target.recv_from(&mut [0; 8]).unwrap();
        assert_eq!(from.ip().to_string(), "127.0.0.9");
    }

    #[tokio::test]
    async fn what_cannot_be_left_from_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let towards = listener.local_addr().unwrap();
        for (end, said) in [
            (
                end(&["192.0.2.1"], None),
                "local address 192.0.2.1: it is not an address of this machine",
            ),
            (
                end(&["::1"], None),
                "local_address: there is no address of IPv4",
            ),
            (
                end(&[], Some("hermes-none")),
                "interface hermes-none: this machine has no such interface",
            ),
        ] {
            assert_eq!(refused(end, towards).await, said);
        }
    }
}
