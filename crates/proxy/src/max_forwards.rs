//! `Max-Forwards` (RFC 9110, 7.6.2): TRACE and OPTIONS that ask for the answer of a certain hop.

use bytes::Bytes;
use hermes_http::{RequestHead, ResponseHead};
use hermes_rules::OverlayFields;
use http::header::{CONTENT_TYPE, MAX_FORWARDS};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

/// Fields that a TRACE does not send back (RFC 9110, 9.3.8): what may hold a credential.
const SENSITIVE: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// The answer of this hop, if it is the one that was asked for; else counts this hop.
pub(crate) fn answer(head: &mut RequestHead, overlay: &OverlayFields) -> Option<(ResponseHead, Bytes)> {
    if head.method != Method::TRACE && head.method != Method::OPTIONS {
        return None;
    }
    let left: u64 = head.fields.get(MAX_FORWARDS)?.to_str().ok()?.trim().parse().ok()?;
    if let Some(left) = left.checked_sub(1) {
        head.fields.insert(MAX_FORWARDS, HeaderValue::from(left));
        return None;
    }
    // What the overlay added on the way is not the client's to see.
    overlay.strip(&mut head.fields, &[]);
    Some(if head.method == Method::TRACE { trace(head) } else { (ResponseHead::new(StatusCode::OK), Bytes::new()) })
}

/// The request as it came here.
fn trace(head: &RequestHead) -> (ResponseHead, Bytes) {
    let authority = head.authority.as_ref().map_or("", |authority| authority.as_str());
    let path = head.path.as_ref().map_or("/", |path| path.as_str());
    let mut text = format!("TRACE {path} {:?}\r\nhost: {authority}\r\n", head.version);
    for (name, value) in &head.fields {
        if !SENSITIVE.contains(&name.as_str()) {
            text.push_str(&format!("{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes())));
        }
    }
    let fields = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("message/http"))]);
    (ResponseHead { fields, ..ResponseHead::new(StatusCode::OK) }, Bytes::from(text))
}
