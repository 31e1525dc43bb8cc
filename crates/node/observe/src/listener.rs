//! The counters of one listener: handles without look-ups.

use std::sync::Arc;
use std::time::Instant;

use hermes_net::PeerAddress;
use hermes_net::memory::Owner;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::lines::LineShares;
use super::periodic::Periodic;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListenerLabel {
    listener: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    listener: Arc<str>,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SchemeLabels {
    listener: Arc<str>,
    scheme: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NameLabels {
    listener: Arc<str>,
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandshakeLabels {
    listener: Arc<str>,
    reason: &'static str,
}

/// Families with a series per listener.
#[derive(Debug, Default)]
pub(super) struct ListenerFamilies {
    bytes: Family<DirectionLabels, Counter>,
    accepted: Family<ListenerLabel, Counter>,
    connections: Family<ListenerLabel, Gauge>,
    exchanges: Family<ListenerLabel, Gauge>,
    malformed: Family<ListenerLabel, Counter>,
    clients_unread: Family<ListenerLabel, Counter>,
    auth_failures: Family<SchemeLabels, Counter>,
    handshakes: Family<HandshakeLabels, Counter>,
    names: Family<NameLabels, Counter>,
}

impl ListenerFamilies {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "bytes",
            "Content and tunnel bytes moved",
            self.bytes.clone(),
        );
        registry.register(
            "connections_accepted",
            "Connections accepted",
            self.accepted.clone(),
        );
        registry.register(
            "connections_active",
            "Connections open now",
            self.connections.clone(),
        );
        registry.register(
            "exchanges_active",
            "Exchanges open now",
            self.exchanges.clone(),
        );
        registry.register(
            "malformed_requests",
            "Requests that broke their protocol",
            self.malformed.clone(),
        );
        let help = "Requests whose client a trusted proxy named by no address";
        registry.register("client_addresses_unread", help, self.clients_unread.clone());
        registry.register(
            "auth_failures",
            "Requests whose sender was refused",
            self.auth_failures.clone(),
        );
        let help = "Handshakes of TLS and QUIC that came to nothing";
        registry.register("handshakes_refused", help, self.handshakes.clone());
        let help = "Questions about names that came to a TUN device";
        registry.register("names_asked", help, self.names.clone());
    }

    /// The handles of a listener.
    pub fn handles(&self, listener: &str) -> ListenerTelemetry {
        let name: Arc<str> = listener.into();
        let label = || ListenerLabel {
            listener: name.clone(),
        };

        let bytes = |direction| {
            self.bytes.get_or_create_owned(&DirectionLabels {
                listener: name.clone(),
                direction,
            })
        };

        ListenerTelemetry {
            name: name.clone(),
            from_client: bytes("client_to_target"),
            to_client: bytes("target_to_client"),
            accepted: self.accepted.get_or_create_owned(&label()),
            connections: self.connections.get_or_create_owned(&label()),
            exchanges: self.exchanges.get_or_create_owned(&label()),
            malformed: self.malformed.get_or_create_owned(&label()),
            rare: RareFamilies {
                clients_unread: self.clients_unread.clone(),
                auth_failures: self.auth_failures.clone(),
                handshakes: self.handshakes.clone(),
                names: self.names.clone(),
            },
            lines: Mutex::default(),
            oversize: Periodic::default(),
        }
    }
}

/// Families that are looked up when they are counted.
#[derive(Debug)]
struct RareFamilies {
    clients_unread: Family<ListenerLabel, Counter>,
    auth_failures: Family<SchemeLabels, Counter>,
    handshakes: Family<HandshakeLabels, Counter>,
    names: Family<NameLabels, Counter>,
}

/// The handles of one listener: counting takes no lock and no look-up, except for failures to authenticate.
#[derive(Debug)]
pub struct ListenerTelemetry {
    name: Arc<str>,
    from_client: Counter,
    to_client: Counter,
    accepted: Counter,
    connections: Gauge,
    exchanges: Gauge,
    malformed: Counter,
    rare: RareFamilies,
    /// Of the log, about handshakes.
    lines: Mutex<LineShares>,
    /// Datagrams that were too large for QUIC datagrams, as the log tells of them.
    pub(super) oversize: Periodic,
}

impl ListenerTelemetry {
    /// Counts a connection; it is open until the guard is dropped.
    #[must_use]
    pub fn accepted(&self) -> ConnectionGuard {
        self.accepted.inc();
        ConnectionGuard::of(&self.connections)
    }

    /// Counts a request that broke its protocol.
    pub fn malformed(&self) {
        self.malformed.inc();
    }

    /// Counts a request for which a trusted proxy named a client without a readable address.
    pub fn client_unread(&self) {
        let labels = ListenerLabel {
            listener: self.name.clone(),
        };
        self.rare.clients_unread.get_or_create(&labels).inc();
    }

    /// Counts a request with a refused sender; `scheme` is that of a challenge.
    pub fn auth_failure(&self, scheme: &'static str) {
        let labels = SchemeLabels {
            listener: self.name.clone(),
            scheme,
        };
        self.rare.auth_failures.get_or_create(&labels).inc();
    }

    /// Counts a question about a name, and the answer.
    pub fn name_asked(&self, answer: &'static str) {
        let labels = NameLabels {
            listener: self.name.clone(),
            answer,
        };
        self.rare.names.get_or_create(&labels).inc();
    }

    /// Counts a handshake of `peer` that came to nothing for this reason. Where it is one to `tell` of, and not too many were told of
    /// lately: how many were left out before it.
    pub fn handshake_refused(
        &self,
        reason: &'static str,
        peer: &PeerAddress,
        tell: bool,
    ) -> Option<u64> {
        let labels = HandshakeLabels {
            listener: self.name.clone(),
            reason,
        };

        self.rare.handshakes.get_or_create(&labels).inc();
        if tell {
            let source = Owner::of(None, peer);
            self.lines.lock().next(source, Instant::now())
        } else {
            None
        }
    }

    pub(super) fn exchange_began(&self) {
        self.exchanges.inc();
    }

    pub(super) fn exchange_ended(&self) {
        self.exchanges.dec();
    }

    pub(super) fn moved(&self, from_client: u64, to_client: u64) {
        self.from_client.inc_by(from_client);
        self.to_client.inc_by(to_client);
    }
}

/// An open connection; dropping it closes it for the metrics.
#[derive(Debug)]
pub struct ConnectionGuard(Gauge);

impl ConnectionGuard {
    /// One more is open.
    pub(super) fn of(open: &Gauge) -> Self {
        open.inc();
        Self(open.clone())
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
