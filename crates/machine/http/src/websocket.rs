//! WebSocket's opening handshake (RFC 6455, section 4) at both ends of an exchange.
//!
//! A client's key is answered, which over HTTP/1.1 is a server's duty. Clients on HTTP/2 send no
//! key (RFC 8441, section 5), but proxies that are unaware of the handshake carry a key through
//! HTTP/2, and the answer back; so it is passed on, and answered, in either version.

use aws_lc_rs::digest;
use hermes_proto::fields::Fields;
use hermes_proto::upgrade::Protocol;
use hermes_proto::websocket::{Key, strip};
use http::HeaderValue;
use http::header::SEC_WEBSOCKET_ACCEPT;

use crate::RequestHead;
use crate::error::{Cause, StreamError};

/// The key that a client showed.
pub(crate) fn key_of(head: &RequestHead) -> Option<Key> {
    if !is_websocket(head) {
        return None;
    }
    Key::of(&head.fields).ok()
}

/// The key to show to an HTTP/1.1 server: the client's own, or a new one.
pub(crate) fn key_for(head: &RequestHead) -> Result<Option<Key>, StreamError> {
    if !is_websocket(head) {
        return Ok(None);
    }
    key_of(head).map_or_else(fresh, Ok).map(Some)
}

/// Answers the key that the client showed, if any. The next hop's own answer was to another key, or is the same.
pub(crate) fn answer(key: Option<&Key>, fields: &mut Fields) {
    strip(fields);
    if let Some(key) = key {
        fields.insert(SEC_WEBSOCKET_ACCEPT, accept(key));
    }
}

/// The `Sec-WebSocket-Accept` that answers a key.
pub(crate) fn accept(key: &Key) -> HeaderValue {
    key.accept(|bytes| {
        let mut digest = [0; 20];
        // SHA-1 secures nothing here; the specification prescribes it.
        digest.copy_from_slice(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
        digest
    })
}

fn is_websocket(head: &RequestHead) -> bool {
    head.protocol == Some(Protocol::WebSocket)
}

fn fresh() -> Result<Key, StreamError> {
    let mut nonce = [0; 16];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| {
        StreamError::unprocessed(Cause::Invalid(
            "there is no randomness for a key".to_owned(),
        ))
    })?;
    Ok(Key::new(nonce))
}
