//! Names of the overlay behind the addresses that a listener's device gives them: packets to these
//! end in a stack, and become flows to the name. Of a captured network, packets to all other hosts do so as well.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use hermes_ip::{NameLeases, NamesFull, PoolError};
use hermes_net::clock::unix_seconds;
use hermes_net::memory::{Memory, Owner};
use hermes_proto::ip::{IcmpError, IcmpLimiter, IpPrefix, Packet};
use hermes_rules::held_addresses;
use hermes_stack::{Checksums, StackSettings, UdpDatagram};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use super::flow_stack::FlowStack;
use super::node_pools::{NodePools, PoolEntry};
use crate::Bounds;

/// The port of DNS (RFC 1035, section 4.2).
pub const DNS_PORT: u16 = 53;

/// Questions that wait to be taken: more than the programs of one machine ask at once.
#[doc(alias = "bound")]
const MAX_QUESTIONS: usize = 256;

/// The names of a listener's device.
pub struct NamedHosts {
    pool: Vec<IpPrefix>,
    servers: Vec<IpAddr>,
    leases: Mutex<NameLeases>,
    stack: Arc<FlowStack>,
    questions: Mutex<VecDeque<NameQuestion>>,
    asked: Notify,
    lost: AtomicU64,
    limiter: Mutex<IcmpLimiter>,
    reach: HostReach,
}

/// The hosts beside names that packets reach.
enum HostReach {
    /// None. The pool is among those of the node: no client of a device is a program of this machine.
    Names {
        /// Its entry.
        _entry: PoolEntry,
    },
    /// All hosts but this machine and its links.
    All {
        /// The addresses that packets may come from; none: any.
        sources: Vec<IpAddr>,
    },
}

/// A message to the name server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameQuestion {
    client: SocketAddr,
    server: SocketAddr,
    /// The message.
    pub message: Bytes,
}

/// The status of a device's names.
#[derive(Debug, Clone, Serialize)]
pub struct NamedHostsView {
    /// Where the name server is asked.
    pub servers: Vec<String>,
    /// How many names have addresses.
    pub names: usize,
    /// Connections to them that are open.
    pub connections: usize,
    /// Pairs of UDP ports.
    pub sessions: usize,
    /// Questions that found no room.
    pub lost_questions: u64,
}

impl fmt::Debug for NamedHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedHosts")
            .field("servers", &self.servers)
            .finish_non_exhaustive()
    }
}

impl NamedHosts {
    /// Gives names addresses of these prefixes. `datagrams` are the bounds of one pair of UDP
    /// ports, until a route sets others.
    ///
    /// # Errors
    /// [`PoolError::Range`].
    pub fn new(
        pool: &[IpPrefix],
        stack: StackSettings,
        datagrams: Bounds,
        pools: &Arc<NodePools>,
    ) -> Result<Arc<Self>, PoolError> {
        let stack = FlowStack::new(stack, datagrams);
        stack.set_account(Memory::node().owner(Owner::Local));
        let _entry = pools.enter(pool.to_vec(), false);
        Self::with(pool, stack, HostReach::Names { _entry })
    }

    /// The hosts of a captured network: names, which have addresses of these prefixes, and all others by their own addresses. Packets come
    /// from `sources`, or from anywhere where that is empty; flows are those of `stack`.
    ///
    /// # Errors
    /// [`PoolError::Range`].
    pub fn captured(
        pool: &[IpPrefix],
        stack: Arc<FlowStack>,
        sources: Vec<IpAddr>,
    ) -> Result<Arc<Self>, PoolError> {
        Self::with(pool, stack, HostReach::All { sources })
    }

    fn with(
        pool: &[IpPrefix],
        stack: Arc<FlowStack>,
        reach: HostReach,
    ) -> Result<Arc<Self>, PoolError> {
        let servers = pool.iter().copied().map(NameLeases::server_address);
        Ok(Arc::new(Self {
            pool: pool.to_vec(),
            servers: servers.collect(),
            leases: Mutex::new(NameLeases::new(pool)?),
            stack,
            questions: Mutex::default(),
            asked: Notify::new(),
            lost: AtomicU64::new(0),
            limiter: Mutex::default(),
            reach,
        }))
    }

    /// Where the name server is asked: an address of each family that the pool has.
    pub fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// The stack that ends packets to names.
    pub fn stack(&self) -> &Arc<FlowStack> {
        &self.stack
    }

    /// The addresses of a name, of each family that the pool has.
    ///
    /// # Errors
    /// [`NamesFull`].
    pub fn lease(&self, name: &str) -> Result<Vec<IpAddr>, NamesFull> {
        self.leases.lock().lease(name, unix_seconds())
    }

    /// The name that has an address.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        self.leases.lock().peek(address).cloned()
    }

    /// Whether this is an address of the pool.
    pub fn covers(&self, address: IpAddr) -> bool {
        self.pool.iter().any(|prefix| prefix.contains(address))
    }

    /// The next question by UDP.
    pub async fn next_question(&self) -> NameQuestion {
        loop {
            let next = self.questions.lock().pop_front();
            match next {
                Some(question) => return question,
                None => self.asked.notified().await,
            }
        }
    }

    /// Its current status.
    pub fn view(&self) -> NamedHostsView {
        let [connections, sessions] = self.stack.flows();
        NamedHostsView {
            servers: self.servers.iter().map(ToString::to_string).collect(),
            names: self.leases.lock().len(),
            connections,
            sessions,
            lost_questions: self.lost.load(Ordering::Relaxed),
        }
    }

    /// Takes a packet; returns an error for its sender, if any.
    pub(super) fn take(&self, packet: &[u8], checksums: Checksums) -> Option<Bytes> {
        let parsed = Packet::parse(packet).ok()?;
        let destination = parsed.destination();
        if !self.may_come_from(parsed.source()) {
            return None;
        }
        if self.servers.contains(&destination) {
            if let Some(datagram) = UdpDatagram::parse(&parsed)
                && datagram.to.port() == DNS_PORT
            {
                self.ask(datagram);
                return None;
            }
        } else if self.reaches(destination) {
            if is_of_machine(destination) {
                return self.error(IcmpError::Prohibited, &parsed);
            }
        } else if self.use_name(destination).is_none() {
            return self.error(IcmpError::HostUnreachable, &parsed);
        }

        if !self.stack.takes(packet) {
            return self.error(IcmpError::Prohibited, &parsed);
        }
        self.stack.handle_packet(packet, checksums);
        None
    }

    /// Whether a packet may have this source: answers to others would go nowhere, and no one else is meant.
    fn may_come_from(&self, source: IpAddr) -> bool {
        match &self.reach {
            HostReach::Names { .. } => true,
            HostReach::All { sources } => sources.is_empty() || sources.contains(&source),
        }
    }

    /// Whether an address that is no name's stands for the host that has it.
    pub fn reaches(&self, address: IpAddr) -> bool {
        matches!(self.reach, HostReach::All { .. }) && !self.covers(address)
    }

    fn use_name(&self, address: IpAddr) -> Option<Arc<str>> {
        self.leases.lock().name(address, unix_seconds())
    }

    fn ask(&self, datagram: UdpDatagram<'_>) {
        let mut questions = self.questions.lock();
        if questions.len() >= MAX_QUESTIONS {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        questions.push_back(NameQuestion {
            client: datagram.from,
            server: datagram.to,
            message: Bytes::copy_from_slice(datagram.payload),
        });
        drop(questions);
        self.asked.notify_one();
    }

    /// An error for the sender of a packet, within the rate limit: from the name server, which is a
    /// router on the way to names.
    fn error(&self, error: IcmpError, packet: &Packet<'_>) -> Option<Bytes> {
        let mut servers = self.servers.iter();
        let from = servers.find(|server| server.is_ipv4() == packet.is_ipv4())?;
        let error = error.about(packet, *from)?;
        self.limiter.lock().allows(Instant::now()).then_some(error)
    }
}

/// Whether an address, or one that it holds, is of the machine itself or of one of its links: for a captured program these are its own
/// network's, never those of the machine of this node.
fn is_of_machine(address: IpAddr) -> bool {
    held_addresses(address).any(|one| match one {
        IpAddr::V4(one) => {
            one.is_loopback() || one.is_link_local() || one.is_unspecified() || one.is_broadcast()
        }
        IpAddr::V6(one) => one.is_loopback() || one.is_unicast_link_local() || one.is_unspecified(),
    })
}

impl NameQuestion {
    /// The packet that takes an answer to who asked.
    pub(super) fn answer(&self, message: &[u8]) -> Vec<u8> {
        let datagram = UdpDatagram {
            from: self.server,
            to: self.client,
            payload: message,
        };
        datagram.to_packet()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Arc<NamedHosts> {
        let pool = ["100.64.0.0/24".parse().unwrap()];
        let pools = Arc::default();
        NamedHosts::new(&pool, StackSettings::default(), Bounds::NOTHING, &pools).unwrap()
    }

    fn datagram(to: SocketAddr, payload: &[u8]) -> Vec<u8> {
        let from = "10.7.0.2:5000".parse().unwrap();
        UdpDatagram { from, to, payload }.to_packet()
    }

    #[tokio::test]
    async fn questions_wait_within_their_bound_and_are_answered_to_who_asked() {
        let hosts = hosts();
        let server = SocketAddr::new(hosts.servers()[0], DNS_PORT);
        for number in 0..MAX_QUESTIONS + 7 {
            let packet = datagram(server, &number.to_be_bytes());
            assert_eq!(hosts.take(&packet, Checksums::Verify), None);
        }
        assert_eq!(hosts.view().lost_questions, 7);
        let question = hosts.next_question().await;
        assert_eq!(question.message[..], 0_usize.to_be_bytes());
        let answer = question.answer(b"here");
        let answer = Packet::parse(&answer).unwrap();
        let answer = UdpDatagram::parse(&answer).unwrap();
        assert_eq!((answer.from, answer.payload), (server, &b"here"[..]));
        assert_eq!(answer.to, "10.7.0.2:5000".parse().unwrap());
    }

    #[tokio::test]
    async fn packets_to_a_name_become_flows_and_to_no_name_an_error() {
        let hosts = hosts();
        let video = hosts.lease("video").unwrap()[0];
        let packet = datagram(SocketAddr::new(video, 9), b"hello");
        assert_eq!(hosts.take(&packet, Checksums::Verify), None);
        let flow = hosts.stack().next_flow().await;
        assert_eq!(flow.target, SocketAddr::new(video, 9));
        assert_eq!(hosts.name(video).as_deref(), Some("video"));

        let other = SocketAddr::new("100.64.0.77".parse().unwrap(), 9);
        let is_other = video != other.ip();
        let error = hosts.take(&datagram(other, b"hello"), Checksums::Verify);
        assert_eq!(error.is_some(), is_other);
        assert!(hosts.name(other.ip()).is_none() || !is_other);
    }

    #[test]
    fn a_flood_of_packets_to_no_name_is_answered_as_often_as_errors_are() {
        let hosts = hosts();
        let none = SocketAddr::new("100.64.0.77".parse().unwrap(), 9);
        let errors = (0..100_000).filter(|_| {
            hosts
                .take(&datagram(none, b"x"), Checksums::Verify)
                .is_some()
        });
        assert!(errors.count() < 10_000);
        assert_eq!(hosts.view().sessions, 0);
    }

    fn captured() -> Arc<NamedHosts> {
        let pool = ["198.18.0.0/24", "fd68::/64"].map(|prefix| prefix.parse().unwrap());
        let stack = FlowStack::new(StackSettings::default(), Bounds::NOTHING);
        let sources = vec!["10.7.0.2".parse().unwrap(), "fd68::1".parse().unwrap()];
        NamedHosts::captured(&pool, stack, sources).unwrap()
    }

    #[tokio::test]
    async fn a_captured_network_reaches_hosts_by_their_own_addresses() {
        let hosts = captured();
        let target = "192.0.2.7:443".parse().unwrap();
        let error = hosts.take(&datagram(target, b"hello"), Checksums::Verify);
        assert_eq!(error, None);
        assert_eq!(hosts.stack().next_flow().await.target, target);
        assert!(hosts.reaches(target.ip()));
        assert!(!hosts.reaches("198.18.0.77".parse().unwrap()), "a name's");
    }

    #[test]
    fn a_captured_network_reaches_neither_the_machine_nor_its_links() {
        let hosts = captured();
        for target in [
            "127.0.0.1:22",
            "169.254.169.254:80",
            "0.0.0.0:22",
            "255.255.255.255:22",
        ] {
            let packet = datagram(target.parse().unwrap(), b"x");
            let _ = hosts.take(&packet, Checksums::Verify);
            assert_eq!(hosts.stack().flows(), [0, 0], "{target}");
        }
        let from = "[fd68::1]:5000".parse().unwrap();
        for target in [
            "[fe80::1]:22",
            "[::1]:22",
            "[::ffff:127.0.0.1]:22",
            "[64:ff9b::7f00:1]:22",
            "[64:ff9b::a9fe:a9fe]:80",
            "[ff02::1]:22",
        ] {
            let to = target.parse().unwrap();
            let packet = UdpDatagram {
                from,
                to,
                payload: b"x",
            };
            let _ = hosts.take(&packet.to_packet(), Checksums::Verify);
            assert_eq!(hosts.stack().flows(), [0, 0], "{target}");
        }
    }

    #[test]
    fn packets_with_the_source_of_another_are_lost() {
        let hosts = captured();
        let from = "10.7.0.3:5000".parse().unwrap();
        let to = "192.0.2.7:443".parse().unwrap();
        let packet = UdpDatagram {
            from,
            to,
            payload: b"x",
        };
        assert_eq!(hosts.take(&packet.to_packet(), Checksums::Verify), None);
        assert_eq!(hosts.stack().flows(), [0, 0]);
    }
}
