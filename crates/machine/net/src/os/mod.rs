//! Calls that depend on the operating system.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

mod capture_order;
mod control_record;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;
mod packet_queue;
mod passed_kind;
mod sender_condition;

pub(crate) use capture_order::{CAPTURE_MARK, LISTENER_BITS, TCP, UDP};
pub use capture_order::{
    CaptureOrder, CaptureRules, CapturedFlowRules, DestinedDatagram, RefusedPorts, SynFate,
    SynQueues,
};
pub use control_record::ControlRecord;
pub use packet_queue::{PacketQueue, PacketQueueReader, PacketVerdict, QueuedSyn, SynEnds};
pub use passed_kind::PassedKind;
pub use sender_condition::SenderCondition;
pub(crate) use sender_condition::{CGROUP_MARK, FOREIGN_SOCKET_MARK, OWN_MARK};

pub use system::{
    AddressChanges, LinkChanges, PREPARES_DATAGRAMS, Pipe, accept_local, add_cable, add_exception,
    adopt, allow_dumps, allow_fragments, allow_pings, attach_reuseport_filter, attach_tls,
    bind_to_interface, captures, choose_port_when_connected, congestion_controls, connect_local,
    cover_file, cover_folder, datagram_socket, echo_socket, enter_network, enter_program_space,
    exceptions, forbid_fragments, foreign_tun, forget_variables, forwarded_families, give_tls_keys,
    host_name, is_multipath, is_network, is_transparent, lead_captured_here, listen_local,
    local_addresses, local_names, local_process, mark, mark_open, masquerades, multipath_socket,
    new_network, note_arrivals, note_destinations, open_tun, original_destination, passed_kind,
    path_mtu, peer_uid, prepare_datagrams, process_stats, raise_open_files, receive_destined,
    receive_merged, receive_timed, remove_exception, report_errors, round_trip, send_close_notify,
    send_cut, serves_fast_open, set_congestion, set_socket_congestion, socket_mark, socket_number,
    take_echo_error, take_fast_open, take_foreign_addresses, take_queued_error, take_tls_control,
    tun_cuts_udp, use_small_pages, wait_for_first_bytes, watch_process,
};

/// One instruction of the classic packet filter (BPF): code, jumps if true and if false, and a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

/// An error about an echo, as the ICMP socket received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EchoError {
    /// The sequence number of the echo.
    pub number: u16,
    /// The host that it was for.
    pub target: IpAddr,
    /// The reporting router or host.
    pub from: Option<IpAddr>,
    /// The type and the code of the message.
    pub kind_and_code: [u8; 2],
    /// The number behind its checksum.
    pub info: u32,
}

/// A process at the other end of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalProcess {
    /// Its number.
    pub pid: i32,
    /// Its user's.
    pub uid: u32,
    /// Whether that is the user of this process.
    pub is_of_our_user: bool,
}

/// The resources that this process uses now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
    /// Descriptors that are open.
    pub open_files: u64,
    /// Descriptors that may be open: the soft limit; 0 where it is unknown.
    pub open_files_limit: u64,
}

/// Masquerade of one device's packets, until this is dropped.
#[derive(Debug)]
pub struct Masquerade {
    /// The socket owns the rules.
    _socket: OwnedFd,
}

/// Which packets this machine forwards between its interfaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForwardedFamilies {
    /// Whether IPv4 is forwarded.
    pub v4: bool,
    /// Whether IPv6 is forwarded.
    pub v6: bool,
}

/// Marks the sockets that members of a control group open, until this is dropped.
#[derive(Debug)]
pub struct CgroupMark {
    /// Keeps the program attached.
    _link: OwnedFd,
}

/// An interface of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number, which is never another's while it exists.
    pub index: u32,
}

/// When a table is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteRule {
    /// The main table, for routes longer than this.
    MainAbove(u8),
    /// This table, for packets of sockets that meet the condition.
    Of {
        /// The table.
        table: u32,
        /// The condition.
        condition: SenderCondition,
    },
}

/// A rule of one family, and its place among the others: lower ones come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedRule {
    /// Whether it is of IPv4.
    pub is_ipv4: bool,
    /// Its place.
    pub priority: u32,
    /// The rule.
    pub rule: RouteRule,
}

/// A rule that there is: its family, its place, and the table that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundRule {
    /// Whether it is of IPv4.
    pub is_ipv4: bool,
    /// Its place.
    pub priority: u32,
    /// The table.
    pub table: u32,
}
