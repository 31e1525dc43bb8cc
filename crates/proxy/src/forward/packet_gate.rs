//! The policy on packets, and their flows, for a tunnel that ends here.

use std::sync::Arc;

use hermes_packet::tun::{DeniedPacket, FlowLedger, GateRules, PacketGate, TunTunnel};
use hermes_rules::Whom;

use super::denied_flows::DeniedFlows;
use super::packet_flows;
use crate::filter::KnownUser;
use crate::routed::Routed;
use crate::snapshot::Snapshot;

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

    let mut denied = DeniedFlows::new(routed.clone(), snapshot.clone(), seed);
    let told = move |packet: &DeniedPacket<'_>| denied.handle_denied(packet);
    Some(GateRules::new(policy, seed, tally, told))
}
