//! The node that a snapshot is of, as others see it.

use std::sync::Arc;

use hermes_proto::via;

use super::OwnCredentials;

/// This node, as others see it.
pub struct ThisNode {
    /// Its name.
    pub name: Arc<str>,
    /// Its entry in `Via`, which it writes and looks for.
    pub via: via::Node,
    /// Its credentials.
    pub credentials: OwnCredentials,
}

impl ThisNode {
    pub(super) fn new(name: Arc<str>, credentials: OwnCredentials) -> Self {
        Self {
            via: via::Node::new(&name),
            name,
            credentials,
        }
    }
}
