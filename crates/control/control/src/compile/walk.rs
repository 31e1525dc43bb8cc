//! Exchanges that walk through an overlay, hop by hop, as each of its nodes would judge them.
//!
//! The documents are those that nodes get, so a walk says what the overlay would do, and not only what the resources mean to say.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hermes_api::Name;
use hermes_config::model::{Document, ExchangeKind, Hops, Listener, Route, Terminate};
use hermes_rules::judge::{
    Arrived, ArrivedPath, Authenticated, Entrance, RemovedFields, Step, Steps, describe_action,
};
use hermes_rules::{Fields, Rules, Source, Target};
use http::{HeaderValue, Method};
use serde_json::Value as Json;

use super::Recipient;
use super::peerings::PREFIX;

/// Nodes one behind the other that a walk passes: more are a circle.
#[doc(alias = "bound")]
const HOPS: usize = 32;

/// The name of a device in supposed certificates: none of its user's own.
const DEVICE: &str = "any-device";

/// An exchange that is supposed.
#[derive(Debug, Clone, Copy)]
pub struct SupposedExchange<'a> {
    /// The user who asks; empty for none.
    pub user: &'a str,
    /// Host of the target.
    pub host: &'a str,
    /// Port of the target.
    pub port: u16,
    /// The kind of exchange.
    pub kind: ExchangeKind,
    /// Its method.
    pub method: &'a Method,
    /// Its path without a query; empty for CONNECT.
    pub path: &'a str,
    /// When it arrives, in Unix seconds.
    pub now: u64,
}

impl<'a> SupposedExchange<'a> {
    /// `GET http://HOST/` of a user.
    pub fn get(user: &'a str, host: &'a str) -> Self {
        Self {
            user,
            host,
            port: 80,
            kind: ExchangeKind::Http,
            method: &Method::GET,
            path: "/",
            now: 0,
        }
    }
}

/// The sender of an exchange to a node.
#[derive(Debug, Clone)]
struct Sender {
    /// The name in its certificate.
    certificate: String,
    /// The user that it names.
    user: String,
}

/// The nodes of an overlay as they judge. Rules of a node are compiled once an exchange comes to it.
pub struct Network<'d> {
    domain: String,
    documents: BTreeMap<Name, &'d Json>,
    judging: RefCell<BTreeMap<Name, Result<Rc<JudgingNode>, String>>>,
}

/// A node as it judges.
pub(super) struct JudgingNode {
    pub(super) document: Document,
    rules: Rules<()>,
}

/// The nodes that an exchange passes.
#[derive(Debug, Default)]
pub struct Walk {
    /// Each once, in the order in which they are come to.
    pub hops: Vec<Hop>,
    visited: BTreeSet<(Name, String)>,
    /// The senders and nodes between the entry and here.
    way: Vec<(Name, String)>,
    explains: bool,
}

/// A node that an exchange comes to.
#[derive(Debug)]
pub struct Hop {
    /// The node.
    pub node: Name,
    /// Nodes before it.
    pub depth: usize,
    /// Comparisons that decided, where the walk explains itself.
    pub steps: Vec<Step>,
    /// The action of its route, in words, or the reason of its refusal.
    pub said: String,
    /// Where the exchange goes from here.
    pub onward: Onward,
}

/// Where an exchange goes from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onward {
    /// To one of these nodes.
    Nodes(Vec<Name>),
    /// To the servers of a service, or to another overlay, by the name of their upstream; or to a part of this node, by its name.
    Service(String),
    /// Nowhere.
    Refused,
}

impl Hop {
    fn refused(node: &Name, depth: usize, said: &str) -> Self {
        Self {
            node: node.clone(),
            depth,
            steps: Vec::new(),
            said: said.to_owned(),
            onward: Onward::Refused,
        }
    }
}

impl Walk {
    /// Upstreams of the services where it ends, each with the nodes before at most; `None` if it may be refused.
    pub fn ends(&self) -> Option<BTreeMap<&str, usize>> {
        let mut ends = BTreeMap::new();
        for hop in &self.hops {
            match &hop.onward {
                Onward::Refused => return None,
                Onward::Nodes(_) => {}
                Onward::Service(service) => {
                    let deepest = ends.entry(service.as_str()).or_insert(0);
                    *deepest = hop.depth.max(*deepest);
                }
            }
        }
        Some(ends)
    }

    /// The first node that refuses it.
    pub fn refusal(&self) -> Option<&Hop> {
        self.hops.iter().find(|hop| hop.onward == Onward::Refused)
    }
}

impl<'d> Network<'d> {
    /// The nodes with these documents, in this trust domain.
    pub fn new(
        domain: &str,
        documents: impl IntoIterator<Item = (&'d Recipient, &'d Json)>,
    ) -> Self {
        let proxies = documents.into_iter().filter_map(|(recipient, document)| {
            let Recipient::Node(name) = recipient else {
                return None;
            };
            Some((name.clone(), document))
        });
        Self {
            domain: domain.to_owned(),
            documents: proxies.collect(),
            judging: RefCell::default(),
        }
    }

    /// The trust domain of its certificates.
    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// A node.
    ///
    /// # Errors
    /// There is none of this name, or it would not take its document.
    pub(super) fn node(&self, name: &Name) -> Result<Rc<JudgingNode>, String> {
        if let Some(known) = self.judging.borrow().get(name) {
            return known.clone();
        }
        let document = self.documents.get(name);
        let document = document.ok_or_else(|| format!("there is no node {name}"));
        let node = document.and_then(|document| JudgingNode::of(document).map(Rc::new));
        let mut judging = self.judging.borrow_mut();
        judging.insert(name.clone(), node.clone());
        node
    }

    /// Gives a node another document.
    #[cfg(test)]
    pub(super) fn replace(&mut self, name: &Name, document: &Json) {
        let node = JudgingNode::of(document).map(Rc::new);
        self.judging.get_mut().insert(name.clone(), node);
    }

    /// Follows an exchange that enters at a node, over every next hop: of a user's device; of a user of another overlay, who is
    /// `NAME@DOMAIN`, by a node of that.
    pub fn walk(&self, entry: &Name, exchange: SupposedExchange<'_>) -> Walk {
        let mut walk = Walk::default();
        let sender = self.entering(entry, exchange.user);
        self.follow(entry, &sender, exchange, 0, &mut walk);
        walk
    }

    /// The same, with the comparisons that decided.
    pub fn explain(&self, entry: &Name, exchange: SupposedExchange<'_>) -> Walk {
        let mut walk = Walk {
            explains: true,
            ..Walk::default()
        };
        let sender = self.entering(entry, exchange.user);
        self.follow(entry, &sender, exchange, 0, &mut walk);
        walk
    }

    /// Who brings the exchanges of a user to a node where they enter.
    fn entering(&self, entry: &Name, user: &str) -> Sender {
        let node = self.node(entry).ok();
        if let Some(sender) = node.and_then(|node| node.other_overlay(user)) {
            return sender;
        }
        Sender {
            certificate: format!("spiffe://{}/user/{user}/{DEVICE}", self.domain),
            user: user.to_owned(),
        }
    }

    /// A node of this overlay that sends an exchange on.
    fn passing(&self, node: &Name, exchange: SupposedExchange<'_>) -> Sender {
        Sender {
            certificate: format!("spiffe://{}/node/{node}", self.domain),
            user: exchange.user.to_owned(),
        }
    }

    fn follow(
        &self,
        at: &Name,
        sender: &Sender,
        exchange: SupposedExchange<'_>,
        depth: usize,
        walk: &mut Walk,
    ) {
        let here = (at.clone(), sender.certificate.clone());
        if walk.way.contains(&here) {
            walk.hops
                .push(Hop::refused(at, depth, "the exchange turns in a circle"));
            return;
        }
        // A node decides the same about each exchange of one sender, however it came there.
        if !walk.visited.insert(here.clone()) {
            return;
        }
        let brought = SupposedExchange {
            user: &sender.user,
            ..exchange
        };
        let hop = self.judged(at, &sender.certificate, brought, depth, walk.explains);
        let onward = hop.onward.clone();
        walk.hops.push(hop);
        if let Onward::Nodes(next) = onward {
            let own = self.passing(at, exchange);
            walk.way.push(here);
            for next in next {
                self.follow(&next, &own, exchange, depth + 1, walk);
            }
            walk.way.pop();
        }
    }

    fn judged(
        &self,
        at: &Name,
        certificate: &str,
        exchange: SupposedExchange<'_>,
        depth: usize,
        explains: bool,
    ) -> Hop {
        let mut steps = Vec::new();
        let judged = match depth < HOPS {
            false => Err(format!("the exchange has passed {HOPS} nodes")),
            true => self.node(at).and_then(|node| {
                let route = match explains {
                    true => node.judge(certificate, exchange, &mut steps),
                    false => node.judge(certificate, exchange, &mut RemovedFields::default()),
                };
                node.onward(&route?)
            }),
        };
        let (said, onward) = match judged {
            Ok((said, onward)) => (said, onward),
            Err(reason) => (reason, Onward::Refused),
        };
        Hop {
            node: at.clone(),
            depth,
            steps,
            said,
            onward,
        }
    }
}

impl JudgingNode {
    fn of(document: &Json) -> Result<Self, String> {
        let document: Document =
            serde_json::from_value(document.clone()).map_err(|error| error.to_string())?;
        let node = document.node.clone().unwrap_or_default();
        let rules = Rules::compile(&document, node.into(), |_, _| Some(()))
            .map_err(|error| error.to_string())?;
        Ok(Self { document, rules })
    }

    /// The node of another overlay that brings the exchanges of this user, who is `NAME@DOMAIN`; `None`: he is no user of one.
    fn other_overlay(&self, user: &str) -> Option<Sender> {
        let peers = self.document.peers.values();
        let mut senders = peers.filter_map(|peer| {
            let domain = peer.domain.as_ref()?;
            let user = user.strip_suffix(domain.as_str())?.strip_suffix('@')?;
            Some(Sender {
                certificate: peer.certificate.first()?.to_string(),
                user: user.to_owned(),
            })
        });
        senders.next()
    }

    /// The route of an exchange that a certificate brings.
    pub(super) fn judge(
        &self,
        certificate: &str,
        exchange: SupposedExchange<'_>,
        steps: &mut impl Steps,
    ) -> Result<Route, String> {
        self.judge_protocol(None, certificate, exchange, steps)
    }

    /// The route of an exchange of this protocol.
    pub(super) fn judge_protocol(
        &self,
        protocol: Option<&str>,
        certificate: &str,
        exchange: SupposedExchange<'_>,
        steps: &mut impl Steps,
    ) -> Result<Route, String> {
        let known = self
            .rules
            .peers
            .certified([certificate].into_iter(), Some(certificate));
        let (name, config) = self.listener(certificate)?;
        let arrived = Arrived {
            entrance: Entrance {
                name,
                config,
                user: None,
            },
            source: known.unwrap_or(Source::Client),
            authenticated: Authenticated {
                user: Some(certificate),
                by_certificate: true,
                ..Authenticated::default()
            },
            kind: exchange.kind,
            target_host: exchange.host,
            target: Target::Host {
                name: exchange.host,
                port: exchange.port,
            },
            authority: None,
            method: exchange.method,
            path: ArrivedPath {
                path: exchange.path,
                query: None,
            },
            protocol,
            peer: None,
            tls_peer: Some(certificate),
        };
        let mut fields = Fields::new();
        if !exchange.user.is_empty() {
            let user = HeaderValue::from_str(exchange.user);
            fields.append("user", user.map_err(|error| error.to_string())?);
        }
        let judged = self.rules.judge(&arrived, fields, exchange.now, steps);
        let judged = judged.map_err(|refusal| refusal.to_string())?;
        Ok(judged.route.config.clone())
    }

    /// The listener at which a certificate comes in. A node without one of its own has attached itself to the node that sends.
    fn listener(&self, certificate: &str) -> Result<(&str, &Listener), String> {
        let sender = certificate.rsplit('/').next().unwrap_or_default();
        let attached = format!("attach-{sender}");
        let found = ["overlay", &attached]
            .into_iter()
            .find_map(|name| self.document.listeners.get_key_value(name));
        let (name, listener) = found.ok_or_else(|| format!("{sender} does not come in here"))?;
        Ok((name, listener))
    }

    /// Where a route leads, and in words.
    fn onward(&self, route: &Route) -> Result<(String, Onward), String> {
        let said = describe_action(route);
        if let Some(Terminate::Upstream(service)) = &route.terminate {
            return Ok((said, Onward::Service(service.clone())));
        }
        if let Some(part) = &route.handle {
            return Ok((said, Onward::Service(part.name.clone())));
        }
        let next = match &route.to {
            // Its operator alone knows its way from there.
            Some(Hops::One(next)) if next.starts_with(PREFIX) => {
                return Ok((said, Onward::Service(next.clone())));
            }
            Some(Hops::One(next)) => self.document.upstreams.get(next),
            _ => None,
        };
        let next = next.ok_or_else(|| format!("{said}: not to another node"))?;
        let attached = next.attached.iter().map(ToString::to_string);
        let named = next.endpoints.iter().filter_map(|endpoint| {
            let name = endpoint.server_name()?.split('.').next()?.to_owned();
            Some(name)
        });
        let nodes = attached.chain(named).map(|name| name.parse::<Name>());
        let nodes = nodes.collect::<Result<Vec<_>, _>>();
        let nodes = nodes.map_err(|error| error.to_string())?;
        Ok((said, Onward::Nodes(nodes)))
    }
}
