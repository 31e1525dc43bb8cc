//! Masquerade: not supported.

use std::io;

use super::super::Masquerade;

/// Not supported.
///
/// # Errors
/// Always.
pub fn masquerades() -> io::Result<Vec<String>> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Masquerade {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn of(_device: &str) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn check() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
