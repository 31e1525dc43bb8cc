//! Users, whose shares of what is held are bounded.

/// A user of one neighbour, or of this node, by a number that this process gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);
