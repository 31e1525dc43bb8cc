//! A policy in Rego about the flows of tunnels of IP packets.
//!
//! It is asked where the packets are, so it has to be brief: nothing else waits for it, and a flow has its answer at once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hermes_config::model::{Document, IpProtocol};
use hermes_config::{Problem, child};
use hermes_net::CertificateNames;
use hermes_packet::tun::FlowQuestion;
use hermes_plug::{Decision, Outcome};
use hermes_proto::ip::IpFlow;
use hermes_rego::{Budget, Evaluator};
use hermes_rules::packets::{OpenedBy, has_ports};
use serde_json::{Map, Value, json};

use super::answer::{self, Others, Owned};
use super::question::described_certificate;
use super::rego;

/// Where it is written.
pub const PLACE: &str = "policy.packets.rego";

/// Stands in the place of an exchange's kind.
const KIND: &str = "packet";

/// A policy about flows.
pub struct FlowRego {
    evaluator: Evaluator,
}

/// The answer of a policy about a flow.
#[derive(Debug)]
pub struct FlowRuling {
    /// The outcome.
    pub outcome: Outcome,
    /// In words.
    pub reason: String,
}

/// The tunnel of a flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowTunnel<'a> {
    /// Its user, if the user is known.
    pub user: Option<&'a str>,
    /// The groups of that user.
    pub groups: &'a [&'a str],
    /// The claims of the user's token.
    pub claims: Option<&'a Map<String, Value>>,
    /// The names of the client's certificate.
    pub certificate: Option<&'a CertificateNames>,
    /// Its listener.
    pub listener: &'a str,
    /// The target of the tunnel.
    pub target: &'a str,
}

impl FlowRego {
    /// That of a document, if it has one; its problems are reported.
    pub fn read(document: &Document, problems: &mut Vec<Problem>) -> Option<Arc<Self>> {
        let packets = document.policy.as_ref()?.packets.as_ref()?;
        let config = packets.rego.as_ref()?;
        let policy = rego::policy(&config.files, &config.query, PLACE, problems)?;
        // Nothing waits: the bounds are those of questions at once.
        let evaluator = Evaluator::new(policy, Budget::default(), 1);
        let evaluator = evaluator
            .map_err(|wrong| problems.push(Problem::new(child(PLACE, "query"), wrong.to_string())))
            .ok()?;

        if !evaluator.is_brief() {
            let reason = "an evaluation may take long, and packets do not wait for one";
            let remedy = "use what is always brief only: no functions, no regular expressions, no objects or sets that grow";
            problems.push(Problem::new(child(PLACE, "files"), reason).remedy(remedy));
            return None;
        }
        Some(Arc::new(Self { evaluator }))
    }

    /// Its answer about a flow. A flow that it cannot decide on is not allowed.
    pub fn judge(&self, question: &FlowQuestion, tunnel: FlowTunnel<'_>) -> FlowRuling {
        let undecided = |reason: String| FlowRuling {
            outcome: Outcome::FailedClosed,
            reason,
        };
        let has_ports = has_ports(question.flow.protocol);
        let input = described_flow(&question.flow, has_ports, question.opened_by, tunnel);
        let result = match self.evaluator.ask_here(input) {
            Some(Ok(result)) => result,
            Some(Err(failure)) => return undecided(failure.to_string()),
            None => return undecided("the evaluation takes too long for packets".to_owned()),
        };

        let owned = Owned {
            patterns: &[],
            others: Others::Refused,
        };
        match answer::result(result.as_ref(), &owned) {
            Ok(answer) => FlowRuling {
                outcome: match answer.decision {
                    Decision::Allow(_) => Outcome::Allowed,
                    Decision::Deny(_) => Outcome::Denied,
                },
                reason: answer.reason,
            },
            Err(unknown) => undecided(unknown.reason),
        }
    }
}

/// The input about a flow, in the form of requests: the target is where its opener sends, the source where it comes from.
pub(crate) fn described_flow(
    flow: &IpFlow,
    knows_ports: bool,
    opened_by: OpenedBy,
    tunnel: FlowTunnel<'_>,
) -> Value {
    let port = |port: u16| knows_ports.then_some(port);
    json!({
        "kind": KIND,
        "target": end(flow.destination, port(flow.destination_port)),
        "host": flow.destination,
        "port": port(flow.destination_port),
        "protocol": IpProtocol(flow.protocol).to_string(),
        "source": flow.source,
        "source_port": port(flow.source_port),
        "opened_by": opened_by.word(),
        "user": tunnel.user,
        "groups": tunnel.groups,
        "claims": tunnel.claims,
        "certificate": tunnel.certificate.map(described_certificate),
        "listener": tunnel.listener,
        "tunnel": tunnel.target,
    })
}

/// An end of a flow.
fn end(address: IpAddr, port: Option<u16>) -> String {
    port.map_or_else(
        || address.to_string(),
        |port| SocketAddr::new(address, port).to_string(),
    )
}
