//! The policy on packets, and their flows, for a tunnel that ends here.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_admit::filter::{FLOW_REGO, FlowRego, FlowRuling};
use hermes_admit::routed::Routed;
use hermes_admit::snapshot::Snapshot;
use hermes_net::{LocalAddresses, clock};
use hermes_packet::tun::{
    DeniedPacket, FlowAnswer, FlowLedger, FlowPolicy, GateRules, OwnMachine, PacketGate, TunTunnel,
};
use hermes_plug::Outcome;
use hermes_proto::h2::{Bucket, Budget, Verdict};
use hermes_rules::Whom;

use super::denied_flows::DeniedFlows;
use crate::packets::followed_flows;

/// Flows of one tunnel about which a policy in Rego is asked: a client that opens very many does not fill a worker with evaluations.
#[doc(alias = "bound")]
const EVALUATIONS: Budget = Budget {
    burst: 512,
    per_second: 512,
};

/// The addresses of this machine that clients may reach: those that they may choose as targets of other exchanges.
struct ThisMachine {
    snapshot: Arc<Snapshot>,
    local: LocalAddresses,
}

impl OwnMachine for ThisMachine {
    fn revision(&self) -> u64 {
        self.local.revision()
    }

    fn has(&self, address: IpAddr) -> bool {
        self.local.contains(address)
    }

    fn opens(&self, address: SocketAddr) -> bool {
        self.snapshot.may_choose(address).is_ok()
    }
}

/// Has the packets of a tunnel meet the rules of a snapshot, those that are about its user.
pub(crate) fn set(tunnel: &TunTunnel, routed: &Routed, snapshot: &Arc<Snapshot>) {
    // Without random numbers, peers could at worst have flows judged again and again.
    let seed = getrandom::u64().unwrap_or_default();
    let rules = rules(routed, snapshot, seed);
    let flows = flows(routed, snapshot, seed);
    let is_asked = rules.is_some() || flows.is_some();
    let policy = snapshot.policing.flows.clone();
    let policy = policy.map(|policy| flow_policy(routed, snapshot, policy, seed));
    let machine = ThisMachine {
        snapshot: snapshot.clone(),
        local: routed.worker.shared.local.clone(),
    };
    tunnel.set_machine(Box::new(machine), seed);
    tunnel.set_gate(is_asked.then(|| PacketGate::new(rules, flows).with_policy(policy)));
}

/// Asks the policy in Rego about flows, and counts its answers.
fn flow_policy(
    routed: &Routed,
    snapshot: &Arc<Snapshot>,
    policy: Arc<FlowRego>,
    seed: u64,
) -> FlowPolicy {
    let routed = routed.clone();
    let snapshot = snapshot.clone();
    let mut evaluations = Bucket::new(EVALUATIONS, clock::now().into_std());
    FlowPolicy::new(seed, move |question| {
        let telemetry = &routed.worker.shared.telemetry;
        let began = clock::now().into_std();
        if evaluations.take(began) != Verdict::Fine {
            telemetry.filtered(FLOW_REGO, Outcome::FailedClosed.word(), None);
            return FlowAnswer::NotAsked("too many flows at once".to_owned());
        }

        let groups = snapshot.rules.names.groups_of(routed.user.as_deref());
        let target = routed.target.to_string();
        let tunnel = routed.flow_tunnel(&groups, &target);
        let FlowRuling { outcome, reason } = policy.judge(question, tunnel);
        telemetry.filtered(FLOW_REGO, outcome.word(), Some(began.elapsed()));
        match outcome {
            Outcome::Allowed => FlowAnswer::Allowed,
            _ => FlowAnswer::Denied(reason),
        }
    })
}

/// Follows the flows of a tunnel, if the document says so.
fn flows(routed: &Routed, snapshot: &Snapshot, seed: u64) -> Option<FlowLedger> {
    let config = snapshot.document.log.flows.as_ref()?;
    let sampling = followed_flows::sampling(config);
    let told = followed_flows::ToldFlows::new(routed.exchange.clone(), sampling.one_in);
    Some(FlowLedger::new(sampling, seed, told))
}

fn rules(routed: &Routed, snapshot: &Arc<Snapshot>, seed: u64) -> Option<GateRules> {
    let rules = snapshot.rules.packets.as_ref()?;
    let user = routed.user.as_deref();
    let listener = routed.entrance.rules_in(snapshot);
    let claimed = listener.known_user(&routed.auth, user).claimed;
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
