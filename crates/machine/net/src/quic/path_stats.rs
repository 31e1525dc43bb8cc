//! Figures that show whether the path to a peer still works.

use std::time::Duration;

use quinn::{ConnectionStats, FrameStats};

/// Counts of one connection since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Frames sent that the peer must acknowledge (RFC 9002 section 2), those sent again and probes among them.
    pub sent: u64,
    /// Acknowledgements received. Other frames prove only that one direction works.
    pub acknowledged: u64,
    /// The measured time to the peer and back.
    pub rtt: Duration,
}

impl PathStats {
    pub(super) fn of(stats: &ConnectionStats) -> Self {
        Self {
            sent: eliciting(&stats.frame_tx),
            acknowledged: stats.frame_rx.acks,
            rtt: stats.path.rtt,
        }
    }
}

/// Frames that must be acknowledged: all but ACK, PADDING, which is not counted, and CONNECTION_CLOSE.
fn eliciting(frames: &FrameStats) -> u64 {
    let control = [
        frames.crypto,
        frames.data_blocked,
        u64::from(frames.handshake_done),
        frames.max_data,
        frames.max_stream_data,
        frames.max_streams_bidi,
        frames.max_streams_uni,
        frames.new_connection_id,
        frames.new_token,
        frames.path_challenge,
        frames.path_response,
        frames.retire_connection_id,
        frames.streams_blocked_bidi,
        frames.streams_blocked_uni,
        frames.stream_data_blocked,
    ];

    let payload = [
        frames.stream,
        frames.datagram,
        frames.ping,
        frames.reset_stream,
        frames.stop_sending,
    ];

    control.iter().chain(&payload).sum()
}
