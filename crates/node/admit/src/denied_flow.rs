//! The log of flows of IP packets that the rules on packets deny.

use hermes_net::memory::Owner;
use hermes_packet::tun::{DeniedPacket, PacketDenier};
use hermes_proto::ip::Fragment;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::Phase;
use hermes_rules::packets::{NONE_ALLOWS, has_ports};
use serde_json::Value;

use crate::decision_log::{self, Author, DecisionDraft, DecisionResult, Ruling, Scene};
use crate::filter;
use crate::routed::Routed;
use crate::snapshot::Snapshot;

/// A flow in a tunnel that the rules of a snapshot deny.
pub struct DeniedFlow<'a> {
    /// The tunnel.
    pub routed: &'a Routed,
    /// The rules that deny it.
    pub snapshot: &'a Snapshot,
    /// Its first packet, and the rule.
    pub denied: &'a DeniedPacket<'a>,
    /// Where in the document it is denied.
    pub place: &'a str,
}

impl DeniedFlow<'_> {
    /// Logs it, if decisions are logged; returns the name of the decision.
    pub fn tell(&self) -> Option<RefusalId> {
        let log = self.snapshot.reports.decisions.as_deref()?;
        let (name, reason) = match self.denied.by {
            PacketDenier::Rule(rule) => (&*rule.name, rule.says()),
            PacketDenier::Default => ("default", NONE_ALLOWS.to_owned()),
            PacketDenier::Policy(reason) => ("rego", reason.to_owned()),
        };
        let author = Author {
            phase: Phase::Policy,
            decision: format!("policy/packets/{name}"),
            place: self.place.to_owned(),
        };

        let owner = Owner::of(self.routed.user.as_deref(), &self.routed.source.peer);
        let draft = DecisionDraft::of(self.input(), owner, author);
        let id = draft.id;
        let result = DecisionResult {
            ruling: Ruling::Dropped,
            reason: Some(reason),
            ..DecisionResult::default()
        };
        let scene = Scene {
            node: &self.snapshot.node.name,
            revision: self.snapshot.revision,
            source: &self.routed.source,
            exchange: &self.routed.exchange,
            again: false,
        };

        let line = log.line(draft, &scene, result);
        decision_log::write(&self.routed.worker.shared.telemetry, log, line);
        Some(id)
    }

    /// The input of the decision, in the form of requests: the target is the destination of the packet.
    fn input(&self) -> Value {
        let Self {
            routed, snapshot, ..
        } = *self;
        let packet = &self.denied.packet;
        let flow = packet.flow();
        let is_with_ports = has_ports(flow.protocol) && packet.fragment() != Fragment::Later;
        let groups = snapshot.rules.names.groups_of(routed.user.as_deref());
        let target = routed.target.to_string();
        let tunnel = routed.flow_tunnel(&groups, &target);
        filter::described_flow(&flow, is_with_ports, self.denied.sender, tunnel)
    }
}
