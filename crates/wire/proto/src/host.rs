//! Hosts that an exchange may be for: IP literals and names, checked and in one spelling.
//!
//! RFC 3986, section 3.2.2 lets a registered name be nearly anything. A host here is an IPv4 address, an IPv6 address
//! or a name of letters, digits, `-`, `_` and dots. One label is enough: overlay names such as `DB` have no dot.
//! Names keep the case they were written in; they are compared without regard to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name, in bytes, without its final dot (RFC 1035, section 2.3.4).
pub const MAX_NAME: usize = 253;

/// The longest label of a name, in bytes (RFC 1035, section 2.3.4).
pub const MAX_LABEL: usize = 63;

/// Why a text is no host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is nothing, or nothing but a dot.
    #[error("the host is empty")]
    Empty,
    /// A name above [`MAX_NAME`] bytes, or a label above [`MAX_LABEL`].
    #[error("the host name is too long")]
    TooLong,
    /// Two dots in a row, or a leading dot.
    #[error("the host name has an empty label")]
    EmptyLabel,
    /// A byte that no host name has.
    #[error("the host name has a character other than a letter, digit, '-', '_' or '.'")]
    BadCharacter,
    /// An IPv6 address with a zone: it means nothing on another machine (RFC 9298, section 2).
    #[error("the host has an IPv6 zone, which is not allowed here")]
    Zone,
    /// Something that looks like an address and is not, such as `1.2.3`, `0x7f.1` or `:::`.
    #[error("the host looks like an IP address but is not a valid one")]
    BadAddress,
}

/// Checks a host, given without brackets, and returns it in one spelling.
///
/// Addresses come back in their canonical form, an IPv4-mapped one as the IPv4 address that it reaches. One final dot is removed from a name: `db.` and `db` are one host, and
/// a rule about the one must not be dodged by asking for the other. A name whose last label is a number is refused,
/// because resolvers read `127.1` and `0x7f000001` as addresses.
///
/// # Errors
/// [`HostError`] names the mistake.
pub fn parse(text: &str) -> Result<String, HostError> {
    if text.contains(':') {
        return parse_v6(text);
    }

    // Only an address ends in a digit, and few names.
    if text.as_bytes().last().is_some_and(u8::is_ascii_digit)
        && let Ok(address) = text.parse::<Ipv4Addr>()
    {
        return Ok(address.to_string());
    }

    let name = text.strip_suffix('.').unwrap_or(text);
    check_name(name)?;
    Ok(name.to_owned())
}

fn parse_v6(text: &str) -> Result<String, HostError> {
    if text.contains('%') {
        return Err(HostError::Zone);
    }
    match text.parse::<Ipv6Addr>() {
        Ok(address) => Ok(address.to_canonical().to_string()),
        Err(_) => Err(HostError::BadAddress),
    }
}

/// The IPv4 addresses that an address stands for, besides itself: packets to it may reach them.
///
/// IPv4-mapped (RFC 4291, 2.5.5.2), IPv4-compatible (2.5.5.1), IPv4-translated (RFC 2765, 2.1), NAT64 (RFC 6052, 2.1) and 6to4
/// (RFC 3056, 2) hold one IPv4 address; Teredo (RFC 4380, 4) holds its server's and, inverted, its client's.
#[must_use]
pub fn embedded(address: IpAddr) -> [Option<Ipv4Addr>; 2] {
    let IpAddr::V6(v6) = address else {
        return [None, None];
    };
    let inner = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Some(Ipv4Addr::new(a, b, c, d))
    };

    match v6.segments() {
        // `::` and `::1` look like IPv4-compatible addresses, and are not.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => [inner(high, low), None],
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            [inner(server_high, server_low), inner(!high, !low)]
        }
        _ => [None, None],
    }
}

fn check_name(name: &str) -> Result<(), HostError> {
    if name.is_empty() {
        return Err(HostError::Empty);
    }
    let mut label = 0;
    let mut longest = 0;
    let mut shortest = usize::MAX;

    for byte in name.bytes().chain([b'.']) {
        match byte {
            b'.' => {
                (longest, shortest) = (label.max(longest), label.min(shortest));
                label = 0;
            }
            b'-' | b'_' => label += 1,
            byte if byte.is_ascii_alphanumeric() => label += 1,
            _ => return Err(HostError::BadCharacter),
        }
    }

    if name.len() > MAX_NAME || longest > MAX_LABEL {
        return Err(HostError::TooLong);
    }
    if shortest == 0 {
        return Err(HostError::EmptyLabel);
    }

    match name.rsplit('.').next() {
        Some(last) if is_number(last) => Err(HostError::BadAddress),
        _ => Ok(()),
    }
}

/// Whether a resolver of the C library would read `label` as a number, decimal, octal or hexadecimal.
fn is_number(label: &str) -> bool {
    match label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"))
    {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_with_and_without_dots() {
        for name in [
            "DB",
            "video",
            "my_service",
            "a-b.example.com",
            "_sip._udp.example.com",
            "1a",
            "4.example",
            "v1",
        ] {
            assert_eq!(parse(name).as_deref(), Ok(name));
        }
    }

    #[test]
    fn writes_addresses_in_one_way() {
        assert_eq!(parse("0:0:0:0:0:0:0:1").as_deref(), Ok("::1"));
        assert_eq!(parse("2001:DB8::A").as_deref(), Ok("2001:db8::a"));
        assert_eq!(parse("192.0.2.1").as_deref(), Ok("192.0.2.1"));
        for mapped in [
            "::ffff:192.0.2.1",
            "::FFFF:c000:201",
            "0:0:0:0:0:ffff:192.0.2.1",
        ] {
            assert_eq!(parse(mapped).as_deref(), Ok("192.0.2.1"));
        }
    }

    #[test]
    fn knows_the_addresses_within_addresses() {
        let first = |text: &str| embedded(text.parse().unwrap())[0].map(|inner| inner.to_string());
        for outer in [
            "64:ff9b::192.0.2.1",
            "2002:c000:201::5",
            "::ffff:0:192.0.2.1",
            "::192.0.2.1",
            "2001:0:c000:201::1",
        ] {
            assert_eq!(first(outer).as_deref(), Some("192.0.2.1"), "{outer}");
        }
        for plain in ["192.0.2.1", "::1", "::", "2001:db8::1"] {
            assert_eq!(first(plain), None, "{plain}");
        }
    }

    #[test]
    fn removes_one_final_dot() {
        assert_eq!(parse("db.example.").as_deref(), Ok("db.example"));
        assert_eq!(parse("db.."), Err(HostError::EmptyLabel));
        assert_eq!(parse("."), Err(HostError::Empty));
    }

    #[test]
    fn refuses_numbers_that_resolvers_take_for_addresses() {
        for text in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "1.2.3.4.5",
            "256.0.0.1",
            "a.0x",
            "1.2.3.",
        ] {
            assert_eq!(parse(text), Err(HostError::BadAddress), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_host() {
        assert_eq!(parse(""), Err(HostError::Empty));
        assert_eq!(parse("fe80::1%eth0"), Err(HostError::Zone));
        assert_eq!(parse(":::"), Err(HostError::BadAddress));
        assert_eq!(parse(".a"), Err(HostError::EmptyLabel));
        for text in [
            "a b",
            "a/b",
            "user@a",
            "[a]",
            "a%20",
            "caf\u{e9}",
            "a\0",
            "a\r\n",
        ] {
            assert_eq!(parse(text), Err(HostError::BadCharacter), "{text:?}");
        }
    }

    #[test]
    fn refuses_names_and_labels_that_dns_cannot_carry() {
        assert!(parse(&"a".repeat(MAX_LABEL)).is_ok());
        assert_eq!(parse(&"a".repeat(MAX_LABEL + 1)), Err(HostError::TooLong));
        assert_eq!(
            parse(&"a.".repeat(127)).map(|name| name.len()),
            Ok(MAX_NAME)
        );
        assert_eq!(parse(&"a.".repeat(128)), Err(HostError::TooLong));
    }
}
