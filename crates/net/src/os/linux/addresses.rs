//! The addresses of this machine, by routing netlink (rtnetlink(7)): a dump of all, and a word when one comes or goes.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of one read; the kernel sends at most 32 KiB of a dump at once.
const ROOM: usize = 32 * 1024;

/// Types of messages and attributes (`linux/netlink.h`, `linux/rtnetlink.h`, `linux/if_addr.h`).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// Groups that hear of addresses of both families.
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;

/// Lengths of the head of a message, of `struct ifaddrmsg`, and of the head of an attribute.
const MESSAGE: usize = 16;
const IFADDRMSG: usize = 8;
const ATTRIBUTE: usize = 4;

/// Every address of every interface, loopback included, also of interfaces that are down; empty where the system does not tell.
#[must_use]
pub fn local_addresses() -> Vec<IpAddr> {
    let mut found = dump().unwrap_or_else(|_| in_proc());
    found.sort_unstable();
    found.dedup();
    found
}

/// Hears of addresses that come and go.
#[derive(Debug)]
pub struct AddressChanges(AsyncFd<OwnedFd>);

impl AddressChanges {
    /// Hears of changes from now on.
    ///
    /// # Errors
    /// When the system, or what confines the process, forbids netlink.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn hear() -> io::Result<Self> {
        let socket = route_socket(SocketFlags::NONBLOCK, RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that could close what is registered; an OwnedFd does not"
        )]
        let heard = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self(heard))
    }

    /// Resolves when something has changed; what it was is not said. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn next(&mut self) -> io::Result<()> {
        let mut room = vec![0; ROOM];
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|socket| match recv(socket, &mut room, RecvFlags::empty()) {
                Ok(_) => Ok(()),
                // Some changes were lost: that is one, too.
                Err(rustix::io::Errno::NOBUFS) => Ok(()),
                Err(error) => Err(error.into()),
            });
            match read {
                Ok(done) => return done,
                Err(_would_block) => {}
            }
        }
    }
}

fn route_socket(flags: SocketFlags, groups: u32) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    // `NETLINK_ROUTE` is protocol 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn dump() -> io::Result<Vec<IpAddr>> {
    let socket = route_socket(SocketFlags::empty(), 0)?;
    sendto(&socket, &request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;

    let (mut found, mut room) = (Vec::new(), vec![0; ROOM]);
    loop {
        let (length, _) = recv(&socket, &mut room[..], RecvFlags::empty())?;
        if length == 0 || read(&room[..length], &mut found)? {
            return Ok(found);
        }
    }
}

/// Asks for all addresses of all families.
fn request() -> [u8; MESSAGE + IFADDRMSG] {
    let mut request = [0; MESSAGE + IFADDRMSG];
    let length = u32::try_from(request.len()).unwrap_or_default();
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETADDR.to_ne_bytes());
    request[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request
}

/// Adds the addresses of some messages; true with the last one.
///
/// # Errors
/// The kernel refused the request.
fn read(mut messages: &[u8], found: &mut Vec<IpAddr>) -> io::Result<bool> {
    while let Some((kind, content, rest)) = message(messages) {
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(io::Error::other("the kernel refused to list addresses")),
            RTM_NEWADDR => found.extend(content.get(IFADDRMSG..).and_then(own_address)),
            _ => {}
        }
        messages = rest;
    }
    Ok(false)
}

/// The first message: its type, its content, and what follows it.
fn message(messages: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(messages.get(..4)?.try_into().ok()?);
    let kind = u16::from_ne_bytes(messages.get(4..6)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    Some((kind, messages.get(MESSAGE..length)?, messages.get(aligned(length)..).unwrap_or_default()))
}

/// Our own address among the attributes: where a link has two ends, `IFA_ADDRESS` is the other one.
fn own_address(mut attributes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    while let Some((kind, value, rest)) = attribute(attributes) {
        match kind {
            IFA_LOCAL => return address(value),
            IFA_ADDRESS => found = address(value),
            _ => {}
        }
        attributes = rest;
    }
    found
}

fn attribute(attributes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(attributes.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
    Some((kind, attributes.get(ATTRIBUTE..length)?, attributes.get(aligned(length)..).unwrap_or_default()))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into());
    let v6 = || <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).into());
    v4().or_else(v6)
}

/// Messages and attributes begin at multiples of four.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// What `/proc` says, where netlink is forbidden.
fn in_proc() -> Vec<IpAddr> {
    let mut found = Vec::new();
    if let Ok(table) = fs::read_to_string("/proc/net/fib_trie") {
        found.extend(ipv4_in_fib(&table).into_iter().map(IpAddr::V4));
    }
    if let Ok(table) = fs::read_to_string("/proc/net/if_inet6") {
        found.extend(table.lines().filter_map(ipv6_in_line).map(IpAddr::V6));
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
    let digits = line.split_whitespace().next().filter(|digits| digits.len() == 32)?;
    u128::from_str_radix(digits, 16).ok().map(Ipv6Addr::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of this type about an address with these attributes.
    fn about(kind: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut content = vec![0; IFADDRMSG];
        for (kind, value) in attributes {
            let length = u16::try_from(ATTRIBUTE + value.len()).unwrap();
            content.extend([length.to_ne_bytes(), kind.to_ne_bytes()].concat());
            content.extend(*value);
            content.resize(aligned(content.len()), 0);
        }
        let length = u32::try_from(MESSAGE + content.len()).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], &content].concat()
    }

    #[test]
    fn loopback_is_among_the_local_addresses() {
        assert!(local_addresses().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert!(dump().unwrap().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "by netlink, too");
    }

    #[test]
    fn the_near_end_of_a_link_is_ours() {
        let v6 = Ipv6Addr::LOCALHOST.octets();
        let messages = [
            about(RTM_NEWADDR, &[(IFA_ADDRESS, &[10, 0, 0, 2]), (3, b"tun0\0"), (IFA_LOCAL, &[10, 0, 0, 1])]),
            about(RTM_NEWADDR, &[(IFA_ADDRESS, &v6)]),
            about(21, &[(IFA_ADDRESS, &[10, 9, 9, 9])]),
            about(NLMSG_DONE, &[]),
        ]
        .concat();
        let mut found = Vec::new();
        assert!(read(&messages, &mut found).unwrap());
        assert_eq!(found, [IpAddr::from([10, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()]);
    }

    #[test]
    fn messages_that_are_cut_off_or_lie_about_their_length_are_harmless() {
        let whole = about(RTM_NEWADDR, &[(IFA_LOCAL, &[10, 0, 0, 1])]);
        for length in 0..whole.len() {
            let mut found = Vec::new();
            assert!(!read(&whole[..length], &mut found).unwrap());
            assert!(found.is_empty());
        }
        for index in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bent = whole.clone();
                bent[index] = value;
                let _ = read(&bent, &mut Vec::new());
            }
        }
        assert!(read(&about(NLMSG_ERROR, &[]), &mut Vec::new()).is_err());
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
