//! Which `Host` values name this machine.

use http::uri::Authority;
use std::net::IpAddr;

/// Whether a `Host` field's value is one that a browser cannot have been led to by someone else's DNS: an IP
/// address, or `localhost` (RFC 6761 section 6.3), with any port.
pub(super) fn is_local(host: Option<&http::HeaderValue>) -> bool {
    let authority = host.and_then(|value| value.to_str().ok()?.parse::<Authority>().ok());
    authority.is_some_and(|authority| {
        let name = authority.host();
        let bare = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        bare.parse::<IpAddr>().is_ok() || bare.eq_ignore_ascii_case("localhost")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local() {
        let cases = [
            ("127.0.0.1:9100", true),
            ("[::1]:9100", true),
            ("LOCALHOST:9100", true),
            ("localhost", true),
            ("evil.example:9100", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ];
        for (host, expected) in cases {
            let value = http::HeaderValue::from_str(host).unwrap();
            assert_eq!(is_local(Some(&value)), expected, "{host}");
        }
        assert!(!is_local(None));
    }
}
