//! Capture by nf_tables and TPROXY (`Documentation/networking/tproxy.rst` of Linux).
//!
//! Packets that are captured get a mark, a routing rule leads marked ones to this machine, and TPROXY hands them to a socket that
//! takes foreign addresses. In the words of nft, for an interface and for a user of this machine:
//!
//! ```text
//! table inet hermes_capture-lan-1 {
//!     flags owner
//!     chain mark {
//!         type filter hook prerouting priority raw
//!         fib daddr type != unicast accept
//!         iifname "lan0" meta l4proto tcp meta mark set 0x4a123400 notrack
//!     }
//!     chain capture {
//!         type filter hook prerouting priority mangle
//!         meta mark & 0xffffff00 == 0x4a123400 meta l4proto tcp tproxy to :PORT accept
//!         meta mark & 0xffffff00 == 0x4a123400 drop
//!     }
//!     chain send {
//!         type route hook output priority mangle
//!         meta mark & 0xff000000 == 0x48000000 accept
//!         ct direction reply accept
//!         fib daddr type != unicast accept
//!         meta skuid 1000 meta l4proto tcp meta mark set 0x4a123400
//!     }
//! }
//! ```
//!
//! Where beginnings of connections are held, a set with one element that expires says that the process is alive: one that is stopped, or
//! stands still, would hold them for ever.
//!
//! The table goes with its socket. One that is to stay (`flags owner,persist`) drops the packets when no socket takes them, and the next
//! process removes it once its own is there.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ipnet::IpNet;

use super::super::{
    CAPTURE_MARK, CaptureOrder, CaptureRules, CapturedFlowRules, FOREIGN_SOCKET_MARK,
    LISTENER_BITS, OWN_MARK, SynFate, SynQueues, TCP, UDP,
};
use super::nft_rule::{Rule, Unreachable};
use super::nftables::{Batch, Chain, TableLife, tables};

/// Before connections are tracked (`NF_IP_PRI_RAW`).
const MARK: Chain = Chain {
    name: "mark",
    kind: "filter",
    hook: 0,
    priority: -300,
};

/// Before packets are routed (`NF_IP_PRI_MANGLE`).
const CAPTURE: Chain = Chain {
    name: "capture",
    kind: "filter",
    hook: 0,
    priority: -150,
};

/// Where packets of this machine begin, before connections are tracked.
const ANSWER: Chain = Chain {
    name: "answer",
    kind: "filter",
    hook: 3,
    priority: -300,
};

/// Where packets of this machine's programs begin; they are routed again when their mark has changed.
const SEND: Chain = Chain {
    name: "send",
    kind: "route",
    hook: 3,
    priority: -150,
};

/// The prefix of the names of tables.
const PREFIX: &str = "hermes_capture-";

/// A table that no one has.
const NO_TABLE: &str = "hermes_capture";

/// A single host elsewhere (`RTN_UNICAST`).
const UNICAST: u32 = 1;
/// This machine (`RTN_LOCAL`).
const LOCAL: u32 = 2;

/// Families of nf_tables (`linux/netfilter.h`).
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;

/// Where the headers of IP have the destination.
const IPV4_DESTINATION: u32 = 16;
const IPV6_DESTINATION: u32 = 24;

/// Where the headers of TCP and UDP have the port of the destination.
const DESTINATION_PORT: u32 = 2;

/// Where the header of TCP has its flags, those that are looked at, and the one of a beginning (RFC 9293, 3.1).
const FLAGS: u32 = 13;
const SYN_ACK_RST: u8 = 0x16;
const SYN: u8 = 0x02;

/// How a packet finds its queue (`linux/netfilter/xt_NFQUEUE.h`).
const NFQ_FLAG_BYPASS: u16 = 1;
const NFQ_FLAG_CPU_FANOUT: u16 = 2;

/// The set whose only element says that the process is alive, and how long it says so.
const ALIVE: &str = "alive";
const ALIVE_KEY: u32 = 1;

/// How long a process that has stopped may hold clients: three of its signs of life, so that a busy machine does not lose its capture.
#[doc(alias = "bound")]
const ALIVE_TIME: Duration = Duration::from_secs(6);

static NUMBER: AtomicU64 = AtomicU64::new(1);

impl CaptureRules {
    /// Leads the traffic to the sockets. Tables of a listener of this name that a killed process left behind are removed in the same
    /// step.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel lacks nf_tables, TPROXY, or tables that are owned, or that stay
    /// where that is asked for (Linux 6.9).
    pub fn of(order: &CaptureOrder) -> io::Result<Self> {
        commit(order, fill)
    }

    /// Says that this process is alive, where beginnings are held: without that, traffic soon goes its ordinary way again. It takes the
    /// kernel some milliseconds.
    ///
    /// # Errors
    /// The kernel is older than Linux 6.3, or has no memory.
    pub fn say_alive(&self) -> io::Result<()> {
        if !self.is_watched {
            return Ok(());
        }
        let mut batch = Batch::default();
        batch.renew_element(&self.table, ALIVE, ALIVE_KEY, ALIVE_TIME);
        batch.commit_on(&self.socket)
    }

    /// Whether it is possible. Changes nothing.
    ///
    /// # Errors
    /// As those of [`Self::of`].
    pub fn check(stays: bool, holds: bool) -> io::Result<()> {
        let order = CaptureOrder {
            interfaces: vec!["lo".to_owned()],
            users: vec![(0, 0)],
            tcp: vec![1],
            udp: Some(1),
            stays,
            held: holds.then_some(SynQueues { first: 0, count: 1 }),
            ..CaptureOrder::default()
        };
        let mut batch = Batch::default();
        fill(&mut batch, NO_TABLE, &order);
        batch.check()
    }
}

impl Drop for CaptureRules {
    fn drop(&mut self) {
        // One that stays would not go with its socket.
        let mut batch = Batch::default();
        batch.remove_table(&self.table);
        let _ = batch.commit_on(&self.socket);
    }
}

impl CapturedFlowRules {
    /// Leads packets of every connection that a socket with a foreign address has to that socket.
    ///
    /// # Errors
    /// As those of [`CaptureRules::of`].
    pub fn new() -> io::Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let table = format!("{PREFIX}flows-{process}-{number}");

        let mut batch = Batch::default();
        batch.table(&table, TableLife::OfSocket);
        batch.chain(&table, CAPTURE);
        let (mark, bits) = CAPTURE_MARK;
        for protocol in [TCP, UDP] {
            // Those that are captured have a way already: a socket that answers datagrams is not the one that takes them.
            let of_socket = Rule::default()
                .protocol(protocol)
                .has_not_mark(mark, bits)
                .has_transparent_socket()
                .set_mark(mark)
                .accept();
            batch.rule(&table, CAPTURE, &of_socket);
        }
        Ok(Self {
            _socket: batch.commit()?,
        })
    }
}

/// Makes a table with these contents, in place of those that a killed process of the listener left behind.
pub(super) fn commit(
    order: &CaptureOrder,
    fill: impl FnOnce(&mut Batch, &str, &CaptureOrder),
) -> io::Result<CaptureRules> {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let table = format!("{PREFIX}{}-{process}-{number}", order.name);

    let mut batch = Batch::default();
    let found = tables(PREFIX)?.into_iter();
    let left = found.filter(|one| one.is_orphan && is_of(&one.name, &order.name));
    for orphan in left {
        // The one who adopts it may remove it.
        batch.table(&orphan.name, TableLife::Persistent);
        batch.remove_table(&orphan.name);
    }
    fill(&mut batch, &table, order);
    let socket = batch.commit()?;
    Ok(CaptureRules {
        socket,
        table,
        is_watched: order.is_watched(),
    })
}

/// The existing tables of this kind, of any process.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has no nf_tables.
pub fn captures() -> io::Result<Vec<String>> {
    let found = tables(PREFIX)?.into_iter();
    Ok(found.map(|table| table.name).collect())
}

/// Whether a table is of a listener of this name: the number of a process and of its table follow.
fn is_of(table: &str, listener: &str) -> bool {
    let rest = table.strip_prefix(PREFIX);
    let rest = rest.and_then(|rest| rest.strip_prefix(listener)?.strip_prefix('-'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.and_then(|rest| rest.split_once('-'))
        .is_some_and(|(process, number)| is_number(process) && is_number(number))
}

fn fill(batch: &mut Batch, table: &str, order: &CaptureOrder) {
    let life = match order.stays {
        false => TableLife::OfSocket,
        true => TableLife::Persistent,
    };
    batch.table(table, life);
    if order.is_watched() {
        batch.expiring_set(table, ALIVE);
        batch.renew_element(table, ALIVE, ALIVE_KEY, ALIVE_TIME);
    }
    batch.chain(table, MARK);
    batch.chain(table, CAPTURE);
    // An empty chain would be asked about each packet that leaves this machine.
    let send = send_rules(order);
    if !order.interfaces.is_empty() {
        batch.chain(table, ANSWER);
    }
    if !send.is_empty() {
        batch.chain(table, SEND);
    }

    // Answers to packets that are not tracked would seem to begin connections, whose addresses might be translated.
    if !order.interfaces.is_empty() {
        let answer = Rule::default().has_mark(FOREIGN_SOCKET_MARK, u32::MAX);
        batch.rule(table, ANSWER, &answer.without_tracking());
    }
    for rule in mark_rules(order) {
        batch.rule(table, MARK, &rule);
    }
    for rule in capture_rules(order) {
        batch.rule(table, CAPTURE, &rule);
    }
    for rule in send {
        batch.rule(table, SEND, &rule);
    }
}

/// Packets of other machines.
fn mark_rules(order: &CaptureOrder) -> Vec<Rule> {
    let mut rules = direct(order);
    rules.extend(unwatched(order));
    match order.own {
        Some(own) => rules.push(to_own(own).set_mark(order.mark())),
        None => rules.extend(exceptions(order)),
    }
    for name in &order.interfaces {
        let here = Rule::default().by_interface(name);
        rules.extend(refusals(order, &here));
        for protocol in protocols(order) {
            let taken = here.clone().protocol(protocol).set_mark(order.mark());
            rules.push(taken.without_tracking());
        }
    }
    if let Some(queues) = order.held {
        // Also of programs of this machine, whose packets come here by `lo` with the mark.
        let begins = Rule::default()
            .has_mark(order.mark(), u32::MAX)
            .protocol(TCP)
            .transport_bytes(FLAGS, &[SYN_ACK_RST], &[SYN]);
        rules.push(begins.queue(&queue_info(queues)));
    }
    rules
}

/// `struct xt_NFQ_info_v3`, padded: the queue is that of the processor, and without a reader packets go on.
fn queue_info(queues: SynQueues) -> [u8; 8] {
    let mut info = [0; 8];
    info[..2].copy_from_slice(&queues.first.to_ne_bytes());
    info[2..4].copy_from_slice(&queues.count.to_ne_bytes());
    info[4..6].copy_from_slice(&(NFQ_FLAG_BYPASS | NFQ_FLAG_CPU_FANOUT).to_ne_bytes());
    info
}

/// Packets go their ordinary way when the process has not said for a while that it is alive.
fn unwatched(order: &CaptureOrder) -> Option<Rule> {
    let rule = Rule::default().without_element(ALIVE_KEY, ALIVE).accept();
    order.is_watched().then_some(rule)
}

/// Packets to the sockets themselves: a connection for their own address would be carried to itself, again and again.
fn direct(order: &CaptureOrder) -> Vec<Rule> {
    let to_socket = |protocol: u8, port: u16| {
        // The routes are asked last: every packet of the machine comes by here, and few have the port.
        let port = port.to_be_bytes();
        let rule = Rule::default().protocol(protocol);
        let rule = rule.transport_bytes(DESTINATION_PORT, &[0xff; 2], &port);
        rule.destination_type(LOCAL, true)
    };
    let tcp = order.tcp.iter().map(|port| to_socket(TCP, *port).reset());
    let udp = order.udp.map(|port| to_socket(UDP, port));
    let udp = udp.map(|rule| rule.unreachable(Unreachable::Port));
    tcp.chain(udp).collect()
}

/// Packets of programs of this machine.
fn send_rules(order: &CaptureOrder) -> Vec<Rule> {
    let (own, own_bits) = OWN_MARK;
    let mut senders: Vec<Rule> = Vec::new();
    for (first, last) in &order.users {
        senders.push(Rule::default().of_users(*first, *last));
    }
    if let Some(mark) = order.group_mark {
        senders.push(Rule::default().has_mark(mark, super::super::CGROUP_MARK.1));
    }
    if senders.is_empty() {
        return Vec::new();
    }

    // This process's own packets first: otherwise each captured connection would open another one. Answers to
    // clients from elsewhere belong to connections that no one here opened.
    let mut rules = vec![
        Rule::default().has_mark(own, own_bits).accept(),
        Rule::default().answers().accept(),
    ];
    rules.extend(unwatched(order));
    rules.extend(exceptions(order));
    for sender in senders {
        rules.extend(refusals(order, &sender));
        for protocol in protocols(order) {
            rules.push(sender.clone().protocol(protocol).set_mark(order.mark()));
        }
    }
    rules
}

/// Marked packets, to their sockets.
fn capture_rules(order: &CaptureOrder) -> Vec<Rule> {
    let marked = || Rule::default().has_mark(order.mark(), LISTENER_BITS);
    let mut rules = fates(order);
    let ports = [(TCP, order.tcp.first().copied()), (UDP, order.udp)];
    rules.extend(ports.into_iter().filter_map(|(protocol, port)| {
        let rule = marked().protocol(protocol);
        port.map(|port| rule.into_socket(port).accept())
    }));
    // TPROXY passes over packets that no socket takes. They must not go on: their routing rule leads them here, where
    // the machine itself would answer. Those for a listener of this machine are for it.
    if order.own.is_none() {
        rules.push(marked().drop_it());
    }
    rules
}

/// Packets to a listener of this machine.
fn to_own(own: SocketAddr) -> Rule {
    let port = own.port().to_be_bytes();
    let rule = Rule::default().protocol(TCP);
    let rule = rule.transport_bytes(DESTINATION_PORT, &[0xff; 2], &port);
    let rule = match own.ip().is_unspecified() {
        true => rule,
        false => rule.to(IpNet::from(own.ip())),
    };
    rule.destination_type(LOCAL, true)
}

/// Packets that were held, as their marks say.
fn fates(order: &CaptureOrder) -> Vec<Rule> {
    if order.held.is_none() {
        return Vec::new();
    }
    let of = |fate: SynFate| {
        let code = fate.code()?;
        Some(
            Rule::default()
                .has_mark(order.mark() | code, u32::MAX)
                .protocol(TCP),
        )
    };
    let answers = SynFate::ANSWERS.into_iter().filter_map(|fate| {
        let rule = of(fate)?;
        Some(match fate {
            SynFate::NoHost => rule.unreachable(Unreachable::Host),
            SynFate::NoRoute => rule.unreachable(Unreachable::Network),
            SynFate::Prohibited => rule.unreachable(Unreachable::Prohibited),
            SynFate::Refused | SynFate::Taken(_) | SynFate::Silence => rule.reset(),
        })
    });
    // The worker that held it accepts it.
    let taken = (0..).zip(&order.tcp).filter_map(|(worker, port)| {
        let rule = of(SynFate::Taken(worker))?;
        Some(rule.into_socket(*port).accept())
    });
    answers.chain(taken).collect()
}

fn protocols(order: &CaptureOrder) -> impl Iterator<Item = u8> {
    let tcp = (!order.tcp.is_empty()).then_some(TCP);
    let udp = order.udp.map(|_| UDP);
    tcp.into_iter().chain(udp)
}

/// Packets that stay as they are: to this machine, to groups, and to the excepted destinations.
pub(super) fn exceptions(order: &CaptureOrder) -> Vec<Rule> {
    let link_local = ["169.254.0.0/16", "fe80::/10"];
    let link_local = link_local.into_iter().filter_map(|net| net.parse().ok());
    let mut rules = vec![Rule::default().destination_type(UNICAST, false).accept()];
    for net in link_local.chain(order.except.iter().copied()) {
        rules.push(Rule::default().to(net).accept());
    }
    rules
}

/// Packets to ports that are refused.
pub(super) fn refusals(order: &CaptureOrder, sender: &Rule) -> Vec<Rule> {
    let to_port = |protocol: u8, port: u16| {
        let port = port.to_be_bytes();
        let rule = sender.clone().protocol(protocol);
        rule.transport_bytes(DESTINATION_PORT, &[0xff; 2], &port)
    };
    let udp = order.refused.udp.iter();
    let udp = udp.map(|port| to_port(UDP, *port).unreachable(Unreachable::Port));
    let tcp = order.refused.tcp.iter();
    let tcp = tcp.map(|port| to_port(TCP, *port).reset());
    udp.chain(tcp).collect()
}

impl Rule {
    /// Packets to this network.
    fn to(self, net: IpNet) -> Self {
        match net {
            IpNet::V4(net) => self.family(NFPROTO_IPV4).network_bytes(
                IPV4_DESTINATION,
                &net.netmask().octets(),
                &net.network().octets(),
            ),
            IpNet::V6(net) => self.family(NFPROTO_IPV6).network_bytes(
                IPV6_DESTINATION,
                &net.netmask().octets(),
                &net.network().octets(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_listeners_with_longer_names_are_not_taken_for_ones_own() {
        assert!(is_of("hermes_capture-lan-12-3", "lan"));
        assert!(is_of("hermes_capture-lan-1-12-3", "lan-1"));
        for other in [
            "hermes_capture-lan-1-12-3",
            "hermes_capture-lan-b-12-3",
            "hermes_capture-lan-12",
            "hermes_capture-lan-12-",
            "hermes_capture-land-12-3",
        ] {
            assert!(!is_of(other, "lan"), "{other}");
        }
    }
}
