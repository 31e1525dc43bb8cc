//! TRACE and OPTIONS, which end where `Max-Forwards` says (RFC 9110, 7.6.2).

use std::fmt::Write as _;

use bytes::Bytes;
use hermes_http::{Kind, RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{
    AUTHORIZATION, CONTENT_TYPE, COOKIE, FORWARDED, KnownName, MAX_FORWARDS, PROXY_AUTHORIZATION,
};
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::OverlayFields;
use http::header::ALLOW;
use http::{HeaderName, HeaderValue, Method, StatusCode};

/// The methods that OPTIONS names for a target: all that are forwarded.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE, CONNECT";

/// Counts a TRACE or OPTIONS down by one; where the count has come to its end, the answer that this proxy gives as the final
/// recipient.
///
/// # Errors
/// The count is no number, or a TRACE has content (RFC 9110, 9.3.8); 400.
pub fn count_down(
    head: &mut RequestHead,
    has_content: bool,
    received: &Fields,
    overlay: &OverlayFields,
) -> Result<Option<(ResponseHead, Bytes)>, Refusal> {
    let is_trace = head.method == Method::TRACE;
    if head.kind() != Kind::Message || !(is_trace || head.method == Method::OPTIONS) {
        return Ok(None);
    }

    if is_trace && has_content {
        return Err(bad_request("a TRACE request must not have content"));
    }
    match left(&head.fields)? {
        None => Ok(None),
        Some(0) if is_trace => Ok(Some(reflection(head, received, overlay))),
        Some(0) => {
            let mut answer = ResponseHead::new(StatusCode::OK);
            answer
                .fields
                .insert(ALLOW, HeaderValue::from_static(METHODS));
            Ok(Some((answer, Bytes::new())))
        }
        Some(count) => {
            head.fields
                .insert(MAX_FORWARDS, HeaderValue::from(count - 1));
            Ok(None)
        }
    }
}

/// The count; one too large to be read is as good as the largest.
fn left(fields: &Fields) -> Result<Option<u32>, Refusal> {
    let mut counts = fields.values(MAX_FORWARDS);
    let Some(count) = counts.next() else {
        return Ok(None);
    };

    let digits = count.as_bytes();
    if counts.next().is_some() || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(bad_request("Max-Forwards is not one number"));
    }

    Ok(Some(
        count
            .to_str()
            .ok()
            .and_then(|count| count.parse().ok())
            .unwrap_or(u32::MAX),
    ))
}

/// The fields of a TRACE as they were received, before a listener or a filter added any; none of other requests.
pub fn received(head: &RequestHead) -> Fields {
    if head.method == Method::TRACE {
        head.fields.clone()
    } else {
        Fields::new()
    }
}

/// Removes from a TRACE the fields that this node has added to those `received`: the server that answers shows them to the client. The
/// overlay's own fields stay, which no one shows, and `Forwarded`, which says nothing secret.
pub fn withdraw(head: &mut RequestHead, received: &Fields, overlay: &OverlayFields) {
    if head.method != Method::TRACE {
        return;
    }
    let stays = |name: &str| {
        [FORWARDED, MAX_FORWARDS]
            .map(KnownName::as_str)
            .contains(&name)
            || overlay.is_overlay(name)
    };
    // Fields that this node removed stay removed: a credential among them was for this node alone.
    let names: Vec<HeaderName> = head.fields.names().map(HeaderName::from).collect();
    let came = |name: &str| names.iter().any(|known| *known == *name);

    head.fields.retain(|name| stays(&name));
    let again = received
        .iter()
        .filter(|(name, _)| came(name) && !stays(name));
    head.fields.extend(again);
}

/// The request as it came here, without fields that could be secret (RFC 9110, 9.3.8).
fn reflection(
    head: &RequestHead,
    received: &Fields,
    overlay: &OverlayFields,
) -> (ResponseHead, Bytes) {
    let mut fields = received.clone();
    overlay.strip(&mut fields, &[]);
    for secret in [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE] {
        fields.remove(secret);
    }

    let authority = head
        .authority
        .as_ref()
        .map_or("", |authority| authority.as_str());
    let scheme = head
        .scheme
        .as_ref()
        .map_or_else(String::new, |scheme| format!("{scheme}://{authority}"));
    let mut text = format!(
        "TRACE {scheme}{} HTTP/1.1\r\nhost: {authority}\r\n",
        head.path()
    );

    for (name, value) in &fields {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{name}: {}\r\n",
            String::from_utf8_lossy(value.as_bytes())
        );
    }

    text.push_str("\r\n");
    let mut answer = ResponseHead::new(StatusCode::OK);
    answer
        .fields
        .insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));

    (answer, Bytes::from(text))
}

fn bad_request(reason: &str) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, reason).status(StatusCode::BAD_REQUEST)
}
