//! Traffic that is captured on its way: of machines behind a router, and of users and control groups of one machine.

mod holds;
mod measured;
pub(super) mod network;
mod router;
mod senders;
mod sources;
