//! Addresses of name servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::{ScalarError, scalar};

/// The port of DNS (RFC 1035, section 4.2).
const PORT: u16 = 53;

/// A name server: an address, and a port if that is not 53.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameServerAddress(pub SocketAddr);

scalar!(
    NameServerAddress,
    "hermes-name-server",
    "A name server: 192.0.2.53, 192.0.2.53:5353, 2001:db8::53, [2001:db8::53]:5353."
);

impl FromStr for NameServerAddress {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(SocketAddr::new(address, PORT)));
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Self(address)),
            _ => Err(
                ScalarError::new(format!("`{text}` is not the address of a name server"))
                    .remedy("write it like 192.0.2.53 or [2001:db8::53]:5353"),
            ),
        }
    }
}

impl fmt::Display for NameServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            PORT => self.0.ip().fmt(out),
            _ => self.0.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_and_perhaps_a_port() {
        let read = |text: &str| text.parse::<NameServerAddress>();
        assert_eq!(read("192.0.2.53").unwrap().0.port(), 53);
        assert_eq!(read("192.0.2.53:53").unwrap().to_string(), "192.0.2.53");
        let other = read("[2001:db8::53]:5353").unwrap();
        assert_eq!(other.to_string(), "[2001:db8::53]:5353");
        for wrong in ["dns.example", "192.0.2.53:0", "", "192.0.2.0/24"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
