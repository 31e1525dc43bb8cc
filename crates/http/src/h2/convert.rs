//! Heads between our form and that of the `h2` crate.

use std::borrow::Cow;

use h2::ext;
use hermes_proto::path::{self, BadPath};
use hermes_proto::upgrade::Protocol;
use http::header::{COOKIE, HOST};
use http::uri::{Authority, Parts};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};

use crate::error::{Cause, StreamError};
use crate::head::{Kind, RequestHead, ResponseHead};

/// The status and the reason that a request is refused with.
type Malformed = (StatusCode, Cow<'static, str>);

fn bad(reason: impl Into<Cow<'static, str>>) -> Malformed {
    (StatusCode::BAD_REQUEST, reason.into())
}

/// A request's head; the reason if it is malformed in a way that `h2` does not check, or has more than `most` field lines.
pub(crate) fn request(
    request: http::request::Parts,
    most: usize,
) -> Result<RequestHead, Malformed> {
    let http::request::Parts {
        method,
        uri,
        mut headers,
        extensions,
        ..
    } = request;
    if headers.len() > most {
        return Err((
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "there are too many fields".into(),
        ));
    }
    check_values(&headers).map_err(bad)?;
    join_cookies(&mut headers);
    let Parts {
        scheme,
        authority,
        path_and_query,
        ..
    } = uri.into_parts();
    let protocol = extensions
        .get::<ext::Protocol>()
        .map(|protocol| Protocol::parse(protocol.as_ref()));
    let protocol = protocol
        .transpose()
        .map_err(|error| bad(error.to_string()))?;
    let host = single_host(&mut headers).map_err(bad)?;
    // RFC 9113, 8.3.1: `Host` must not contradict `:authority`.
    let authority = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => {
            return Err(bad("host differs from :authority"));
        }
        (authority, host) => authority.or(host),
    };
    if authority
        .as_ref()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(bad("userinfo in :authority"));
    }
    let path = match path_and_query {
        _ if method == Method::CONNECT && protocol.is_none() => None,
        Some(path) if path.as_str() == "*" && method != Method::OPTIONS => {
            return Err(bad("`*` is for OPTIONS only"));
        }
        path => path.map(path::check).transpose().map_err(bad_path)?,
    };
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

fn bad_path(error: BadPath) -> Malformed {
    let status = if error == BadPath::TooLong {
        StatusCode::URI_TOO_LONG
    } else {
        StatusCode::BAD_REQUEST
    };
    (status, error.to_string().into())
}

/// RFC 9113, 8.2.1: no white space around a value, which the `h2` crate lets pass. HTTP/1.1 cannot say it, so that two readers
/// behind us could read different values.
///
/// # Errors
/// There is some, in words.
pub(super) fn check_values(fields: &HeaderMap) -> Result<(), String> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    for (name, value) in fields {
        let value = value.as_bytes();
        if is_space(value.first()) || is_space(value.last()) {
            return Err(format!("white space around the value of field `{name}`"));
        }
    }
    Ok(())
}

/// RFC 9113, 8.2.3: crumbs of a cookie are one field again outside HTTP/2.
fn join_cookies(fields: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = fields
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if crumbs.len() > 1
        && let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..]))
    {
        fields.insert(COOKIE, cookie);
    }
}

fn single_host(fields: &mut HeaderMap) -> Result<Option<Authority>, &'static str> {
    let mut hosts = fields.get_all(HOST).iter();
    let host = hosts
        .next()
        .map(|host| Authority::try_from(host.as_bytes()))
        .transpose();
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
    let uri = Uri::from_parts(parts).map_err(|error| {
        StreamError::unprocessed(Cause::Invalid(format!(
            "the target cannot be sent: {error}"
        )))
    })?;
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = head.fields.clone();
    if let Some(protocol) = &head.protocol {
        request
            .extensions_mut()
            .insert(ext::Protocol::from(protocol.as_str()));
    }
    Ok(request)
}

/// A response's head.
///
/// # Errors
/// It is malformed in a way that `h2` does not check.
pub(crate) fn response(parts: http::response::Parts) -> Result<ResponseHead, StreamError> {
    check_values(&parts.headers).map_err(|reason| StreamError::new(Cause::Protocol(reason)))?;
    Ok(ResponseHead {
        status: parts.status,
        fields: parts.headers,
        version: Version::HTTP_2,
    })
}

/// A response for `h2` to send.
pub(crate) fn to_response(head: ResponseHead) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = head.status;
    *response.version_mut() = Version::HTTP_2;
    *response.headers_mut() = head.fields;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_value_is_malformed_in_both_directions() {
        for (value, fits) in [
            ("a b", true),
            ("", true),
            (" a", false),
            ("a\t", false),
            (" ", false),
        ] {
            let (mut parts, ()) = Response::new(()).into_parts();
            parts
                .headers
                .insert("x-a", HeaderValue::from_str(value).unwrap());
            let fields = parts.headers.clone();
            assert_eq!(response(parts).is_ok(), fits, "{value:?}");
            let mut parts = Request::get("http://a/").body(()).unwrap().into_parts().0;
            parts.headers = fields;
            let refused = request(parts, 100).map(drop).map_err(|(status, _)| status);
            assert_eq!(
                refused,
                if fits {
                    Ok(())
                } else {
                    Err(StatusCode::BAD_REQUEST)
                },
                "{value:?}"
            );
        }
    }
}
