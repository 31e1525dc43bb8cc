//! Routes in tables of their own, and the rules that say when these are looked at (ip-rule(8)), by routing netlink.

use std::io;

use ipnet::IpNet;

use super::super::{FoundRule, Link, PlacedRule, RouteRule};
use super::link::{AF_INET, AF_INET6, RTM_DELROUTE, RTM_NEWROUTE, octets};
use super::netlink::{Change, Dump, attributes, number};
use crate::os::SenderCondition;

/// Types of messages (`linux/rtnetlink.h`).
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;

/// Attributes (`linux/rtnetlink.h`, `linux/fib_rules.h`).
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_TABLE: u16 = 15;
const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
const FRA_UID_RANGE: u16 = 20;

/// Where a rule leads to a table; and that it holds where its conditions do not.
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;
const RT_TABLE_MAIN: u32 = 254;

/// Bytes of `struct rtmsg` and of `struct fib_rule_hdr`.
const STRUCTURE: usize = 12;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
/// The look-up goes on with the next rule.
const RTN_THROW: u8 = 9;

impl PlacedRule {
    /// Adds it, in place of the same one.
    ///
    /// # Errors
    /// Changing rules is not allowed.
    pub fn add(self) -> io::Result<()> {
        // Usually there is no old rule.
        let _ = self.remove();
        self.change(RTM_NEWRULE)
    }

    /// Removes it.
    ///
    /// # Errors
    /// There is no such rule, or changing rules is not allowed.
    pub fn remove(self) -> io::Result<()> {
        self.change(RTM_DELRULE)
    }

    fn change(self, kind: u16) -> io::Result<()> {
        let number = |number: u32| number.to_ne_bytes().to_vec();
        let (flags, attributes) = match self.rule {
            RouteRule::MainAbove(length) => (
                0,
                vec![
                    (FRA_TABLE, number(RT_TABLE_MAIN)),
                    (FRA_SUPPRESS_PREFIXLEN, number(length.into())),
                ],
            ),
            RouteRule::Of { table, condition } => {
                let mut attributes = vec![(FRA_TABLE, number(table))];
                attributes.extend(meets(condition));
                (invert(condition), attributes)
            }
        };
        change_rule(kind, self.is_ipv4, self.priority, flags, &attributes)
    }
}

/// The attributes for a rule's condition on sockets.
fn meets(condition: SenderCondition) -> Vec<(u16, Vec<u8>)> {
    let (mark, bits) = condition.mark();
    let mut attributes = vec![
        (FRA_FWMARK, mark.to_ne_bytes().to_vec()),
        (FRA_FWMASK, bits.to_ne_bytes().to_vec()),
    ];
    // `struct fib_rule_uid_range`.
    if let Some((first, last)) = condition.users() {
        let range = [first.to_ne_bytes(), last.to_ne_bytes()].concat();
        attributes.push((FRA_UID_RANGE, range));
    }
    attributes
}

/// A rule that asks for a mark not to be there is one that asks for it, turned around.
fn invert(condition: SenderCondition) -> u32 {
    match condition {
        SenderCondition::NotOwn => FIB_RULE_INVERT,
        SenderCondition::OfUsers(..) | SenderCondition::OfCgroup(..) => 0,
    }
}

impl FoundRule {
    /// The existing rules.
    ///
    /// # Errors
    /// Netlink is not allowed.
    pub fn all() -> io::Result<Vec<Self>> {
        let dump = Dump {
            kind: RTM_GETRULE,
            structure: STRUCTURE,
        };
        let mut found = Vec::new();
        dump.run(|kind, content| {
            if kind == RTM_NEWRULE {
                found.extend(Self::read(content));
            }
        })?;
        Ok(found)
    }

    fn read(content: &[u8]) -> Option<Self> {
        let (structure, rest) = content.split_first_chunk::<STRUCTURE>()?;
        let of = |wanted: u16| {
            let mut values = attributes(rest).filter(|(kind, _)| *kind == wanted);
            values.next().and_then(|(_, value)| number(value))
        };
        Some(Self {
            is_ipv4: structure[0] == AF_INET,
            priority: of(FRA_PRIORITY)?,
            table: of(FRA_TABLE)?,
        })
    }

    /// Removes it.
    ///
    /// # Errors
    /// The rule is gone, or changing rules is not allowed.
    pub fn remove(self) -> io::Result<()> {
        let attributes = [(FRA_TABLE, self.table.to_ne_bytes().to_vec())];
        change_rule(RTM_DELRULE, self.is_ipv4, self.priority, 0, &attributes)
    }
}

pub(super) fn change_rule(
    kind: u16,
    is_ipv4: bool,
    priority: u32,
    flags: u32,
    attributes: &[(u16, Vec<u8>)],
) -> io::Result<()> {
    let family = if is_ipv4 { AF_INET } else { AF_INET6 };
    let mut structure = [0; STRUCTURE];
    structure[0] = family;
    structure[7] = FR_ACT_TO_TBL;
    structure[8..].copy_from_slice(&flags.to_ne_bytes());

    let priority = (FRA_PRIORITY, priority.to_ne_bytes().to_vec());
    let attributes: Vec<(u16, &[u8])> = [&priority]
        .into_iter()
        .chain(attributes)
        .map(|(kind, value)| (*kind, &value[..]))
        .collect();
    Change {
        kind,
        creates: kind == RTM_NEWRULE,
        structure: &structure,
        attributes: &attributes,
    }
    .run()
}

impl Link {
    /// Leads packets for `net` to it, where this table is looked at. The route goes when the interface does.
    ///
    /// # Errors
    /// The link is gone or down, or changing routes is not allowed.
    pub fn add_route_in(self, table: u32, net: IpNet) -> io::Result<()> {
        change_route(RTM_NEWROUTE, table, net, Some(self))
    }

    /// Leads packets for `net` to it no more.
    ///
    /// # Errors
    /// There is no such route, or changing routes is not allowed.
    pub fn remove_route_in(self, table: u32, net: IpNet) -> io::Result<()> {
        change_route(RTM_DELROUTE, table, net, Some(self))
    }
}

/// Lets packets for `net` pass by this table.
///
/// # Errors
/// Changing routes is not allowed.
pub fn add_exception(table: u32, net: IpNet) -> io::Result<()> {
    change_route(RTM_NEWROUTE, table, net, None)
}

/// Lets them pass by it no more.
///
/// # Errors
/// There is no such route, or changing routes is not allowed.
pub fn remove_exception(table: u32, net: IpNet) -> io::Result<()> {
    change_route(RTM_DELROUTE, table, net, None)
}

/// Destinations that bypass tables, with each table.
///
/// # Errors
/// Netlink is not allowed.
pub fn exceptions() -> io::Result<Vec<(u32, IpNet)>> {
    let dump = Dump {
        kind: RTM_GETROUTE,
        structure: STRUCTURE,
    };
    let mut found = Vec::new();
    dump.run(|kind, content| {
        if kind == RTM_NEWROUTE {
            found.extend(exception(content));
        }
    })?;
    Ok(found)
}

fn exception(content: &[u8]) -> Option<(u32, IpNet)> {
    let (structure, rest) = content.split_first_chunk::<STRUCTURE>()?;
    if structure[7] != RTN_THROW {
        return None;
    }
    let of = |wanted: u16| {
        let mut values = attributes(rest).filter(move |(kind, _)| *kind == wanted);
        values.next().map(|(_, value)| value)
    };
    let table = of(RTA_TABLE).and_then(number)?;
    // The whole of a family has no destination.
    let address = match (of(RTA_DST), structure[0]) {
        (Some(bytes), _) => super::link::address(bytes)?,
        (None, AF_INET) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        (None, _) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    Some((table, IpNet::new(address, structure[1]).ok()?))
}

/// A route to an interface, or one past the table.
fn change_route(kind: u16, table: u32, net: IpNet, to: Option<Link>) -> io::Result<()> {
    let bytes = octets(net.network());
    let (scope, class) = match (to, net) {
        (Some(_), IpNet::V4(_)) => (RT_SCOPE_LINK, RTN_UNICAST),
        (Some(_), IpNet::V6(_)) => (RT_SCOPE_UNIVERSE, RTN_UNICAST),
        (None, _) => (RT_SCOPE_UNIVERSE, RTN_THROW),
    };
    let family = match net {
        IpNet::V4(_) => AF_INET,
        IpNet::V6(_) => AF_INET6,
    };
    // `struct rtmsg`; the table is an attribute, because its number has more than a byte.
    let mut structure = [0; STRUCTURE];
    structure[..2].copy_from_slice(&[family, net.prefix_len()]);
    structure[5..8].copy_from_slice(&[RTPROT_STATIC, scope, class]);

    let table = table.to_ne_bytes();
    let index = to.map(|link| link.index.to_ne_bytes());
    let mut attributes: Vec<(u16, &[u8])> = vec![(RTA_DST, &bytes), (RTA_TABLE, &table)];
    if let Some(index) = &index {
        attributes.push((RTA_OIF, index));
    }
    Change {
        kind,
        creates: kind == RTM_NEWROUTE,
        structure: &structure,
        attributes: &attributes,
    }
    .run()
}
