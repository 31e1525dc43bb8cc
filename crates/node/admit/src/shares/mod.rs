//! What one source or user may have open at a listener.

pub mod sessions;
pub mod sources;
