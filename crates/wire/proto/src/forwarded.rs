//! The `Forwarded` field (RFC 7239): a proxy's record of the side that it forwards for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::fields::names::FORWARDED;
use crate::fields::{FieldValue, Fields};
use crate::quoted;

/// The identifier of a node (RFC 7239, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier<'a> {
    /// An address.
    Address(IpAddr),
    /// An address and a port.
    Socket(SocketAddr),
    /// Someone, for instance behind a Unix socket.
    Unknown,
    /// A name that means something to who wrote it. The `_` that must come first is added when it is missing, and every
    /// character that may not stand there is written as `_`.
    Obfuscated(&'a str),
}

/// One element: one hop. `None` parts are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Element<'a> {
    /// `for`: who made the request to this proxy.
    pub client: Option<Identifier<'a>>,
    /// `by`: where this proxy received it.
    pub by: Option<Identifier<'a>>,
    /// `proto`: the scheme of the request as received.
    pub proto: Option<&'a str>,
    /// `host`: the `Host` field or `:authority` as received.
    pub host: Option<&'a str>,
}

/// Adds `element` after those of earlier hops (RFC 7239, section 4). An empty element adds nothing.
pub fn append(fields: &mut Fields, element: &Element<'_>) {
    let text = format(element);
    if !text.is_empty() {
        fields.append(FORWARDED, FieldValue::of_text(text.as_bytes()));
    }
}

/// Bytes of most elements.
const USUAL_SIZE: usize = 96;

fn format(element: &Element<'_>) -> String {
    let mut text = String::with_capacity(USUAL_SIZE);
    for (name, identifier) in [("for", element.client), ("by", element.by)] {
        if let Some(identifier) = identifier {
            push_identifier(name, identifier, &mut text);
        }
    }

    for (name, value) in [("proto", element.proto), ("host", element.host)] {
        if let Some(value) = value {
            push_pair(name, value, &mut text);
        }
    }

    text
}

/// A token stands as it is, anything else in quotes (RFC 7239, section 4: an address with a colon must be quoted).
fn push_name(name: &str, text: &mut String) {
    if !text.is_empty() {
        text.push(';');
    }
    text.push_str(name);
    text.push('=');
}

fn push_identifier(name: &str, identifier: Identifier<'_>, text: &mut String) {
    if let Identifier::Address(address) = identifier
        && let IpAddr::V4(address) = address.to_canonical()
    {
        push_name(name, text);
        // An IPv4 address is a token.
        push_address(address, text);
    } else {
        push_pair(name, &node(identifier), text);
    }
}

/// Writes the same as `Display`, ten times as fast: every message that tells of its client needs
/// it.
fn push_address(address: Ipv4Addr, text: &mut String) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push('.');
        }
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let first = if octet >= 100 {
            0
        } else if octet >= 10 {
            1
        } else {
            2
        };

        digits[first..]
            .iter()
            .for_each(|digit| text.push(char::from(b'0' + digit)));
    }
}

fn push_pair(name: &str, value: &str, text: &mut String) {
    push_name(name, text);
    match quoted::is_token(value.as_bytes()) {
        true => text.push_str(value),
        false => quoted::push_string(value, text),
    }
}

/// An IPv6 address stands in brackets, with or without a port (RFC 7239, section 6); an IPv4
/// address that a socket shows as IPv6 is written as IPv4.
fn node(identifier: Identifier<'_>) -> String {
    match identifier {
        Identifier::Address(address) => match address.to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        },
        Identifier::Socket(address) => format!(
            "{}:{}",
            node(Identifier::Address(address.ip())),
            address.port()
        ),
        Identifier::Unknown => "unknown".to_owned(),
        Identifier::Obfuscated(name) => obfuscated(name),
    }
}

fn obfuscated(name: &str) -> String {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    let name = name.strip_prefix('_').unwrap_or(name);
    let text: String = name
        .chars()
        .map(|character| if allowed(character) { character } else { '_' })
        .collect();

    match text.is_empty() {
        true => "unknown".to_owned(),
        false => format!("_{text}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn client(identifier: Identifier<'_>) -> String {
        format(&Element {
            client: Some(identifier),
            ..Element::default()
        })
    }

    #[test]
    fn writes_an_ipv4_address_as_display_does() {
        for number in (0..=255u32)
            .map(|octet| octet * 0x0101_0101)
            .chain([0x0109_63ff, 0x0a64_c800])
        {
            let mut text = String::new();
            push_address(Ipv4Addr::from(number), &mut text);
            assert_eq!(text, Ipv4Addr::from(number).to_string());
        }
    }

    #[test]
    fn quotes_ports_and_ipv6_as_the_examples_of_rfc_7239_do() {
        assert_eq!(
            client(Identifier::Address("192.0.2.43".parse().unwrap())),
            "for=192.0.2.43"
        );
        assert_eq!(
            client(Identifier::Address("2001:db8:cafe::17".parse().unwrap())),
            "for=\"[2001:db8:cafe::17]\""
        );
        let socket = Identifier::Socket("[2001:db8:cafe::17]:4711".parse().unwrap());
        assert_eq!(client(socket), "for=\"[2001:db8:cafe::17]:4711\"");
        assert_eq!(
            client(Identifier::Socket("192.0.2.43:47011".parse().unwrap())),
            "for=\"192.0.2.43:47011\""
        );
    }

    #[test]
    fn writes_a_mapped_address_as_ipv4() {
        assert_eq!(
            client(Identifier::Address("::ffff:192.0.2.1".parse().unwrap())),
            "for=192.0.2.1"
        );
    }

    #[test]
    fn writes_unknown_and_obfuscated_identifiers() {
        assert_eq!(client(Identifier::Unknown), "for=unknown");
        assert_eq!(client(Identifier::Obfuscated("_hidden")), "for=_hidden");
        assert_eq!(
            client(Identifier::Obfuscated("alice@home, x")),
            "for=_alice_home__x"
        );
        assert_eq!(client(Identifier::Obfuscated("")), "for=unknown");
    }

    #[test]
    fn appends_one_element_with_all_that_is_known() {
        let mut fields = Fields::new();
        fields.insert(FORWARDED, "for=_a".parse::<http::HeaderValue>().unwrap());
        append(
            &mut fields,
            &Element {
                client: Some(Identifier::Address("192.0.2.60".parse().unwrap())),
                by: Some(Identifier::Obfuscated("ingress")),
                proto: Some("http"),
                host: Some("example.com:8080"),
            },
        );
        append(&mut fields, &Element::default());
        let lines: Vec<_> = fields.values(FORWARDED).collect();
        assert_eq!(
            lines,
            [
                "for=_a",
                "for=192.0.2.60;by=_ingress;proto=http;host=\"example.com:8080\""
            ]
        );
    }

    #[test]
    fn keeps_a_hostile_host_inside_its_quotes() {
        let element = Element {
            host: Some("a\";for=_me, for=\"x\\\r\n"),
            ..Element::default()
        };
        assert_eq!(format(&element), r#"host="a\";for=_me, for=\"x\\??""#);
    }

    proptest! {
        #[test]
        fn writes_visible_ascii_whatever_it_is_given(host in any::<String>(), proto in any::<String>(), name in any::<String>()) {
            let mut fields = Fields::new();
            let element = Element {
                client: Some(Identifier::Obfuscated(&name)),
                by: None,
                proto: Some(&proto),
                host: Some(&host),
            };
            append(&mut fields, &element);
            prop_assert!(fields.get(FORWARDED).unwrap().to_str().is_ok());
        }
    }
}
