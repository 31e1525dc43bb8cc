//! How long a packet may be within a tunnel.

use hermes_proto::ip::{MIN_MTU_V4, MIN_MTU_V6};

/// The longest packet within a tunnel, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct InnerMtu(u16);

/// A tunnel carries too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MtuError {
    /// Less than every link of IPv4 has.
    #[error(
        "the tunnel carries {0} bytes, fewer than the {MIN_MTU_V4} that every link of IPv4 does"
    )]
    BelowIpv4(usize),
    /// Less than every link of IPv6 must have (RFC 9484, section 7.1): IPv6 is refused.
    #[error(
        "the tunnel carries {0} bytes, fewer than the {MIN_MTU_V6} that every link of IPv6 must"
    )]
    BelowIpv6(usize),
}

impl InnerMtu {
    /// The MTU of a stream: packets of any length.
    pub const STREAM: Self = Self(u16::MAX);

    /// Packets of up to so many bytes.
    ///
    /// # Errors
    /// [`MtuError::BelowIpv4`].
    pub fn new(bytes: usize) -> Result<Self, MtuError> {
        if bytes < MIN_MTU_V4 {
            return Err(MtuError::BelowIpv4(bytes));
        }
        Ok(Self(u16::try_from(bytes).unwrap_or(u16::MAX)))
    }

    /// The MTU over HTTP datagrams with payloads of up to `payload` bytes, of which the context ID
    /// takes `context` bytes.
    ///
    /// # Errors
    /// [`MtuError::BelowIpv4`].
    pub fn of_datagrams(payload: usize, context: usize) -> Result<Self, MtuError> {
        Self::new(payload.saturating_sub(context))
    }

    /// The longest packet, in bytes.
    pub fn bytes(self) -> usize {
        self.0.into()
    }

    /// As errors about packets say it.
    pub(crate) fn number(self) -> u16 {
        self.0
    }

    /// Says whether IPv6 may be carried.
    ///
    /// # Errors
    /// [`MtuError::BelowIpv6`], with the reason.
    pub fn check_ipv6(self) -> Result<(), MtuError> {
        match self.bytes() {
            bytes if bytes < MIN_MTU_V6 => Err(MtuError::BelowIpv6(bytes)),
            _ => Ok(()),
        }
    }
}
