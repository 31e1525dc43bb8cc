//! The access record of one flow of IP.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hermes_net::memory::Owner;
use serde::Serialize;

use crate::live::Live;
use crate::record::{Event, owner_of, text_bytes};

/// A flow of IP that has ended, in a tunnel that is an exchange.
#[derive(Debug, Clone)]
pub struct SeenFlow {
    /// Where it was opened from: an address, with a port if its protocol has some.
    pub source: String,
    /// Where it was opened to, likewise.
    pub target: String,
    /// Its protocol above IP.
    pub protocol: String,
    /// The side of the tunnel that sent the first packet: `client` or `target`.
    pub opened_by: &'static str,
    /// The rule that decided about its first packet, if one did.
    pub rule: Option<Arc<str>>,
    /// Whether it may pass.
    pub is_allowed: bool,
    /// How long ago its first packet came.
    pub age: Duration,
    /// From its first packet to its last.
    pub duration: Duration,
    /// Packets of either direction.
    pub packets: MovedPackets,
    /// Bytes of either direction, headers of IP included.
    pub bytes: MovedPackets,
    /// For how many flows it stands.
    pub one_in: u32,
    /// Why it has ended.
    pub reason: &'static str,
}

/// The traffic of a flow in either direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MovedPackets {
    /// From the client of the tunnel.
    pub client_to_target: u64,
    /// To it.
    pub target_to_client: u64,
}

/// The access record of a flow.
#[derive(Debug, Serialize)]
pub(super) struct FlowRecord {
    time: String,
    #[serde(flatten)]
    tunnel: FlowTunnel,
    kind: &'static str,
    event: Event,
    node: String,
    #[serde(flatten)]
    facts: FlowFacts,
    bytes: MovedPackets,
    packets: MovedPackets,
    began: String,
    duration_ms: u64,
    one_in: u32,
    reason: &'static str,
}

/// Of which tunnel a flow is.
#[derive(Debug, Serialize)]
struct FlowTunnel {
    id: String,
    trace: Option<String>,
    listener: String,
    user: Option<String>,
    route: Option<String>,
    /// Where the tunnel comes from.
    #[serde(skip)]
    source: String,
}

/// The facts of a flow, and the decision about it.
#[derive(Debug, Serialize)]
struct FlowFacts {
    protocol: String,
    source: String,
    target: String,
    opened_by: &'static str,
    rule: Option<String>,
    outcome: &'static str,
}

impl FlowTunnel {
    fn of(live: &Live) -> Self {
        let facts = live.facts.lock();
        Self {
            id: live.id.to_string(),
            trace: live.trace(),
            listener: live.begin.listener.to_string(),
            user: facts.user.clone(),
            route: facts.route.as_deref().map(str::to_owned),
            source: live.begin.source.to_string(),
        }
    }
}

impl FlowRecord {
    /// Bytes of memory that it takes while it waits.
    pub(super) fn size(&self) -> usize {
        let Self { tunnel, facts, .. } = self;
        let texts = text_bytes([&tunnel.trace, &tunnel.user, &tunnel.route, &facts.rule]);
        size_of::<Self>() + texts + facts.source.len() + facts.target.len()
    }

    /// The owner of its tunnel.
    pub(super) fn owner(&self) -> Owner {
        owner_of(self.tunnel.user.as_deref(), &self.tunnel.source)
    }

    /// Of a flow in this tunnel, which ended `now`.
    pub(super) fn new(live: &Live, node: &str, flow: SeenFlow, now: SystemTime) -> Self {
        let began = now.checked_sub(flow.age).unwrap_or(now);
        let rfc3339 = |time| humantime::format_rfc3339_millis(time).to_string();
        Self {
            time: rfc3339(now),
            tunnel: FlowTunnel::of(live),
            kind: "flow",
            event: Event::End,
            node: node.to_owned(),
            facts: FlowFacts {
                protocol: flow.protocol,
                source: flow.source,
                target: flow.target,
                opened_by: flow.opened_by,
                rule: flow.rule.as_deref().map(str::to_owned),
                outcome: match flow.is_allowed {
                    true => "allow",
                    false => "deny",
                },
            },
            bytes: flow.bytes,
            packets: flow.packets,
            began: rfc3339(began),
            duration_ms: u64::try_from(flow.duration.as_millis()).unwrap_or(u64::MAX),
            one_in: flow.one_in,
            reason: flow.reason,
        }
    }
}
