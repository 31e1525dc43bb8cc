//! Handshakes that came to nothing: a name each, by which `hermes why` tells of it, one line in the log, not too many, and a count.

use std::net::SocketAddr;

use hermes_admit::note::{self, FailedHandshake};
use hermes_admit::refusals::remembered::Instead;
use hermes_admit::snapshot::ListenerRules;
use hermes_admit::worker::Shared;
use hermes_net::quic::ConnectionError;
use hermes_net::tls::{Fault, TlsError};
use hermes_net::{PeerAddress, StreamInfo};
use hermes_proto::refusal_id::RefusalId;
use tracing::field::display;

/// Between whom the handshake was.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeEnds {
    pub(super) peer: PeerAddress,
    /// Our own address, where it is known.
    pub(super) local: Option<SocketAddr>,
}

/// A handshake of TLS over TCP failed.
pub(super) fn of_tls(
    shared: &Shared,
    rules: &ListenerRules,
    ends: HandshakeEnds,
    error: &TlsError,
) {
    note(
        shared,
        rules,
        ends,
        Instead::Tls,
        error.fault,
        &error.detail,
    );
}

/// One of QUIC failed.
pub(super) fn of_quic(
    shared: &Shared,
    rules: &ListenerRules,
    ends: HandshakeEnds,
    error: &ConnectionError,
) {
    let fault = match error {
        ConnectionError::Tls(error) => error.fault,
        ConnectionError::TimedOut => Fault::Timeout,
        ConnectionError::Application { .. } | ConnectionError::Reset | ConnectionError::Local => {
            Fault::Closed
        }
        ConnectionError::Transport { .. }
        | ConnectionError::Version
        | ConnectionError::Other(_) => Fault::Protocol,
    };
    note(
        shared,
        rules,
        ends,
        Instead::Quic,
        fault,
        &error.to_string(),
    );
}

/// A handshake failed in this way: over what, whose fault it is, and the details.
pub(super) fn note(
    shared: &Shared,
    rules: &ListenerRules,
    ends: HandshakeEnds,
    instead: Instead,
    fault: Fault,
    detail: &str,
) {
    let listener = &*rules.name;
    let peer = ends.peer;
    let over = if instead == Instead::Quic {
        "quic"
    } else {
        "tcp"
    };
    let reason = fault.word();
    let words = fault.words();

    // A client that only looks whether a port is open, as load balancers do every second, connects and leaves: no one refused it.
    let is_refused = fault != Fault::Closed;
    let refusal = is_refused.then(|| remember(shared, rules, ends, instead, fault, detail));
    let refusal = refusal.map(display);

    match rules.telemetry.handshake_refused(reason, &peer, is_refused) {
        Some(0) => {
            tracing::info!(listener, %peer, over, reason, detail, refusal, "handshake refused: {words}")
        }
        Some(left_out) => {
            tracing::info!(listener, %peer, over, reason, detail, refusal, left_out, "handshake refused: {words}");
        }
        None => {
            tracing::debug!(listener, %peer, over, reason, detail, refusal, "handshake refused: {words}")
        }
    }
}

fn remember(
    shared: &Shared,
    rules: &ListenerRules,
    ends: HandshakeEnds,
    instead: Instead,
    fault: Fault,
    detail: &str,
) -> RefusalId {
    let key = match fault {
        Fault::NoCertificate => "auth",
        Fault::Timeout => "limits",
        _ => "tls",
    };
    let source = StreamInfo {
        peer: ends.peer,
        local: ends.local,
        tls: None,
        origin: None,
    };
    let said = format!("{}: {}: {detail}", fault.word(), fault.words());
    let failed = FailedHandshake {
        listener: rules,
        source,
        instead,
        key,
        said,
    };
    note::handshake(shared, failed)
}
