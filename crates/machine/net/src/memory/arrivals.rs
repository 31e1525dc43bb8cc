//! The unread bytes of a connection, stream by stream.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Account;

/// The bytes received on the streams of a connection and not read yet, regardless of their readers.
#[derive(Debug)]
pub struct Arrivals {
    account: Arc<Account>,
    /// Bytes of each stream that someone will read.
    streams: Mutex<HashMap<u32, usize>>,
}

impl Arrivals {
    /// On this connection.
    pub fn of(account: &Arc<Account>) -> Arc<Self> {
        Arc::new(Self {
            account: account.clone(),
            streams: Mutex::default(),
        })
    }

    /// The account of the connection.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// A stream is to be read from now on, of which this many bytes have come.
    pub fn open(&self, stream: u32, bytes: usize) {
        self.streams.lock().insert(stream, bytes);
        self.add(bytes);
    }

    /// Bytes came on a stream; those of a stream that no one reads are not kept.
    pub fn came(&self, stream: u32, bytes: usize) {
        let mut streams = self.streams.lock();
        let Some(unread) = streams.get_mut(&stream) else {
            return;
        };

        *unread += bytes;
        drop(streams);
        self.add(bytes);
        self.account.input.arrive(bytes);
    }

    /// Bytes of a stream went on.
    pub fn went(&self, stream: u32, bytes: usize) {
        let mut streams = self.streams.lock();
        let Some(unread) = streams.get_mut(&stream) else {
            return;
        };

        let bytes = bytes.min(*unread);
        *unread -= bytes;
        drop(streams);
        self.take(bytes);
    }

    /// A stream is not read any more.
    pub fn close(&self, stream: u32) {
        let unread = self.streams.lock().remove(&stream);
        self.take(unread.unwrap_or(0));
    }

    fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.account.add(bytes);
            let share = self.account.memory.connection();
            self.account.input.add_unread(bytes, share);
        }
    }

    fn take(&self, bytes: usize) {
        if bytes > 0 {
            self.account.take(bytes);
            let share = self.account.memory.connection();
            self.account.input.take_unread(bytes, share);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::account;
    use super::super::{BUDGET, Level};
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn levels_follow_what_is_unread_and_do_not_flutter() {
        let account = account(BUDGET);
        let arrivals = Arrivals::of(&account);
        arrivals.open(1, 0);
        let mut seen = Vec::new();
        for _ in 0..16 {
            arrivals.came(1, MIB);
            arrivals.came(3, MIB);
            seen.push(account.level());
        }
        assert_eq!((seen[2], seen[3], seen[7], seen[11], seen[15]), {
            use Level::{Ample, Least, Less, Little};
            (Ample, Less, Little, Least, Least)
        });
        arrivals.went(1, 4 * MIB + 1);
        assert_eq!(account.level(), Level::Least, "a little less is not enough");
        arrivals.went(1, 2 * MIB);
        assert_eq!(account.level(), Level::Little);
        arrivals.close(1);
        assert_eq!((account.level(), account.held()), (Level::Ample, 0));
    }
}
