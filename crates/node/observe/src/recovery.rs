//! Recovery of datagrams that a path loses, for records and views.

use std::fmt::Debug;

use serde::Serialize;

/// The recovery of an exchange's datagrams, as an operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RecoveryView {
    /// Between this node and the other end.
    Frames(FrameRecoveryView),
    /// Between this node and the next one.
    Groups(GroupRecoveryView),
}

/// Datagrams that are sent again or computed, between the two ends of a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FrameRecoveryView {
    /// Datagrams that were sent again.
    pub sent_again: u64,
    /// Datagrams of parity that were sent.
    pub sent_parity: u64,
    /// Datagrams of the other end that came when they were sent again.
    pub came_again: u64,
    /// Datagrams of the other end that were computed from parity.
    pub computed: u64,
    /// Datagrams of the other end that did not come in time.
    pub lost: u64,
    /// Of a thousand datagrams of ours, those that the path loses now.
    pub loss_per_mille: u64,
    /// The round trip to the other end, in microseconds; absent until it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u64>,
}

/// Datagrams that leave in groups, on streams that QUIC mends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GroupRecoveryView {
    /// Groups that were sent.
    pub groups: u64,
    /// Groups that had not arrived in time.
    pub given_up: u64,
    /// Datagrams that left without a group, as too many were on their way.
    pub alone: u64,
    /// Datagrams for which there was no room.
    pub dropped: u64,
    /// Datagrams of the other side that came in groups.
    pub came_in_groups: u64,
}

/// Tells how the recovery of an exchange's datagrams goes.
pub trait RecoverySource: Debug + Send + Sync {
    /// How it goes now.
    fn view(&self) -> RecoveryView;
}
