//! The flows of a tunnel that ends here: which are followed, and how they are reported.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_config::model::{FlowLog, IpProtocol};
use hermes_ip::{EndedFlow, FlowCount, FlowSampling, MAX_FOLLOWED};
use hermes_observe::{Exchange, MovedPackets, SeenFlow};
use hermes_packet::tun::{FlowMark, FlowWatcher};
use hermes_rules::packets::{OpenedBy, has_ports};

/// How long a flow may be silent before it has ended.
#[doc(alias("bound", "flows.silent_for"))]
const SILENCE: Duration = Duration::from_secs(60);

/// Which flows a document has followed.
pub(crate) fn sampling(config: &FlowLog) -> FlowSampling {
    FlowSampling {
        one_in: config.one_in.unwrap_or(1),
        silence: config.silent_for.map_or(SILENCE, |silence| silence.0),
        room: MAX_FOLLOWED,
    }
}

/// Counts the flows of a tunnel, and writes their records.
pub(crate) struct ToldFlows {
    exchange: Arc<Exchange>,
    one_in: u32,
}

impl ToldFlows {
    /// Those of this tunnel, each of which stands for so many.
    pub fn new(exchange: Arc<Exchange>, one_in: u32) -> Self {
        Self { exchange, one_in }
    }
}

impl FlowWatcher for ToldFlows {
    fn began(&mut self, is_allowed: bool) {
        self.exchange.flow_began(is_allowed);
    }

    fn ended(&mut self, flow: EndedFlow<FlowMark>, now: Instant) {
        let moved = |figure: fn(&FlowCount) -> u64| {
            let [sent, returned] = [figure(&flow.sent), figure(&flow.returned)];
            let [client_to_target, target_to_client] = match flow.mark.opened_by {
                OpenedBy::Client => [sent, returned],
                OpenedBy::Target => [returned, sent],
            };
            MovedPackets {
                client_to_target,
                target_to_client,
            }
        };
        let [source, target] = ends(&flow);

        self.exchange.flow_ended(SeenFlow {
            source,
            target,
            protocol: IpProtocol(flow.flow.protocol).to_string(),
            opened_by: flow.mark.opened_by.word(),
            rule: flow.mark.rule.clone(),
            is_allowed: flow.mark.is_allowed,
            age: now.saturating_duration_since(flow.first),
            duration: flow.last.saturating_duration_since(flow.first),
            packets: moved(|count| count.packets),
            bytes: moved(|count| count.bytes),
            one_in: self.one_in,
            reason: flow.end.word(),
        });
    }
}

/// Its ends, with ports where its protocol has some.
fn ends(flow: &EndedFlow<FlowMark>) -> [String; 2] {
    let flow = &flow.flow;
    let end = |address: IpAddr, port: u16| match has_ports(flow.protocol) {
        true => SocketAddr::new(address, port).to_string(),
        false => address.to_string(),
    };
    [
        end(flow.source, flow.source_port),
        end(flow.destination, flow.destination_port),
    ]
}
