//! Network namespaces (network_namespaces(7)), and cables between them (veth(4)).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::link::{RTM_NEWLINK, attribute};
use super::netlink::Change;

/// Attributes (`linux/if_link.h`, `linux/veth.h`).
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// Bytes of `struct ifinfomsg`.
const IFINFOMSG: usize = 16;

/// Moves this thread into a new network, which has loopback alone, and that is down. The network ends with the last thread, process and
/// descriptor of it.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_SYS_ADMIN`.
pub fn new_network() -> io::Result<OwnedFd> {
    #[expect(
        unsafe_code,
        reason = "its safe form is deprecated: it could part the descriptors of threads, too"
    )]
    // SAFETY: descriptors stay those of the process; only the network of this thread is another.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Whether a file stands for a network.
#[must_use]
pub fn is_network(file: &impl AsFd) -> bool {
    // Opening a file of `/proc` or a mount of one leads there, and no file of a folder has such a type (ioctl_ns(2)).
    let kind = ioctl_nsfs_kind(file);
    kind == Some(libc::CLONE_NEWNET)
}

/// The kind of the namespace that a file stands for, as a flag of clone(2).
fn ioctl_nsfs_kind(file: &impl AsFd) -> Option<i32> {
    const NS_GET_NSTYPE: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0xb7, 3);
    // SAFETY: the request has no argument; its answer is the result.
    #[expect(unsafe_code, reason = "the kernel has no other interface")]
    let kind = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), NS_GET_NSTYPE as _) };
    (kind >= 0).then_some(kind)
}

/// Moves this thread into a network.
///
/// # Errors
/// `PermissionDenied`: it takes `CAP_SYS_ADMIN`.
pub fn enter_network(network: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(
        network,
        Some(LinkNameSpaceType::Network),
    )?)
}

/// Lays a cable from this network, where its end is an interface of the first name, to another one, where it has the second.
///
/// # Errors
/// There is an interface of that name, or changing interfaces is not allowed.
pub fn add_cable(name: &str, far: (BorrowedFd<'_>, &str)) -> io::Result<()> {
    let (network, far_name) = far;
    let descriptor = network.as_fd().as_raw_fd().to_ne_bytes();
    let peer = [
        vec![0; IFINFOMSG],
        attribute(IFLA_IFNAME, &terminated(far_name)),
        attribute(IFLA_NET_NS_FD, &descriptor),
    ];
    let peer = attribute(VETH_INFO_PEER, &peer.concat());
    let info = [
        attribute(IFLA_INFO_KIND, b"veth"),
        attribute(IFLA_INFO_DATA, &peer),
    ];

    Change {
        kind: RTM_NEWLINK,
        creates: true,
        structure: &[0; IFINFOMSG],
        attributes: &[
            (IFLA_IFNAME, &terminated(name)),
            (IFLA_LINKINFO, &info.concat()),
        ],
    }
    .run()
}

fn terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}
