//! Stream sockets: the loop that accepts connections of `http` and `tcp` listeners.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hermes_net::{Acceptor, Listener, Stream, Watch};

use super::{Entrance, http, tcp};

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
        let sources = &entrance.worker.shared.sources;
        let Some(place) = sources.enter(&entrance.rules.name, &stream.info().peer, entrance.rules.per_source()) else {
            entrance.rules.source_refused(&stream.info().peer);
            stream.abort();
            continue;
        };
        let (entrance, open, own) = (entrance.clone(), open.clone(), watch.clone());
        watch.spawn(async move {
            let _held = (open, place, entrance.rules.seeing.accepted());
            if entrance.rules.config.tcp.is_some() {
                tcp::connection(&entrance, stream, &own).await;
            } else {
                http::connection(entrance, stream, &own).await;
            }
        });
    }
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
