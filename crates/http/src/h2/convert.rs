//! Heads between our form and that of the `h2` crate.

use h2::ext::Protocol;
use http::header::{COOKIE, HOST};
use http::uri::{Authority, Parts};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};

use crate::error::{Cause, StreamError};
use crate::head::{Kind, RequestHead, ResponseHead};

/// The status and the reason that a request is refused with.
type Malformed = (StatusCode, &'static str);

fn bad(reason: &'static str) -> Malformed {
    (StatusCode::BAD_REQUEST, reason)
}

/// A request's head; the reason if it is malformed in a way that `h2` does not check, or has more than `most` field lines.
pub(crate) fn request(request: http::request::Parts, most: usize) -> Result<RequestHead, Malformed> {
    let http::request::Parts { method, uri, mut headers, extensions, .. } = request;
    if headers.len() > most {
        return Err((StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many fields"));
    }
    join_cookies(&mut headers);
    let Parts { scheme, authority, path_and_query, .. } = uri.into_parts();
    let protocol = extensions.get::<Protocol>().map(|protocol| protocol.as_str().to_owned());
    let host = single_host(&mut headers).map_err(bad)?;
    // RFC 9113, 8.3.1: `Host` must not contradict `:authority`.
    let authority = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => return Err(bad("host differs from :authority")),
        (authority, host) => authority.or(host),
    };
    if authority.as_ref().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(bad("userinfo in :authority"));
    }
    let path = if method == Method::CONNECT && protocol.is_none() { None } else { path_and_query };
    Ok(RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields: headers,
        version: Version::HTTP_2,
        origin_form: false,
    })
}

/// RFC 9113, 8.2.3: crumbs of a cookie are one field again outside HTTP/2.
fn join_cookies(fields: &mut http::HeaderMap) {
    let crumbs: Vec<&[u8]> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        fields.insert(COOKIE, cookie);
    }
}

fn single_host(fields: &mut http::HeaderMap) -> Result<Option<Authority>, &'static str> {
    let mut hosts = fields.get_all(HOST).iter();
    let host = hosts.next().map(|host| Authority::try_from(host.as_bytes())).transpose();
    if hosts.next().is_some() {
        return Err("several host fields");
    }
    let host = host.map_err(|_| "host is no authority")?;
    fields.remove(HOST);
    Ok(host)
}

/// A request for `h2` to send.
pub(crate) fn to_request(head: &RequestHead) -> Result<Request<()>, StreamError> {
    let mut parts = Parts::default();
    parts.authority = head.authority.clone();
    if head.kind() != Kind::Connect {
        parts.scheme = Some(head.scheme.clone().unwrap_or(http::uri::Scheme::HTTP));
        parts.path_and_query = head.path.clone();
    }
    let uri = Uri::from_parts(parts)
        .map_err(|error| StreamError::unprocessed(Cause::Invalid(format!("the target cannot be sent: {error}"))))?;
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = head.fields.clone();
    if let Some(protocol) = &head.protocol {
        request.extensions_mut().insert(Protocol::from(protocol.as_str()));
    }
    Ok(request)
}

/// A response's head.
pub(crate) fn response(parts: http::response::Parts) -> ResponseHead {
    ResponseHead { status: parts.status, fields: parts.headers, version: Version::HTTP_2 }
}

/// A response for `h2` to send.
pub(crate) fn to_response(head: ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = head.status;
    *response.version_mut() = Version::HTTP_2;
    *response.headers_mut() = head.fields;
    response
}
