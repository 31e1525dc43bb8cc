//! The memory of a connection below its streams, if the transport is in this process, as that of
//! QUIC is.

use std::sync::atomic::Ordering;

use super::Account;

/// The memory of a connection's transport.
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
    /// The fair share of each connection, in bytes, while the process holds too much.
    pub fair: Option<usize>,
}

/// The transport of a connection, looked at once a second.
pub trait AccountedTransport: Send + Sync {
    /// Returns the memory that it holds, and follows the pressure.
    fn look(&self, pressure: Pressure) -> Flow;
}

impl Account {
    /// Counts the memory of its transport, too.
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

    /// The memory for its streams.
    pub(super) fn of_streams(&self) -> usize {
        self.held()
            .saturating_sub(self.kept.load(Ordering::Relaxed))
    }
}
