//! Asking for a transposed connection: the side that connects becomes the HTTP server (draft-kazuho-ptth-ptth).
//!
//! A client attaches by an extended CONNECT, or an HTTP/1.1 Upgrade, with the token `ptth`. Its
//! path holds the name for requests that come back, and its `ALPN` field (RFC 7639) the HTTP
//! versions of the transposed connection. The draft writes an origin where we write a name: users
//! of an overlay have names, not origins. An origin is accepted too, and stands for the name that
//! is its host.

use http::header::HeaderName;
use http::{HeaderValue, Uri};

use crate::fields::Fields;
use crate::host;
use crate::uri_template::{decode, encode};

/// The upgrade token.
pub const TOKEN: &str = "ptth";

/// The beginning of every path.
pub const PREFIX: &str = "/.well-known/ptth/";

/// `ALPN` (RFC 7639, section 2).
pub const ALPN: HeaderName = HeaderName::from_static("alpn");

/// HTTP/2 in that field.
pub const H2: HeaderValue = HeaderValue::from_static("h2");

/// Bytes of a name, as for users: it is in every record.
#[doc(alias = "bound")]
const NAME_LIMIT: usize = 256;

/// Why a request asks for no transposed connection that could be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PtthError {
    /// The path does not have the shape of the template.
    #[error("the path does not match {PREFIX}{{name}}/")]
    NotTemplate,
    /// The name is not percent-encoded as it must be.
    #[error("the name in the path is not percent-encoded as it must be")]
    Encoding,
    /// The name is not valid for attachments.
    #[error(
        "a name to attach under is 1 to {NAME_LIMIT} visible characters of ASCII, without capitals"
    )]
    Name,
    /// No target is called so: it would be compared as another one.
    #[error(
        "the name to attach under is a host in a form that no target is compared in: without a final dot, and addresses at their shortest, it could be reached"
    )]
    Spelling,
    /// The transposed connection would not be HTTP/2.
    #[error(
        "the ALPN field does not offer h2, and a transposed connection speaks nothing else here"
    )]
    Alpn,
}

/// The path that asks to be attached under `name`.
pub fn path(name: &str) -> String {
    let mut path = String::from(PREFIX);
    encode(name, &mut path);
    path.push('/');
    path
}

/// The name that the request with this path (without its query) and these fields wants to be attached under.
///
/// # Errors
/// [`PtthError`]; the request is bad.
pub fn name(path: &str, fields: &Fields) -> Result<String, PtthError> {
    let variable = path
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix('/'))
        .ok_or(PtthError::NotTemplate)?;
    if variable.contains('/') {
        return Err(PtthError::NotTemplate);
    }

    let written = decode(variable).map_err(|_| PtthError::Encoding)?;
    let name = host_of_origin(&written).unwrap_or(written);
    check_name(&name)?;

    if offers_h2(fields) {
        Ok(name)
    } else {
        Err(PtthError::Alpn)
    }
}

/// Checks a name for attachments. The case of hosts does not matter (RFC 9110, 4.2.3) and that of
/// users does, so names have no capitals: a user called `Alice` must not receive the requests for
/// `alice`. Nor can a name be another spelling of a host: targets `alice.` are compared as `alice`,
/// so no one would find `alice.`
///
/// # Errors
/// [`PtthError::Name`] or [`PtthError::Spelling`].
pub fn check_name(name: &str) -> Result<(), PtthError> {
    let fits = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
    if !(1..=NAME_LIMIT).contains(&name.len()) || !name.bytes().all(fits) {
        return Err(PtthError::Name);
    }
    // Others than hosts are reached by upstreams that name them.
    match host::parse(name) {
        Ok(host) if host != name => Err(PtthError::Spelling),
        _ => Ok(()),
    }
}

/// The host of a serialised origin (RFC 6454, section 6.2) of HTTP.
fn host_of_origin(text: &str) -> Option<String> {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return None;
    }
    let uri = text.parse::<Uri>().ok()?;
    let written = uri.host()?;
    let bare = written
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let host = host::parse(bare.unwrap_or(written)).ok()?;

    Some(host.to_ascii_lowercase())
}

/// RFC 7639, section 2.2: protocol identifiers, percent-encoded, between commas.
fn offers_h2(fields: &Fields) -> bool {
    let lines = fields.values(ALPN).filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(','))
        .any(|id| id.trim_matches([' ', '\t']) == "h2")
}

/// Parses arbitrary text as a path: a name that is accepted is found again in the path that asks for it.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let fields = Fields::from_iter([(ALPN, H2)]);
    if let Ok(found) = name(text, &fields) {
        assert!(check_name(&found).is_ok());
        let again = name(&path(&found), &fields);
        // A name may look like an origin itself.
        assert!(again.is_ok_and(|again| again == found || host_of_origin(&found).is_some()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alpn(value: &'static str) -> Fields {
        Fields::from_iter([(ALPN, HeaderValue::from_static(value))])
    }

    fn asks(path: &str) -> Result<String, PtthError> {
        name(path, &alpn("h2"))
    }

    #[test]
    fn a_name_is_found_in_the_path_that_asks_for_it() {
        for name in [
            "alice",
            "bob@example.org",
            "spiffe://overlay.example/alice",
            "~-._",
            "a%2f",
        ] {
            assert!(
                !path(name)[PREFIX.len()..]
                    .trim_end_matches('/')
                    .contains('/'),
                "{}",
                path(name)
            );
            assert_eq!(asks(&path(name)).as_deref(), Ok(name));
        }
    }

    #[test]
    fn an_origin_stands_for_its_host() {
        assert_eq!(
            asks("/.well-known/ptth/https%3A%2F%2Fbackend.example.com%3A8443/").as_deref(),
            Ok("backend.example.com")
        );
        assert_eq!(
            asks("/.well-known/ptth/https%3A%2F%2FBackend.Example.com.%2F/").as_deref(),
            Ok("backend.example.com")
        );
        assert_eq!(
            asks("/.well-known/ptth/https%3A%2F%2F%5B0%3A%3A1%5D%2F/").as_deref(),
            Ok("::1")
        );
    }

    #[test]
    fn refuses_what_no_one_could_be_attached_under() {
        for (path, error) in [
            ("/.well-known/ptth/alice", PtthError::NotTemplate),
            ("/.well-known/ptth/a/b/", PtthError::NotTemplate),
            ("/ptth/alice/", PtthError::NotTemplate),
            ("/.well-known/ptth//", PtthError::Name),
            ("/.well-known/ptth/%20/", PtthError::Name),
            ("/.well-known/ptth/%C3%A4/", PtthError::Name),
            ("/.well-known/ptth/Alice/", PtthError::Name),
            ("/.well-known/ptth/alice./", PtthError::Spelling),
            (
                "/.well-known/ptth/%3A%3Affff%3A192.0.2.1/",
                PtthError::Spelling,
            ),
            ("/.well-known/ptth/0%3A%3A1/", PtthError::Spelling),
            ("/.well-known/ptth/a%2/", PtthError::Encoding),
            ("/.well-known/ptth/%ff/", PtthError::Encoding),
            ("/.well-known/ptth/a@b/", PtthError::Encoding),
        ] {
            assert_eq!(asks(path), Err(error), "{path}");
        }
        assert_eq!(
            asks(&path(&"a".repeat(NAME_LIMIT + 1))),
            Err(PtthError::Name)
        );
    }

    #[test]
    fn http_2_must_be_offered() {
        let with = |value| name(&path("alice"), &alpn(value));
        assert_eq!(with("h3qx, h2, http%2F1.1").as_deref(), Ok("alice"));
        assert_eq!(with("http%2F1.1"), Err(PtthError::Alpn));
        assert_eq!(name(&path("alice"), &Fields::new()), Err(PtthError::Alpn));
    }
}
