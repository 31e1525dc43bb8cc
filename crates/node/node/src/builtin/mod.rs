//! Plugs that are part of every node: the transform `compress`, the store `memory`, and custody's stand-in.

mod compress;
mod memory_store;
mod no_custody;

use hermes_plug::{CUSTODY, MEMORY, Plugs};

use compress::Compress;
use memory_store::MemoryStore;
use no_custody::NoCustody;

/// These plugs, for a node that has no other.
pub(crate) fn plugs() -> Plugs {
    Plugs::new()
        .transform("compress", Compress::new())
        .store(MEMORY, MemoryStore::default())
        .handler(CUSTODY, NoCustody)
        .ingress(CUSTODY, NoCustody)
}

/// A program's plugs, and below them these: a name that the program gives means its own.
pub(crate) fn beneath(plugs: Plugs) -> Plugs {
    plugs.over(self::plugs())
}
