//! Connection IDs that say which worker's socket they belong to.

use quinn::{ConnectionId, ConnectionIdGenerator};

/// Bytes of our connection IDs: the worker, then random ones. So many that they cannot be guessed.
pub(super) const LENGTH: usize = 8;

/// Makes connection IDs of one worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkerIds {
    pub(super) worker: u8,
}

impl ConnectionIdGenerator for WorkerIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; LENGTH];
        // Where the system has no random numbers, the handshake fails too.
        let _ = aws_lc_rs::rand::fill(&mut id[1..]);
        id[0] = self.worker;
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        LENGTH
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}
