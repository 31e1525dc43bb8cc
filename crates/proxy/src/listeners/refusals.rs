//! Handshakes that came to nothing: one line each in the log, not too many, and a count.

use hermes_net::PeerAddress;
use hermes_net::quic::ConnectionError;
use hermes_net::tls::{Fault, TlsError};

use crate::snapshot::ListenerRules;

/// What carried the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Tcp,
    Quic,
}

/// A handshake of TLS over TCP failed.
pub(super) fn of_tls(rules: &ListenerRules, peer: PeerAddress, error: &TlsError) {
    note(rules, peer, Over::Tcp, error.fault, &error.detail);
}

/// One of QUIC failed.
pub(super) fn of_quic(rules: &ListenerRules, peer: PeerAddress, error: &ConnectionError) {
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
    note(rules, peer, Over::Quic, fault, &error.to_string());
}

/// The handshake of `peer` failed in this way.
pub(super) fn note(
    rules: &ListenerRules,
    peer: PeerAddress,
    over: Over,
    fault: Fault,
    detail: &str,
) {
    let listener = &*rules.name;
    let over = if over == Over::Quic { "quic" } else { "tcp" };
    let reason = fault.word();
    let words = fault.words();
    // A client that only looks whether a port is open, as load balancers do every second, connects and leaves.
    match rules
        .seeing
        .handshake_refused(reason, fault != Fault::Closed)
    {
        Some(0) => {
            tracing::info!(listener, %peer, over, reason, detail, "handshake refused: {words}")
        }
        Some(left_out) => {
            tracing::info!(listener, %peer, over, reason, detail, left_out, "handshake refused: {words}");
        }
        None => {
            tracing::debug!(listener, %peer, over, reason, detail, "handshake refused: {words}")
        }
    }
}
