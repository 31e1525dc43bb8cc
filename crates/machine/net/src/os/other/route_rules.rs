//! Rules of routing: not supported.

use std::io;

use ipnet::IpNet;

use super::super::{FoundRule, Link, PlacedRule};

impl PlacedRule {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn add(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn remove(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl FoundRule {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn all() -> io::Result<Vec<Self>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn remove(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Link {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn add_route_in(self, _table: u32, _net: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn remove_route_in(self, _table: u32, _net: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn add_exception(_table: u32, _net: IpNet) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn remove_exception(_table: u32, _net: IpNet) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Not supported.
///
/// # Errors
/// Always.
pub fn exceptions() -> io::Result<Vec<(u32, IpNet)>> {
    Err(io::ErrorKind::Unsupported.into())
}
