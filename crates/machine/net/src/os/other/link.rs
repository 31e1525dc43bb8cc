//! Interfaces, which are not changed on systems without routing netlink.

use std::io;

use ipnet::IpNet;

use super::super::Link;

impl Link {
    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn named(_name: &str) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn bring_up(self, _mtu: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn change_nothing(self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn set_mtu(self, _mtu: u32) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn addresses(self) -> io::Result<Vec<IpNet>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn add_address(self, _address: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn remove_address(self, _address: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn add_route(self, _net: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    ///
    /// # Errors
    /// Always.
    pub fn remove_route(self, _net: IpNet) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
