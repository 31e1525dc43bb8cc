//! What only the operating system can tell or change.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{
    AddressChanges, LinkChanges, PREPARES_DATAGRAMS, Pipe, allow_dumps, attach_reuseport_filter,
    attach_tls, datagram_socket, forbid_fragments, is_transparent, local_addresses, mark, open_tun,
    passed_kind, passed_sockets, path_mtu, peer_uid, prepare_datagrams, process_stats,
    raise_open_files, receive_merged, report_errors, send_cut, take_foreign_addresses,
    take_queued_error, tun_cuts_udp, use_small_pages,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::{
    AddressChanges, LinkChanges, PREPARES_DATAGRAMS, Pipe, allow_dumps, attach_reuseport_filter,
    attach_tls, datagram_socket, forbid_fragments, is_transparent, local_addresses, mark, open_tun,
    passed_kind, passed_sockets, path_mtu, peer_uid, prepare_datagrams, process_stats,
    raise_open_files, receive_merged, report_errors, send_cut, take_foreign_addresses,
    take_queued_error, tun_cuts_udp, use_small_pages,
};

/// What this process uses now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
    /// Descriptors that are open.
    pub open_files: u64,
    /// Descriptors that may be open: the soft limit; 0 where it is unknown.
    pub open_files_limit: u64,
}

/// An interface of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Its number, which is never another's while it exists.
    pub index: u32,
}
