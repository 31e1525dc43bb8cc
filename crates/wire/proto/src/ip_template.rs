//! The target of CONNECT-IP: `/.well-known/masque/ip/{target}/{ipproto}/` (RFC 9484, sections 3 and
//! 4.6).

use std::fmt;
use std::net::IpAddr;

use crate::host;
use crate::uri_template::{TemplateError, decode, encode};

/// The beginning of every path of the default template.
pub const PREFIX: &str = "/.well-known/masque/ip/";

/// The wildcard.
const ANY: &str = "*";

/// Which IP packets a tunnel is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpScope {
    /// Where they go, and where they come from.
    pub target: IpTarget,
    /// Their IP protocol number; `None` for any.
    pub protocol: Option<u8>,
}

/// The other end of IP packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IpTarget {
    /// Anything.
    Any,
    /// A host by its name.
    Name(String),
    /// Addresses that begin so; one address has all its bits.
    Prefix {
        /// The address; no bit is set beyond the length.
        address: IpAddr,
        /// Bits that count.
        length: u8,
    },
}

impl IpScope {
    /// The target in `path`; a query is ignored.
    ///
    /// # Errors
    /// [`TemplateError`], which knows the status to answer with.
    pub fn parse(path: &str) -> Result<Self, TemplateError> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let rest = path
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_suffix('/'));
        let (target, protocol) = rest
            .and_then(|rest| rest.split_once('/'))
            .filter(|(_, protocol)| !protocol.contains('/'))
            .ok_or(TemplateError::NotTemplate)?;

        Ok(Self {
            target: IpTarget::parse(&unescaped(target)?)?,
            protocol: parse_protocol(&unescaped(protocol)?)?,
        })
    }

    /// The path that asks for it.
    pub fn path(&self) -> String {
        let mut path = PREFIX.to_owned();
        encode(&self.target.to_string(), &mut path);
        path.push('/');

        match self.protocol {
            Some(protocol) => path += &protocol.to_string(),
            None => encode(ANY, &mut path),
        }

        path.push('/');
        path
    }
}

impl IpTarget {
    fn parse(text: &str) -> Result<Self, TemplateError> {
        if text == ANY {
            return Ok(Self::Any);
        }
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };

        // A zone means something on one machine only (RFC 9484, section 3).
        let Ok(address) = address.parse::<IpAddr>() else {
            return match length {
                Some(_) => Err(TemplateError::Prefix),
                None => Ok(Self::Name(host::parse(text)?)),
            };
        };

        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let length = match length {
            Some(digits) => number(digits)
                .filter(|length| *length <= bits)
                .ok_or(TemplateError::Prefix)?,
            None => bits,
        };

        if beyond(address, length) {
            return Err(TemplateError::Prefix);
        }
        Ok(Self::canonical(address, length))
    }

    /// A prefix in the one form in which it is compared: IPv4 where it was written as IPv4-mapped IPv6.
    fn canonical(address: IpAddr, length: u8) -> Self {
        match (address.to_canonical(), length.checked_sub(96)) {
            (mapped @ IpAddr::V4(_), Some(length)) if address.is_ipv6() => Self::Prefix {
                address: mapped,
                length,
            },
            _ => Self::Prefix { address, length },
        }
    }
}

impl fmt::Display for IpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str(ANY),
            Self::Name(name) => f.write_str(name),
            Self::Prefix { address, length } => write!(f, "{address}/{length}"),
        }
    }
}

/// A `*` needs no percent-encoding in a path (RFC 3986, section 3.3), and RFC 9484 writes it plain in places.
fn unescaped(value: &str) -> Result<String, TemplateError> {
    if value == ANY {
        Ok(ANY.to_owned())
    } else {
        decode(value)
    }
}

fn parse_protocol(text: &str) -> Result<Option<u8>, TemplateError> {
    if text == ANY {
        return Ok(None);
    }
    number(text).map(Some).ok_or(TemplateError::IpProtocol)
}

/// A number from 0 to 255 without a sign or a needless zero.
fn number(digits: &str) -> Option<u8> {
    let number: u8 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Whether a bit is set beyond the length of a prefix.
fn beyond(address: IpAddr, length: u8) -> bool {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => address.to_bits().checked_shl(length).unwrap_or(0) != 0,
        IpAddr::V6(address) => address.to_bits().checked_shl(length).unwrap_or(0) != 0,
    }
}

/// Parses arbitrary text as a path: an accepted path is written as one with the same meaning.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(path) = str::from_utf8(data) else {
        return;
    };
    match IpScope::parse(path) {
        Ok(scope) => assert_eq!(IpScope::parse(&scope.path()), Ok(scope)),
        Err(error) => assert!(error.status().is_client_error()),
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use proptest::prelude::*;

    use super::*;

    fn parse(tail: &str) -> Result<IpScope, TemplateError> {
        IpScope::parse(&format!("{PREFIX}{tail}"))
    }

    fn scope(target: &str, protocol: Option<u8>) -> IpScope {
        IpScope {
            target: IpTarget::parse(target).unwrap(),
            protocol,
        }
    }

    #[test]
    fn the_examples_of_rfc_9484_are_read() {
        for (tail, expected) in [
            ("*/*/", scope("*", None)),
            ("%2A/%2A/", scope("*", None)),
            (
                "target.example.com/17/",
                scope("target.example.com", Some(17)),
            ),
            ("192.0.2.0%2F24/*/", scope("192.0.2.0/24", None)),
            (
                "2001%3Adb8%3A%3A%2F32/58/",
                scope("2001:db8::/32", Some(58)),
            ),
            ("192.0.2.6/0/", scope("192.0.2.6/32", Some(0))),
            (
                "%3A%3Affff%3A192.0.2.0%2F120/*/",
                scope("192.0.2.0/24", None),
            ),
        ] {
            assert_eq!(parse(tail), Ok(expected.clone()), "{tail}");
            assert_eq!(IpScope::parse(&expected.path()), Ok(expected));
        }
    }

    #[test]
    fn what_names_no_packets_is_refused() {
        for tail in [
            "192.0.2.1%2F24/*/",
            "192.0.2.0%2F33/*/",
            "192.0.2.0%2F024/*/",
            "fe80%3A%3A1%25eth0/*/",
            "host%2F24/*/",
            "/*/",
            "*/256/",
            "*/-1/",
            "*/01/",
            "*/tcp/",
            "10.0.0.0/24/6/",
        ] {
            let status = parse(tail).unwrap_err().status();
            let expected = if tail == "10.0.0.0/24/6/" {
                StatusCode::NOT_FOUND
            } else {
                StatusCode::BAD_REQUEST
            };
            assert_eq!(status, expected, "{tail}");
        }
        for path in ["/", PREFIX, "/.well-known/masque/udp/a/1/"] {
            assert_eq!(IpScope::parse(path), Err(TemplateError::NotTemplate));
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_written_so_that_it_means_the_same(tail in "[*a-z0-9./%:AF2]{0,24}") {
            fuzz_one(format!("{PREFIX}{tail}/").as_bytes());
        }

        #[test]
        fn every_prefix_comes_back(bits: u128, length in 0_u8..=128, protocol: Option<u8>) {
            let address = bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            let target = IpTarget::Prefix { address: IpAddr::V6(address.into()), length };
            let scope = IpScope { target, protocol };
            prop_assert_eq!(IpScope::parse(&scope.path()), Ok(scope));
        }
    }
}
