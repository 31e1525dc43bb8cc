//! The PROXY header with which a load balancer introduces the client of a connection.

use std::time::Duration;

use bytes::BytesMut;
use hermes_admit::snapshot::ListenerRules;
use hermes_net::{PeerAddress, Stream};
use hermes_proto::proxy_protocol::{self, Header};
use tokio::io::AsyncReadExt;

/// Reads the header that a connection begins with, where the listener's configuration asks for one: the stream is then
/// its client's. `None`: it was reset, because it came from elsewhere than it may or did not begin with a header.
pub(super) async fn take(stream: Stream, rules: &ListenerRules) -> Option<Stream> {
    if !rules.config.is_introduced() {
        return Some(stream);
    }
    let peer = stream.info().peer;
    let refused = |stream: Stream, reason: &str| {
        tracing::debug!(listener = %rules.name, %peer, reason, "no PROXY header taken");
        rules.telemetry.malformed();
        stream.abort();
    };

    if !may_introduce(rules, peer) {
        refused(stream, "the peer is not in `proxy_protocol_from`");
        return None;
    }

    match read(stream, rules.http.options.head_time).await {
        Ok(stream) => Some(stream),
        Err((stream, reason)) => {
            refused(stream, &reason);
            None
        }
    }
}

/// A client of our Unix socket is let in by its file's mode; others must be in a prefix.
fn may_introduce(rules: &ListenerRules, peer: PeerAddress) -> bool {
    peer.ip().is_none_or(|ip| {
        let ip = ip.to_canonical();
        let headers = rules.config.introduction();
        headers.is_some_and(|headers| {
            let mut prefixes = headers.proxy_protocol_from.iter();
            prefixes.any(|prefix| prefix.contains(&ip))
        })
    })
}

async fn read(mut stream: Stream, time: Duration) -> Result<Stream, (Stream, String)> {
    let mut first = BytesMut::new();
    let header = tokio::time::timeout(time, header(&mut stream, &mut first)).await;
    match header {
        Ok(Ok(Header::Proxied {
            source,
            destination,
        })) => stream.readdress(source, destination),
        Ok(Ok(Header::Local | Header::Unknown)) => {}
        Ok(Err(reason)) => return Err((stream, reason)),
        Err(_) => return Err((stream, "it did not arrive in time".to_owned())),
    }

    stream.unread(first.freeze());
    Ok(stream)
}

/// Reads until the header is complete, and leaves the bytes behind it in `first`.
async fn header(stream: &mut Stream, first: &mut BytesMut) -> Result<Header, String> {
    loop {
        if let Some((header, length)) =
            proxy_protocol::decode(first).map_err(|error| error.to_string())?
        {
            drop(first.split_to(length));
            return Ok(header);
        }

        match stream.read_buf(first).await {
            Ok(0) => return Err("the connection ended within it".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}
