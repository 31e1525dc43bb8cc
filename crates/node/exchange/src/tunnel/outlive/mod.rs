//! Tunnels of bytes that outlive the path to them, by the protocol of [`hermes_proto::resumable`].
//!
//! The node whose route says `resume` is the [near] end. It asks for a session when it opens a tunnel, and opens it again when the path
//! breaks, or when the rules lead elsewhere. The node where the tunnel becomes a TCP connection is the [far] end. It keeps the
//! connection to the target while there is no path, until the near end comes back. Nodes in between need know nothing.
//!
//! Both ends are the same in what they do with bytes: [`sides`] reads and writes the side that the end serves, [`path`] the path. What
//! they share, and what outlives an exchange, is in [`hermes_admit::outliving`].
//!
//! A path may be that of a plug ([`crate::carrier`]): then it survives outages by itself, and another is only needed where a node in between was
//! started again.
//!
//! Not done yet: the *first* path of a tunnel is tried only as often as `retry.attempts` says; and that a path goes nowhere is for the connection
//! below to find, by its keep-alive, as no capsule asks whether the peer is there.

pub(crate) mod far;
pub(crate) mod near;
mod path;
mod sides;
