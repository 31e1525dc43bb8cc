//! Stream sockets: the loop that accepts connections of `http` and `tcp` listeners.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hermes_net::{Acceptor, Listener, Stream, Watch};

use super::{http, introduction, tcp};
use crate::admission::Admission;
use crate::entrance::Entrance;

/// Accepts connections until told to stop; then those that the kernel has accepted already.
pub(super) async fn serve(
    mut entrance: Entrance,
    listener: Listener,
    watch: &Watch,
) -> io::Result<()> {
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
        let mut inside = entrance.clone();
        if !unknown && !admit(&mut inside, &stream) {
            stream.abort();
            continue;
        }
        let open = (open.clone(), inside.worker.shared.shares.connection());
        let own = watch.clone();
        watch.spawn(async move {
            let _held = (open, inside.rules.seeing.accepted());
            connection(inside, stream, &own).await;
        });
    }
}

/// Takes a place under the bound of the stream's source; false when that has too many already.
fn admit(entrance: &mut Entrance, stream: &Stream) -> bool {
    let rules = &entrance.rules;
    let peer = &stream.info().peer;
    let admission = Admission::of(rules, peer);
    let admitted = admission
        .as_ref()
        .is_none_or(|own| own.enter(&entrance.worker.shared, rules, peer));
    entrance.admission = admission;
    admitted
}

/// Serves one connection, once its client is introduced where it must be.
async fn connection(mut entrance: Entrance, stream: Stream, watch: &Watch) {
    let stream = if entrance.rules.config.proxy_protocol.is_some() {
        let taken = tokio::select! {
            taken = Box::pin(introduction::take(stream, &entrance.rules)) => taken,
            () = watch.forced() => None,
        };
        let Some(stream) = taken else { return };
        if !admit(&mut entrance, &stream) {
            return stream.abort();
        }
        stream
    } else {
        stream
    };
    if entrance.rules.config.tcp.is_some() {
        tcp::connection(entrance, stream, watch).await;
    } else {
        // In a place of its own: tunnels of TCP would else be as large as it is.
        Box::pin(http::connection(entrance, stream, watch)).await;
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
