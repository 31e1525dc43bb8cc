//! What nodes agree on: a value for a key, the same for all of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A value that a node would like a key to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The key, 1 to 64 letters, digits, `-` and `_`: the keyed hash of a name rather than a name, since controllers keep it.
    pub key: String,
    /// The value, at most 255 bytes.
    pub value: Arc<str>,
    /// The value that it should take the place of, since that is of no use any more.
    pub instead_of: Option<Arc<str>>,
}

/// The value that a key has for all nodes now; `None` if no one can be asked, and a node decides for itself.
pub type Agreeing<'a> = Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + 'a>>;

/// Where the nodes of an overlay agree: the store of its controllers. A node without a controller has none.
///
/// The first proposal for a key counts, and nodes that propose later are told it. What was agreed is soft: it may be forgotten once no one has
/// asked for it for a day, or within the last seconds before a controller is lost.
pub trait Agreement: Send + Sync {
    /// Proposes a value. It answers within about a second.
    fn agree(&self, proposal: Proposal) -> Agreeing<'_>;
}
