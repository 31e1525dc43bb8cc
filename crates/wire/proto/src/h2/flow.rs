//! Windows of flow control (RFC 9113, section 5.2), in both directions.

use super::settings::{FIRST_WINDOW, LARGEST_WINDOW};

/// The credit of the peer, and the bytes that were read since the last WINDOW_UPDATE.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReceiveWindow {
    /// Below zero when the initial size was made smaller (RFC 9113, section 6.9.2).
    window: i64,
    /// Bytes read since the last WINDOW_UPDATE; below zero while a window that shrank is paid off.
    unclaimed: i64,
}

impl ReceiveWindow {
    pub(super) fn new(size: u32) -> Self {
        Self {
            window: size.into(),
            unclaimed: 0,
        }
    }

    /// Accounts for received bytes; false if they exceed the peer's credit. An empty frame, such as one that ends a stream, needs none,
    /// not even where the window has shrunk below zero (RFC 9113, section 6.9.1).
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        if bytes > 0 && i64::from(bytes) > self.window {
            return false;
        }
        self.window -= i64::from(bytes);
        true
    }

    /// Accounts for bytes that were read.
    pub(super) fn release(&mut self, bytes: u32) {
        self.unclaimed += i64::from(bytes);
    }

    /// The initial size of windows has changed by this much, and the peer knows.
    pub(super) fn shift(&mut self, by: i64) {
        self.window += by;
    }

    /// Changes the size of the whole window: growth is told with the next update, shrinking is paid off by reading.
    pub(super) fn resize(&mut self, by: i64) {
        self.unclaimed += by;
    }

    /// The credit to give the peer, once it is worth a frame.
    pub(super) fn update(&mut self) -> Option<u32> {
        // A frame pays off once it adds half of the remaining credit: the closer the peer is to its end, the sooner it is told.
        if self.unclaimed <= 0 || self.unclaimed < self.window / 2 {
            return None;
        }
        // RFC 9113, section 6.9.1: a window above 2^31-1 is an error; the excess stays unclaimed for later.
        let room = i64::from(LARGEST_WINDOW) - self.window;
        let bytes = u32::try_from(self.unclaimed.min(room).min(LARGEST_WINDOW.into())).ok()?;

        if bytes == 0 {
            return None;
        }
        self.window += i64::from(bytes);
        self.unclaimed -= i64::from(bytes);

        Some(bytes)
    }
}

/// Our credit for sending; below zero after the peer made its initial window smaller (RFC 9113, section 6.9.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct SendWindow(i64);

impl Default for SendWindow {
    fn default() -> Self {
        Self::new(FIRST_WINDOW)
    }
}

impl SendWindow {
    pub(super) fn new(size: u32) -> Self {
        Self(size.into())
    }

    /// How many bytes may be sent now.
    pub(super) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Accounts for sent bytes, which do not exceed the credit.
    pub(super) fn take(&mut self, bytes: usize) {
        self.0 -= bytes as i64;
    }

    /// The window changes by this much; false if it becomes larger than windows can be.
    pub(super) fn shift(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= i64::from(LARGEST_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_told_once_it_is_worth_a_frame() {
        let mut window = ReceiveWindow::new(90);
        assert!(window.take(30));
        window.release(29);
        assert_eq!(window.update(), None);
        window.release(1);
        assert_eq!(window.update(), Some(30));
        assert!(!window.take(91));
        assert!(window.take(90));
        assert!(!window.take(1));
    }

    #[test]
    fn a_smaller_window_is_used_up_before_there_is_more() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(80));
        window.shift(-90);
        assert!(!window.take(1));
        assert!(window.take(0), "an empty frame ends the stream");
        window.release(80);
        assert_eq!(window.update(), Some(80));
        assert!(window.take(10));
        assert!(!window.take(1));
    }

    #[test]
    fn room_that_is_taken_back_is_not_told_until_it_is_free() {
        let mut window = ReceiveWindow::new(100);
        window.resize(-50);
        assert!(window.take(100));
        window.release(50);
        assert_eq!(window.update(), None);
        window.release(50);
        assert_eq!(window.update(), Some(50));
    }

    #[test]
    fn no_window_grows_beyond_the_largest() {
        let mut window = SendWindow::default();
        assert!(window.shift(i64::from(LARGEST_WINDOW - FIRST_WINDOW)));
        assert!(!window.shift(1));
        window.shift(-(i64::from(LARGEST_WINDOW) + 10));
        assert_eq!(window.room(), 0);
    }
}
