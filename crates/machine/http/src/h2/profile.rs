//! The two profiles of an HTTP/2 connection: bounds on the cost of a stranger, and of a link that
//! carries many users.
//!
//! | Bound                        | `public`                          | `link`                        |
//! |------------------------------|-----------------------------------|-------------------------------|
//! | room for all streams         | `memory.connection`               | that, and more: [`windows`](super::windows) |
//! | resets (CVE-2023-44487)      | twice its streams, 100 a second   | 10 times its streams a second |
//! | SETTINGS, PING, PRIORITY ... | 200, 20 a second                  | 2,000, 200 a second           |
//! | our resets (CVE-2025-8671)   | the same again; [`PUBLIC_CAUSED`] | the same again                |
//! | idle WINDOW_UPDATE           | 1,000, 100 a second               | 10,000, 1,000 a second        |
//! | table of HPACK               | none                              | [`HEADER_TABLE`](super::HEADER_TABLE) |
//! | CONTINUATION                 | four times a head's size          | the same                      |
//! | empty DATA                   | [`EMPTY_DATA`], 4 a second        | the same                      |
//!
//! A link that we opened has the profile `link`, too: a server can flood as well as a client. A
//! budget over a connection's life never breaks it off: a server retires it with GOAWAY, and a
//! client with a new link.

use hermes_proto::h2::{Budget, Budgets};

/// Bytes that all streams of a stranger's connection may hold unread: they share it, and stall only
/// each other.
#[doc(alias("bound", "memory.connection"))]
pub(crate) const PUBLIC_WINDOW: u32 = 16 * 1024 * 1024;

/// Reset streams that are remembered, for each stream of a connection: their late frames are told
/// from errors.
#[doc(alias = "bound")]
const RESET_STREAMS: usize = 4;

/// Reset streams that are remembered on a connection with this many streams at once: their late
/// frames are told from errors.
pub(crate) fn remembered_streams(streams: u32) -> usize {
    RESET_STREAMS * (streams as usize).max(1024)
}

/// Empty DATA frames at once before a connection is ended in an orderly way, with GOAWAY; after
/// twice as many it is broken off.
#[doc(alias = "bound")]
pub(crate) const EMPTY_DATA: u32 = 64;

/// Empty DATA frames that may come each second, for as long as the connection lives: clients send some
/// to say that they are still there.
#[doc(alias = "bound")]
pub(crate) const EMPTY_DATA_A_SECOND: u32 = 4;

/// Resets that the errors of a stranger may cause in a connection's life. The connection is retired
/// at half of them; they are far more than the budget of resets allows at once.
#[doc(alias = "bound")]
const PUBLIC_CAUSED: u32 = 16 * 1024;

/// As [`PUBLIC_CAUSED`], of a peer or a server.
#[doc(alias = "bound")]
const LINK_CAUSED: u32 = 1024 * 1024;

/// The client's stream at which it is told to open another connection: half of the identifiers are
/// used up (RFC 9113, 5.1.1).
#[doc(alias = "bound")]
pub(crate) const LAST_STREAM: u32 = 1 << 30;

/// Budgets of the frames that cost their sender nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Profile {
    /// RST_STREAM, and once more those that the peer's errors made us send. A client may always reset all its streams at once.
    pub(crate) resets: Budget,
    /// SETTINGS, PING, PRIORITY, frames of unknown types, answers to nothing and further GOAWAYs: few clients send more than one of them for each round trip.
    pub(crate) control: Budget,
    /// WINDOW_UPDATE that nothing we sent has called for: a peer may give room beforehand.
    pub(crate) updates: Budget,
    /// Resets that the peer's errors may cause in the connection's life.
    pub(crate) caused: u32,
}

impl Profile {
    /// The bounds for a stranger with `streams` at once.
    pub(crate) fn public(streams: u32) -> Self {
        Self {
            resets: Budget {
                burst: streams.saturating_mul(2).max(100),
                per_second: 100,
            },
            control: Budget {
                burst: 200,
                per_second: 20,
            },
            updates: Budget {
                burst: 1_000,
                per_second: 100,
            },
            caused: PUBLIC_CAUSED,
        }
    }

    /// The bounds for a known proxy: each reset is one of a user's, and there are many users.
    pub(crate) fn link(streams: u32) -> Self {
        let all = streams.saturating_mul(10).max(10_000);
        Self {
            resets: Budget {
                burst: all,
                per_second: all,
            },
            control: Budget {
                burst: 2_000,
                per_second: 200,
            },
            updates: Budget {
                burst: 10_000,
                per_second: 1_000,
            },
            caused: LINK_CAUSED,
        }
    }

    /// The budgets of the machine.
    pub(crate) fn budgets(self) -> Budgets {
        Budgets {
            resets: self.resets,
            control: self.control,
            updates: self.updates,
            caused: self.caused,
            empty: Budget {
                burst: EMPTY_DATA,
                per_second: EMPTY_DATA_A_SECOND,
            },
            last_stream: LAST_STREAM,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_of_a_link_scale_with_its_streams() {
        let budgets = |streams| {
            [
                Profile::link(streams).resets.burst as usize,
                remembered_streams(streams),
            ]
        };
        assert_eq!(
            budgets(100),
            budgets(1_000),
            "a small link has as much as a usual one"
        );
        for (usual, large) in budgets(1_024).into_iter().zip(budgets(10_240)) {
            assert_eq!(large, 10 * usual);
        }
    }
}
