//! The capsules of CONNECT-IP (RFC 9484, section 4.7): which addresses a side may use, and where it may send.
//!
//! Each capsule replaces the one of its type before it: it holds all that is assigned, or all that
//! is routed. Decoding checks the form alone; the session decides whether a peer may have these
//! addresses and routes.

mod addresses;
mod error;
#[cfg(test)]
mod fuzz;
mod routes;
mod wire;

use bytes::{Bytes, BytesMut};

use crate::capsule::{CapsuleType, encode_header};
use crate::varint;

pub use addresses::{AddressAssign, AddressRequest, AssignedAddress, RequestedAddress};
pub use error::ConnectIpError;
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use routes::RouteAdvertisement;

/// The context of IP packets in HTTP datagrams (RFC 9484, section 6).
pub const IP_CONTEXT: u64 = 0;

/// Addresses in one capsule: a client has one or two of each family, a site some prefixes.
#[doc(alias = "bound")]
pub const MAX_ADDRESSES: usize = 128;

/// Ranges in one capsule: all of the Internet without one list of exceptions is some hundred.
#[doc(alias = "bound")]
pub const MAX_RANGES: usize = 1024;

/// The longest value of a capsule of CONNECT-IP, in bytes: that of as many routes of IPv6 as there may be.
#[doc(alias = "bound")]
pub const MAX_CAPSULE: u64 = (MAX_RANGES * wire::LONGEST_RANGE) as u64;

const _: () = assert!(MAX_ADDRESSES * wire::LONGEST_ADDRESS <= MAX_CAPSULE as usize);

/// A capsule of CONNECT-IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IpCapsule {
    /// Addresses that the receiver may use as source.
    Assign(AddressAssign),
    /// Addresses that the sender would like to use as source.
    Request(AddressRequest),
    /// Where the receiver may send.
    Routes(RouteAdvertisement),
}

impl IpCapsule {
    /// Reads the value of a capsule; `None` for one of another type.
    ///
    /// # Errors
    /// [`ConnectIpError`], upon which the stream must be aborted (RFC 9297, section 3.3).
    pub fn decode(kind: CapsuleType, value: &[u8]) -> Result<Option<Self>, ConnectIpError> {
        Ok(Some(match kind {
            CapsuleType::AddressAssign => Self::Assign(AddressAssign::decode(value)?),
            CapsuleType::AddressRequest => Self::Request(AddressRequest::decode(value)?),
            CapsuleType::RouteAdvertisement => Self::Routes(RouteAdvertisement::decode(value)?),
            _ => return Ok(None),
        }))
    }

    /// Appends the whole capsule.
    pub fn encode(&self, output: &mut BytesMut) {
        let mut value = BytesMut::new();
        let kind = match self {
            Self::Assign(assign) => {
                assign.encode_value(&mut value);
                CapsuleType::AddressAssign
            }
            Self::Request(request) => {
                request.encode_value(&mut value);
                CapsuleType::AddressRequest
            }
            Self::Routes(routes) => {
                routes.encode_value(&mut value);
                CapsuleType::RouteAdvertisement
            }
        };

        encode_header(kind, value.len() as u64, output);
        output.extend_from_slice(&value);
    }

    /// The whole capsule.
    pub fn to_bytes(&self) -> Bytes {
        let mut output = BytesMut::new();
        self.encode(&mut output);
        output.freeze()
    }
}

/// Takes a request ID off the front.
fn decode_id(rest: &mut &[u8]) -> Result<u64, ConnectIpError> {
    varint::decode(rest).ok_or(ConnectIpError::Truncated)
}

#[cfg(test)]
mod tests;
