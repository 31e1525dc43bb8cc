//! An association of SOCKS6 (draft-olteanu-intarea-socks-6-11, 7.3): datagrams that name it, by its connection or by the port of the listener.
//!
//! The first datagram says by which path the client speaks, and the proxy confirms that on the connection; from then on answers take this path.

mod member;
mod port;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_net::memory::{Memory, Owner, OwnerAccount};
use hermes_net::{PeerAddress, Stream, StreamInfo};
use hermes_packet::{ChargedBounds, Queue, Session, SessionKey, SessionTarget};
use hermes_plug::Gate;
use hermes_proto::socks::{SocksReply, SocksVersion};
use hermes_proto::socks6::{
    MAX_ASSOCIATION_MESSAGE, Socks6AssociationContent, Socks6Datagram, Socks6Error,
    Socks6OperationReply, Socks6ReplyOption, association_message_length,
    decode_association_message, encode_association_confirmation, encode_association_initialization,
    encode_operation_reply,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};

use super::destinations::{Beginning, Destinations, WAITING, session_target};
use super::socket::local;
use crate::held::{dismiss, unknown};
use member::{Answers, ClientPath, Member, MemberConfig};
pub(crate) use port::DatagramPorts;

/// How long a client may take for its first datagram.
#[doc(alias = "bound")]
const FIRST_DATAGRAM: Duration = Duration::from_secs(60);

/// Bytes that an empty buffer for messages keeps.
#[doc(alias = "bound")]
const RETAINED: usize = 4096;

/// Carries datagrams of one client until its connection ends, or nothing has passed for long. The client has said whether it wants to hear of
/// errors, or nothing of them.
pub(crate) async fn associate(
    mut stream: Stream,
    gate: &Gate,
    ports: &DatagramPorts,
    udp_errors: Option<bool>,
) {
    let Some(id) = random_id() else {
        let reply = SocksReply::GeneralFailure.encode(SocksVersion::V6, unknown());
        return dismiss(stream, &reply).await;
    };
    let local = local(&stream);
    // 8.1: each option that is served is in the reply.
    let errors = udp_errors.map(|wanted| Socks6ReplyOption::UdpErrors(wanted && local.is_some()));
    let served = encode_operation_reply(&Socks6OperationReply {
        reply: SocksReply::Succeeded,
        // Each destination sees a port of its own, at the node where its tunnel ends.
        bound: Some(unknown()),
        options: errors.into_iter().collect(),
    });
    let source = stream.info().clone();
    let account = Memory::node().owner(Owner::of(None, &source.peer));
    let member = Member::begin(MemberConfig {
        id,
        ip: source.peer.ip(),
        reporter: local
            .filter(|_| udp_errors == Some(true))
            .map(|local| local.ip()),
        port: local.and_then(|local| ports.at(local)),
        account: &account,
    });
    // Only now: the client's first datagram may come to the port as soon as it has this.
    let begun = [served, encode_association_initialization(id)].concat();
    if stream.write_all(&begun).await.is_err() {
        return;
    }

    let association = Association6 {
        member: member.clone(),
        source,
        destinations: Destinations::new(gate),
        account,
    };

    let (read, write) = tokio::io::split(stream);
    // Each of them ends it. They run side by side, so that a client that does not read its answers delays no datagrams of its own or of others.
    tokio::select! {
        () = association.run(read) => {}
        _ = answer(&member, write) => {}
        () = member.read_port() => {}
    }
}

/// An ID that no one guesses, as it lets its owner send datagrams in the client's name.
fn random_id() -> Option<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    Some(u64::from_be_bytes(bytes))
}

/// Writes the confirmation, and the answers of a client that speaks by its connection.
async fn answer(member: &Member, mut write: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut is_confirmed = false;
    let mut taken = member.leaving.empty_queue();
    let mut messages = Vec::new();
    loop {
        member.leaving.ready.notified().await;
        // Before all answers (7.3).
        if !is_confirmed && member.path().is_some() {
            is_confirmed = true;
            messages.extend(encode_association_confirmation(member.id));
        }
        member.leaving.take(&mut taken);
        for message in taken.iter() {
            messages.extend_from_slice(message);
        }
        write.write_all(&messages).await?;
        write.flush().await?;
        messages.clear();
        messages.shrink_to(RETAINED);
    }
}

/// The datagrams of one client.
struct Association6 {
    member: Arc<Member>,
    /// Of its connection.
    source: Arc<StreamInfo>,
    destinations: Destinations,
    account: OwnerAccount,
}

impl Association6 {
    async fn run(mut self, mut read: impl AsyncRead + Unpin) {
        let first_until = Instant::now() + FIRST_DATAGRAM;
        let mut taken = self.member.came.empty_queue();
        let mut buffer = Vec::new();
        loop {
            // No message is longer: a whole one has been taken by then.
            let room = MAX_ASSOCIATION_MESSAGE - buffer.len();
            let mut next = (&mut read).take(room as u64);
            tokio::select! {
                read = next.read_buf(&mut buffer) => {
                    // The connection ends the association.
                    if read.unwrap_or(0) == 0 || self.take_stream(&mut buffer).is_err() {
                        return;
                    }
                }
                () = self.member.came.ready.notified() => self.take_port(&mut taken),
                () = sleep_until(first_until), if self.member.path().is_none() => return,
                () = self.destinations.silence() => return,
            }
        }
    }

    /// Takes the messages that are whole.
    fn take_stream(&mut self, buffer: &mut Vec<u8>) -> Result<(), Socks6Error> {
        let mut start = 0;
        loop {
            let rest = &buffer[start..];
            let length = match decode_association_message(rest) {
                Ok(Some((message, length))) => {
                    let is_own = message.association == self.member.id;
                    if let Socks6AssociationContent::Datagram(datagram) = message.content
                        && is_own
                        && self.member.accepts(ClientPath::Stream)
                    {
                        self.push(&datagram);
                    }
                    length
                }
                Ok(None) => break,
                // That datagram is lost; where the next one begins is known.
                Err(Socks6Error::BadName(_) | Socks6Error::NotText) => {
                    association_message_length(rest).unwrap_or(rest.len())
                }
                Err(error) => return Err(error),
            };
            start += length;
        }
        buffer.drain(..start);
        buffer.shrink_to(RETAINED);
        Ok(())
    }

    /// Takes the messages that came by the port.
    fn take_port(&mut self, taken: &mut Queue) {
        self.member.came.take(taken);
        for message in taken.iter() {
            if let Ok(Some((message, _))) = decode_association_message(message)
                && let Socks6AssociationContent::Datagram(datagram) = message.content
            {
                self.push(&datagram);
            }
        }
        taken.clear();
    }

    fn push(&mut self, datagram: &Socks6Datagram<'_>) {
        let Some(target) = session_target(datagram.peer.clone()) else {
            // A probe, or no datagram that anyone could get.
            return;
        };
        let key = SessionKey {
            client: self.client(),
            target,
        };
        let target = match &key.target {
            SessionTarget::Address(address) => Some(*address),
            SessionTarget::OfListener | SessionTarget::Name(..) => None,
        };
        let begin = || {
            let answers = Answers {
                member: self.member.clone(),
                // Datagrams in both directions name the peer alike.
                header: datagram.header.to_vec(),
                target,
            };
            let waiting = ChargedBounds {
                bounds: WAITING,
                account: self.account.clone(),
            };
            Beginning {
                session: Session::of_flow(answers, Queue::charged(&waiting)),
                source: self.source.clone(),
            }
        };
        self.destinations.push(key, datagram.payload, begin);
    }

    /// The client in keys of sessions, of which this association has a table of its own.
    fn client(&self) -> SocketAddr {
        match self.source.peer {
            PeerAddress::Ip(address) => address,
            _ => unknown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_http::RefusalReason;
    use hermes_proto::proxy_status::ProxyError;
    use tokio::io::DuplexStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::association::takes::{Node, connection};

    /// The first reply of a client that wants to hear of errors, and the beginning of its association.
    const SERVED: usize = 12 + 8 + 12;

    async fn begin(node: Node) -> (JoinHandle<()>, DuplexStream, [u8; 8]) {
        let (stream, mut far) = connection();
        let served = tokio::spawn(async move {
            let ports = DatagramPorts::default();
            associate(stream, &node.gate(), &ports, Some(true)).await;
        });
        let mut begun = [0; SERVED];
        far.read_exact(&mut begun).await.unwrap();
        let id = *begun.last_chunk().unwrap();
        (served, far, id)
    }

    fn datagram(id: [u8; 8]) -> Vec<u8> {
        let target = [1, 0, 0, 53, 192, 0, 2, 1];
        [&[6, 3, 0, 24][..], &id, &target, b"ping"].concat()
    }

    #[tokio::test(start_paused = true)]
    async fn an_association_without_a_datagram_ends_soon() {
        let began = Instant::now();
        let (served, _control, _) = begin(Node::default()).await;
        served.await.unwrap();
        assert_eq!(began.elapsed().as_secs(), FIRST_DATAGRAM.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_begun_stays_while_one_of_its_tunnels_does() {
        let began = Instant::now();
        let (served, mut control, id) = begin(Node::default()).await;
        control.write_all(&datagram(id)).await.unwrap();
        served.await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(1000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_hears_of_targets_that_no_route_leads_to_and_nothing_of_the_rules() {
        for (error, code) in [
            (ProxyError::DestinationIpUnroutable, Some(1)),
            (ProxyError::DestinationUnavailable, Some(2)),
            (ProxyError::HttpRequestDenied, None),
        ] {
            let refusal = RefusalReason {
                status: http::StatusCode::BAD_GATEWAY,
                error,
                details: String::new(),
            };
            let node = Node {
                refusal: Some(refusal),
            };
            let (_served, mut control, id) = begin(node).await;
            control.write_all(&datagram(id)).await.unwrap();
            let mut expected = [&[6, 2, 0, 12][..], &id].concat();
            if let Some(code) = code {
                let target = [1, 0, 0, 53, 192, 0, 2, 1];
                let reporter = [1, code, 0, 0, 127, 0, 0, 1];
                expected.extend([&[6, 4, 0, 28][..], &id, &target, &reporter].concat());
            }
            let mut heard = vec![0; expected.len()];
            control.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, expected);
            let mut more = [0; 9];
            let more = tokio::time::timeout(Duration::from_secs(1), control.read(&mut more));
            assert!(more.await.is_err(), "and no more");
        }
    }
}
