//! What a connection holds below its streams, where the transport is in this process, as that of QUIC is.

use std::sync::atomic::Ordering;

use super::Account;

/// What the transport of a connection holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Bytes, at most.
    pub kept: usize,
    /// Bytes that went on since the last look.
    pub moved: usize,
}

/// How short memory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressure {
    /// What each connection may have, in bytes, while the process holds more than it may.
    pub fair: Option<usize>,
}

/// The transport of a connection, looked at once a second.
pub trait AccountedTransport: Send + Sync {
    /// Says what it holds, and follows the pressure.
    fn look(&self, pressure: Pressure) -> Flow;
}

impl Account {
    /// What its transport holds counts, too.
    pub fn carried_by(&self, transport: impl AccountedTransport + 'static) {
        let _ = self.transport.set(Box::new(transport));
    }

    pub(super) fn measure(&self, pressure: Pressure) {
        let Some(transport) = self.transport.get() else {
            return;
        };
        let Flow { kept, moved } = transport.look(pressure);
        let before = self.kept.swap(kept, Ordering::Relaxed);
        self.moved.fetch_add(moved, Ordering::Relaxed);

        if kept > before {
            self.add(kept - before);
        } else if before > kept {
            self.withdraw(before - kept);
        }
    }

    /// What is held for its streams.
    pub(super) fn of_streams(&self) -> usize {
        self.held()
            .saturating_sub(self.kept.load(Ordering::Relaxed))
    }
}
