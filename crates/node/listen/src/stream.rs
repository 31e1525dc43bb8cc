//! Stream sockets: the loop that accepts connections of `http` and `tcp` listeners.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use hermes_admit::entrance::Entrance;
use hermes_net::host_capture::CaptureInForce;
use hermes_net::{Acceptor, Listener, Stream, Watch, os};

use super::held::{Held, admit};
use super::held_syns::HeldSyns;
use super::http::Client;
use super::{capture, http, proxy_header, tcp};

/// Accepts connections until told to stop; then those that the kernel has accepted already.
pub(super) async fn serve(entrance: Entrance, listener: Listener, watch: &Watch) -> io::Result<()> {
    serve_captured(entrance, listener, None, watch).await
}

/// Captured connections.
#[derive(Clone)]
pub(super) struct CapturedConnections {
    /// The rules by which their packets come here.
    pub(super) rules: Arc<CaptureInForce>,
    /// Those whose beginning was held: exchanges wait for them.
    pub(super) holds: Arc<HeldSyns>,
}

/// The same for connections that were captured, if they were.
pub(super) async fn serve_captured(
    mut entrance: Entrance,
    listener: Listener,
    capture: Option<CapturedConnections>,
    watch: &Watch,
) -> io::Result<()> {
    let acceptor = Acceptor::new(listener)?;
    let open = Arc::new(());
    let mut is_fast = false;
    loop {
        take_fast_open(&acceptor, &entrance, &mut is_fast);
        let stream = tokio::select! {
            stream = acceptor.accept() => Some(stream),
            () = watch.graceful() => waiting(&acceptor).await,
        };

        let Some(stream) = stream else { return Ok(()) };
        entrance.renew();
        let rules = &entrance.rules;
        if Arc::strong_count(&open) > rules.connections() {
            rules.connection_refused();
            stream.abort();
            continue;
        }

        if let Some(congestion) = rules.config.congestion {
            stream.control_congestion(congestion.name());
        }
        let stream = match &capture {
            None => stream,
            Some(captured) => {
                let mut stream = stream;
                if let Err(error) = captured.rules.readdress(&mut stream) {
                    tracing::debug!(%error, "a connection to the port of captured ones itself is reset");
                    stream.abort();
                    continue;
                }
                let held = Held::new(&entrance, &open, Some(captured.rules.clone()));
                match captured.holds.hand_over(stream, held) {
                    Some(stream) => stream,
                    None => continue,
                }
            }
        };

        // A source that is introduced is not known yet.
        let unknown = rules.config.is_introduced();
        let mut inside = entrance.clone();
        if !unknown && !admit(&mut inside, stream.info().peer) {
            stream.abort();
            continue;
        }

        let rules = capture.as_ref().map(|captured| captured.rules.clone());
        let held = Held::new(&inside, &open, rules);
        spawn(inside, stream, watch, held);
    }
}

/// Serves a connection in a task. Those of HTTP and of TCP are different tasks, so that each is only as large as it must be; one whose
/// client is to be introduced first, which few listeners ask for, becomes another task then.
fn spawn(entrance: Entrance, stream: Stream, watch: &Watch, held: Held) {
    if !entrance.rules.config.is_introduced() {
        return serve_known(entrance, stream, watch, held);
    }

    let own = watch.clone();
    watch.spawn(async move {
        if let Some((entrance, stream)) = introduced(entrance, stream, &own).await {
            serve_known(entrance, stream, &own, held);
        }
    });
}

/// The same for a client that is known.
fn serve_known(entrance: Entrance, stream: Stream, watch: &Watch, held: Held) {
    let own = watch.clone();
    let config = &entrance.rules.config;
    if config.capture().is_some() && config.host_capture().is_none() {
        watch.spawn(capture::programs::connection(entrance, stream, own, held));
    } else if config.tcp().is_some() || config.socks().is_some() || config.capture().is_some() {
        watch.spawn(tcp::connection(entrance, stream, own, held));
    } else {
        watch.spawn(http::connection(Client::new(entrance, stream, own, held)));
    }
}

/// Has the socket open connections as the listener says, if that has changed since it was `is_fast`: from the next connection on.
fn take_fast_open(acceptor: &Acceptor, entrance: &Entrance, is_fast: &mut bool) {
    let takes = entrance.rules.config.takes_fast_open();
    if takes == std::mem::replace(is_fast, takes) {
        return;
    }
    let listener = &entrance.rules.name;
    if let Err(error) = acceptor.take_fast_open(takes) {
        tracing::warn!(%listener, %error, "`fast_open` has no effect: the system cannot do it");
    } else if takes && os::serves_fast_open() == Some(false) {
        tracing::warn!(%listener, "`fast_open` has no effect: allow it by `sysctl net.ipv4.tcp_fastopen=3`");
    }
}

/// Waits until the client is introduced.
async fn introduced(
    mut entrance: Entrance,
    stream: Stream,
    watch: &Watch,
) -> Option<(Entrance, Stream)> {
    let stream = tokio::select! {
        taken = Box::pin(proxy_header::take(stream, &entrance.rules)) => taken?,
        () = watch.forced() => return None,
    };
    if !admit(&mut entrance, stream.info().peer) {
        stream.abort();
        return None;
    }
    Some((entrance, stream))
}

/// A connection that is there without waiting: its client believes that it was accepted.
async fn waiting(acceptor: &Acceptor) -> Option<Stream> {
    // Lets the run time hear of new connections, and asks without the cooperative budget, which would answer for the socket.
    tokio::task::yield_now().await;
    let mut accept = pin!(tokio::task::unconstrained(acceptor.accept()));
    poll_fn(|cx| match accept.as_mut().poll(cx) {
        Poll::Ready(stream) => Poll::Ready(Some(stream)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
