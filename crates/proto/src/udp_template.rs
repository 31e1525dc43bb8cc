//! The default template of CONNECT-UDP: `/.well-known/masque/udp/{target_host}/{target_port}/` (RFC 9298, sections 2 and 3).

use std::fmt::Write as _;

use http::StatusCode;

use crate::authority::{self, AuthorityError};
use crate::host::{self, HostError};

/// What every path of the default template starts with.
pub const PREFIX: &str = "/.well-known/masque/udp/";

/// Why a path names no UDP target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The path does not have the shape of the template: there is no such resource.
    #[error("the path does not match {PREFIX}{{target_host}}/{{target_port}}/")]
    NotTemplate,
    /// A `%` without two hexadecimal digits, a byte that must be percent-encoded, or text that is not UTF-8.
    #[error("a variable of the path is not percent-encoded as it must be")]
    Encoding,
    /// The host does not hold.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The port does not hold.
    #[error("the target port is not a number from 1 to 65535")]
    Port,
}

impl TemplateError {
    /// The status to answer with: 404 for another path, 400 for a bad variable (RFC 9298, section 3.1).
    pub fn status(self) -> StatusCode {
        match self {
            Self::NotTemplate => StatusCode::NOT_FOUND,
            Self::Encoding | Self::Host(_) | Self::Port => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<AuthorityError> for TemplateError {
    fn from(_: AuthorityError) -> Self {
        Self::Port
    }
}

/// The path that asks for UDP to `host` (no brackets) and `port`.
///
/// All but unreserved characters are percent-encoded, so the colons of an IPv6 address become `%3A`, which RFC 9298,
/// section 2 requires.
pub fn expand(host: &str, port: u16) -> String {
    let mut path = String::with_capacity(PREFIX.len() + host.len() + 8);
    path.push_str(PREFIX);
    for byte in host.bytes() {
        match is_unreserved(byte) {
            true => path.push(char::from(byte)),
            false => push_encoded(byte, &mut path),
        }
    }
    // Writing to a string cannot fail.
    let _ = write!(path, "/{port}/");
    path
}

/// The host, without brackets, and the port that `path` (without a query) asks for.
///
/// # Errors
/// [`TemplateError`], which knows the status to answer with. Zones, empty hosts, port 0, raw reserved characters and
/// whatever [`host::parse`] refuses are errors.
pub fn parse(path: &str) -> Result<(String, u16), TemplateError> {
    let variables = path.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix('/'));
    let (host, port) = variables.and_then(|rest| rest.split_once('/')).ok_or(TemplateError::NotTemplate)?;
    if port.contains('/') {
        return Err(TemplateError::NotTemplate);
    }
    let host = host::parse(&decode(host)?)?;
    Ok((host, authority::parse_port(&decode(port)?)?))
}

/// Unreserved characters (RFC 3986, section 2.3): all that simple expansion leaves as it is (RFC 6570, section 3.2.2).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn push_encoded(byte: u8, path: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    path.push('%');
    path.push(char::from(DIGITS[usize::from(byte >> 4)]));
    path.push(char::from(DIGITS[usize::from(byte & 0xf)]));
}

fn decode(variable: &str) -> Result<String, TemplateError> {
    let mut decoded = Vec::with_capacity(variable.len());
    let mut bytes = variable.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => decoded.push(decode_hex(bytes.next())? << 4 | decode_hex(bytes.next())?),
            _ if is_unreserved(byte) => decoded.push(byte),
            _ => return Err(TemplateError::Encoding),
        }
    }
    String::from_utf8(decoded).map_err(|_| TemplateError::Encoding)
}

fn decode_hex(digit: Option<u8>) -> Result<u8, TemplateError> {
    let value = digit.and_then(|digit| char::from(digit).to_digit(16)).ok_or(TemplateError::Encoding)?;
    Ok(value as u8)
}

/// Parses arbitrary text as a path: what is accepted expands to a path that means the same.
pub fn fuzz_one(data: &[u8]) {
    let Ok(path) = str::from_utf8(data) else { return };
    match parse(path) {
        Ok((host, port)) => {
            assert!(path.starts_with(PREFIX));
            assert_ne!(port, 0);
            assert!(!path.contains("%25"), "a percent sign is decoded once and then refused");
            assert_eq!(host::parse(&host).as_ref(), Ok(&host));
            assert_eq!(parse(&expand(&host, port)), Ok((host, port)));
        }
        Err(error) => assert!(error.status().is_client_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn expands_the_examples_of_rfc_9298() {
        assert_eq!(expand("192.0.2.6", 443), "/.well-known/masque/udp/192.0.2.6/443/");
        assert_eq!(expand("2001:db8::42", 443), "/.well-known/masque/udp/2001%3Adb8%3A%3A42/443/");
    }

    #[test]
    fn parses_names_and_addresses() {
        let cases = [
            ("/.well-known/masque/udp/VIDEO/5004/", "VIDEO", 5004),
            ("/.well-known/masque/udp/my_service/1/", "my_service", 1),
            ("/.well-known/masque/udp/2001%3adb8%3A%3A42/443/", "2001:db8::42", 443),
            ("/.well-known/masque/udp/%61.example/%34%34%33/", "a.example", 443),
        ];
        for (path, host, port) in cases {
            assert_eq!(parse(path), Ok((host.to_owned(), port)));
        }
    }

    #[test]
    fn answers_404_when_the_path_is_another_resource() {
        let paths =
            ["/", "", "/index.html", PREFIX, "/.well-known/masque/udp/host/", "/.well-known/masque/udp/host/443"];
        let more = [
            "/.well-known/masque/udp/host/443/x/",
            "/.well-known/masque/tcp/host/443/",
            "/.well-known/masque/udp/h/1//",
        ];
        for path in paths.into_iter().chain(more) {
            assert_eq!(parse(path).map_err(TemplateError::status), Err(StatusCode::NOT_FOUND), "{path}");
        }
    }

    #[test]
    fn answers_400_when_a_variable_does_not_hold() {
        let cases = [
            ("/443", TemplateError::Host(HostError::Empty)),
            ("host/", TemplateError::Port),
            ("host/0", TemplateError::Port),
            ("host/65536", TemplateError::Port),
            ("host/+443", TemplateError::Encoding),
            ("host/%2B443", TemplateError::Port),
            ("host/0443", TemplateError::Port),
            ("::1/443", TemplateError::Encoding),
            ("%5B%3A%3A1%5D/443", TemplateError::Host(HostError::BadAddress)),
            ("fe80%3A%3A1%25eth0/443", TemplateError::Host(HostError::Zone)),
            ("a%2Fb/443", TemplateError::Host(HostError::BadCharacter)),
            ("%2541/443", TemplateError::Host(HostError::BadCharacter)),
            ("a%4/443", TemplateError::Encoding),
            ("a%/443", TemplateError::Encoding),
            ("a%zz/443", TemplateError::Encoding),
            ("a%+1/443", TemplateError::Encoding),
            ("%ff/443", TemplateError::Encoding),
            ("a b/443", TemplateError::Encoding),
            ("%00/443", TemplateError::Host(HostError::BadCharacter)),
        ];
        for (variables, error) in cases {
            assert_eq!(parse(&format!("{PREFIX}{variables}/")), Err(error), "{variables}");
            assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        }
    }

    proptest! {
        #[test]
        fn survives_a_round_trip_of_names(host in "([a-zA-Z0-9_-]{1,20}\\.){0,3}[a-zA-Z][a-zA-Z0-9_]{0,10}", port in 1_u16..) {
            prop_assert_eq!(parse(&expand(&host, port)), Ok((host, port)));
        }

        #[test]
        fn survives_a_round_trip_of_addresses(address in any::<IpAddr>(), port in 1_u16..) {
            prop_assert_eq!(parse(&expand(&address.to_string(), port)), Ok((address.to_string(), port)));
        }

        #[test]
        fn expands_any_text_to_one_segment(host in ".*", port in any::<u16>()) {
            let path = expand(&host, port);
            prop_assert_eq!(path.matches('/').count(), PREFIX.matches('/').count() + 2);
            prop_assert!(path.bytes().all(|byte| is_unreserved(byte) || byte == b'%' || byte == b'/'));
            prop_assert_eq!(decode(&path[PREFIX.len()..path.len() - format!("/{port}/").len()]), Ok(host));
        }
    }
}
