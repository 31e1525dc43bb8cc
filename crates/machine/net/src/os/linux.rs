//! Linux: `/proc`, socket options and limits.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_tcp_congestion,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpStream, UnixStream};

use super::{ForwardedFamilies, Instruction, ProcessStats};

mod activation;
mod addresses;
mod arrivals;
mod capture_routes;
mod capture_rules;
mod cgroup_mark;
mod echo_errors;
mod fast_open;
mod kernel_tls;
mod link;
mod link_changes;
mod local_meeting;
mod masquerade;
mod multipath;
mod netlink;
mod network;
mod nft_rule;
mod nftables;
mod open_sockets;
mod original_destination;
mod packet_queue;
mod pipe;
mod probe;
mod program_space;
mod redirect_rules;
mod route_rules;
mod tcp_info;
mod tun;
pub use activation::{adopt, forget_variables, passed_kind};
pub use addresses::{AddressChanges, local_addresses};
pub use arrivals::{note_arrivals, receive_timed};
pub use capture_routes::lead_captured_here;
pub use capture_rules::captures;
pub use echo_errors::take_echo_error;
pub use fast_open::{serves_fast_open, take_fast_open, wait_for_first_bytes};
pub use kernel_tls::{attach_tls, give_tls_keys, send_close_notify, take_tls_control};
pub use link_changes::LinkChanges;
pub use local_meeting::{
    accept_local, connect_local, listen_local, local_names, local_process, socket_number,
};
pub use masquerade::masquerades;
pub use multipath::{is_multipath, multipath_socket};
pub use network::{add_cable, enter_network, is_network, new_network};
pub use open_sockets::mark_open;
pub use original_destination::{note_destinations, receive_destined};
pub use pipe::Pipe;
pub use probe::{echo_socket, mark, receive_merged, send_cut, socket_mark, take_foreign_addresses};
pub use program_space::{
    allow_pings, cover_file, cover_folder, enter_program_space, watch_process,
};
pub use redirect_rules::original_destination;
pub use route_rules::{add_exception, exceptions, remove_exception};
pub use tcp_info::round_trip;
pub use tun::{foreign_tun, open_tun, tun_cuts_udp};

/// Sets a connection's congestion control to the algorithm of this name (`tcp(7)`,
/// `TCP_CONGESTION`).
///
/// # Errors
/// This machine has no such algorithm, or does not allow it.
pub fn set_congestion(tcp: &TcpStream, name: &str) -> io::Result<()> {
    Ok(set_tcp_congestion(tcp, name)?)
}

/// The algorithms that processes may choose.
#[must_use]
pub fn congestion_controls() -> Vec<String> {
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let all = all.unwrap_or_default();
    all.split_whitespace().map(str::to_owned).collect()
}

/// As [`set_congestion`], of a socket that listens: its connections have it from there.
///
/// # Errors
/// As there.
pub fn set_socket_congestion(socket: &Socket, name: &str) -> io::Result<()> {
    Ok(set_tcp_congestion(socket, name)?)
}

/// The families that this machine forwards, by the setting for all of its interfaces.
#[must_use]
pub fn forwarded_families() -> ForwardedFamilies {
    let is_set = |file: &str| fs::read_to_string(file).is_ok_and(|value| value.trim() != "0");
    ForwardedFamilies {
        v4: is_set("/proc/sys/net/ipv4/ip_forward"),
        v6: is_set("/proc/sys/net/ipv6/conf/all/forwarding"),
    }
}

/// The user that runs the process at the other end (`SO_PEERCRED`).
#[must_use]
pub fn peer_uid(unix: &UnixStream) -> Option<u32> {
    unix.peer_cred().ok().map(|credentials| credentials.uid())
}

/// Whether a listener takes connections to addresses that are not its own (`IP_TRANSPARENT`), which it may where that cannot be said.
#[must_use]
pub fn is_transparent(listener: &std::net::TcpListener) -> bool {
    SockRef::from(listener).ip_transparent_v4().unwrap_or(true)
}

/// Lets a UDP socket receive ICMP errors about its packets (`IP_RECVERR`, `IPV6_RECVERR`). They
/// wait in a queue of their own: see [`take_queued_error`].
///
/// # Errors
/// When the system does not know the option.
pub fn report_errors(socket: &std::net::UdpSocket, ipv6: bool) -> io::Result<()> {
    match ipv6 {
        false => setsockopt(socket, sockopt::Ipv4RecvErr, &true)?,
        true => setsockopt(socket, sockopt::Ipv6RecvErr, &true)?,
    }
    Ok(())
}

/// Takes one of the errors that wait.
///
/// # Errors
/// `WouldBlock`: there is no error.
pub fn take_queued_error(socket: &SockRef<'_>) -> io::Result<()> {
    // The packet that it is about is of no interest, and need not fit.
    let mut packet = [MaybeUninit::uninit(); 16];
    socket
        .recv_with_flags(&mut packet, libc::MSG_ERRQUEUE)
        .map(|_| ())
}

/// The largest IP packet that the route of a connected socket carries, in bytes (`IP_MTU`, `IPV6_MTU`).
#[must_use]
pub fn path_mtu(socket: &impl AsFd, remote: SocketAddr) -> Option<usize> {
    let mtu = match remote {
        SocketAddr::V4(_) => rustix::net::sockopt::ip_mtu(socket),
        SocketAddr::V6(_) => rustix::net::sockopt::ipv6_mtu(socket),
    };
    mtu.ok().and_then(|mtu| usize::try_from(mtu).ok())
}

/// A UDP socket that does not block, which is one call here.
///
/// # Errors
/// No descriptor is left, or the system lacks the family.
pub fn datagram_socket(domain: Domain) -> io::Result<Socket> {
    Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
}

/// The host name; `None` if it cannot be read.
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

/// Binds a socket to this interface, regardless of routes, for sending and receiving
/// (`SO_BINDTODEVICE`).
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_RAW` before Linux 5.7; `ENODEV` where there is no such interface.
pub fn bind_to_interface(socket: &Socket, interface: &str) -> io::Result<()> {
    socket.bind_device(Some(interface.as_bytes()))
}

/// Has a port chosen when a socket that is bound to an address is connected, so that connections to different addresses may have
/// one (`IP_BIND_ADDRESS_NO_PORT`).
///
/// # Errors
/// When the system does not know the option.
pub fn choose_port_when_connected(socket: &Socket) -> io::Result<()> {
    setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    Ok(())
}

/// Whether [`prepare_datagrams`] does anything.
pub const PREPARES_DATAGRAMS: bool = true;

/// Forbids fragmentation, of IPv4 in IPv6 sockets too, and lets the kernel merge received datagrams
/// (GRO).
///
/// # Errors
/// When the system does not know one of the options.
pub fn prepare_datagrams(socket: &Socket, ipv6: bool) -> io::Result<()> {
    setsockopt(socket, sockopt::UdpGroSegment, &true)?;
    forbid_fragments(socket, ipv6)
}

/// Forbids fragmentation, of IPv4 in IPv6 sockets too. A datagram longer than the MTU of the path
/// is lost, and one longer than that of the interface is refused.
///
/// # Errors
/// When the system does not know one of the options.
pub fn forbid_fragments(socket: &Socket, ipv6: bool) -> io::Result<()> {
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
    if ipv6 {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
        setsockopt(socket, sockopt::Ipv6DontFrag, &true)?;
    }
    Ok(())
}

/// Lets datagrams that are longer than a path carries travel in pieces: of IPv4, routers cut them; of IPv6, this machine does.
///
/// # Errors
/// When the system does not know one of the options.
pub fn allow_fragments(socket: &Socket, ipv6: bool) -> io::Result<()> {
    set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::DONT)?;
    if ipv6 {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::WANT)?;
        setsockopt(socket, sockopt::Ipv6DontFrag, &false)?;
    }
    Ok(())
}

/// Lets `program` choose which socket of the group of `socket` receives a packet
/// (`SO_ATTACH_REUSEPORT_CBPF`). It returns the number of a socket in the order of binding; any
/// other number leaves the choice to the kernel.
///
/// # Errors
/// When the system refuses the program.
pub fn attach_reuseport_filter(
    socket: &std::net::UdpSocket,
    program: &[Instruction],
) -> io::Result<()> {
    let form = |op: &Instruction| libc::sock_filter {
        code: op.code,
        jt: op.jt,
        jf: op.jf,
        k: op.k,
    };

    let mut filter: Vec<libc::sock_filter> = program.iter().map(form).collect();
    let len = u16::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len,
        filter: filter.as_mut_ptr(),
    };

    // The kernel copies the program before it returns.
    setsockopt(socket, sockopt::AttachReusePortCbpf, &program)?;
    Ok(())
}

/// Raises the soft limit of open descriptors to the hard limit and returns it.
///
/// # Errors
/// When the system refuses; the old limit stays.
pub fn raise_open_files() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, raised)?;
    }

    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Asks for memory in small pages. Huge ones, where the system gives them unasked, made an idle process four times as large.
///
/// # Errors
/// When the system refuses; all goes on as it was.
pub fn use_small_pages() -> io::Result<()> {
    Ok(rustix::thread::disable_transparent_huge_pages(true)?)
}

/// Whether the system writes this process's memory to a file when it crashes, and lets other
/// processes of its user read it (`PR_SET_DUMPABLE`; systems that pipe dumps to a program ignore
/// limits). Root always can.
///
/// # Errors
/// When the system refuses; all goes on as it was.
pub fn allow_dumps(allowed: bool) -> io::Result<()> {
    let behaviour = if allowed {
        DumpableBehavior::Dumpable
    } else {
        DumpableBehavior::NotDumpable
    };
    Ok(set_dumpable_behavior(behaviour)?)
}

/// The resources that this process uses now; a figure that cannot be read is 0.
#[must_use]
pub fn process_stats() -> ProcessStats {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());

    // The directory is itself open while it is counted.
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1));
    ProcessStats {
        resident_bytes: resident.unwrap_or(0) * 1024,
        open_files: open as u64,
        open_files_limit: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_stats_are_not_zero() {
        let stats = process_stats();
        assert!(stats.resident_bytes > 0 && stats.open_files > 0 && stats.open_files_limit > 0);
    }

    #[test]
    fn open_files_limit_reaches_the_hard_limit() {
        let raised = raise_open_files().unwrap();
        assert_eq!(process_stats().open_files_limit, raised);
    }
}
