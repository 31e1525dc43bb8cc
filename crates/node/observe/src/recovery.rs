//! Recovery of datagrams that a path loses, for records and views.

use std::fmt::Debug;

use serde::Serialize;

/// The recovery of an exchange's datagrams between this node and the other end, as an operator sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryView {
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

/// Tells how the recovery of an exchange's datagrams goes.
pub trait RecoverySource: Debug + Send + Sync {
    /// How it goes now.
    fn view(&self) -> RecoveryView;
}
