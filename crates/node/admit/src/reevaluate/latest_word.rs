//! A mailbox of one slot between decisions and the carrier of a tunnel: a new order replaces an unread one.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::order::Word;

/// The latest word of the decisions. A `tokio::sync::watch` would do, but has room for many listeners: a third of a kilobyte in each tunnel.
#[derive(Default)]
pub(super) struct LatestWord {
    /// The unread order; `Some(None)`: the order before is void, and there is no new one.
    said: Mutex<Option<Option<Word>>>,
    told: Notify,
}

impl LatestWord {
    /// Leaves an order for the carrier, in place of the unread one.
    pub(super) fn say(&self, word: Option<Word>) {
        *self.said.lock() = Some(word);
        self.told.notify_one();
    }

    /// Waits for the next word. May be dropped and called again; one at a time hears.
    pub(super) async fn next(&self) -> Option<Word> {
        loop {
            if let Some(word) = self.said.lock().take() {
                return word;
            }
            self.told.notified().await;
        }
    }
}
