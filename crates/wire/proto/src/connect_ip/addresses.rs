//! ADDRESS_ASSIGN and ADDRESS_REQUEST (RFC 9484, sections 4.7.1 and 4.7.2).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::BytesMut;

use super::{ConnectIpError, MAX_ADDRESSES, decode_id, wire};
use crate::ip::IpPrefix;
use crate::varint;

/// An entry of ADDRESS_ASSIGN: the receiver may send from these addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AssignedAddress {
    /// The answered request; 0 for an assignment that answers no request.
    pub request_id: u64,
    /// The addresses. All zeros and all bits long: the request is [refused](Self::refusal).
    pub prefix: IpPrefix,
}

/// An entry of ADDRESS_REQUEST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestedAddress {
    /// The number that the answer repeats; never 0, and never used again.
    pub request_id: u64,
    /// The wanted prefix; an address of all zeros leaves the choice to the receiver.
    pub prefix: IpPrefix,
}

/// All that is assigned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressAssign {
    /// The entries; empty: nothing is assigned any more.
    pub addresses: Vec<AssignedAddress>,
}

/// Requests, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRequest {
    addresses: Vec<RequestedAddress>,
}

impl AssignedAddress {
    /// The refusal of a request: the zero address of its family.
    pub fn refusal(request: RequestedAddress) -> Self {
        Self {
            request_id: request.request_id,
            prefix: IpPrefix::host(unspecified(request.prefix.is_ipv4())),
        }
    }

    /// Whether it refuses a request. Without a request, it is an assignment of nothing.
    pub fn is_refusal(&self) -> bool {
        self.prefix.is_host() && self.prefix.address().is_unspecified()
    }
}

impl RequestedAddress {
    /// Asks for any one address of a family.
    pub fn any(request_id: u64, is_ipv4: bool) -> Self {
        Self {
            request_id,
            prefix: IpPrefix::host(unspecified(is_ipv4)),
        }
    }

    /// Whether it leaves the address to the receiver; the length of the prefix is still a wish.
    pub fn is_any(&self) -> bool {
        self.prefix.address().is_unspecified()
    }
}

impl AddressAssign {
    /// Reads the value of the capsule.
    ///
    /// # Errors
    /// [`ConnectIpError`].
    pub fn decode(value: &[u8]) -> Result<Self, ConnectIpError> {
        let entries = entries(value)?.into_iter();
        let assigned = |(request_id, prefix)| AssignedAddress { request_id, prefix };
        Ok(Self {
            addresses: entries.map(assigned).collect(),
        })
    }

    pub(super) fn encode_value(&self, output: &mut BytesMut) {
        for entry in &self.addresses {
            varint::encode(entry.request_id, output);
            wire::put_prefix(entry.prefix, output);
        }
    }
}

impl AddressRequest {
    /// These requests.
    ///
    /// # Errors
    /// [`ConnectIpError`]: there is none, too many, or their IDs are not as they must be.
    pub fn new(addresses: Vec<RequestedAddress>) -> Result<Self, ConnectIpError> {
        if addresses.is_empty() {
            return Err(ConnectIpError::Empty);
        }
        if addresses.len() > MAX_ADDRESSES {
            return Err(ConnectIpError::TooManyAddresses);
        }

        let mut seen = HashSet::with_capacity(addresses.len());
        for RequestedAddress { request_id, .. } in &addresses {
            if *request_id == 0 {
                return Err(ConnectIpError::IdZero);
            }
            if !seen.insert(*request_id) {
                return Err(ConnectIpError::IdTwice(*request_id));
            }
        }

        Ok(Self { addresses })
    }

    /// Reads the value of the capsule.
    ///
    /// # Errors
    /// [`ConnectIpError`].
    pub fn decode(value: &[u8]) -> Result<Self, ConnectIpError> {
        let entries = entries(value)?.into_iter();
        let requested = |(request_id, prefix)| RequestedAddress { request_id, prefix };
        Self::new(entries.map(requested).collect())
    }

    /// The requests.
    pub fn addresses(&self) -> &[RequestedAddress] {
        &self.addresses
    }

    pub(super) fn encode_value(&self, output: &mut BytesMut) {
        for entry in &self.addresses {
            varint::encode(entry.request_id, output);
            wire::put_prefix(entry.prefix, output);
        }
    }
}

/// IDs and prefixes, one after the other.
fn entries(mut rest: &[u8]) -> Result<Vec<(u64, IpPrefix)>, ConnectIpError> {
    let mut entries = Vec::new();
    while !rest.is_empty() {
        if entries.len() == MAX_ADDRESSES {
            return Err(ConnectIpError::TooManyAddresses);
        }
        let id = decode_id(&mut rest)?;
        let prefix = wire::take_prefix(&mut rest)?;
        entries.push((id, prefix));
    }

    Ok(entries)
}

fn unspecified(is_ipv4: bool) -> IpAddr {
    match is_ipv4 {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    }
}
