//! `Hermes-Listen`: a CONNECT that waits for a connection of its target instead of making one, as BIND of SOCKS does.
//!
//! The request says `Hermes-Listen: ?1`, and its target is the host that is expected to connect. Where the tunnel ends, a port is opened
//! for it; the answer names the address, `Hermes-Listen: "192.0.2.45:40007"`. The target's first bytes in the tunnel are a header of the
//! PROXY protocol, version 2, with the addresses of the connection that came. A tunnel that ends before such a header had none.

use std::net::SocketAddr;

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// The field, in requests and in their answers.
pub const HERMES_LISTEN: HeaderName = HeaderName::from_static("hermes-listen");

/// Whether the fields ask for it: one line, a true Boolean (RFC 9651, section 3.3.6).
pub fn is_asked_for(fields: &Fields) -> bool {
    only(fields) == Some(b"?1")
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
    let text = only(fields)?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn only(fields: &Fields) -> Option<&[u8]> {
    let mut lines = fields.values(HERMES_LISTEN);
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
