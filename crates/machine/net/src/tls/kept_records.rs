//! Partial records of TLS, and partial messages of handshakes, that are kept for a connection.

use std::io;

use super::RecordCursor;
use crate::memory::{Charge, Memory, Owner, Purpose};
use crate::peer::PeerAddress;

/// Bytes of a connection that are charged to no one: those of a usual handshake, and of a small record.
#[doc(alias = "bound")]
const FREE: usize = 4 * 1024;

/// Bytes that were read of a connection and are not delivered yet, on the account of its source.
#[derive(Debug)]
pub(crate) struct KeptRecords {
    cursor: RecordCursor,
    /// Bytes that were read since something was last delivered.
    kept: usize,
    /// Held while they are many and the connection waits for more.
    charge: Option<Charge>,
    /// Whether the kernel may carry its records later.
    is_left: bool,
}

impl KeptRecords {
    /// No bytes were read. `is_left`: the kernel may carry the records later.
    pub(crate) fn new(is_left: bool) -> Self {
        Self {
            cursor: RecordCursor::default(),
            kept: 0,
            charge: None,
            is_left,
        }
    }

    /// These were read.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.cursor.pass(bytes);
        self.kept += bytes.len();
    }

    /// The content of whole records is delivered, or the handshake is over: only partial records are still kept.
    pub(crate) fn delivered(&mut self) {
        self.kept = self.cursor.partial();
        if self.kept <= FREE {
            self.charge = None;
        }
    }

    /// Waits for more: `source` is charged for the kept bytes.
    ///
    /// # Errors
    /// Its memory is used up.
    pub(crate) fn wait(&mut self, source: &PeerAddress) -> io::Result<()> {
        let charged = self.charge.as_ref().map_or(0, Charge::bytes);
        if self.kept <= FREE.max(charged) {
            return Ok(());
        }

        let charge = self.charge.get_or_insert_with(|| {
            let account = Memory::node().owner(Owner::of(None, source));
            account.empty_charge(Purpose::Records)
        });
        let refused = |overdrawn| io::Error::new(io::ErrorKind::OutOfMemory, overdrawn);
        charge.grow(self.kept - charged).map_err(refused)
    }

    /// Whether the connection may be left to the kernel where it stands.
    pub(crate) fn is_between(&self) -> bool {
        self.is_left && self.cursor.is_between()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_whole_is_charged_while_more_is_awaited() {
        let source = PeerAddress::Ip("192.0.2.7:1000".parse().unwrap());
        let charged = |kept: &KeptRecords| kept.charge.as_ref().map_or(0, Charge::bytes);
        let mut kept = KeptRecords::new(false);
        let mut record = vec![23, 3, 3, 0x40, 0];
        record.resize(5 + 0x4000, 0);

        kept.pass(&record[..100]);
        kept.wait(&source).unwrap();
        assert_eq!(charged(&kept), 0);
        kept.pass(&record[100..10_000]);
        kept.wait(&source).unwrap();
        assert_eq!(charged(&kept), 10_000);

        // One that is whole is delivered; a handshake of several records is not, until it is over.
        kept.pass(&record[10_000..]);
        kept.pass(&record[..50]);
        kept.delivered();
        assert_eq!((kept.kept, charged(&kept)), (50, 0));
        kept.pass(&record[50..]);
        kept.pass(&record);
        kept.wait(&source).unwrap();
        assert_eq!(charged(&kept), 2 * record.len());
    }
}
