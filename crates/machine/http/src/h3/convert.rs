//! Heads for the codec, and their content lengths.

use bytes::BytesMut;
use hermes_proto::h3::{self, Fault, RequestParts, encode_request, encode_response};
use hermes_proto::qpack::SectionEncoder;
use http::uri::Scheme;
use http::{Method, StatusCode};

use super::stream_state::StreamState;
use super::tables::Tables;
use crate::error::StreamError;
use crate::head::{Kind, RequestHead, ResponseHead};

/// A request, encoded for this stream.
pub(crate) fn from_request(
    head: &RequestHead,
    tables: &Tables,
    stream: u64,
) -> Result<BytesMut, StreamError> {
    let web = head.kind() != Kind::Connect;
    let scheme = head.scheme.clone().unwrap_or(Scheme::HTTP);
    let parts = RequestParts {
        method: &head.method,
        scheme: web.then_some(&scheme),
        authority: head.authority.as_ref(),
        path: head.path.as_ref().filter(|_| web),
        protocol: head.protocol.as_ref(),
        fields: &head.fields,
    };

    let section = tables.write(stream, |section| encode_request(&parts, section))?;
    Ok(section)
}

/// A response, encoded for the stream of this state.
pub(crate) fn from_response(
    head: &ResponseHead,
    state: &StreamState,
) -> Result<BytesMut, StreamError> {
    let write = |section: SectionEncoder<'_>| encode_response(head.status, &head.fields, section);
    Ok(state.shared().tables.write(state.id(), write)?)
}

/// The length of a response's content, if it is known: 0 for a response without content, even if it
/// announces a length (RFC 9110, 6.4.1).
pub(crate) fn response_length(
    method: &Method,
    head: &mut ResponseHead,
) -> Result<Option<u64>, Fault> {
    let none = *method == Method::HEAD
        || matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    let announced = h3::response_length(&mut head.fields);
    if none { Ok(Some(0)) } else { announced }
}
