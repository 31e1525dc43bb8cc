//! The way of captured packets: a routing rule for their mark, and a table that has every address as this machine's own.
//!
//! Both stay: without rules of capture no packet has the mark, and another process may need them.

use std::io;

use super::link::{AF_INET, AF_INET6};
use super::netlink::Change;
use super::route_rules::change_rule;
use crate::os::CAPTURE_MARK;

/// Types of messages (`linux/rtnetlink.h`).
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;

/// Attributes (`linux/rtnetlink.h`, `linux/fib_rules.h`).
const RTA_OIF: u16 = 4;
const RTA_TABLE: u16 = 15;
const FRA_FWMARK: u16 = 10;
const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;

const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;

/// The number of `lo`, in every network namespace.
const LOOPBACK: u32 = 1;

/// The table, and the place of its rule: before those of devices.
const TABLE: u32 = CAPTURE_MARK.0;
const PRIORITY: u32 = 4990;

/// Leads captured packets of this family to this machine.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_NET_ADMIN`. Others: the kernel has not this family.
pub fn lead_captured_here(is_ipv4: bool) -> io::Result<()> {
    let (mark, bits) = CAPTURE_MARK;
    let table = TABLE.to_ne_bytes();
    let conditions = [
        (FRA_TABLE, table.to_vec()),
        (FRA_FWMARK, mark.to_ne_bytes().to_vec()),
        (FRA_FWMASK, bits.to_ne_bytes().to_vec()),
    ];
    // Usually there is no old rule.
    let _ = change_rule(RTM_DELRULE, is_ipv4, PRIORITY, 0, &conditions);
    change_rule(RTM_NEWRULE, is_ipv4, PRIORITY, 0, &conditions)?;

    let family = if is_ipv4 { AF_INET } else { AF_INET6 };
    // `struct rtmsg` of a route for everything; the table is an attribute, because its number has more than a byte.
    let mut structure = [0; 12];
    structure[0] = family;
    structure[5..8].copy_from_slice(&[RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL]);
    let loopback = LOOPBACK.to_ne_bytes();
    Change {
        kind: RTM_NEWROUTE,
        creates: true,
        structure: &structure,
        attributes: &[(RTA_TABLE, &table), (RTA_OIF, &loopback)],
    }
    .run()
}
