//! Which HTTP versions a listener speaks.

use hermes_config::model::{Document, HttpListener, HttpVersion, ListenAddress, Listener};

use crate::overlap::overlap;

/// Every version, the oldest first.
const ALL: [HttpVersion; 3] = [HttpVersion::H1, HttpVersion::H2, HttpVersion::H3];

/// The HTTP versions of `listener`, one of those of `document`: the configured ones, or else all
/// that its socket can carry. Without TLS these are the first two; the client chooses by its first
/// bytes.
#[must_use]
pub fn versions(document: &Document, listener: &Listener) -> Vec<HttpVersion> {
    let Some(http) = listener.http() else {
        return Vec::new();
    };
    match &http.versions {
        Some(stated) => ALL
            .into_iter()
            .filter(|version| stated.contains(version))
            .collect(),
        None if http.tls.is_some() && may_be_quic(document, http) => ALL.to_vec(),
        None => ALL[..2].to_vec(),
    }
}

/// Whether a UDP port beside the TCP port takes nothing away from anybody. A PROXY header cannot stand in front of QUIC.
fn may_be_quic(document: &Document, http: &HttpListener) -> bool {
    let ListenAddress::Ip(address) = http.address else {
        return false;
    };
    let claims = document
        .listeners
        .values()
        .filter_map(|other| match other.udp()?.address {
            ListenAddress::Ip(udp) => Some(udp),
            ListenAddress::Unix(_) => None,
        });

    http.introduction.proxy_protocol.is_none()
        && !claims.into_iter().any(|udp| overlap(udp, address))
}
