//! Failed handshakes: each gets a name for `hermes why`, a count, and a line in the log, of which there are not too many.

use std::net::SocketAddr;

use hermes_admit::current_snapshot::CurrentSnapshot;
use hermes_admit::note::{self, FailedHandshake};
use hermes_admit::refusals::remembered::{Instead, LastRefusals};
use hermes_admit::snapshot::ListenerRules;
use hermes_admit::worker::Worker;
use hermes_net::quic::ConnectionError;
use hermes_net::tls::{Fault, TlsError};
use hermes_net::{PeerAddress, StreamInfo};
use hermes_proto::refusal_id::RefusalId;
use tracing::field::display;

/// The addresses of both ends of a handshake.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandshakeEnds {
    pub(super) peer: PeerAddress,
    /// Our own address, where it is known.
    pub(super) local: Option<SocketAddr>,
}

/// Where failed handshakes of a listener are noted.
pub(super) struct HandshakeLog<'a> {
    rules: &'a ListenerRules,
    refusals: &'a LastRefusals,
    current: &'a CurrentSnapshot,
}

impl<'a> HandshakeLog<'a> {
    /// Of a listener, at one of its workers.
    pub(super) fn of(rules: &'a ListenerRules, worker: &'a Worker) -> Self {
        let shared = &worker.shared;
        Self {
            rules,
            refusals: &shared.refusals,
            current: &shared.snapshot,
        }
    }

    /// A handshake of TLS over TCP failed.
    pub(super) fn tls_failed(&self, ends: HandshakeEnds, error: &TlsError) {
        self.note(ends, Instead::Tls, error.fault, &error.detail);
    }

    /// A handshake of QUIC failed.
    pub(super) fn quic_failed(&self, ends: HandshakeEnds, error: &ConnectionError) {
        let fault = match error {
            ConnectionError::Tls(error) => error.fault,
            ConnectionError::TimedOut => Fault::Timeout,
            ConnectionError::Application { .. }
            | ConnectionError::Reset
            | ConnectionError::Local => Fault::Closed,
            ConnectionError::Transport { .. }
            | ConnectionError::Version
            | ConnectionError::Other(_) => Fault::Protocol,
        };
        self.note(ends, Instead::Quic, fault, &error.to_string());
    }

    /// A handshake of this protocol failed: the side at fault, and the details.
    pub(super) fn note(&self, ends: HandshakeEnds, instead: Instead, fault: Fault, detail: &str) {
        let listener = &*self.rules.name;
        let peer = ends.peer;
        let over = if instead == Instead::Quic {
            "quic"
        } else {
            "tcp"
        };
        let reason = fault.word();
        let words = fault.words();

        // Load balancers connect and leave each second to see whether the port is open: nothing was refused.
        let is_refused = fault != Fault::Closed;
        let refusal = is_refused.then(|| self.remember(ends, instead, fault, detail));
        let refusal = refusal.map(display);

        let telemetry = &self.rules.telemetry;
        match telemetry.handshake_refused(reason, &peer, is_refused) {
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
        &self,
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
        let failed = FailedHandshake {
            listener: self.rules,
            source,
            instead,
            key,
            said: format!("{}: {}: {detail}", fault.word(), fault.words()),
        };
        note::handshake(self.refusals, &self.current.load(), failed)
    }
}
