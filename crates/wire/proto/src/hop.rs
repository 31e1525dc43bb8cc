//! Fields that end at this hop (RFC 9110, section 7.6.1).
//!
//! `Connection` names more of them, and a sender could name anything. The choice made here: a name on a list of fields
//! that messages need from end to end is ignored, and the field stays. Removing `Host` or `Content-Length` would change
//! the message, removing `Authorization`, `Cookie` or `Forwarded` would let a sender hide from the next hop what an
//! earlier one wrote, and RFC 9110 forbids senders to list such fields. Ignoring rather than refusing keeps sloppy but
//! harmless peers working. Everything else that is listed goes, known or not.

use http::header::{self, HeaderName, HeaderValue};

use crate::fields::{Class, Fields, NameId};
use crate::quoted;

/// Names that start like this are as safe from `Connection` as those of the class `END`.
const END_TO_END_PREFIXES: [&str; 3] = ["content-", "sec-", "x-forwarded-"];

/// `Connection` holds something that is no field name: answer 400 to a request, 502 for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the Connection field is not a list of tokens")]
pub struct BadConnection;

/// Removes the fields that end at this hop. Read `Connection`, `Upgrade` and the framing fields before.
///
/// Of `TE` only `trailers` is kept, which HTTP/2 and HTTP/3 allow; over HTTP/1.1 the caller adds `Connection: TE`.
///
/// # Errors
/// [`BadConnection`], with `fields` unchanged.
pub fn strip(fields: &mut Fields) -> Result<(), BadConnection> {
    // Most messages have no such fields.
    if !fields.has(Class::HOP.and(Class::TE)) {
        return Ok(());
    }

    let listed = listed(fields)?;
    let trailers = accepts_trailers(fields);
    // `Proxy-Authorization` and `Proxy-Authenticate` are not among them: who asked for credentials consumes them.
    fields.remove_class(Class::HOP.and(Class::TE));
    for name in listed {
        fields.remove(name);
    }

    if trailers {
        fields.append(header::TE, HeaderValue::from_static("trailers"));
    }
    Ok(())
}

/// Names that `Connection` lists and may remove.
fn listed(fields: &Fields) -> Result<Vec<HeaderName>, BadConnection> {
    let mut names = Vec::new();
    for option in elements(fields, &header::CONNECTION) {
        if !quoted::is_token(option) {
            return Err(BadConnection);
        }

        // By far the most frequent one; its field goes in any case.
        if option.eq_ignore_ascii_case(b"keep-alive") {
            continue;
        }
        let name = HeaderName::from_bytes(option).map_err(|_| BadConnection)?;
        if !is_end_to_end(name.as_str()) {
            names.push(name);
        }
    }

    Ok(names)
}

fn is_end_to_end(name: &str) -> bool {
    NameId::of(name.as_bytes()).is(Class::END)
        || END_TO_END_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Whether `TE` has the member `trailers` (RFC 9110, section 10.1.4).
fn accepts_trailers(fields: &Fields) -> bool {
    elements(fields, &header::TE).any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
}

/// The members of a comma-separated list, without empty ones (RFC 9110, section 5.6.1.2).
fn elements<'a>(fields: &'a Fields, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = fields.values(name);
    let members = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    members
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// Strips arbitrary field lines: no field of this hop is left, none that must stay is lost, and doing it twice changes
/// nothing. Each line of `data` is `name:value`.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let mut fields = Fields::new();
    for line in data.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[colon + 1..])) {
            fields.append(name, value);
        }
    }

    let before = fields.clone();
    if strip(&mut fields).is_err() {
        assert_eq!(fields, before);
        return;
    }

    assert!(!fields.has(Class::HOP));
    assert!(fields.values(header::TE).all(|value| value == "trailers"));

    assert!(
        before
            .names()
            .filter(|name| is_end_to_end(name))
            .all(|name| fields.contains_key(name))
    );

    let once = fields.clone();
    assert_eq!(strip(&mut fields), Ok(()));
    assert_eq!(fields, once);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&'static str, &str)]) -> Fields {
        let pair = |&(name, value): &(&'static str, &str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        };
        let mut fields = Fields::new();
        for (name, value) in lines.iter().map(pair) {
            fields.append(name, value);
        }
        fields
    }

    fn stripped(lines: &[(&'static str, &str)]) -> Fields {
        let mut fields = fields(lines);
        strip(&mut fields).unwrap();
        fields
    }

    #[test]
    fn removes_connection_and_what_it_names() {
        let lines = [
            ("connection", "close, X-Hop ,,"),
            ("connection", "x-two"),
            ("x-hop", "1"),
            ("x-two", "2"),
            ("x-end", "3"),
        ];
        assert_eq!(stripped(&lines), fields(&[("x-end", "3")]));
    }

    #[test]
    fn removes_the_fields_of_the_hop_even_when_connection_does_not_name_them() {
        let lines = [
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("http2-settings", "AAMAAABkAAQAAP__"),
            ("te", "gzip"),
        ];
        assert_eq!(stripped(&lines), Fields::new());
    }

    #[test]
    fn keeps_te_only_for_trailers() {
        let lines = [
            ("connection", "TE"),
            ("te", "gzip;q=0.5, Trailers"),
            ("te", "deflate"),
        ];
        assert_eq!(stripped(&lines), fields(&[("te", "trailers")]));
        assert_eq!(stripped(&[("te", "trailersx")]), Fields::new());
    }

    #[test]
    fn does_not_let_connection_remove_what_must_reach_the_other_end() {
        let kept = [
            ("host", "a"),
            ("content-length", "3"),
            ("authorization", "Basic YTpi"),
            ("cookie", "a=b"),
            ("via", "1.1 a"),
            ("forwarded", "for=_a"),
            ("x-forwarded-for", "192.0.2.1"),
            ("proxy-authorization", "Basic YTpi"),
        ];
        let mut lines = kept.to_vec();
        lines.extend(kept.map(|(name, _)| ("connection", name)));
        assert_eq!(stripped(&lines), fields(&kept));
    }

    #[test]
    fn leaves_credentials_for_the_proxy_to_the_proxy_that_asked_for_them() {
        let lines = [
            ("proxy-authorization", "Basic YTpi"),
            ("proxy-authenticate", "Basic"),
        ];
        assert_eq!(stripped(&lines), fields(&lines));
    }

    #[test]
    fn refuses_a_connection_field_that_is_no_list_of_tokens() {
        for value in ["a b", "a;b", "\"close\"", "a:b", "\u{e9}"] {
            let mut given = Fields::new();
            given.insert(
                header::CONNECTION,
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
            let before = given.clone();
            assert_eq!(strip(&mut given), Err(BadConnection), "{value}");
            assert_eq!(given, before);
        }
    }
}
