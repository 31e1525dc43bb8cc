//! The parts of listeners, each of which has sockets of its own: one, or two where a listener speaks HTTP/3 as well.

use std::sync::{Arc, Weak};

use hermes_config::model::Listener;
use hermes_net::{DescriptorEntry, Drain};
use hermes_plug::door::DoorId;

use super::Socket;
use super::bind::{Bound, Serves, Wanted};
use super::passed::Passed;

/// The use of a listener's sockets: one, or two with HTTP/3.
pub(super) type Part = (Arc<str>, Serves);

/// The sockets of one part.
pub(super) struct OpenPart {
    pub(super) door: DoorId,
    pub(super) wanted: Wanted,
    pub(super) bound: Bound,
    /// The sockets were not bound here, but passed.
    pub passed: Vec<Passed>,
    /// Those that were bound here, in the table of descriptors.
    pub(super) entries: Vec<DescriptorEntry>,
    pub(super) drain: Drain,
    /// Held by the servers of the sockets.
    pub(super) served: Arc<()>,
}

/// Sockets that are about to close.
pub(super) struct Closing {
    pub(super) wanted: Wanted,
    pub passed: Vec<Passed>,
    pub(super) served: Weak<()>,
}

/// The sockets of one part, which are bound.
pub(super) struct BoundSockets {
    pub(super) wanted: Wanted,
    pub(super) bound: Bound,
    pub passed: Vec<Passed>,
    pub(super) entries: Vec<DescriptorEntry>,
    pub(super) sockets: Vec<Socket>,
}

/// A part of a listener that has no sockets yet.
pub(super) struct Missing<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) listener: &'a Listener,
    pub(super) wanted: &'a Wanted,
    /// The passed sockets that it is to have; else it binds its own.
    pub passed: Vec<Passed>,
}
