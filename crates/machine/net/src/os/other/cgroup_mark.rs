//! Marks of control groups: not supported.

use std::io;
use std::path::Path;

use super::super::CgroupMark;

impl CgroupMark {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn new(_group: &Path, _mark: u32) -> io::Result<Self> {
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
