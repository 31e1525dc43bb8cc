//! How addresses stand in capsules: a version of one byte, then 4 or 16 bytes for each address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{BufMut, BytesMut};

use super::ConnectIpError;
use crate::ip::IpPrefix;
use crate::varint;

/// Bytes of the longest entry of an address: a request ID, a version, an address and a length.
pub(super) const LONGEST_ADDRESS: usize = varint::MAX_SIZE + 1 + 16 + 1;

/// Bytes of the longest range: a version, two addresses and a protocol.
pub(super) const LONGEST_RANGE: usize = 1 + 2 * 16 + 1;

/// The version of an address.
pub(super) fn version(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 6,
    }
}

pub(super) fn put_address(address: IpAddr, output: &mut BytesMut) {
    match address {
        IpAddr::V4(address) => output.put_slice(&address.octets()),
        IpAddr::V6(address) => output.put_slice(&address.octets()),
    }
}

pub(super) fn put_prefix(prefix: IpPrefix, output: &mut BytesMut) {
    output.put_u8(version(prefix.address()));
    put_address(prefix.address(), output);
    output.put_u8(prefix.length());
}

pub(super) fn take_byte(rest: &mut &[u8]) -> Result<u8, ConnectIpError> {
    let (byte, after) = rest.split_first().ok_or(ConnectIpError::Truncated)?;
    *rest = after;
    Ok(*byte)
}

pub(super) fn take_address(version: u8, rest: &mut &[u8]) -> Result<IpAddr, ConnectIpError> {
    match version {
        4 => take::<4>(rest).map(|octets| Ipv4Addr::from(octets).into()),
        6 => take::<16>(rest).map(|octets| Ipv6Addr::from(octets).into()),
        other => Err(ConnectIpError::Version(other)),
    }
}

pub(super) fn take_prefix(rest: &mut &[u8]) -> Result<IpPrefix, ConnectIpError> {
    let version = take_byte(rest)?;
    let address = take_address(version, rest)?;
    let length = take_byte(rest)?;
    Ok(IpPrefix::new(address, length)?)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], ConnectIpError> {
    let (octets, after) = rest.split_first_chunk().ok_or(ConnectIpError::Truncated)?;
    *rest = after;
    Ok(*octets)
}
