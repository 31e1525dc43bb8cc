//! Where a request came from, as `Forwarded` says it (RFC 7239).

use std::net::SocketAddr;

use hermes_http::RequestHead;
use hermes_proto::forwarded::{self, Element, Identifier};
use http::uri::Authority;

/// Says in `Forwarded` where a request came from (RFC 7239).
pub fn append_forwarded(head: &mut RequestHead, peer: Option<SocketAddr>, tls: bool) {
    let host = head.authority.as_ref().map(Authority::as_str);
    let element = Element {
        client: Some(peer.map_or(Identifier::Unknown, |peer| Identifier::Address(peer.ip()))),
        by: None,
        proto: Some(if tls { "https" } else { "http" }),
        host,
    };

    forwarded::append(&mut head.fields, &element);
}
