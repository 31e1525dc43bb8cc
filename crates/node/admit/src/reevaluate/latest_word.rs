//! What the decisions say to the one who carries a tunnel: the latest counts, and void are those before.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::order::Word;

/// The latest word of the decisions. A `tokio::sync::watch` would do, but has room for many listeners: a third of a kilobyte in each tunnel.
#[derive(Default)]
pub(super) struct LatestWord {
    /// What was said and not heard yet; `Some(None)`: only that what was said before is void.
    said: Mutex<Option<Option<Word>>>,
    told: Notify,
}

impl LatestWord {
    /// Says it to the carrier, in place of what it did not hear yet.
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
