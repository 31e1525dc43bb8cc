//! Capture by nf_tables and REDIRECT, where the kernel has no TPROXY: for connections alone.
//!
//! Connections are translated to a port of this machine, and the kernel's table of connections remembers their destination
//! (`SO_ORIGINAL_DST`). In the words of nft, for an interface and for a user of this machine:
//!
//! ```text
//! table inet hermes_capture-lan-1 {
//!     flags owner
//!     chain redirect {
//!         type nat hook prerouting priority dstnat
//!         fib daddr type != unicast accept
//!         iifname "lan0" meta l4proto tcp redirect to :PORT
//!     }
//!     chain redirect-own {
//!         type nat hook output priority -100
//!         meta mark & 0xff000000 == 0x48000000 accept
//!         fib daddr type != unicast accept
//!         meta skuid 1000 meta l4proto tcp redirect to :PORT
//!     }
//! }
//! ```
//!
//! The table goes with its socket, or stays, as that of TPROXY does; connections to a port that no one serves any more are reset.

use std::io;
use std::net::SocketAddr;

use nix::sys::socket::{getsockopt, sockopt};
use tokio::net::TcpStream;

use super::super::{CGROUP_MARK, CaptureOrder, CaptureRules, OWN_MARK, TCP};
use super::capture_rules::{commit, exceptions, refusals};
use super::nft_rule::Rule;
use super::nftables::{Batch, Chain, TableLife};

/// Where nft, too, has the translation of destinations (`NF_IP_PRI_NAT_DST`).
const TRANSLATE: i32 = -100;

/// Connections of other machines.
const OTHERS: Chain = Chain {
    name: "redirect",
    kind: "nat",
    hook: 0,
    priority: TRANSLATE,
};

/// Connections of programs of this machine.
const OWN: Chain = Chain {
    name: "redirect-own",
    kind: "nat",
    hook: 3,
    priority: TRANSLATE,
};

/// Where packets of others, and of this machine, are refused.
const REFUSE_OTHERS: Chain = Chain {
    name: "refuse",
    kind: "filter",
    hook: 0,
    priority: -150,
};
const REFUSE_OWN: Chain = Chain {
    name: "refuse-own",
    kind: "filter",
    hook: 3,
    priority: -150,
};

impl CaptureRules {
    /// Redirects connections to the socket. Tables that a killed process left behind are removed as by [`Self::of`].
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel lacks nf_tables, REDIRECT, or tables that are owned, or that stay
    /// where that is asked for (Linux 6.9).
    pub fn redirecting(order: &CaptureOrder) -> io::Result<Self> {
        commit(order, fill)
    }

    /// Whether it is possible. Changes nothing.
    ///
    /// # Errors
    /// As those of [`Self::redirecting`].
    pub fn check_redirecting(stays: bool) -> io::Result<()> {
        let order = CaptureOrder {
            interfaces: vec!["lo".to_owned()],
            users: vec![(0, 0)],
            tcp: vec![1],
            stays,
            ..CaptureOrder::default()
        };
        let mut batch = Batch::default();
        fill(&mut batch, "hermes_capture", &order);
        batch.check()
    }
}

fn fill(batch: &mut Batch, table: &str, order: &CaptureOrder) {
    let life = match order.stays {
        false => TableLife::OfSocket,
        true => TableLife::Persistent,
    };
    batch.table(table, life);
    let (own, own_bits) = OWN_MARK;
    // This process's own connections first: otherwise each captured one would open another one.
    let ours = || Rule::default().has_mark(own, own_bits).accept();
    let others = order
        .interfaces
        .iter()
        .map(|name| Rule::default().by_interface(name));
    let senders = senders(order);

    for (chain, refuse, rules) in [
        (OTHERS, REFUSE_OTHERS, others.collect::<Vec<_>>()),
        (OWN, REFUSE_OWN, senders),
    ] {
        for chain in [chain, refuse] {
            batch.chain(table, chain);
            batch.rule(table, chain, &ours());
            for exception in exceptions(order) {
                batch.rule(table, chain, &exception);
            }
        }
        for of in rules {
            for refusal in refusals(order, &of) {
                batch.rule(table, refuse, &refusal);
            }
            if let Some(port) = order.tcp.first() {
                batch.rule(table, chain, &of.protocol(TCP).redirect(*port));
            }
        }
    }
}

/// Conditions on senders of this machine.
fn senders(order: &CaptureOrder) -> Vec<Rule> {
    let users = order.users.iter();
    let users = users.map(|(first, last)| Rule::default().of_users(*first, *last));
    let group = order.group_mark;
    let group = group.map(|mark| Rule::default().has_mark(mark, CGROUP_MARK.1));
    users.chain(group).collect()
}

/// Where a redirected connection was going to.
///
/// # Errors
/// `NotFound`: it was not redirected.
pub fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let is_ipv4 = stream.peer_addr()?.ip().to_canonical().is_ipv4();
    let found = match is_ipv4 {
        true => {
            let found = getsockopt(stream, sockopt::OriginalDst)?;
            let ip = u32::from_be(found.sin_addr.s_addr);
            SocketAddr::from((ip.to_be_bytes(), u16::from_be(found.sin_port)))
        }
        false => {
            let found = getsockopt(stream, sockopt::Ip6tOriginalDst)?;
            SocketAddr::from((found.sin6_addr.s6_addr, u16::from_be(found.sin6_port)))
        }
    };
    // A connection to the port itself: it would be carried to itself, again and again.
    let own = stream.local_addr()?;
    if found.port() == own.port() && found.ip() == own.ip().to_canonical() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(found)
}
