//! Limits of one source or user at a listener: connections, exchanges and sessions.

pub mod sessions;
pub mod sources;
