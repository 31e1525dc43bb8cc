//! HTTP/3: the loop that accepts connections of `http` listeners over QUIC.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::admission::Admission;
use hermes_admit::entrance::Entrance;
use hermes_admit::snapshot::ListenerRules;
use hermes_net::quic::{Connection, ConnectionError, Endpoint, Incoming};
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{PeerAddress, Watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::greetings::LAST_HANDSHAKE;
use super::http;
use super::refusals::{HandshakeEnds, HandshakeLog};

/// The codes of RFC 9114, section 8.1.
const NO_ERROR: u64 = 0x100;
const EXCESSIVE_LOAD: u64 = 0x107;

/// Why a connection of a source that has too many is closed.
const TOO_MANY: &[u8] = b"too many connections";

/// How long the ends of connections may take to reach their clients when everything ends at once.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(1);

/// Turns of the runtime in which an endpoint that is not used any more closes its socket.
const CLOSING: usize = 8;

/// Accepts connections until told to stop; then refuses new ones while the open ones go on.
pub(super) async fn serve(
    entrance: Entrance,
    socket: DatagramSocket,
    share: u8,
    watch: &Watch,
) -> io::Result<()> {
    accept(entrance, socket, share, watch).await?;
    // The socket is closed by a task of its own, once no one needs it. The port should be free when this returns.
    for _ in 0..CLOSING {
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn accept(
    mut entrance: Entrance,
    socket: DatagramSocket,
    share: u8,
    watch: &Watch,
) -> io::Result<()> {
    let Some(options) = &entrance.rules.tls.quic else {
        return Ok(());
    };
    let endpoint = Endpoint::server(socket, share, options)?;
    let mut in_force = entrance.rules.clone();
    let mut accepting = true;
    let open = Arc::new(());

    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            () = watch.graceful(), if accepting => {
                accepting = false;
                endpoint.stop_accepting();
                continue;
            }
            () = endpoint.idle(), if !accepting => return Ok(()),
            () = watch.forced() => {
                endpoint.close(NO_ERROR, b"");
                // A client that did not hear of it by then hears nothing more.
                drop(timeout(FAREWELL, endpoint.idle()).await);
                return Ok(());
            }
        };

        let Some(incoming) = incoming else {
            return Ok(());
        };
        let rules = entrance.renew();
        if !is_welcome(rules, &open) {
            incoming.refuse();
            continue;
        }

        // Handshakes take their certificate from the endpoint, so it has to learn of a reload here.
        if !Arc::ptr_eq(&in_force, rules) {
            in_force = rules.clone();
            renew(&endpoint, rules);
        }

        let entrance = entrance.clone();
        let open = open.clone();
        let own = watch.clone();
        watch.spawn(async move {
            let _held = open;
            connection(entrance, incoming, &own).await;
        });
    }
}

/// Whether the listener still speaks HTTP/3, and has room.
fn is_welcome(rules: &ListenerRules, open: &Arc<()>) -> bool {
    let has_room = Arc::strong_count(open) <= rules.connections();
    if !has_room {
        rules.connection_refused();
    }
    has_room && rules.tls.quic.is_some()
}

/// Gives the endpoint the options in force, for connections to come.
fn renew(endpoint: &Endpoint, rules: &ListenerRules) {
    let Some(options) = &rules.tls.quic else {
        return;
    };
    if let Err(error) = endpoint.set_server(options) {
        tracing::error!(listener = %rules.name, %error, "keeping the previous HTTP/3 certificate");
    }
}

/// Serves one connection. Its source counts once it has proved its address: others could claim it. Until then it is one of the
/// unfinished handshakes, whose number has a bound of its own, even where early data is served already.
async fn connection(mut entrance: Entrance, incoming: Incoming, watch: &Watch) {
    let rules = entrance.rules.clone();
    let worker = entrance.worker.clone();
    let peer = PeerAddress::Ip(incoming.peer());
    let refused = |error: &ConnectionError| {
        let ends = HandshakeEnds { peer, local: None };
        HandshakeLog::of(&rules, &worker).quic_failed(ends, error);
    };
    let deadline = Instant::now() + rules.http.options.head_time;
    let accepted = tokio::select! {
        accepted = timeout_at(deadline, incoming.accept()) => accepted,
        () = watch.graceful_for(LAST_HANDSHAKE) => return,
    };

    let connection: Connection = match accepted {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return refused(&error),
        Err(_) => return refused(&ConnectionError::TimedOut),
    };

    entrance.admission = Admission::of(&rules, &peer);
    let admission = entrance.admission.clone();
    let has_room = || {
        admission
            .as_ref()
            .is_none_or(|own| own.enter(&worker.shared.shares, &rules, &peer))
    };

    if connection.is_confirmed() {
        if !has_room() {
            return connection.close(EXCESSIVE_LOAD, TOO_MANY);
        }
        let _held = rules.telemetry.accepted();
        return http::quic_connection(entrance, connection, watch).await;
    }

    // Early data is served before the handshake ends; a client that replays it never confirms the connection.
    let mut served = pin!(http::quic_connection(entrance, connection.clone(), watch));
    let confirmed = tokio::select! {
        confirmed = timeout_at(deadline, connection.confirmed()) => confirmed.is_ok(),
        () = watch.graceful_for(LAST_HANDSHAKE) => connection.is_confirmed(),
        () = &mut served => return,
    };

    if !confirmed {
        refused(&ConnectionError::TimedOut);
        return connection.close(EXCESSIVE_LOAD, b"the handshake did not end in time");
    }

    if !has_room() {
        return connection.close(EXCESSIVE_LOAD, TOO_MANY);
    }
    let _held = rules.telemetry.accepted();
    served.await;
}
