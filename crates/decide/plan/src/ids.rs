//! Numbers of areas.

/// The number of an area of one [`Areas`](crate::Areas), in the order of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaId(pub(crate) usize);

/// Two areas, and a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AreaPair {
    /// Where data comes from.
    pub from: AreaId,
    /// Where it goes.
    pub to: AreaId,
}
