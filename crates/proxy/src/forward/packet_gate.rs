//! The policy on packets, and their flows, for a tunnel that ends here.

use std::sync::Arc;

use hermes_config::element;
use hermes_config::model::IpProtocol;
use hermes_net::clock;
use hermes_packet::tun::{DeniedPacket, FlowLedger, GateRules, PacketGate, TunTunnel};
use hermes_proto::h2::{Bucket, Budget, Verdict};
use hermes_proto::ip::Fragment;
use hermes_rules::Whom;
use hermes_rules::packets::{OpenedBy, has_ports};

use super::packet_flows;
use crate::filter::KnownUser;
use crate::routed::Routed;
use crate::snapshot::Snapshot;
use crate::why::note;

/// Denied packets of one tunnel that get a name and a line in the log; the others are counted by rule.
#[doc(alias = "bound")]
const TOLD: Budget = Budget {
    burst: 8,
    per_second: 1,
};

/// Has the packets of a tunnel meet the rules of a snapshot, those that are about its user.
pub(super) fn set(tunnel: &TunTunnel, routed: &Routed, snapshot: &Arc<Snapshot>) {
    // Without random numbers, peers could at worst have flows judged again and again.
    let seed = getrandom::u64().unwrap_or_default();
    let rules = rules(routed, snapshot, seed);
    let flows = flows(routed, snapshot, seed);
    let is_asked = rules.is_some() || flows.is_some();
    tunnel.set_gate(is_asked.then(|| PacketGate::new(rules, flows)));
}

/// Follows the flows of a tunnel, if the document says so.
fn flows(routed: &Routed, snapshot: &Snapshot, seed: u64) -> Option<FlowLedger> {
    let config = snapshot.document.log.flows.as_ref()?;
    let sampling = packet_flows::sampling(config);
    let told = packet_flows::ToldFlows::new(routed.exchange.clone(), sampling.one_in);
    Some(FlowLedger::new(sampling, seed, told))
}

fn rules(routed: &Routed, snapshot: &Arc<Snapshot>, seed: u64) -> Option<GateRules> {
    let rules = snapshot.rules.packets.as_ref()?;
    let user = routed.user.as_deref();
    let listener = routed.entrance.rules_in(snapshot);
    let claimed = KnownUser::new(&routed.auth, &listener, user).claimed;
    let policy = rules.of(&Whom::new(&snapshot.rules.names, user, claimed));

    let counted = policy
        .rules()
        .iter()
        .map(|rule| Some((&rule.name, rule.allow)));
    let telemetry = &routed.worker.shared.telemetry;
    let tally = telemetry.policy(counted, policy.allows_by_default());

    let denied = tells(routed.clone(), snapshot.clone());
    Some(GateRules::new(policy, seed, tally, denied))
}

/// Gives the packets that are denied a name by which `hermes why` tells of them, not too many.
fn tells(routed: Routed, snapshot: Arc<Snapshot>) -> impl FnMut(&DeniedPacket<'_>) {
    let mut told = Bucket::new(TOLD, clock::now().into_std());

    move |denied| {
        if told.take(clock::now().into_std()) != Verdict::Fine {
            return;
        }

        let place = match denied.rule {
            Some(rule) => element("policy.packets.rules", rule.place),
            None => "policy.packets.default".to_owned(),
        };
        let name = denied.rule.map_or("the default", |rule| &rule.name);
        let said = format!("{name}: {}; denied", describe(denied));
        let refusal = note::denied_packet(&routed, &snapshot, (place, said.clone()));

        let tunnel = routed.exchange.id();
        let user = routed.user.as_deref();
        tracing::info!(%tunnel, user, %refusal, "packet denied: {said}");
    }
}

/// A packet in words: protocol, ends and ports, and who sent it.
fn describe(denied: &DeniedPacket<'_>) -> String {
    let flow = denied.packet.flow();
    let protocol = IpProtocol(flow.protocol);
    let sender = match denied.sender {
        OpenedBy::Client => "the client",
        OpenedBy::Target => "the target",
    };

    let ends = if has_ports(flow.protocol) && denied.packet.fragment() != Fragment::Later {
        let from = std::net::SocketAddr::new(flow.source, flow.source_port);
        let to = std::net::SocketAddr::new(flow.destination, flow.destination_port);
        format!("{from} to {to}")
    } else {
        format!("{} to {}", flow.source, flow.destination)
    };
    format!("{protocol} from {sender}, {ends}")
}
