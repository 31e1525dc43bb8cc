//! The way in which a changed configuration is put in force.

/// Has the node read its configuration again; may block.
pub trait Reload: Send + Sync {
    /// Does it.
    ///
    /// # Errors
    /// The problems, in words; then nothing has changed.
    fn reload(&self) -> Result<(), String>;
}
