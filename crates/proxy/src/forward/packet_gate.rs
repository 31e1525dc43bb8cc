//! The policy on packets, for a tunnel that ends here.

use hermes_packet::tun::{PacketGate, TunTunnel};
use hermes_rules::Whom;

use crate::filter::KnownUser;
use crate::routed::Routed;
use crate::snapshot::Snapshot;

/// Has the packets of a tunnel meet the rules of a snapshot, those that are about its user.
pub(super) fn set(tunnel: &TunTunnel, routed: &Routed, snapshot: &Snapshot) {
    tunnel.set_gate(gate(routed, snapshot));
}

fn gate(routed: &Routed, snapshot: &Snapshot) -> Option<PacketGate> {
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

    // Without random numbers, peers could at worst have flows judged again and again.
    let seed = getrandom::u64().unwrap_or_default();
    Some(PacketGate::new(policy, seed, tally))
}
