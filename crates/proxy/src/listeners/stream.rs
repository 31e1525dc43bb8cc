//! Stream sockets: the loop that accepts connections of `http` and `tcp` listeners.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hermes_net::{Acceptor, Listener, Stream, Watch};

use super::{Entrance, Place, http, introduction, tcp};

/// Accepts connections until told to stop; then those that the kernel has accepted already.
pub(super) async fn serve(mut entrance: Entrance, listener: Listener, watch: &Watch) -> io::Result<()> {
    let acceptor = Acceptor::new(listener)?;
    let open = Arc::new(());
    loop {
        let stream = tokio::select! {
            stream = acceptor.accept() => Some(stream),
            () = watch.graceful() => waiting(&acceptor).await,
        };
        let Some(stream) = stream else { return Ok(()) };
        let rules = entrance.renew();
        if Arc::strong_count(&open) > rules.connections() {
            tracing::warn!(listener = %rules.name, "connection refused: the limit of connections is reached");
            stream.abort();
            continue;
        }
        // A source that is introduced is not known yet.
        let unknown = rules.config.proxy_protocol.is_some();
        let place = if unknown { None } else { enter(&entrance, &stream) };
        if !unknown && place.is_none() {
            stream.abort();
            continue;
        }
        let (entrance, open, own) = (entrance.clone(), open.clone(), watch.clone());
        watch.spawn(async move {
            let _held = (open, place, entrance.rules.seeing.accepted());
            connection(entrance, stream, &own).await;
        });
    }
}

/// A place under the bound of the stream's source; `None` when that has too many already.
fn enter(entrance: &Entrance, stream: &Stream) -> Option<Place<IpAddr>> {
    let (rules, peer) = (&entrance.rules, stream.info().peer);
    let place = entrance.worker.shared.sources.enter(&rules.name, &peer, rules.per_source());
    if place.is_none() {
        rules.source_refused(&peer);
    }
    place
}

/// Serves one connection, once its client is introduced where it must be.
async fn connection(entrance: Entrance, stream: Stream, watch: &Watch) {
    let mut introduced = None;
    let stream = if entrance.rules.config.proxy_protocol.is_some() {
        let taken = tokio::select! {
            taken = Box::pin(introduction::take(stream, &entrance.rules)) => taken,
            () = watch.forced() => None,
        };
        let Some(stream) = taken else { return };
        introduced = enter(&entrance, &stream);
        if introduced.is_none() {
            return stream.abort();
        }
        stream
    } else {
        stream
    };
    if entrance.rules.config.tcp.is_some() {
        tcp::connection(&entrance, stream, watch).await;
    } else {
        // In a place of its own: tunnels of TCP would else be as large as it is.
        Box::pin(http::connection(entrance, stream, watch)).await;
    }
    drop(introduced);
}

/// A connection that is there without waiting: its client believes that it was accepted.
async fn waiting(acceptor: &Acceptor) -> Option<Stream> {
    // Lets the runtime hear of what has come, and asks without the cooperative budget, which would answer for the socket.
    tokio::task::yield_now().await;
    let mut accept = pin!(tokio::task::unconstrained(acceptor.accept()));
    poll_fn(|cx| match accept.as_mut().poll(cx) {
        Poll::Ready(stream) => Poll::Ready(Some(stream)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
