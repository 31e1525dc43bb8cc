//! Plugs that are part of every node: the transform `compress`, the store `memory`, and stand-ins for the carrier and for SOCKS.

mod compress;
mod memory_store;
mod no_carrier;
mod no_socks;

use hermes_config::model::{CARRIER, SOCKS, SOCKS_EXPERIMENTAL};
use hermes_plug::{MEMORY, Plugs};

use compress::Compress;
use memory_store::MemoryStore;
use no_carrier::NoCarrier;
use no_socks::NoSocks;

/// These plugs, for a node that has no other.
pub(crate) fn plugs() -> Plugs {
    Plugs::new()
        .transform("compress", Compress::new())
        .store(MEMORY, MemoryStore::default())
        .handler(CARRIER, NoCarrier(CARRIER))
        .ingress(CARRIER, NoCarrier(CARRIER))
        .ingress(SOCKS, NoSocks)
        .ingress(SOCKS_EXPERIMENTAL, NoSocks)
}

/// A program's plugs, and below them these: a name that the program gives means its own.
pub(crate) fn beneath(plugs: Plugs) -> Plugs {
    plugs.over(self::plugs())
}
