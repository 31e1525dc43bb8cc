//! Sockets that another process opened and passed to this one, a service manager (socket activation) or the node before it
//! ([`hermes_net::handover`]), and which listener has them.
//!
//! They stay open to the end of the process, whether a listener uses them or not: the service manager has them too, so closing one here
//! would turn no client away, and a listener that comes back finds its socket again.
//!
//! | kind of passed socket | workers that use it | matched by |
//! |---|---|---|
//! | TCP, Unix | all accept, each on a descriptor of its own | name, then address |
//! | UDP, HTTP/3 | one for each passed socket; datagrams of another process's clients go to it ([`hermes_net::shared_socket`]) | name, then address |
//! | UDP, a port of WireGuard | one; a port is one process's at a time | address |
//! | a queue of a TUN device | one, once the process before has let go of it ([`hermes_net::tun::PassedDevices`]) | name of the device |
//! | `admin.metrics` | the run time of administration | address |
//! | `admin.socket` | the run time of administration | file |

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use hermes_config::model::{ListenAddress, Listener};
use hermes_net::quic::steering;
use hermes_net::shared_socket::{DatagramSocket, Rendezvous, SocketUse};
use hermes_net::{DescriptorEntry, DescriptorTable, PassedKind, PassedSocket};
use hermes_rules::lint::is_open;

use super::Socket;
use super::bind::{At, Bound, Serves, Wanted};

/// The sockets that were passed to this process, and those that it may give to a successor.
#[derive(Debug, Default)]
pub struct PassedSockets {
    sockets: Vec<PassedSocket>,
    /// The passed ones in the table of descriptors.
    entries: Vec<DescriptorEntry>,
    /// Parts of TUN devices, until they are taken.
    devices: Vec<PassedSocket>,
    descriptors: DescriptorTable,
}

/// The name of the socket of metrics in the table of descriptors.
const METRICS: &str = "admin.metrics";

/// The number of one of them.
pub(super) type Passed = usize;

/// A part of a listener that needs sockets.
pub(super) struct Seeker<'a> {
    /// The listener's name.
    pub(super) name: &'a str,
    pub(super) wanted: &'a Wanted,
}

/// Whether a socket suits a seeker.
type Suits<'a> = dyn Fn(&Seeker<'_>, &PassedSocket) -> bool + 'a;

impl From<Vec<PassedSocket>> for PassedSockets {
    fn from(passed: Vec<PassedSocket>) -> Self {
        let is_of_device = |socket: &PassedSocket| {
            matches!(socket.kind, PassedKind::TunQueue(_) | PassedKind::Pipe)
        };
        let (devices, sockets) = passed.into_iter().partition(is_of_device);
        Self {
            sockets,
            devices,
            ..Self::default()
        }
    }
}

impl PassedSockets {
    /// Those of a node that can give its sockets to a successor. It keeps a descriptor of each, and shares those of UDP that it opens as it
    /// does those that are passed to it: connection IDs of QUIC name this process from the start.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn with_successor(self) -> io::Result<Self> {
        let descriptors = DescriptorTable::for_successor();
        let entered = self.sockets.iter().map(|socket| {
            let name = socket.name.as_deref().unwrap_or_default();
            descriptors.enter(name, socket)
        });
        Ok(Self {
            entries: entered.collect::<io::Result<_>>()?,
            descriptors,
            ..self
        })
    }

    /// The descriptors that this node may give to a successor; each is entered by the part that opens it.
    pub fn descriptors(&self) -> &DescriptorTable {
        &self.descriptors
    }

    /// Parts of TUN devices, once.
    pub(super) fn take_devices(&mut self) -> Vec<PassedSocket> {
        std::mem::take(&mut self.devices)
    }

    /// Calls passed sockets after the part of a listener that has them.
    pub(super) fn rename(&self, numbers: &[Passed], name: &str) {
        let entries = numbers
            .iter()
            .filter_map(|number| self.entries.get(*number));
        entries.for_each(|entry| entry.rename(name));
    }

    /// A socket of UDP that this node opened, such that a successor can have it too.
    pub(super) fn shareable(&self, socket: Socket, listener: &Listener) -> Socket {
        match socket {
            Socket::Udp(own) if self.descriptors.has_successor() => {
                Socket::Udp(shared(own.socket, &OWN, datagram_use(listener)))
            }
            Socket::Quic(own) if self.descriptors.has_successor() => {
                Socket::Quic(shared(own.socket, &OWN, SocketUse::Quic))
            }
            other => other,
        }
    }

    /// One of them.
    pub(super) fn socket(&self, number: Passed) -> Option<&PassedSocket> {
        self.sockets.get(number)
    }

    /// Its port; `None` for a Unix socket.
    pub(super) fn port(&self, number: Passed) -> Option<u16> {
        bound(&self.sockets.get(number)?.kind)?
            .address()
            .map(|address| address.port())
    }

    /// Those that are not `used`.
    pub fn unused(&self, used: &[Passed]) -> impl Iterator<Item = &PassedSocket> {
        let numbered = self.sockets.iter().enumerate();
        numbered
            .filter(|(number, _)| !used.contains(number))
            .map(|(_, socket)| socket)
    }

    /// The TCP sockets at which metrics are to be served: at `address`, or passed for that.
    pub(super) fn metrics(&self, address: SocketAddr) -> Vec<Passed> {
        let is_there = |socket: &PassedSocket| is_of_metrics(socket, address);
        let numbered = self.sockets.iter().enumerate();
        let found = numbered.filter(|(_, socket)| is_there(socket));
        found.map(|(number, _)| number).collect()
    }

    /// The UDP socket that is bound to `address`.
    pub(super) fn datagrams_at(&self, address: SocketAddr) -> Option<Passed> {
        let kind = PassedKind::Udp(address);
        self.sockets.iter().position(|socket| socket.kind == kind)
    }

    /// All UDP sockets, each with a descriptor of its own.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, UdpSocket)> {
        self.sockets.iter().filter_map(|socket| match socket.kind {
            PassedKind::Udp(address) => Some((address, socket.udp().ok()?)),
            _ => None,
        })
    }

    /// The socket of metrics: one that was passed, else another at `address`, which is entered for a successor.
    ///
    /// # Errors
    /// It cannot be bound.
    pub fn metrics_socket(
        &self,
        address: SocketAddr,
    ) -> io::Result<(std::net::TcpListener, DescriptorEntry)> {
        let mut sockets = self.sockets.iter();
        if let Some(passed) = sockets.find(|socket| is_of_metrics(socket, address)) {
            return match passed.listener()? {
                hermes_net::Listener::Tcp(listener) => Ok((listener, DescriptorEntry::default())),
                hermes_net::Listener::Unix(_) => Err(io::ErrorKind::InvalidInput.into()),
            };
        }
        let own = std::net::TcpListener::bind(address)?;
        let entry = self.descriptors.enter(METRICS, &own)?;
        Ok((own, entry))
    }

    /// Takes out the socket that has this file, so that no listener gets it.
    pub fn take_unix(&mut self, path: &Path) -> Option<PassedSocket> {
        let is_there =
            |socket: &PassedSocket| matches!(&socket.kind, PassedKind::Unix(file) if file == path);
        let found = self.sockets.iter().position(is_there)?;
        // The socket of administration is entered again where it is served.
        if found < self.entries.len() {
            self.entries.remove(found);
        }
        Some(self.sockets.remove(found))
    }

    /// Which sockets each of the seekers gets, of those that are not among `holds`: first by name, then by address. With one come all
    /// others that are bound to the same address, for the system deals arrivals out among them.
    pub(super) fn assign(&self, seekers: &[Seeker<'_>], holds: &[Passed]) -> Vec<Vec<Passed>> {
        let mut assigned = vec![Vec::new(); seekers.len()];
        let mut free: Vec<Passed> = (0..self.sockets.len())
            .filter(|number| !holds.contains(number))
            .collect();
        let by_name = |seeker: &Seeker<'_>, socket: &PassedSocket| {
            socket.name.as_deref() == Some(seeker.name)
        };

        let by_address = |seeker: &Seeker<'_>, socket: &PassedSocket| is_at(socket, seeker.wanted);

        // Of several with its name, a listener prefers the one at its address.
        let both = |seeker: &Seeker<'_>, socket: &PassedSocket| {
            by_name(seeker, socket) && by_address(seeker, socket)
        };
        let passes: [&Suits<'_>; 3] = [&both, &by_name, &by_address];
        for suits in passes {
            for (seeker, own) in seekers
                .iter()
                .zip(&mut assigned)
                .filter(|(_, own)| own.is_empty())
            {
                let is_its = |number: &Passed| {
                    let socket = &self.sockets[*number];
                    can_serve(socket, seeker.wanted) && suits(seeker, socket)
                };
                let Some(first) = free.iter().copied().find(is_its) else {
                    continue;
                };
                let kind = &self.sockets[first].kind;
                (*own, free) = free
                    .into_iter()
                    .partition(|number| self.sockets[*number].kind == *kind);
            }
        }

        assigned
    }

    /// The workers' sockets of a part of `listener` to which `own` were assigned. All workers accept connections; datagrams are
    /// received by one worker for each socket, for several on one would tear the datagrams of a client apart.
    pub(super) fn open(
        &self,
        listener: &Listener,
        wanted: &Wanted,
        own: &[Passed],
        workers: usize,
    ) -> io::Result<(Bound, Vec<Socket>)> {
        let own: Vec<&PassedSocket> = own
            .iter()
            .filter_map(|number| self.sockets.get(*number))
            .collect();
        let Some(bound) = own.first().and_then(|socket| bound(&socket.kind)) else {
            return Err(io::ErrorKind::NotFound.into());
        };

        // Lint judges addresses of the document; a passed socket may be bound to a wider one.
        if let Some(address) = bound
            .address()
            .filter(|address| is_open(listener, *address))
        {
            let reason = format!(
                "strangers can reach {address}, where {} is bound, and no authentication is configured",
                own[0]
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }

        // A socket without a worker would still be dealt its part of the traffic, and no one would
        // read it.
        if own.len() > workers {
            let reason = format!(
                "{} sockets are passed for {bound}, and there are {workers} workers",
                own.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }

        let purpose = datagram_use(listener);
        let sockets: io::Result<Vec<Socket>> = match wanted.serves {
            Serves::Streams => (0..workers)
                .map(|worker| own[worker % own.len()].listener().map(Socket::Stream))
                .collect(),
            Serves::Datagrams => own
                .iter()
                .map(|passed| {
                    let socket = passed.udp()?;
                    Ok(Socket::Udp(shared(socket, *passed, purpose)))
                })
                .collect(),
            Serves::Quic => quic(&own),
            Serves::Attachments | Serves::Captured | Serves::Packets => Ok(Vec::new()),
        };

        Ok((bound, sockets?))
    }
}

/// Connection IDs name their socket, where there are several.
fn quic(own: &[&PassedSocket]) -> io::Result<Vec<Socket>> {
    let sockets = own
        .iter()
        .map(|socket| socket.udp())
        .collect::<io::Result<Vec<_>>>()?;
    steering::steer(&sockets)?;
    let sockets = sockets.into_iter().zip(own);
    Ok(sockets
        .map(|(socket, passed)| Socket::Quic(shared(socket, *passed, SocketUse::Quic)))
        .collect())
}

/// A socket that this node opened itself, in words.
const OWN: &str = "a socket of this node";

/// The protocol of a `udp` listener's datagrams.
fn datagram_use(listener: &Listener) -> SocketUse {
    match listener.ingress() {
        Some(_) => SocketUse::Ingress,
        None => SocketUse::Sessions,
    }
}

/// A socket that the process before this one may have too, and the one after it.
fn shared(socket: UdpSocket, passed: &dyn fmt::Display, purpose: SocketUse) -> DatagramSocket {
    let rendezvous = match Rendezvous::open(&socket, purpose) {
        Ok(rendezvous) => Some(rendezvous),
        Err(error) => {
            tracing::warn!(
                %error,
                "{passed} cannot be shared with another process: end the one that has it before this one serves"
            );
            None
        }
    };
    for process in rendezvous.iter().flat_map(Rendezvous::others) {
        tracing::info!(process, "shares a socket with another process: {passed}");
    }
    DatagramSocket { socket, rendezvous }
}

/// Whether metrics are to be served at this socket. Sockets that this process bound have its address, unless the system chose the port.
fn is_of_metrics(socket: &PassedSocket, wanted: SocketAddr) -> bool {
    let is_named = socket.name.as_deref() == Some(METRICS) && wanted.port() == 0;
    match socket.kind {
        PassedKind::Tcp(address) => address == wanted || is_named,
        _ => false,
    }
}

/// Where a socket is bound.
fn bound(kind: &PassedKind) -> Option<Bound> {
    match kind {
        PassedKind::Tcp(address) | PassedKind::Udp(address) => Some(Bound::Ip(*address)),
        PassedKind::Unix(path) => Some(Bound::Unix(path.clone())),
        PassedKind::TunQueue(_) | PassedKind::Pipe | PassedKind::Unusable(_) => None,
    }
}

/// Whether a socket is of the kind that is wanted. One of IP is no Unix socket, whatever it is called: other rules hold there.
fn can_serve(socket: &PassedSocket, wanted: &Wanted) -> bool {
    matches!(
        (&socket.kind, wanted.serves, &wanted.at),
        (
            PassedKind::Tcp(_),
            Serves::Streams,
            At::Address(ListenAddress::Ip(_))
        ) | (
            PassedKind::Unix(_),
            Serves::Streams,
            At::Address(ListenAddress::Unix(_))
        ) | (
            PassedKind::Udp(_),
            Serves::Datagrams | Serves::Quic,
            At::Address(ListenAddress::Ip(_))
        )
    )
}

/// Whether a socket is bound to the address that is wanted.
fn is_at(socket: &PassedSocket, wanted: &Wanted) -> bool {
    match (&socket.kind, &wanted.at) {
        (PassedKind::Tcp(own) | PassedKind::Udp(own), At::Address(ListenAddress::Ip(address))) => {
            own == address
        }
        (PassedKind::Unix(own), At::Address(ListenAddress::Unix(path))) => own == path,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use hermes_net::listen;
    use serde_json::json;

    use super::*;

    /// Sockets as they were passed: their names, and themselves.
    fn passed(sockets: Vec<(&str, OwnedFd)>) -> PassedSockets {
        let named = (3..).zip(sockets);
        let socket = |(number, (name, owned)): (i32, (&str, OwnedFd))| {
            PassedSocket::new(number, (!name.is_empty()).then(|| name.to_owned()), owned)
        };
        named.map(socket).collect::<Vec<_>>().into()
    }

    fn tcp() -> (OwnedFd, ListenAddress) {
        let socket = listen::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        (socket.into(), ListenAddress::Ip(address))
    }

    fn again(address: &ListenAddress) -> OwnedFd {
        let ListenAddress::Ip(address) = address else {
            panic!("{address:?}")
        };
        listen::tcp(*address).unwrap().into()
    }

    fn udp() -> (OwnedFd, ListenAddress) {
        let socket = listen::udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        (socket.into(), ListenAddress::Ip(address))
    }

    fn wants(serves: Serves, address: &ListenAddress) -> Wanted {
        Wanted {
            serves,
            at: At::Address(address.clone()),
            is_multipath: false,
        }
    }

    fn elsewhere(serves: Serves) -> Wanted {
        wants(serves, &ListenAddress::Ip("127.0.0.1:0".parse().unwrap()))
    }

    fn assigned(
        sockets: &PassedSockets,
        holds: &[Passed],
        seekers: &[(&str, Wanted)],
    ) -> Vec<Vec<Passed>> {
        let seekers: Vec<_> = seekers
            .iter()
            .map(|(name, wanted)| Seeker { name, wanted })
            .collect();
        sockets.assign(&seekers, holds)
    }

    #[test]
    fn a_name_comes_before_an_address() {
        let (socket, address) = tcp();
        let sockets = passed(vec![("web", socket)]);
        let seekers = [
            ("other", wants(Serves::Streams, &address)),
            ("web", elsewhere(Serves::Streams)),
        ];
        assert_eq!(assigned(&sockets, &[], &seekers), [vec![], vec![0]]);
    }

    #[test]
    fn several_of_one_name_go_to_the_listeners_at_their_addresses() {
        let ((first, at_first), (second, at_second)) = (tcp(), tcp());
        let sockets = passed(vec![("web", first), ("web", second)]);
        let seekers = [
            ("sealed", wants(Serves::Streams, &at_first)),
            ("web", wants(Serves::Streams, &at_second)),
        ];
        assert_eq!(assigned(&sockets, &[], &seekers), [vec![0], vec![1]]);
    }

    #[test]
    fn the_kind_must_be_right() {
        let ((streams, at_streams), (datagrams, at_datagrams)) = (tcp(), udp());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        let unix = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let sockets = passed(vec![
            ("web", datagrams),
            ("web", unix.into()),
            ("web", streams),
        ]);
        let seekers = [
            ("web", elsewhere(Serves::Streams)),
            ("web", wants(Serves::Quic, &at_streams)),
        ];
        assert_eq!(assigned(&sockets, &[], &seekers), [vec![2], vec![0]]);
        let seekers = [
            ("a", wants(Serves::Datagrams, &at_streams)),
            ("b", wants(Serves::Streams, &at_datagrams)),
            ("c", wants(Serves::Streams, &ListenAddress::Unix(path))),
        ];
        assert_eq!(assigned(&sockets, &[], &seekers), [vec![], vec![], vec![1]]);
    }

    #[test]
    fn sockets_of_one_address_stay_together_and_those_that_are_held_where_they_are() {
        let (first, address) = tcp();
        let sockets = passed(vec![("", first), ("other", again(&address))]);
        let seekers = [("web", wants(Serves::Streams, &address))];
        assert_eq!(assigned(&sockets, &[], &seekers), [vec![0, 1]]);
        assert_eq!(
            assigned(&sockets, &[0, 1], &seekers),
            [Vec::<Passed>::new()]
        );
        assert_eq!(
            sockets
                .unused(&[0])
                .map(|socket| socket.descriptor)
                .collect::<Vec<_>>(),
            [4]
        );
    }

    fn listener(public: bool) -> Listener {
        let keys = json!({ "http": "127.0.0.1:0", "public": public });
        serde_json::from_value(keys).unwrap()
    }

    #[test]
    fn every_worker_accepts_and_one_receives() {
        let ((streams, at_streams), (datagrams, at_datagrams)) = (tcp(), udp());
        let sockets = passed(vec![("", streams), ("", datagrams)]);
        let listener = listener(false);
        let open = |wanted: Wanted, number| {
            sockets
                .open(&listener, &wanted, &[number], 3)
                .unwrap()
                .1
                .len()
        };
        assert_eq!(open(wants(Serves::Streams, &at_streams), 0), 3);
        assert_eq!(open(wants(Serves::Datagrams, &at_datagrams), 1), 1);
        assert_eq!(open(wants(Serves::Quic, &at_datagrams), 1), 1);
    }

    #[test]
    fn a_name_does_not_open_a_listener_to_strangers() {
        let socket = listen::tcp("0.0.0.0:0".parse().unwrap()).unwrap();
        let sockets = passed(vec![("web", socket.into())]);
        let wanted = elsewhere(Serves::Streams);
        let refused = sockets
            .open(&listener(false), &wanted, &[0], 1)
            .err()
            .unwrap();
        assert!(
            refused
                .to_string()
                .contains("descriptor 3 (\"web\", TCP at 0.0.0.0:"),
            "{refused}"
        );
        assert!(sockets.open(&listener(true), &wanted, &[0], 1).is_ok());
    }
}
