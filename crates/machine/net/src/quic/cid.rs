//! Connection IDs that say which worker's socket they belong to, and which process's where several have the socket.

use quinn::{ConnectionId, ConnectionIdGenerator};

use crate::shared_socket::ProcessTag;

/// Bytes of our connection IDs: the worker; the process (3), where a socket is shared; then random ones. At least four are, so that those of
/// a connection cannot be guessed, nor told from those of another.
pub(super) const LENGTH: usize = 8;

/// Makes connection IDs of one worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerIds {
    pub(super) worker: u8,
    /// `None` for a socket that no other process has.
    pub(super) process: Option<ProcessTag>,
}

impl WorkerIds {
    /// IDs of outgoing connections, each from a socket of its own.
    pub(super) const CLIENT: Self = Self {
        worker: 0,
        process: None,
    };
}

/// The process that a connection ID of ours names.
pub(super) fn process_of(id: [u8; LENGTH]) -> ProcessTag {
    let [_, first, second, third, ..] = id;
    ProcessTag([first, second, third])
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        // Where the system has no random numbers, the handshake fails too.
        let _ = aws_lc_rs::rand::fill(&mut id[1..]);
        id[0] = self.worker;
        if let Some(ProcessTag(tag)) = self.process {
            id[1..=tag.len()].copy_from_slice(&tag);
        }
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}
