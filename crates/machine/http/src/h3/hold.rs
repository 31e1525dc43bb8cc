//! Keeps a client's connection open for its handles and its exchanges.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Each of these keeps a client's connection open; the driver learns when the last is gone.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    _last: Arc<LastHold>,
}

#[derive(Debug)]
struct LastHold(CancellationToken);

impl Hold {
    /// The first one, and a token that resolves when the last one is gone.
    pub(crate) fn new() -> (Self, CancellationToken) {
        let gone = CancellationToken::new();
        (
            Self {
                _last: Arc::new(LastHold(gone.clone())),
            },
            gone,
        )
    }
}

impl Drop for LastHold {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
