//! An association of UDP: the datagrams of one client, each of which says where it goes (RFC 1928, 7).

mod destinations;
pub(crate) mod six;
mod socket;
#[cfg(test)]
mod takes;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use hermes_net::memory::{Memory, Owner};
use hermes_net::{PeerAddress, Stream, StreamInfo, UdpSocket};
use hermes_packet::{Hold, Session, SessionKey};
use hermes_plug::Gate;
use hermes_proto::socks::{SocksReply, SocksVersion, decode_datagram};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::held::{dismiss, unknown};
use destinations::{Beginning, Destinations, WAITING, session_target};
use socket::{local, receive};

/// Carries datagrams of one client until its connection ends, or nothing has passed for long.
pub(crate) async fn associate(mut stream: Stream, gate: &Gate) {
    let socket = match socket(&stream) {
        Ok(socket) => Arc::new(socket),
        Err(reply) => {
            let reply = reply.encode(SocksVersion::V5, unknown());
            return dismiss(stream, &reply).await;
        }
    };
    // The address is that by which the client has reached us: it may know no other.
    let advertised = socket.local_addr().unwrap_or(unknown());
    let reply = SocksReply::Succeeded.encode(SocksVersion::V5, advertised);
    if stream.write_all(&reply).await.is_err() {
        return;
    }

    let peer = stream.info().peer;
    let association = Association {
        ip: peer.ip().map(|ip| ip.to_canonical()),
        client: None,
        destinations: Destinations::new(gate),
        hold: Hold::new(Memory::node().owner(Owner::of(None, &peer))),
        socket,
    };
    association.run(&mut stream).await;
}

/// A socket for the datagrams of a client, at the address that its connection came to.
fn socket(stream: &Stream) -> Result<UdpSocket, SocksReply> {
    let mut local = local(stream).ok_or(SocksReply::CommandNotSupported)?;
    local.set_port(0);
    let bound = std::net::UdpSocket::bind(local).and_then(UdpSocket::bound);
    bound.map_err(|error| {
        tracing::warn!(%local, %error, "there is no socket for an association of SOCKS");
        SocksReply::GeneralFailure
    })
}

/// The datagrams of one client.
struct Association {
    /// The address of its connection.
    ip: Option<IpAddr>,
    /// Where its datagrams come from: the first one says the port.
    client: Option<SocketAddr>,
    destinations: Destinations,
    hold: Arc<Hold>,
    socket: Arc<UdpSocket>,
}

impl Association {
    async fn run(mut self, stream: &mut Stream) {
        let mut ignored = [0; 64];
        loop {
            tokio::select! {
                ready = self.socket.readable() => {
                    let socket = self.socket.clone();
                    let received = receive(&socket, |source, datagram| self.take(source, datagram));
                    if ready.is_err() || received.is_err() {
                        return;
                    }
                    tokio::task::consume_budget().await;
                }
                // The connection says by its end alone that the association is over (RFC 1928, 6).
                read = stream.read(&mut ignored) => {
                    if read.unwrap_or(0) == 0 {
                        return;
                    }
                }
                () = self.destinations.silence() => return,
            }
        }
    }

    /// Takes a datagram, if it is of the client.
    fn take(&mut self, source: SocketAddr, datagram: &[u8]) {
        if !self.is_client(source) {
            return;
        }
        // Fragments are dropped too, as those must who do not put them together (RFC 1928, 7).
        let Ok((target, length)) = decode_datagram(datagram) else {
            return;
        };
        let Some(target) = session_target(target) else {
            return;
        };
        self.client = Some(source);

        let (header, payload) = datagram.split_at(length);
        let key = SessionKey {
            client: source,
            target,
        };
        let begin = || begin(source, header, &self.socket, &self.hold);
        self.destinations.push(key, payload, begin);
    }

    /// Whether datagrams from there are those of the client: others could only pretend.
    fn is_client(&self, source: SocketAddr) -> bool {
        match self.client {
            Some(client) => client == source,
            None => self.ip == Some(source.ip().to_canonical()),
        }
    }
}

/// The session of a client with another destination, whose answers have the header that its datagrams have.
fn begin(
    client: SocketAddr,
    header: &[u8],
    socket: &Arc<UdpSocket>,
    hold: &Arc<Hold>,
) -> Beginning {
    let session = Session::new(client, None, socket.clone(), WAITING, hold);
    Beginning {
        session: session.answered_with(Bytes::copy_from_slice(header)),
        source: Arc::new(StreamInfo {
            peer: PeerAddress::Ip(client),
            local: socket.local_addr().ok(),
            tls: None,
            origin: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::destinations::SILENCE;
    use super::takes::{Node, connection};
    use super::*;

    /// An association and its client's end of the connection.
    fn begin() -> (tokio::task::JoinHandle<()>, tokio::io::DuplexStream) {
        let (stream, far) = connection();
        let served = async move { associate(stream, &Node::default().gate()).await };
        (tokio::spawn(served), far)
    }

    #[tokio::test(start_paused = true)]
    async fn an_association_of_which_nothing_is_heard_ends() {
        let began = Instant::now();
        let (served, _control) = begin();
        served.await.unwrap();
        let lasted = began.elapsed();
        assert!(
            lasted >= SILENCE && lasted <= SILENCE + SILENCE / 4,
            "{lasted:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_association_stays_while_one_of_its_tunnels_does() {
        let began = Instant::now();
        let (served, mut control) = begin();
        let mut reply = [0; 10];
        control.read_exact(&mut reply).await.unwrap();
        let port = u16::from_be_bytes([reply[8], reply[9]]);
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let said = [0, 0, 0, 1, 127, 0, 0, 1, 0, 9, b'x'];
        client.send_to(&said, ("127.0.0.1", port)).unwrap();

        served.await.unwrap();
        let lasted = began.elapsed();
        assert!(lasted >= Duration::from_secs(1000), "{lasted:?}");
        assert!(lasted <= Duration::from_secs(1000) + SILENCE, "{lasted:?}");
    }
}
