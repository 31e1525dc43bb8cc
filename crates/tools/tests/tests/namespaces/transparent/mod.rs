//! Traffic that is captured on its way: of machines behind a router, and of users and control groups of one machine.

mod beside;
mod holds;
mod listener;
mod measured;
pub(super) mod network;
mod path_mtu;
mod redirect;
mod router;
mod senders;
mod sources;
