//! Where attacks run: as root in a network namespace of the lab's own, where nodes may make devices.

use anyhow::Result;
use hermes_harness::attacks::{Attack, Place};
use rustix::process::geteuid;

use crate::topology::Namespace;

/// Leaves the network of the machine, with all threads and programs started from now on, until the returned guard is dropped;
/// `None` without root.
///
/// # Errors
/// When the system does not allow it.
pub fn leave() -> Result<Option<Namespace>> {
    if !geteuid().is_root() {
        return Ok(None);
    }

    let namespace = Namespace::new()?;
    namespace.ip("link set dev lo up\n")?;
    namespace.enter()?;
    Ok(Some(namespace))
}

/// Takes the attacks away that need devices.
pub fn without_devices(chosen: &mut Vec<&'static Attack>) -> Vec<&'static Attack> {
    chosen
        .extract_if(.., |attack| attack.place == Place::Devices)
        .collect()
}
