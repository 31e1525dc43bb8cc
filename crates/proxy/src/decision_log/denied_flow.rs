//! What is told of a flow of IP packets that the rules on packets deny.

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::IpProtocol;
use hermes_packet::tun::DeniedPacket;
use hermes_proto::ip::Fragment;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::Phase;
use hermes_rules::packets::{NONE_ALLOWS, PacketRule, has_ports};
use serde_json::{Value, json};

use super::draft::{Came, DecisionDraft, Ruling, Scene};
use super::{Author, mask, tell};
use crate::filter;
use crate::routed::Routed;
use crate::snapshot::Snapshot;

/// What the kind of an exchange is for requests.
const KIND: &str = "packet";

/// A flow in a tunnel that the rules of a snapshot deny.
pub(crate) struct DeniedFlow<'a> {
    pub(crate) routed: &'a Routed,
    pub(crate) snapshot: &'a Snapshot,
    /// Its first packet, and the rule.
    pub(crate) denied: &'a DeniedPacket<'a>,
    /// Where in the document it is denied.
    pub(crate) place: &'a str,
}

impl DeniedFlow<'_> {
    /// Tells of it, if decisions are logged; returns what the decision is called.
    pub(crate) fn tell(&self) -> Option<RefusalId> {
        let log = self.snapshot.told.decisions.as_deref()?;
        let rule = self.denied.rule;
        let name = rule.map_or("default", |rule| &rule.name);
        let author = Author {
            phase: Phase::Policy,
            decision: format!("policy/packets/{name}"),
            place: self.place.to_owned(),
        };

        let draft = DecisionDraft::of(self.input(), Vec::new(), author);
        let id = draft.id;
        let came = Came {
            ruling: Ruling::Dropped,
            reason: Some(rule.map_or_else(|| NONE_ALLOWS.to_owned(), PacketRule::says)),
            ..Came::default()
        };
        let scene = Scene {
            snapshot: self.snapshot,
            source: &self.routed.source,
            exchange: &self.routed.exchange,
            again: false,
        };

        let line = mask::line(draft.event(&scene, came), &log.mask);
        tell(&self.routed.worker, log, line);
        Some(id)
    }

    /// What was known of it, in the form of requests: the target is where the packet goes, the source where it comes from.
    fn input(&self) -> Value {
        let Self {
            routed, snapshot, ..
        } = *self;
        let packet = &self.denied.packet;
        let flow = packet.flow();
        let is_with_ports = has_ports(flow.protocol) && packet.fragment() != Fragment::Later;
        let port = |port: u16| is_with_ports.then_some(port);
        let user = routed.user.as_deref();
        let names = &snapshot.rules.names;
        let tls = routed.source.tls.as_ref();
        let certificate = tls.and_then(|tls| tls.certificate.as_ref());

        json!({
            "kind": KIND,
            "target": end(flow.destination, port(flow.destination_port)),
            "host": flow.destination,
            "port": port(flow.destination_port),
            "protocol": IpProtocol(flow.protocol).to_string(),
            "source": flow.source,
            "source_port": port(flow.source_port),
            "opened_by": self.denied.sender.word(),
            "user": user,
            "groups": names.groups_of(user),
            "claims": routed.auth.proof.claims(),
            "certificate": certificate.map(filter::described_certificate),
            "listener": &*routed.listener.name,
            "tunnel": routed.target.to_string(),
        })
    }
}

/// An end of a flow.
fn end(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(
        || address.to_string(),
        |port| SocketAddr::new(address, port).to_string(),
    )
}
