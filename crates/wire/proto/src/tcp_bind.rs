//! `Hermes-Listen`: a CONNECT that waits for a connection of its target instead of making one, as BIND of SOCKS does.
//!
//! The request says `Hermes-Listen: ?1`, and its target is the host that is expected to connect. Where the tunnel ends, a port is opened
//! for it; the answer names the address, `Hermes-Listen: "192.0.2.45:40007"`. The target's first bytes in the tunnel are a header of the
//! PROXY protocol, version 2, with the addresses of the connection that came. A tunnel that ends before such a header had none.
//!
//! `Hermes-Local`: in the answer to a CONNECT that has connected, where such ports may be opened: the address that they would have, as
//! `Hermes-Local: "192.0.2.45:0"`. Programs tell it their server before they ask for a port (RFC 1928, 6: BND.ADDR).

use std::net::SocketAddr;

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// The field, in requests and in their answers.
pub const HERMES_LISTEN: HeaderName = HeaderName::from_static("hermes-listen");

/// The field of answers to tunnels that have connected.
pub const HERMES_LOCAL: HeaderName = HeaderName::from_static("hermes-local");

/// Whether the fields ask for it: one line, a true Boolean (RFC 9651, section 3.3.6).
pub fn is_asked_for(fields: &Fields) -> bool {
    only(fields, HERMES_LISTEN) == Some(b"?1")
}

/// The value that asks for it.
pub fn asked() -> HeaderValue {
    HeaderValue::from_static("?1")
}

/// The value that names the address to connect to.
pub fn answer(address: SocketAddr) -> HeaderValue {
    // An address has no character that a field may not have.
    HeaderValue::try_from(format!("\"{address}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("?0"))
}

/// The address that an answer names; `None` where there is none, as in the answer of a proxy that knows nothing of this.
pub fn answered(fields: &Fields) -> Option<SocketAddr> {
    address(only(fields, HERMES_LISTEN)?)
}

/// The address of ports that could be opened beside a tunnel, where its answer names one.
pub fn local(fields: &Fields) -> Option<SocketAddr> {
    address(only(fields, HERMES_LOCAL)?)
}

fn address(value: &[u8]) -> Option<SocketAddr> {
    let text = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn only(fields: &Fields, name: HeaderName) -> Option<&[u8]> {
    let mut lines = fields.values(name);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };
    Some(only.as_bytes().trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&'static str]) -> Fields {
        let line = |text: &&'static str| (HERMES_LISTEN, HeaderValue::from_static(text));
        lines.iter().map(line).collect()
    }

    #[test]
    fn one_true_boolean_asks_for_it() {
        assert!(is_asked_for(&fields(&["?1"])));
        assert!(is_asked_for(&Fields::from_iter([(HERMES_LISTEN, asked())])));
        for lines in [
            &[][..],
            &["?0"],
            &["1"],
            &["?1", "?1"],
            &["\"192.0.2.1:1\""],
        ] {
            assert!(!is_asked_for(&fields(lines)), "{lines:?}");
        }
    }

    #[test]
    fn an_address_is_read_as_it_was_written() {
        for address in ["192.0.2.45:40007", "[2001:db8::45]:1"] {
            let address: SocketAddr = address.parse().unwrap();
            let fields = Fields::from_iter([(HERMES_LISTEN, answer(address))]);
            assert_eq!(answered(&fields), Some(address));
            assert_eq!(local(&fields), None);
            let fields = Fields::from_iter([(HERMES_LOCAL, answer(address))]);
            assert_eq!(local(&fields), Some(address));
            assert_eq!(answered(&fields), None);
        }
        for lines in [
            &[][..],
            &["?1"],
            &["192.0.2.45:40007"],
            &["\"192.0.2.45\""],
            &["\"name:1\""],
            &["\"\""],
            &["\""],
            &["\"192.0.2.45:1\"", "\"192.0.2.45:1\""],
        ] {
            assert_eq!(answered(&fields(lines)), None, "{lines:?}");
        }
    }
}
