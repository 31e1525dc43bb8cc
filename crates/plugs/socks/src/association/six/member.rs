//! An association of SOCKS6 as its port and its tunnels see it: the path of the client, and the messages in both directions.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_http::RefusalReason;
use hermes_net::memory::OwnerAccount;
use hermes_packet::{Bounds, ChargedBounds, Queue, SessionFlow};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::socks6::{
    Socks6DatagramError, Socks6ErrorCode, encode_datagram_error, push_datagram,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::port::{DatagramPort, Hears};

/// Messages of one association that wait for its task, and those that wait for its connection.
#[doc(alias = "bound")]
const MESSAGES: Bounds = Bounds {
    bytes: 128 * 1024,
    age: Duration::from_secs(5),
};

/// The path by which a client sends its datagrams; answers take the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientPath {
    /// The connection of the association.
    Stream,
    /// From this address to the port.
    Port(SocketAddr),
}

/// Messages that wait for a task.
pub(super) struct Mailbox {
    queue: Mutex<Queue>,
    pub(super) ready: Notify,
}

impl Mailbox {
    fn new(account: &OwnerAccount) -> Self {
        let bounds = ChargedBounds {
            bounds: MESSAGES,
            account: account.clone(),
        };
        Self {
            queue: Mutex::new(Queue::charged(&bounds)),
            ready: Notify::new(),
        }
    }

    fn push(&self, message: &[u8]) {
        // Without room the oldest ones are lost, as datagrams may be.
        self.queue.lock().push(message, Instant::now());
        self.ready.notify_one();
    }

    /// Swaps the messages into `taken`, which loses its old ones.
    pub(super) fn take(&self, taken: &mut Queue) {
        taken.clear();
        std::mem::swap(&mut *self.queue.lock(), taken);
    }

    pub(super) fn empty_queue(&self) -> Queue {
        self.queue.lock().another()
    }
}

/// Such an association.
pub(super) struct Member {
    pub(super) id: u64,
    /// The address of the client's connection.
    ip: Option<IpAddr>,
    /// The address of ours that reports errors, where the client wants to hear of them.
    reporter: Option<IpAddr>,
    path: OnceLock<ClientPath>,
    port: Option<Arc<DatagramPort>>,
    /// Messages that came by the port.
    pub(super) came: Mailbox,
    /// Messages that leave by the connection.
    pub(super) leaving: Mailbox,
}

/// The properties of an association when it begins.
pub(super) struct MemberConfig<'a> {
    pub(super) id: u64,
    pub(super) ip: Option<IpAddr>,
    pub(super) reporter: Option<IpAddr>,
    pub(super) port: Option<Arc<DatagramPort>>,
    pub(super) account: &'a OwnerAccount,
}

impl Member {
    pub(super) fn begin(config: MemberConfig<'_>) -> Arc<Self> {
        let member = Arc::new(Self {
            id: config.id,
            ip: config.ip.map(|ip| ip.to_canonical()),
            reporter: config.reporter,
            path: OnceLock::new(),
            port: config.port,
            came: Mailbox::new(config.account),
            leaving: Mailbox::new(config.account),
        });
        if let Some(port) = &member.port {
            port.enter(member.id, Arc::<Self>::downgrade(&member));
        }
        member
    }

    /// The client's path, once it is known.
    pub(super) fn path(&self) -> Option<ClientPath> {
        self.path.get().copied()
    }

    /// Whether a datagram that came by this path counts: the first one decides (7.3).
    pub(super) fn accepts(&self, path: ClientPath) -> bool {
        let mut is_first = false;
        let known = *self.path.get_or_init(|| {
            is_first = true;
            path
        });
        if is_first {
            self.leaving.ready.notify_one();
        }
        known == path
    }

    /// Reads the port, where there is one, when it is this association's turn; never returns.
    pub(super) async fn read_port(&self) {
        match &self.port {
            Some(port) => port.read().await,
            None => pending().await,
        }
    }

    /// Sends messages of `segment` bytes, or one, by the client's path; those without room are lost.
    fn send(&self, messages: &[u8], segment: usize) {
        match (self.path(), &self.port) {
            (Some(ClientPath::Port(client)), Some(port)) => {
                // Without room in the buffer, as on any path.
                let _ = port
                    .socket
                    .try_send_from(None, client, messages, segment.max(1));
            }
            (Some(ClientPath::Stream), _) => {
                for message in messages.chunks(segment.max(1)) {
                    self.leaving.push(message);
                }
            }
            _ => {}
        }
    }

    /// Tells the client, if it wants to hear it, that datagrams to this address arrive nowhere.
    fn report(&self, target: SocketAddr, code: Socks6ErrorCode) {
        let Some(reporter) = self.reporter else {
            return;
        };
        let error = Socks6DatagramError {
            target,
            code,
            reporter,
        };
        let message = encode_datagram_error(self.id, &error);
        self.send(&message, message.len());
    }
}

impl Hears for Member {
    fn hear(&self, source: SocketAddr, message: &[u8]) {
        // The draft takes any address; a client that writes the one of a stranger would have us send answers there.
        if self.ip == Some(source.ip().to_canonical()) && self.accepts(ClientPath::Port(source)) {
            self.came.push(message);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(port) = &self.port {
            port.leave(self.id);
        }
    }
}

/// The answers of one destination.
pub(super) struct Answers {
    pub(super) member: Arc<Member>,
    /// The header of each, but for its length.
    pub(super) header: Vec<u8>,
    /// The destination, where the client named an address.
    pub(super) target: Option<SocketAddr>,
}

impl SessionFlow for Answers {
    /// It has no ports of its own.
    fn outlast(&self, _: Duration) {}

    fn refuse(&self, reason: &RefusalReason) {
        if let Some((target, code)) = self.target.zip(error_code(reason)) {
            self.member.report(target, code);
        }
    }

    /// Of IPv6 alone, and without the size that would fit: the message has no room for it.
    fn refuse_larger(&self, _: usize) {
        if let Some(target) = self.target.filter(SocketAddr::is_ipv6) {
            self.member.report(target, Socks6ErrorCode::TooBig);
        }
    }

    fn send(&self, data: &[u8], segment: Option<usize>) {
        let payload = segment.unwrap_or(data.len()).max(1);
        let mut messages = Vec::with_capacity(data.len() + self.header.len());
        if data.is_empty() {
            push_datagram(&self.header, data, &mut messages);
        }
        for datagram in data.chunks(payload) {
            // One that is too long for a message is lost, as a datagram that does not fit is.
            push_datagram(&self.header, datagram, &mut messages);
        }
        self.member.send(&messages, self.header.len() + payload);
    }
}

/// The error that a refusal is, where a router could have said it: clients hear nothing of the rules.
fn error_code(reason: &RefusalReason) -> Option<Socks6ErrorCode> {
    match reason.error {
        ProxyError::DestinationIpUnroutable => Some(Socks6ErrorCode::NetworkUnreachable),
        ProxyError::DestinationNotFound
        | ProxyError::DestinationUnavailable
        | ProxyError::ConnectionRefused
        | ProxyError::ConnectionTimeout => Some(Socks6ErrorCode::HostUnreachable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::{Memory, Owner};

    use super::*;

    #[test]
    fn a_client_hears_of_datagrams_that_are_too_big_for_ipv6() {
        let here: IpAddr = "192.0.2.45".parse().unwrap();
        for (target, wanted) in [("[2001:db8::1]:53", 1), ("192.0.2.1:53", 0)] {
            let member = Member::begin(MemberConfig {
                id: 7,
                ip: None,
                reporter: Some(here),
                port: None,
                account: &Memory::node().owner(Owner::Local),
            });
            assert!(member.accepts(ClientPath::Stream));
            let target: SocketAddr = target.parse().unwrap();
            let answers = Answers {
                member: member.clone(),
                header: Vec::new(),
                target: Some(target),
            };
            answers.refuse_larger(1200);

            let mut told = member.leaving.empty_queue();
            member.leaving.take(&mut told);
            let error = Socks6DatagramError {
                target,
                code: Socks6ErrorCode::TooBig,
                reporter: here,
            };
            let expected = encode_datagram_error(7, &error);
            assert_eq!(told.iter().count(), wanted, "{target}");
            assert!(told.iter().all(|message| message == expected));
        }
    }
}
