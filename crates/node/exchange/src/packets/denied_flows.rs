//! The flows of a tunnel that the rules on packets deny. Each is reported once, as far as there is room.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_admit::denied_flow::DeniedFlow;
use hermes_admit::filter::FLOW_REGO;
use hermes_admit::note;
use hermes_admit::routed::Routed;
use hermes_admit::snapshot::Snapshot;
use hermes_config::element;
use hermes_config::model::IpProtocol;
use hermes_ip::FlowCache;
use hermes_net::clock;
use hermes_packet::tun::{DeniedPacket, PacketDenier};
use hermes_proto::h2::{Bucket, Budget, Verdict};
use hermes_proto::ip::Fragment;
use hermes_rules::packets::has_ports;

/// Denied flows of one tunnel that get a name and a line in the log; the others are counted by rule.
#[doc(alias = "bound")]
const TOLD: Budget = Budget {
    burst: 8,
    per_second: 1,
};

/// Denied flows of one tunnel that find room in the log of decisions: a client that tries every port fills neither the log nor a worker.
#[doc(alias = "bound")]
const LOGGED: Budget = Budget {
    burst: 128,
    per_second: 16,
};

/// Denied flows of one tunnel that are known, so that those which are tried again are told of once: some 70 KB, taken with the first.
#[doc(alias = "bound")]
const KNOWN: usize = 1024;

/// Tells of the flows of a tunnel that the rules of a snapshot deny.
pub(crate) struct DeniedFlows {
    routed: Routed,
    snapshot: Arc<Snapshot>,
    known: FlowCache<()>,
    told: Bucket,
    logged: Bucket,
}

impl DeniedFlows {
    /// None yet. `seed` is a number that peers do not know.
    pub fn new(routed: Routed, snapshot: Arc<Snapshot>, seed: u64) -> Self {
        let now = clock::now().into_std();
        Self {
            routed,
            snapshot,
            known: FlowCache::new(KNOWN, seed),
            told: Bucket::new(TOLD, now),
            logged: Bucket::new(LOGGED, now),
        }
    }

    /// Tells of a packet that was denied, if it is the first of its flow.
    pub(crate) fn handle_denied(&mut self, denied: &DeniedPacket<'_>) {
        let mut is_new = false;
        self.known.verdict(&denied.packet.flow(), |_| is_new = true);
        if !is_new {
            return;
        }

        let now = clock::now().into_std();
        let is_told = self.told.take(now) == Verdict::Fine;
        let is_logged = self.snapshot.reports.decisions.is_some() && self.has_room(now);
        if is_told || is_logged {
            self.tell(denied, is_told, is_logged);
        }
    }

    /// Whether one more finds room in the log of decisions. The others are counted there as dropped.
    fn has_room(&mut self, now: std::time::Instant) -> bool {
        let has_room = self.logged.take(now) == Verdict::Fine;
        if !has_room {
            self.routed.worker.shared.telemetry.forgo_decision();
        }
        has_room
    }

    /// `hermes why` resolves the name that either log gives it.
    fn tell(&self, denied: &DeniedPacket<'_>, is_told: bool, is_logged: bool) {
        let Self {
            routed, snapshot, ..
        } = self;
        let (place, name) = match denied.by {
            PacketDenier::Rule(rule) => {
                let place = element("policy.packets.rules", rule.place);
                (place, rule.name.to_string())
            }
            PacketDenier::Default => (
                "policy.packets.default".to_owned(),
                "the default".to_owned(),
            ),
            PacketDenier::Policy(reason) => (
                FLOW_REGO.to_owned(),
                format!("the policy in Rego ({reason})"),
            ),
        };

        let flow = DeniedFlow {
            routed,
            snapshot,
            denied,
            place: &place,
        };
        let named = is_logged.then(|| flow.tell()).flatten();
        let said = format!("{name}: {}; denied", describe(denied));
        let refusal = note::denied_packet(routed, snapshot, place, said.clone(), named);

        if is_told {
            let tunnel = routed.exchange.id();
            let user = routed.user.as_deref();
            tracing::info!(%tunnel, user, %refusal, "packet denied: {said}");
        }
    }
}

/// A packet in words: protocol, ends and ports, and who sent it.
fn describe(denied: &DeniedPacket<'_>) -> String {
    let flow = denied.packet.flow();
    let protocol = IpProtocol(flow.protocol);
    let sender = denied.sender.word();

    let ends = if has_ports(flow.protocol) && denied.packet.fragment() != Fragment::Later {
        let from = SocketAddr::new(flow.source, flow.source_port);
        let to = SocketAddr::new(flow.destination, flow.destination_port);
        format!("{from} to {to}")
    } else {
        format!("{} to {}", flow.source, flow.destination)
    };
    format!("{protocol} from the {sender}, {ends}")
}
