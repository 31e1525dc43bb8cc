//! The affinity of an exchange, where `balance: ring_hash` keeps exchanges together.

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_proto::fields::names::COOKIE;
use hermes_proto::fields::{FieldValue, Fields};
use hermes_upstream::Affinity;
use http::HeaderName;
use http::header::HOST;

/// The affinity of an exchange with this next hop. `None` where none is asked for, or the request does not have what it goes
/// by: then any endpoint will do.
pub(crate) fn affinity(
    routed: &Routed,
    next: &Next,
    head: Option<&RequestHead>,
) -> Option<Affinity> {
    let hash = next.upstream()?.hash()?;
    if hash.user {
        return routed
            .user
            .as_deref()
            .map(|user| Affinity::of(user.as_bytes()));
    }

    if hash.source {
        // A client counts as one, whether a dual-stack socket shows it as IPv4 or as mapped IPv6.
        let ip = routed.source.peer.ip()?.to_canonical();
        return Some(Affinity::of(ip.to_string().as_bytes()));
    }

    // It stands in the target, in one form; no exchange has the field itself.
    let is_host = |field: &String| field.eq_ignore_ascii_case(HOST.as_str());
    if hash.field.as_ref().is_some_and(is_host) {
        let target = routed.target.canonical().to_string();
        return Some(Affinity::of(target.as_bytes()));
    }

    let fields = &head?.fields;
    if let Some(name) = &hash.cookie {
        return cookie(fields, name).map(|value| Affinity::of(value.as_bytes()));
    }

    let name = HeaderName::from_bytes(hash.field.as_deref()?.as_bytes()).ok()?;
    let values: Vec<_> = fields.values(name).map(FieldValue::as_bytes).collect();

    (!values.is_empty()).then(|| Affinity::of(&values.join(&b","[..])))
}

/// The value of a cookie (RFC 6265, 5.4); over HTTP/2 each may stand in a line of its own.
fn cookie<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    let lines = fields.values(COOKIE).filter_map(|line| line.to_str().ok());
    let mut pairs = lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn cookies_are_found_in_any_line() {
        let mut fields = Fields::new();
        fields.append(COOKIE, HeaderValue::from_static("a=1; session=x=y"));
        fields.append(COOKIE, HeaderValue::from_static("b=2"));
        assert_eq!(
            (cookie(&fields, "session"), cookie(&fields, "b")),
            (Some("x=y"), Some("2"))
        );
        assert_eq!(cookie(&fields, "sess"), None);
    }
}
