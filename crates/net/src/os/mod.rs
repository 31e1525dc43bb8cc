//! What only the operating system can tell or change.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{
    AddressChanges, PREPARES_DATAGRAMS, Pipe, allow_dumps, attach_reuseport_filter,
    datagram_socket, local_addresses, passed_kind, passed_sockets, path_mtu, peer_uid,
    prepare_datagrams, process_stats, raise_open_files, report_errors, take_queued_error,
    use_small_pages,
};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::{
    AddressChanges, PREPARES_DATAGRAMS, Pipe, allow_dumps, attach_reuseport_filter,
    datagram_socket, local_addresses, passed_kind, passed_sockets, path_mtu, peer_uid,
    prepare_datagrams, process_stats, raise_open_files, report_errors, take_queued_error,
    use_small_pages,
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
