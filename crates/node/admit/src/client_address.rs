//! Clients that come through other proxies: from here on a request is from the address that a trusted field tells.

use std::sync::Arc;
use std::time::Instant;

use hermes_config::model::Listener;
use hermes_http::Offered;
use hermes_net::{PeerAddress, StreamInfo};
use hermes_observe::Periodic;
use hermes_plug::arrival::Arrival;
use hermes_rules::{Client, ClientField};

use crate::snapshot::ListenerRules;

/// What a listener knows its clients behind proxies by.
pub struct ClientAddressRule {
    field: ClientField,
    /// Requests of which the field tells no address, as the log tells of them.
    unread: Periodic,
}

impl ClientAddressRule {
    pub fn of(config: &Listener) -> Option<Self> {
        let field = ClientField::new(config.client_address.as_ref()?)?;
        let unread = Periodic::default();
        Some(Self { field, unread })
    }
}

/// Gives a request the address of its client, where the listener knows it from a field. Whether it has another one than its
/// connection.
pub fn readdress(listener: &ListenerRules, arrival: &mut Arrival) -> bool {
    let (Some(rule), Arrival::Offered(offered)) = (&listener.client_address, arrival) else {
        return false;
    };
    let field = &rule.field;

    let connection = offered.source.peer.ip();
    let address = match field.client(&offered.head.fields, connection) {
        Client::Stranger => {
            // The origin must not believe it either.
            offered.head.fields.remove(field.name());
            None
        }
        Client::Proxy => None,
        Client::Named(address) => Some(address),
        Client::Unreadable(known) => {
            listener.client_unread(rule, &offered.source.peer);
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

/// The rest of what is known of the connection stays: TLS was spoken with the proxy.
fn is_from(offered: &mut Offered, client: PeerAddress) {
    offered.source = Arc::new(StreamInfo {
        peer: client,
        ..(*offered.source).clone()
    });
}

impl ListenerRules {
    /// Whether a connection is a proxy's that tells of its clients.
    pub(crate) fn is_of_proxy(&self, peer: &PeerAddress) -> bool {
        let rule = self.client_address.as_ref();
        rule.is_some_and(|rule| rule.field.believes(peer.ip()))
    }

    /// Counts a request whose client is not known, and says so from time to time.
    fn client_unread(&self, rule: &ClientAddressRule, proxy: &PeerAddress) {
        self.telemetry.client_unread();
        if let Some(requests) = rule.unread.count(1, Instant::now()) {
            let field = rule.field.name().as_str();
            tracing::warn!(
                listener = &*self.name,
                %proxy,
                requests,
                field,
                "a proxy of `client_address.from` names its client by no address: such requests count as the proxy's own"
            );
        }
    }
}
