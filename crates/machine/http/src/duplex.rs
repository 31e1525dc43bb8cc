//! Both directions of a stream.

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;

/// Both directions of a stream to one peer.
#[derive(Debug)]
pub struct Duplex {
    /// From the peer.
    pub incoming: Incoming,
    /// To the peer.
    pub outgoing: Outgoing,
}
