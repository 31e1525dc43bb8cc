//! What all replay windows of the process may hold, and each user's share of it.

use std::sync::Arc;

use hermes_proto::resumable::LEAST_WINDOW;
use hermes_upstream::Shares;
use parking_lot::Mutex;

/// Pieces of [`LEAST_WINDOW`] bytes that the replay windows of the process hold: 512 MiB. No user has more than half of what others
/// leave, and a tunnel that finds none is an ordinary one.
#[doc(alias = "bound")]
const PIECES: usize = 8192;

/// What is left for replay windows.
pub(crate) struct Windows(Mutex<Shares>);

impl Default for Windows {
    fn default() -> Self {
        Self(Mutex::new(Shares::new(PIECES)))
    }
}

/// What the window of one tunnel may hold.
pub(crate) struct WindowShare {
    windows: Arc<Windows>,
    owner: String,
    pieces: usize,
    /// The most that it takes, in pieces.
    most: usize,
}

impl WindowShare {
    /// The share of a new tunnel, which takes up to `most` bytes; none if its owner has too many.
    pub(crate) fn take(windows: &Arc<Windows>, owner: &str, most: usize) -> Option<Self> {
        let taken = windows.0.lock().take(owner);
        taken.then(|| Self {
            windows: windows.clone(),
            owner: owner.to_owned(),
            pieces: 1,
            most: most.div_ceil(LEAST_WINDOW).max(1),
        })
    }

    /// How many bytes that is.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces * LEAST_WINDOW
    }

    /// Takes more, if it may.
    pub(crate) fn grow(&mut self) {
        if self.pieces < self.most && self.windows.0.lock().take(&self.owner) {
            self.pieces += 1;
        }
    }

    /// Gives back what a window that holds so many bytes does not need: it may need twice as much in a moment.
    pub(crate) fn shrink(&mut self, held: usize) {
        let needed = (held * 2).div_ceil(LEAST_WINDOW).max(1);
        if needed * 2 > self.pieces {
            return;
        }

        let mut windows = self.windows.0.lock();
        while self.pieces > needed {
            windows.give(&self.owner);
            self.pieces -= 1;
        }
    }
}

impl Drop for WindowShare {
    fn drop(&mut self) {
        let mut windows = self.windows.0.lock();
        for _ in 0..self.pieces {
            windows.give(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_as_they_may_and_give_back() {
        let windows: Arc<Windows> = Arc::default();
        let mut share = WindowShare::take(&windows, "alice", 4 * LEAST_WINDOW).unwrap();
        assert_eq!(share.bytes(), LEAST_WINDOW);
        (0..10).for_each(|_| share.grow());
        assert_eq!(share.bytes(), 4 * LEAST_WINDOW);

        share.shrink(LEAST_WINDOW + 1);
        assert_eq!(share.bytes(), 4 * LEAST_WINDOW, "it may grow again");
        share.shrink(0);
        assert_eq!(share.bytes(), LEAST_WINDOW);
        drop(share);
        assert_eq!(windows.0.lock().taken(), 0);
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let windows: Arc<Windows> = Arc::default();
        let all: Vec<_> = std::iter::from_fn(|| WindowShare::take(&windows, "alice", 1)).collect();
        assert!(all.len() < PIECES);
        assert!(WindowShare::take(&windows, "bob", 1).is_some());
    }
}
