//! Plugs that are part of every node: the transform `compress`, the store `memory`, and a stand-in for the carrier.

mod compress;
mod memory_store;
mod no_carrier;

use hermes_config::model::CARRIER;
use hermes_plug::{MEMORY, Plugs};

use compress::Compress;
use memory_store::MemoryStore;
use no_carrier::NoCarrier;

/// These plugs, for a node that has no other.
pub(crate) fn plugs() -> Plugs {
    Plugs::new()
        .transform("compress", Compress::new())
        .store(MEMORY, MemoryStore::default())
        .handler(CARRIER, NoCarrier(CARRIER))
        .ingress(CARRIER, NoCarrier(CARRIER))
}

/// A program's plugs, and below them these: a name that the program gives means its own.
pub(crate) fn beneath(plugs: Plugs) -> Plugs {
    plugs.over(self::plugs())
}
