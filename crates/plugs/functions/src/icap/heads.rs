//! Heads of messages of HTTP within those of ICAP (RFC 3507, 4.4.1).

use bytes::BytesMut;
use hermes_http::{RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::h1::{self, Framing, MessageLimits, RequestTarget};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Version};

use super::scanner::misspoken;
use crate::guard;

/// The head of a request, as a proxy gets it.
pub(super) fn request(head: &RequestHead) -> Result<BytesMut, Refusal> {
    let unfit = || misspoken("cannot be shown this request");
    let authority = head.authority.clone().ok_or_else(unfit)?;
    let path = head.path.clone();
    let target = RequestTarget::Absolute {
        scheme: head.scheme.clone().unwrap_or(Scheme::HTTP),
        authority,
        path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
    };
    let mut fields = head.fields.clone();
    guard::hide(&mut fields);
    let mut text = BytesMut::new();
    let host = target.authority().map(|authority| authority.as_str());
    let host = host.unwrap_or_default().as_bytes();
    h1::encode_request_for(
        &head.method,
        &target,
        host,
        &fields,
        Framing::Empty,
        &mut text,
    )
    .map_err(|_| unfit())?;
    Ok(text)
}

/// The head of an answer. The length of its content is told, where it is known: scanners decide by it.
pub(super) fn answer(head: &ResponseHead, length: Option<u64>) -> Result<BytesMut, Refusal> {
    let framing = match length {
        Some(length) => Framing::Length(length),
        None => Framing::UntilClose,
    };
    let mut fields = head.fields.clone();
    guard::hide(&mut fields);
    let mut text = BytesMut::new();
    let encoded = h1::encode_response(head.status, &fields, framing, &Method::GET, &mut text);
    encoded.map_err(|_| misspoken("cannot be shown this answer"))?;
    Ok(text)
}

/// A head that a scanner gives.
#[derive(Debug)]
pub(super) enum GivenHead {
    Request(h1::RequestHead),
    Answer(ResponseHead, Framing),
}

/// Reads the head of a request.
pub(super) fn read_request(text: &mut BytesMut) -> Result<GivenHead, Refusal> {
    let read = h1::decode_request(text, &MessageLimits::default());
    match read {
        Ok(Some(head)) => Ok(GivenHead::Request(head)),
        Ok(None) | Err(_) => Err(misspoken("gives a request that is none")),
    }
}

/// Reads the head of an answer.
pub(super) fn read_answer(text: &mut BytesMut) -> Result<GivenHead, Refusal> {
    let read = h1::decode_response(text, &MessageLimits::of_responses(), &Method::GET);
    let head = match read {
        Ok(Some(head)) if !head.status.is_informational() => head,
        _ => return Err(misspoken("gives an answer that is none")),
    };
    let framing = head.framing;
    let mut fields = head.fields;
    strip(&mut fields)?;
    let head = ResponseHead {
        status: head.status,
        fields,
        version: Version::HTTP_11,
    };
    Ok(GivenHead::Answer(head, framing))
}

/// Removes the fields of a connection that is not ours.
fn strip(fields: &mut Fields) -> Result<(), Refusal> {
    hermes_proto::hop::strip(fields).map_err(|_| misspoken("gives malformed fields"))?;
    guard::unframe(fields);
    Ok(())
}

/// The request with the fields that a scanner has changed. Its target was decided about, and stays.
pub(super) fn changed_request(
    own: RequestHead,
    given: h1::RequestHead,
) -> Result<RequestHead, Refusal> {
    let path = match &given.target {
        RequestTarget::Origin(path) => Some(path),
        RequestTarget::Absolute { path, .. } => Some(path),
        RequestTarget::Authority(_) | RequestTarget::Asterisk => None,
    };
    let authority = given.target.authority();
    let is_same_authority = authority.is_none() || authority == own.authority.as_ref();
    if given.method != own.method || path != own.path.as_ref() || !is_same_authority {
        return Err(misspoken("changes the target of a request"));
    }
    let mut fields = given.fields;
    strip(&mut fields)?;
    let fields = guard::merge(&own.fields, fields);
    Ok(RequestHead { fields, ..own })
}
