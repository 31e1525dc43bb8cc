//! An exchange that has entered: it is in the table of live exchanges, and has a record.

use std::sync::Arc;

use hermes_http::{Kind, RequestHead};
use hermes_net::StreamInfo;
use hermes_observe::{Begin, Exchange};
use hermes_plug::arrival::Arrival;
use hermes_plug::target::Target;
use http::Version;

use crate::entrance::Entrance;
use crate::entry::Entry;
use crate::explain::explains;
use crate::filter;
use crate::pac::ProxyPac;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::trace;

/// An exchange in the table of live exchanges, by the rules of one snapshot.
pub struct Entered {
    /// Where it came in.
    pub entrance: Entrance,
    /// The rules that decide on it.
    pub snapshot: Arc<Snapshot>,
    /// Those of its listener.
    pub listener: Arc<ListenerRules>,
    /// Its record.
    pub exchange: Arc<Exchange>,
    /// The connection that it came on.
    pub source: Arc<StreamInfo>,
    /// Whether its client learns why it is refused.
    pub explained: bool,
    /// Whether its client is behind the other end of its connection.
    pub(crate) is_behind_proxy: bool,
}

impl Entered {
    /// Enters an exchange in the table.
    pub fn new(entrance: &Entrance, arrival: &mut Arrival) -> Self {
        let snapshot = entrance.worker.snapshot();
        let listener = entrance.rules_in(&snapshot);
        // An exchange that this node made comes through no other proxy.
        let rule = listener.client_address.as_ref();
        let is_behind_proxy =
            entrance.carrier.is_none() && rule.is_some_and(|rule| rule.readdress(arrival));
        let telemetry = &entrance.worker.shared.telemetry;
        let mut begin = described(&listener, arrival);
        if entrance.carrier.is_some() {
            begin.protocol = "ip";
        }
        let begun = telemetry.begin_at(begin, listener.telemetry.clone());
        let exchange = Arc::new(begun);

        if let Some(session) = arrival.session() {
            session.is_exchange(&exchange);
        }

        let source = arrival.source().clone();
        let head = arrival.head_mut();
        trace::enter(&snapshot, &listener, &exchange, &source, head);

        Self {
            explained: explains(&snapshot, &listener, &source),
            entrance: entrance.clone(),
            snapshot,
            listener,
            exchange,
            source,
            is_behind_proxy,
        }
    }

    /// Notes its target, without a path that is a secret.
    pub(crate) fn note_target(&self, head: &RequestHead, target: &Target) {
        let listener = &self.listener.name;
        match head.kind() {
            Kind::Message | Kind::Upgrade => {
                self.snapshot
                    .note_target(&self.exchange, head, target, &self.source, listener);
            }
            // The path of a tunnel says its target once more.
            _ => self.exchange.target(target.with_path("")),
        }
    }

    /// The author of `/proxy.pac`, if this is a request for it.
    pub fn proxy_pac(&self, arrival: &Arrival) -> Option<ProxyPac> {
        ProxyPac::of(&self.snapshot, &self.listener, &self.source, arrival.head())
    }

    /// Where it enters, and from whom.
    pub fn entry(&self) -> Entry<'_> {
        Entry {
            snapshot: &self.snapshot,
            listener: &self.listener,
            source: &self.source,
        }
    }
}

fn described(listener: &ListenerRules, arrival: &Arrival) -> Begin {
    // Of a device, every exchange but a tunnel of packets is a flow of packets.
    let has_device = listener
        .config
        .capture()
        .is_some_and(|own| own.host.is_none());
    let is_flow =
        (listener.config.tun().is_some() || has_device) && arrival.head().kind() != Kind::ConnectIp;
    let protocol = match arrival {
        _ if is_flow => "ip",
        Arrival::Packets(packets) if packets.end.session().is_some() => "udp",
        // The CONNECT-IP of a device is written as that of HTTP/2.
        Arrival::Packets(_) => "h2",
        Arrival::Offered(_) if listener.config.tcp().is_some() => "tcp",
        Arrival::Offered(_) if listener.config.socks().is_some() => "socks",
        Arrival::Offered(_) if listener.config.host_capture().is_some() => "tcp",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_3 => "h3",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_2 => "h2",
        Arrival::Offered(_) => "h1",
    };
    Begin {
        kind: filter::kind(arrival.head()),
        listener: listener.name.clone(),
        source: arrival.source().peer,
        protocol,
    }
}
