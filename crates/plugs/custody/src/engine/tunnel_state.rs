//! Whether an exchange is a tunnel, and how far its end is.

/// Whether an exchange is a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tunnelled {
    /// It is a message.
    No,
    /// It is open.
    Open,
    /// This node has asked for it and is done with it; the last bytes of its client are still on their way.
    Closing,
}
