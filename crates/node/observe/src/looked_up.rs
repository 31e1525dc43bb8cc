//! Views that another part of the node is asked for each time that metrics are read.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Gives the views of now.
pub(super) type ViewSource<V> = dyn Fn() -> Vec<V> + Send + Sync;

/// Where views are looked up; nowhere until a part says so.
pub(super) struct LookedUp<V>(Arc<Mutex<Option<Arc<ViewSource<V>>>>>);

impl<V> LookedUp<V> {
    /// Says something of these from now on.
    pub(super) fn look(&self, source: Arc<ViewSource<V>>) {
        *self.0.lock() = Some(source);
    }

    /// The views of now.
    pub(super) fn views(&self) -> Vec<V> {
        let source = self.0.lock().clone();
        source.map_or_else(Vec::new, |source| source())
    }
}

impl<V> Clone for LookedUp<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for LookedUp<V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<V> fmt::Debug for LookedUp<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LookedUp")
    }
}
