//! Names of doors: they outlive the names of listeners.

/// The sockets of one listener, whatever it is called: names and rules change, doors stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DoorId(pub u64);
