//! The comparisons of a table with an exchange.

/// Why one route matched an exchange or did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Index into the document's routes.
    pub route: usize,
    /// Name of the route, or its position, as `routes[3]`.
    pub name: String,
    /// Whether all conditions hold. The first route of which this is true decides.
    pub matched: bool,
    /// The first condition that does not hold, in words.
    pub failed: Option<String>,
}
