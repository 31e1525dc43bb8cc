//! Orders to the carrier of a tunnel.

use std::sync::Arc;

use hermes_http::RequestHead;
use hermes_rules::reevaluate::Reason;

use crate::next::CompiledRoute;
use crate::snapshot::Snapshot;

/// An order to the carrier of a tunnel.
#[derive(Clone)]
pub enum Order {
    /// Open it anew, then leave the old path.
    Move(Arc<Move>),
    /// End it.
    End(Reason),
}

/// A message from a decision to the guard of a tunnel.
pub(super) enum Word {
    /// Ask the filters of this snapshot about the tunnel.
    Ask(Arc<Snapshot>),
    /// Give its carrier this order.
    Carry(Order),
}

/// How a tunnel is to be opened anew.
pub struct Move {
    /// The rules that allowed it.
    pub snapshot: Arc<Snapshot>,
    /// The route that it takes there.
    pub route: Arc<CompiledRoute>,
    /// The request as it is by that snapshot's rules.
    pub head: RequestHead,
}
