//! Prefixes of addresses, for assignment, routing and matching.

use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses that begin with the same bits. No bit is set beyond its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix {
    address: IpAddr,
    length: u8,
}

/// Why something is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The length exceeds that of an address.
    #[error("a prefix of {length} bits is longer than {address}")]
    Length {
        /// The address.
        address: IpAddr,
        /// The length, in bits.
        length: u8,
    },
    /// A bit is set beyond its length.
    #[error("{address}/{length} has bits beyond its length")]
    HostBits {
        /// The address.
        address: IpAddr,
        /// The length, in bits.
        length: u8,
    },
    /// The text is neither an address, nor an address, a slash and a length.
    #[error("a prefix is written as 192.0.2.0/24 or 2001:db8::/32")]
    Text,
}

impl IpPrefix {
    /// All IPv4 addresses.
    pub const ALL_V4: Self = Self {
        address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        length: 0,
    };

    /// All IPv6 addresses.
    pub const ALL_V6: Self = Self {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        length: 0,
    };

    /// The addresses whose first `length` bits are those of `address`.
    ///
    /// # Errors
    /// [`PrefixError`], also where `address` has bits beyond `length`.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        let prefix = Self::around(address, length)?;
        if prefix.address != address {
            return Err(PrefixError::HostBits { address, length });
        }

        Ok(prefix)
    }

    /// The prefix of this length that `address` is in.
    ///
    /// # Errors
    /// [`PrefixError::Length`].
    pub fn around(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        if length > bits(address) {
            return Err(PrefixError::Length { address, length });
        }

        Ok(Self {
            address: masked(address, length),
            length,
        })
    }

    /// One address.
    pub fn host(address: IpAddr) -> Self {
        Self {
            address,
            length: bits(address),
        }
    }

    /// The bits that count, followed by zeros; also its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// How many bits count.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        self.length == bits(self.address)
    }

    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Its last address.
    pub fn last(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(first) => {
                let hosts = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V4((first.to_bits() | hosts).into())
            }
            IpAddr::V6(first) => {
                let hosts = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V6((first.to_bits() | hosts).into())
            }
        }
    }

    /// Whether the address is in it. An IPv4 address is in no prefix of IPv6, and the reverse.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.length)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= u32::from(self.length)
            }
            _ => false,
        }
    }

    /// Whether all addresses of `other` are in it.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// Whether an address is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

/// How many bits an address of this family has.
pub(crate) fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with zeros beyond the length.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let hosts = u32::MAX.checked_shr(length.into()).unwrap_or(0);
            IpAddr::V4((address.to_bits() & !hosts).into())
        }
        IpAddr::V6(address) => {
            let hosts = u128::MAX.checked_shr(length.into()).unwrap_or(0);
            IpAddr::V6((address.to_bits() & !hosts).into())
        }
    }
}

/// IPv4 first, then by address, and the wider before the narrower.
impl Ord for IpPrefix {
    fn cmp(&self, other: &Self) -> Ordering {
        self.address
            .cmp(&other.address)
            .then(self.length.cmp(&other.length))
    }
}

impl PartialOrd for IpPrefix {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

/// An address by itself is a prefix with all its bits.
impl FromStr for IpPrefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let Some((address, length)) = text.split_once('/') else {
            return text.parse().map(Self::host).map_err(|_| PrefixError::Text);
        };

        let address = address.parse().map_err(|_| PrefixError::Text)?;
        let length = length
            .parse::<u8>()
            .ok()
            .filter(|number| number.to_string() == length)
            .ok_or(PrefixError::Text)?;
        Self::new(address, length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(text: &str) -> IpPrefix {
        text.parse().unwrap()
    }

    #[test]
    fn edges_are_exact() {
        let net = prefix("192.0.2.128/25");
        assert_eq!(net.last(), IpAddr::from([192, 0, 2, 255]));
        assert!(net.contains([192, 0, 2, 128].into()));
        assert!(!net.contains([192, 0, 2, 127].into()));
        assert!(!net.contains("::ffff:192.0.2.128".parse().unwrap()));
        assert!(IpPrefix::ALL_V4.contains([255; 4].into()));
        assert!(IpPrefix::ALL_V6.covers(&prefix("2001:db8::/32")));
        assert!(!IpPrefix::ALL_V4.overlaps(&IpPrefix::ALL_V6));
        assert!(prefix("10.0.0.0/8").overlaps(&prefix("10.1.0.0/16")));
        assert!(!prefix("10.1.0.0/16").covers(&prefix("10.0.0.0/8")));
    }

    #[test]
    fn what_is_no_prefix_says_why() {
        for (text, expected) in [
            ("192.0.2.1/24", "192.0.2.1/24 has bits beyond its length"),
            (
                "192.0.2.0/33",
                "a prefix of 33 bits is longer than 192.0.2.0",
            ),
            (
                "192.0.2.0/024",
                "a prefix is written as 192.0.2.0/24 or 2001:db8::/32",
            ),
            (
                "host",
                "a prefix is written as 192.0.2.0/24 or 2001:db8::/32",
            ),
        ] {
            assert_eq!(text.parse::<IpPrefix>().unwrap_err().to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn holds_what_lies_between_its_edges(address: u128, other: u128, length in 0_u8..=128) {
            let prefix = IpPrefix::around(IpAddr::V6(address.into()), length).unwrap();
            let other = IpAddr::V6(other.into());
            let between = prefix.address() <= other && other <= prefix.last();
            prop_assert_eq!(prefix.contains(other), between);
            prop_assert!(prefix.contains(IpAddr::V6(address.into())));
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
        }

        #[test]
        fn holds_what_lies_between_its_edges_in_ipv4(address: u32, other: u32, length in 0_u8..=32) {
            let prefix = IpPrefix::around(IpAddr::V4(address.into()), length).unwrap();
            let other = IpAddr::V4(other.into());
            let between = prefix.address() <= other && other <= prefix.last();
            prop_assert_eq!(prefix.contains(other), between);
            prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
        }
    }
}
