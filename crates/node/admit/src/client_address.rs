//! Clients that come through other proxies: from here on a request is from the address that a trusted field tells.

use std::sync::Arc;
use std::time::Instant;

use hermes_config::model::Listener;
use hermes_http::Offered;
use hermes_net::{PeerAddress, StreamInfo};
use hermes_observe::{ListenerTelemetry, Periodic};
use hermes_plug::arrival::Arrival;
use hermes_rules::{Client, ClientField};

/// How a listener knows its clients behind proxies.
pub struct ClientAddressRule {
    field: ClientField,
    listener: Arc<str>,
    telemetry: Arc<ListenerTelemetry>,
    /// Requests of which the field tells no address, as the log tells of them.
    unread: Periodic,
}

impl ClientAddressRule {
    /// The rule of a listener; `None` where it knows clients by their connections alone.
    pub fn of(
        config: &Listener,
        listener: &Arc<str>,
        telemetry: &Arc<ListenerTelemetry>,
    ) -> Option<Self> {
        Some(Self {
            field: ClientField::new(config.http()?.client_address.as_ref()?)?,
            listener: listener.clone(),
            telemetry: telemetry.clone(),
            unread: Periodic::default(),
        })
    }

    /// Whether a connection is a proxy's that tells of its clients.
    pub(crate) fn is_of_proxy(&self, peer: &PeerAddress) -> bool {
        self.field.believes(peer.ip())
    }

    /// Gives a request the address of its client, where the field tells it. Whether it has another one than its connection.
    pub(crate) fn readdress(&self, arrival: &mut Arrival) -> bool {
        let Arrival::Offered(offered) = arrival else {
            return false;
        };

        let connection = offered.source.peer.ip();
        let address = match self.field.client(&offered.head.fields, connection) {
            Client::Stranger => {
                // The origin must not believe it either.
                offered.head.fields.remove(self.field.name());
                None
            }
            Client::Proxy => None,
            Client::Named(address) => Some(address),
            Client::Unreadable(known) => {
                self.count_unread(&offered.source.peer);
                known
            }
        };

        match address {
            Some(address) => {
                is_from(offered, PeerAddress::Ip(address));
                true
            }
            None => false,
        }
    }

    /// Counts a request whose client is not known, and says so from time to time.
    fn count_unread(&self, proxy: &PeerAddress) {
        self.telemetry.client_unread();
        if let Some(requests) = self.unread.count(1, Instant::now()) {
            tracing::warn!(
                listener = &*self.listener,
                %proxy,
                requests,
                field = self.field.name().as_str(),
                "a proxy of `client_address.from` names its client by no address: such requests count as the proxy's own"
            );
        }
    }
}

/// The other facts of the connection stay: TLS was spoken with the proxy.
fn is_from(offered: &mut Offered, client: PeerAddress) {
    offered.source = Arc::new(StreamInfo {
        peer: client,
        ..(*offered.source).clone()
    });
}
