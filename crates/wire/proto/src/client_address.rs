//! The addresses that proxies wrote down of the side they forwarded for: lists such as `X-Forwarded-For`, and `Forwarded` (RFC 7239).
//!
//! Both are read from their end, where the nearest proxy has written, and only as far as a caller
//! asks: text that a stranger wrote at the beginning, be it an open quote, cannot change how the
//! entries behind it are read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::HeaderName;

use crate::fields::names::FORWARDED;
use crate::fields::{AsFieldName, Fields, Values};
use crate::quoted::is_token;

/// How a field tells of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Addresses, with commas between them.
    List,
    /// Elements with a parameter `for` (RFC 7239, section 4).
    Forwarded,
}

/// Something that is no address, where one was to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAddress;

/// The addresses in a field, from the last to the first. A port that is not told is 0.
#[derive(Debug)]
pub struct Hops<'a> {
    lines: Values<'a>,
    /// The unread part of the line at hand.
    rest: Option<&'a [u8]>,
    syntax: Syntax,
}

/// The addresses in the field of this name.
pub fn hops<'a>(fields: &'a Fields, name: &HeaderName) -> Hops<'a> {
    let is_forwarded = *name == FORWARDED.field_name().as_str();
    Hops {
        lines: fields.values(name),
        rest: None,
        syntax: if is_forwarded {
            Syntax::Forwarded
        } else {
            Syntax::List
        },
    }
}

impl Iterator for Hops<'_> {
    type Item = Result<SocketAddr, NoAddress>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(line) = self.rest else {
                self.rest = Some(self.lines.next_back()?.as_bytes());
                continue;
            };

            let (rest, element) = match self.syntax {
                Syntax::List => split_last(line, b',', false),
                Syntax::Forwarded => split_last(line, b',', true),
            };
            self.rest = rest;

            // RFC 9110, 5.6.1: empty elements of a list do not count.
            let element = element.trim_ascii();
            if element.is_empty() {
                continue;
            }

            let address = match self.syntax {
                Syntax::List => address(element),
                Syntax::Forwarded => client_of(element),
            };
            return Some(address.ok_or(NoAddress));
        }
    }
}

/// The text before the last separator, if there is one, and the text behind it. A separator within
/// a quoted string (RFC 9110, 5.6.4) does not count, where the field has such strings.
fn split_last(text: &[u8], separator: u8, is_quoted: bool) -> (Option<&[u8]>, &[u8]) {
    let mut within = false;
    for (at, byte) in text.iter().enumerate().rev() {
        if *byte == b'"' && is_quoted && !is_escaped(&text[..at]) {
            within = !within;
        } else if *byte == separator && !within {
            return (Some(&text[..at]), &text[at + 1..]);
        }
    }
    (None, text)
}

/// Whether the next byte is escaped: an odd number of backslashes stands before it.
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The address in the parameter `for` of an element, which may have one of each name (RFC 7239, section 4).
fn client_of(element: &[u8]) -> Option<SocketAddr> {
    let mut found = None;
    let mut rest = Some(element);
    while let Some(text) = rest {
        let (before, pair) = split_last(text, b';', true);
        rest = before;
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }

        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let name = &pair[..equals];
        let value = &pair[equals + 1..];
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }

    node(found?)
}

/// A token, or a quoted string (RFC 7239, section 4). No address has a letter that needs an escape.
fn node(value: &[u8]) -> Option<SocketAddr> {
    match value {
        [b'"', inner @ .., b'"'] => address(inner),
        token if is_token(token) => address(token),
        _ => None,
    }
}

/// An address with or without a port, IPv6 in brackets or not; an IPv4-mapped address counts as
/// IPv4. The port of RFC 7239 may be hidden behind a name (section 6.3).
fn address(text: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let (ip, port) = match text.strip_prefix('[') {
        Some(inner) => {
            let (ip, rest) = inner.split_once(']')?;
            let ip = IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?);
            (ip, port(rest)?)
        }
        None => match text.split_once(':') {
            Some((ip, rest)) if !rest.contains(':') => {
                let ip = IpAddr::V4(ip.parse::<Ipv4Addr>().ok()?);
                (ip, port(&text[text.len() - rest.len() - 1..])?)
            }
            _ => (text.parse::<IpAddr>().ok()?, 0),
        },
    };

    let ip = ip.to_canonical();
    let is_someone = !ip.is_unspecified() && !ip.is_multicast();
    is_someone.then_some(SocketAddr::new(ip, port))
}

/// The number behind a colon; 0 if it is absent or hidden.
fn port(text: &str) -> Option<u16> {
    let Some(digits) = text.strip_prefix(':') else {
        return text.is_empty().then_some(0);
    };
    if let Some(hidden) = digits.strip_prefix('_') {
        return is_token(hidden.as_bytes()).then_some(0);
    }

    let is_number = digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// Reads arbitrary bytes as both kinds of fields. An entry that a proxy appends is read first,
/// however the field begins.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let names = [
        FORWARDED.field_name().into(),
        HeaderName::from_static("x-forwarded-for"),
    ];
    let appended = ["for=192.0.2.7", "192.0.2.7"];
    let expected = SocketAddr::from(([192, 0, 2, 7], 0));

    for (name, appended) in names.into_iter().zip(appended) {
        let text = [data, b", ", appended.as_bytes()].concat();
        let Ok(value) = http::HeaderValue::from_bytes(&text) else {
            continue;
        };
        let mut fields = Fields::new();
        fields.append(&name, value);
        let mut hops = hops(&fields, &name);
        assert_eq!(hops.next(), Some(Ok(expected)));

        let all = hops.count();
        let commas = data.iter().filter(|byte| **byte == b',').count();
        assert!(all <= commas + 1);
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// The addresses of these lines, from the last to the first; `-` for an invalid one.
    fn read(name: &'static str, lines: &[&str]) -> Vec<String> {
        let name = HeaderName::from_static(name);
        let mut fields = Fields::new();
        for line in lines {
            fields.append(&name, HeaderValue::from_str(line).unwrap());
        }
        let shown = |hop: Result<SocketAddr, NoAddress>| {
            hop.map_or_else(|_| "-".to_owned(), |address| address.to_string())
        };
        hops(&fields, &name).map(shown).collect()
    }

    #[test]
    fn lists_are_read_from_their_end_over_all_lines() {
        let read = |lines: &[&str]| read("x-forwarded-for", lines);
        assert_eq!(
            read(&["203.0.113.1, 2001:db8::1", ",10.0.0.1 ,"]),
            ["10.0.0.1:0", "[2001:db8::1]:0", "203.0.113.1:0"]
        );
        // As some load balancers write it.
        assert_eq!(
            read(&["203.0.113.1:4711, [2001:db8::1]:80, [2001:db8::2]"]),
            ["[2001:db8::2]:0", "[2001:db8::1]:80", "203.0.113.1:4711"]
        );
        assert_eq!(read(&["::ffff:192.0.2.1"]), ["192.0.2.1:0"]);
        assert_eq!(read(&[]), [""; 0]);
    }

    #[test]
    fn what_is_no_address_is_told_of() {
        for text in [
            "unknown",
            "_hidden",
            "localhost",
            "192.0.2.01",
            "192.0.2.1:",
            "192.0.2.1:+80",
            "192.0.2.1:65536",
            "192.0.2.1:80:80",
            "[192.0.2.1]",
            "[2001:db8::1",
            "[2001:db8::1]80",
            "fe80::1%eth0",
            "[fe80::1%1]:80",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "192.0.2.1 198.51.100.1",
            "\"192.0.2.1\"",
        ] {
            assert_eq!(read("x-forwarded-for", &[text]), ["-"], "{text}");
        }
    }

    #[test]
    fn forwarded_is_read_as_the_examples_of_rfc_7239() {
        let read = |lines: &[&str]| read("forwarded", lines);
        for (text, expected) in [
            ("for=\"_gazonk\"", "-"),
            (
                "For=\"[2001:db8:cafe::17]:4711\"",
                "[2001:db8:cafe::17]:4711",
            ),
            ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60:0"),
            ("for=\"192.0.2.43:47011\"", "192.0.2.43:47011"),
            ("for=\"192.0.2.43:_secret\"", "192.0.2.43:0"),
            ("host=\"a, b; c\";for=192.0.2.43", "192.0.2.43:0"),
            ("for=unknown", "-"),
            ("for=192.0.2.43;for=192.0.2.44", "-"),
            ("by=203.0.113.43", "-"),
            ("for=\"192.0.2.43", "-"),
            ("for = 192.0.2.43", "-"),
        ] {
            assert_eq!(read(&[text]), [expected], "{text}");
        }
        assert_eq!(
            read(&["for=192.0.2.43, for=198.51.100.17", "for=203.0.113.9"]),
            ["203.0.113.9:0", "198.51.100.17:0", "192.0.2.43:0"]
        );
    }

    #[test]
    fn what_a_stranger_leaves_open_hides_nothing_behind_it() {
        for begun in [
            "for=\"",
            "for=\"\\",
            "\"",
            "for=\"a\\\"",
            "for=1.2.3.4;by=\"x",
        ] {
            let line = format!("{begun}, for=203.0.113.9;by=10.0.0.1");
            assert_eq!(read("forwarded", &[&line])[0], "203.0.113.9:0", "{line}");
        }
    }
}
