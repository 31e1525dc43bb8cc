//! The addresses of this machine, by routing netlink: those of its interfaces, and those that its routes of type local deliver
//! here without any interface having them (`ip route add local 10.9.0.0/16 dev lo`, "AnyIP").

use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::netlink::{self, Announcements, Dump, attributes, number};

/// Types of messages and attributes (`linux/rtnetlink.h`, `linux/if_addr.h`, `linux/fib_rules.h`).
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_GETRULE: u16 = 34;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_TABLE: u16 = 15;
const FRA_IIFNAME: u16 = 3;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;

/// Types of routes that deliver to this machine.
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;
const RTN_ANYCAST: u8 = 4;

/// A rule that looks a table up, and the flag of a rule that applies where its condition does not
/// match.
const FR_ACT_TO_TBL: u8 = 1;
const FIB_RULE_INVERT: u32 = 2;

/// Families (`linux/socket.h`).
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Groups that hear of addresses, routes and rules, of both families.
const GROUPS: u32 = 0x10 | 0x100 | 0x40 | 0x400 | 0x80 | 0x4_0000;

/// Lengths of `struct ifaddrmsg`, `struct rtmsg` and `struct fib_rule_hdr`.
const IFADDRMSG: usize = 8;
const RTMSG: usize = 12;
const FIB_RULE_HDR: usize = 12;

/// The tables that are looked up for packets of this process: each with its family.
type Tables = HashSet<(u8, u32)>;

/// A route that delivers to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LocalRoute {
    table: (u8, u32),
    net: IpNet,
}

/// Every address of every interface, loopback included, also of interfaces that are down, and the
/// destinations that routes deliver to this machine; empty if the system refuses.
#[must_use]
pub fn local_addresses() -> Vec<IpNet> {
    let mut found = of_interfaces()
        .and_then(|found| Ok([found, of_routes()?].concat()))
        .unwrap_or_else(|_| in_proc());
    found.sort_unstable();
    found.dedup();
    found
}

/// Hears of addresses that come and go.
#[derive(Debug)]
pub struct AddressChanges(Announcements);

impl AddressChanges {
    /// Hears of changes from now on.
    ///
    /// # Errors
    /// When the system, or a confinement of the process, forbids netlink.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn hear() -> io::Result<Self> {
        Announcements::hear(GROUPS).map(Self)
    }

    /// Resolves when something has changed, without details. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn next(&mut self) -> io::Result<()> {
        // Routes to other destinations are ignored: a router has a million of them, which change
        // all the time.
        self.0.next(concerns_this_machine).await
    }
}

/// Whether a message of the groups concerns local delivery.
fn concerns_this_machine(messages: &[u8]) -> bool {
    let mut concerns = false;
    let read = netlink::read(messages, |kind, content| {
        let elsewhere =
            matches!(kind, RTM_NEWROUTE | RTM_DELROUTE) && local_route(content).is_none();
        concerns |= !elsewhere;
    });
    concerns || read.is_err()
}

fn of_interfaces() -> io::Result<Vec<IpNet>> {
    let mut found = Vec::new();
    Dump {
        kind: RTM_GETADDR,
        structure: IFADDRMSG,
    }
    .run(|kind, content| {
        if kind == RTM_NEWADDR {
            found.extend(
                content
                    .get(IFADDRMSG..)
                    .and_then(own_address)
                    .map(IpNet::from),
            );
        }
    })?;

    Ok(found)
}

fn of_routes() -> io::Result<Vec<IpNet>> {
    let tables = tables();
    let mut found = Vec::new();
    Dump {
        kind: RTM_GETROUTE,
        structure: RTMSG,
    }
    .run(|kind, content| {
        if kind == RTM_NEWROUTE {
            found.extend(local_route(content));
        }
    })?;

    let applies = |route: &LocalRoute| {
        tables
            .as_ref()
            .is_none_or(|tables| tables.contains(&route.table))
    };

    Ok(found
        .into_iter()
        .filter(applies)
        .map(|route| route.net)
        .collect())
}

/// The tables that are looked up for packets of this process; `None` if the kernel has no rules, or
/// refuses.
///
/// Others hold local routes, too, that deliver nothing of ours here: transparent proxies have one for all addresses
/// (`local 0.0.0.0/0`), in a table that only packets with a mark of theirs, or of an interface, lead to.
fn tables() -> Option<Tables> {
    let mut found = Tables::new();
    let dumped = Dump {
        kind: RTM_GETRULE,
        structure: FIB_RULE_HDR,
    }
    .run(|kind, content| {
        if kind == RTM_NEWRULE {
            found.extend(table_looked_up(content));
        }
    });

    dumped.ok().filter(|()| !found.is_empty()).map(|()| found)
}

/// The table that a rule leads to, if it can apply to packets of this process: without a mark, and
/// not from an interface.
fn table_looked_up(rule: &[u8]) -> Option<(u8, u32)> {
    let (head, rest) = rule.split_at_checked(FIB_RULE_HDR)?;
    let family = head[0];
    let flags = number(&head[8..])?;

    if head[7] != FR_ACT_TO_TBL {
        return None;
    }

    let mut table = u32::from(head[4]);
    let mut mark = 0;
    // The kernel's default: the whole mark is compared.
    let mut mask = u32::MAX;
    let mut comes_from_here = true;

    for (kind, value) in attributes(rest) {
        match kind {
            FRA_TABLE => table = number(value)?,
            FRA_FWMARK => mark = number(value)?,
            FRA_FWMASK => mask = number(value)?,
            // For rules, packets of the machine itself come from the loopback interface.
            FRA_IIFNAME => comes_from_here = value.strip_suffix(&[0]).unwrap_or(value) == b"lo",
            _ => {}
        }
    }

    let may_match = comes_from_here && mark & mask == 0;
    (may_match || flags & FIB_RULE_INVERT != 0).then_some((family, table))
}

/// The destination that a route delivers to this machine, if it does.
fn local_route(route: &[u8]) -> Option<LocalRoute> {
    let (head, rest) = route.split_at_checked(RTMSG)?;
    let family = head[0];
    let length = head[1];
    let mut table = u32::from(head[4]);
    let mut destination: IpAddr = match family {
        AF_INET => Ipv4Addr::UNSPECIFIED.into(),
        AF_INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };

    if !matches!(head[7], RTN_LOCAL | RTN_BROADCAST | RTN_ANYCAST) {
        return None;
    }

    for (kind, value) in attributes(rest) {
        match kind {
            RTA_DST => destination = address(value)?,
            RTA_TABLE => table = number(value)?,
            _ => {}
        }
    }

    Some(LocalRoute {
        table: (family, table),
        net: IpNet::new(destination, length).ok()?.trunc(),
    })
}

/// Our own address among the attributes: where a link has two ends, `IFA_ADDRESS` is the other one.
fn own_address(bytes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for (kind, value) in attributes(bytes) {
        match kind {
            IFA_LOCAL => return address(value),
            IFA_ADDRESS => found = address(value),
            _ => {}
        }
    }

    found
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || {
        <[u8; 4]>::try_from(bytes)
            .ok()
            .map(|bytes| Ipv4Addr::from(bytes).into())
    };

    let v6 = || {
        <[u8; 16]>::try_from(bytes)
            .ok()
            .map(|bytes| Ipv6Addr::from(bytes).into())
    };

    v4().or_else(v6)
}

/// The local addresses in `/proc`, if netlink is forbidden. Of routes it lists only addresses, as
/// it does not say which table is for whom.
fn in_proc() -> Vec<IpNet> {
    let mut found = Vec::new();
    if let Ok(table) = fs::read_to_string("/proc/net/fib_trie") {
        found.extend(
            ipv4_in_fib(&table)
                .into_iter()
                .map(|ip| IpNet::from(IpAddr::V4(ip))),
        );
    }

    if let Ok(table) = fs::read_to_string("/proc/net/if_inet6") {
        found.extend(
            table
                .lines()
                .filter_map(ipv6_in_line)
                .map(|ip| IpNet::from(IpAddr::V6(ip))),
        );
    }

    found
}

/// Host entries of scope local: an address line followed by `/32 host LOCAL`.
fn ipv4_in_fib(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL") {
            found.extend(last);
        }
    }

    found
}

/// A line of `if_inet6` starts with 32 hexadecimal digits.
fn ipv6_in_line(line: &str) -> Option<Ipv6Addr> {
    let digits = line
        .split_whitespace()
        .next()
        .filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16)
        .ok()
        .map(Ipv6Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::super::netlink::tests::message_of;
    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// A route of this type to `10.9.0.0/16`, in a table.
    fn route(kind: u8, table: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        message_of(
            RTM_NEWROUTE,
            &[AF_INET, 16, 0, 0, table, 0, 0, kind, 0, 0, 0, 0],
            attributes,
        )
    }

    /// A rule that leads to table 100 under these conditions.
    fn rule(flags: u32, attributes: &[(u16, &[u8])]) -> Option<(u8, u32)> {
        let head = [
            &[AF_INET, 0, 0, 0, 100, 0, 0, FR_ACT_TO_TBL][..],
            &flags.to_ne_bytes(),
        ]
        .concat();
        let mut found = None;
        netlink::read(&message_of(RTM_NEWRULE, &head, attributes), |_, rule| {
            found = table_looked_up(rule)
        })
        .unwrap();
        found
    }

    fn local_routes(messages: &[u8]) -> Vec<LocalRoute> {
        let mut found = Vec::new();
        let _ = netlink::read(messages, |_, content| found.extend(local_route(content)));
        found
    }

    #[test]
    fn loopback_is_among_the_local_addresses() {
        assert!(local_addresses().contains(&LOCALHOST.into()));
        assert!(
            of_interfaces().unwrap().contains(&LOCALHOST.into()),
            "by netlink, too"
        );
        assert!(
            of_routes()
                .unwrap()
                .contains(&"127.0.0.0/8".parse().unwrap()),
            "and its network by a route"
        );
    }

    #[test]
    fn the_near_end_of_a_link_is_ours() {
        let v6 = Ipv6Addr::LOCALHOST.octets();
        let messages = [
            message_of(
                RTM_NEWADDR,
                &[0; IFADDRMSG],
                &[
                    (IFA_ADDRESS, &[10, 0, 0, 2]),
                    (3, b"tun0\0"),
                    (IFA_LOCAL, &[10, 0, 0, 1]),
                ],
            ),
            message_of(RTM_NEWADDR, &[0; IFADDRMSG], &[(IFA_ADDRESS, &v6)]),
        ]
        .concat();
        let mut found = Vec::new();
        netlink::read(&messages, |_, content| {
            found.extend(own_address(&content[IFADDRMSG..]))
        })
        .unwrap();
        assert_eq!(
            found,
            [IpAddr::from([10, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()]
        );
    }

    #[test]
    fn routes_of_type_local_are_prefixes_of_this_machine() {
        let destination: (u16, &[u8]) = (RTA_DST, &[10, 9, 0, 0]);
        let table = 1000_u32.to_ne_bytes();
        let messages = [
            route(RTN_LOCAL, 255, &[destination]),
            route(1, 254, &[destination]),
            route(RTN_LOCAL, 0, &[(RTA_TABLE, &table), destination]),
        ]
        .concat();
        let net = "10.9.0.0/16".parse().unwrap();
        let expected = [
            LocalRoute {
                table: (AF_INET, 255),
                net,
            },
            LocalRoute {
                table: (AF_INET, 1000),
                net,
            },
        ];
        assert_eq!(local_routes(&messages), expected);

        assert!(concerns_this_machine(&messages));
        assert!(
            !concerns_this_machine(&route(1, 254, &[destination])),
            "a route elsewhere"
        );
        assert!(concerns_this_machine(&message_of(
            RTM_NEWRULE,
            &[0; FIB_RULE_HDR],
            &[]
        )));
    }

    #[test]
    fn tables_for_marked_packets_or_others_packets_are_none_of_ours() {
        let ours = Some((AF_INET, 100));
        assert_eq!(rule(0, &[]), ours);
        assert_eq!(rule(0, &[(FRA_IIFNAME, b"lo\0")]), ours);
        assert_eq!(rule(0, &[(FRA_IIFNAME, b"eth0\0")]), None);
        assert_eq!(rule(0, &[(FRA_FWMARK, &1_u32.to_ne_bytes())]), None);
        assert_eq!(
            rule(FIB_RULE_INVERT, &[(FRA_FWMARK, &1_u32.to_ne_bytes())]),
            ours
        );
        let bit_is_clear: [(u16, &[u8]); 2] =
            [(FRA_FWMARK, &[0; 4]), (FRA_FWMASK, &1_u32.to_ne_bytes())];
        assert_eq!(rule(0, &bit_is_clear), ours);
        assert_eq!(
            rule(0, &[(FRA_TABLE, &1000_u32.to_ne_bytes())]),
            Some((AF_INET, 1000))
        );
    }

    #[test]
    fn messages_that_are_cut_off_or_lie_about_their_length_are_harmless() {
        let whole = route(
            RTN_LOCAL,
            255,
            &[
                (RTA_TABLE, &255_u32.to_ne_bytes()),
                (RTA_DST, &[10, 9, 0, 0]),
            ],
        );
        for length in 0..whole.len() {
            assert_eq!(local_routes(&whole[..length]), []);
        }
        for index in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bent = whole.clone();
                bent[index] = value;
                local_routes(&bent);
                let _ = netlink::read(&bent, |_, content| {
                    table_looked_up(content);
                    own_address(content);
                });
            }
        }
    }

    #[test]
    fn host_entries_are_told_from_networks() {
        let table = "  +-- 10.0.0.0/24 2 0 2\n     |-- 10.0.0.0\n        /24 link UNICAST\n     \
                     |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(ipv4_in_fib(table), [Ipv4Addr::new(10, 0, 0, 7)]);
    }

    #[test]
    fn interface_lines_give_ipv6_addresses() {
        let line = "fe800000000000000000000000000001 02 40 20 80     eth0";
        assert_eq!(ipv6_in_line(line), Some("fe80::1".parse().unwrap()));
        assert_eq!(ipv6_in_line("nonsense"), None);
    }
}
