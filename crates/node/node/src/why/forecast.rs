//! The forecast of a supposed exchange.

use std::net::{IpAddr, SocketAddr};

use hermes_admit::filter::FlowRego;
use hermes_admit::refusals::account::{Account, Stated};
use hermes_config::model::{Action, Document, ExchangeKind, Listener, Respond, Terminate};
use hermes_config::{Places, child, element};
use hermes_net::clock::unix_seconds;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::path;
use hermes_proto::upgrade::Protocol;
use hermes_rules::judge::{
    Arrived, ArrivedPath, Authenticated, Entrance, Judged, Permitted, Phase, Step, Unrouted,
    asks_again, listener_user,
};
use hermes_rules::route::{Route, Unmatched, hops_of};
use hermes_rules::{Client, ClientField, Denied, Rules, Source};
use http::StatusCode;
use http::uri::PathAndQuery;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::packet::{JudgedSupposed, SupposedFlows, SupposedPacket};
use super::question::{self, CLIENT_PORT, SupposedRequest};
use super::supposed_claims::{SaidOfUser, SupposedClaims};

/// An exchange that is only supposed, as a person describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SupposedExchange {
    /// Its request: a URL, a method and a URL, CONNECT, CONNECT-TCP or CONNECT-UDP and host:port, CONNECT-IP and what the packets are
    /// for, UPGRADE, a protocol and a URL, or PACKET, a protocol and where it goes. Nothing for a `tcp`, `udp` or `tun` listener.
    #[serde(default)]
    pub words: Vec<String>,
    /// Listener where it enters. Default: the first for HTTP.
    #[serde(default)]
    pub listener: Option<String>,
    /// User whom authentication found.
    #[serde(default)]
    pub user: Option<String>,
    /// Groups that this user's token claims.
    #[serde(default)]
    pub claim_groups: Vec<String>,
    /// Its further claims.
    #[serde(default)]
    pub claims: Map<String, Value>,
    /// Peer that hands it over, by its name in `peers`.
    #[serde(default)]
    pub peer: Option<String>,
    /// Address of its client. Default: loopback, or that of the device of a `tun` listener; a packet needs one.
    #[serde(default)]
    pub source: Option<IpAddr>,
    /// When it arrives, in Unix time. Default: now; filters are asked now in any case.
    #[serde(default)]
    pub at: Option<u64>,
    /// Its fields, each `name: value`.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Whether filters are asked.
    #[serde(default)]
    pub ask: bool,
}

impl SupposedExchange {
    fn said_of_user(&self) -> SaidOfUser<'_> {
        SaidOfUser {
            user: self.user.as_deref(),
            groups: &self.claim_groups,
            claims: &self.claims,
        }
    }
}

/// The exchange that filters are asked about.
#[derive(Clone, Copy)]
pub struct Filtering<'a> {
    /// The request.
    pub request: &'a SupposedRequest,
    /// How it arrived.
    pub arrived: &'a Arrived<'a>,
    /// The claims of its user's token.
    pub claims: &'a SupposedClaims,
    /// When it arrives, in Unix time.
    pub at: u64,
}

/// The verdict of the filters on an exchange that the policy permitted.
pub struct Filtered {
    /// The status with which one denied it, and its words.
    pub denied: Option<(u16, String)>,
}

/// Makes forecasts.
pub struct Forecaster<'a, H> {
    /// The rules.
    pub rules: &'a Rules<H>,
    /// The document that they were compiled from.
    pub document: &'a Document,
    /// Where the document is written.
    pub places: Option<&'a Places>,
    /// The policy about flows of packets.
    pub flows: Option<&'a FlowRego>,
    /// Whether a request may choose an address.
    pub may_choose: &'a dyn Fn(SocketAddr) -> Result<(), Denied>,
    /// The state of the endpoints of an upstream, a line each.
    pub endpoints: &'a dyn Fn(&str) -> Vec<String>,
}

/// The address of a client that comes from `connection`, where a trusted field tells it.
fn client_of(config: &Listener, fields: &mut Fields, connection: IpAddr) -> IpAddr {
    let Some(field) = config
        .http()
        .and_then(|http| http.client_address.as_ref())
        .and_then(ClientField::new)
    else {
        return connection;
    };
    match field.client(fields, Some(connection)) {
        Client::Named(address) | Client::Unreadable(Some(address)) => address.ip(),
        Client::Proxy | Client::Unreadable(None) => connection,
        Client::Stranger => {
            fields.remove(field.name());
            connection
        }
    }
}

impl<H> Forecaster<'_, H> {
    /// The fate of an exchange. `filter` stands for the filters: it may change the permitted request, and returns their verdict.
    ///
    /// # Errors
    /// The question is none, in words.
    pub fn forecast(
        &self,
        supposed: &SupposedExchange,
        filter: impl FnOnce(Filtering<'_>, &mut Permitted, &mut Vec<Step>) -> Filtered,
    ) -> Result<Account, String> {
        let source = supposed.source;
        if let Some(packet) = SupposedPacket::parse(&supposed.words, source)? {
            return self.packet(&packet, supposed);
        }

        let (name, config) = question::listener(self.document, supposed.listener.as_deref())?;
        let config = &*config;
        let question =
            match SupposedRequest::of_listener(config).filter(|_| supposed.words.is_empty()) {
                Some(question) => question,
                None => SupposedRequest::parse(&supposed.words)?,
            };

        let user = listener_user(self.document, config);
        let peer = supposed.peer.as_deref();
        let address = source.unwrap_or_else(|| question::own_address(config));
        let mut fields = question.head.fields.clone();
        fields.extend(&question::fields(&supposed.fields)?);
        let address = client_of(config, &mut fields, address);
        let claims = SupposedClaims::new(Some(config), supposed.said_of_user())?;
        let head = &question.head;
        let arrived = Arrived {
            entrance: Entrance {
                name,
                config,
                user: user.as_deref(),
            },
            source: question::source(&self.rules.peers, peer, config, address)?,
            authenticated: authenticated(supposed, &claims),
            kind: question.kind(),
            target: question.target.as_rules(),
            target_host: question.target.host(),
            authority: question.authority(),
            method: &head.method,
            path: ArrivedPath {
                path: head.path(),
                query: head.path.as_ref().and_then(PathAndQuery::query),
            },
            protocol: head.protocol.as_ref().map(Protocol::as_str),
            peer: Some(SocketAddr::new(address, CLIENT_PORT)),
            tls_peer: peer,
        };

        let filtering = Filtering {
            request: &question,
            arrived: &arrived,
            claims: &claims,
            at: supposed.at.unwrap_or_else(unix_seconds),
        };
        Ok(self.account(filtering, fields, filter))
    }

    /// The account of a request that arrives with these fields.
    fn account(
        &self,
        filtering: Filtering<'_>,
        fields: Fields,
        filter: impl FnOnce(Filtering<'_>, &mut Permitted, &mut Vec<Step>) -> Filtered,
    ) -> Account {
        let question = filtering.request;
        let mut steps = Vec::new();
        let mut account = Account {
            question: question.describe(),
            listener: filtering.arrived.entrance.name.to_owned(),
            ..Account::default()
        };

        match self.judge(filtering, fields, filter, &mut steps) {
            Ok(judged) => self.routed(question, judged, &mut account, &mut steps),
            Err((status, reason)) => {
                account.status = Some(status);
                account.refused = Some(reason);
            }
        }

        let stated = steps.into_iter().map(|step| Stated::new(step, self.places));
        account.steps = stated.collect();
        account
    }

    fn flows<'s>(
        &'s self,
        supposed: &'s SupposedExchange,
        claims: &'s SupposedClaims,
    ) -> Option<SupposedFlows<'s>> {
        Some(SupposedFlows {
            policy: self.flows?,
            claims: claims.all(),
            listener: supposed.listener.as_deref().unwrap_or_default(),
        })
    }

    /// The fate of a packet.
    fn packet(
        &self,
        packet: &SupposedPacket,
        supposed: &SupposedExchange,
    ) -> Result<Account, String> {
        let packets = self.document.policy.as_ref();
        let packets = packets.and_then(|policy| policy.packets.as_ref());
        if self.flows.is_none() && packets.is_some_and(|packets| packets.rego.is_some()) {
            return Err("the files of policy.packets.rego cannot be read here".to_owned());
        }
        let claims = SupposedClaims::of_packet(
            self.document,
            supposed.listener.as_deref(),
            supposed.said_of_user(),
        )?;
        let JudgedSupposed { steps, outcome } = packet.judge(
            self.rules,
            authenticated(supposed, &claims),
            self.flows(supposed, &claims),
        )?;

        let user = supposed.user.as_deref();
        let user = user.map(|name| self.rules.aliases.user_of(name).to_owned());
        let steps = steps.into_iter().map(|step| Stated::new(step, self.places));
        Ok(Account {
            question: packet.describe(),
            steps: steps.collect(),
            user,
            allowed: outcome.is_ok(),
            refused: outcome.err(),
            ..Account::default()
        })
    }

    /// The route, or the status of a refusal and its words.
    fn judge(
        &self,
        filtering: Filtering<'_>,
        fields: Fields,
        filter: impl FnOnce(Filtering<'_>, &mut Permitted, &mut Vec<Step>) -> Filtered,
        steps: &mut Vec<Step>,
    ) -> Result<Judged<H>, (u16, String)> {
        let arrived = filtering.arrived;
        let bad_path =
            |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST.as_u16(), error.to_string());
        path::refuse_dots(arrived.path.path).map_err(|error| bad_path(&error))?;

        let refused = |unrouted: Unrouted| (status_of(arrived, &unrouted), unrouted.to_string());
        let mut permitted = self
            .rules
            .permit(arrived, fields, filtering.at, steps)
            .map_err(refused)?;

        let filtered = filter(filtering, &mut permitted, steps);
        if let Some(denied) = filtered.denied {
            return Err(denied);
        }
        self.rules
            .take_route(arrived, permitted, steps)
            .map_err(refused)
    }

    /// The action of the route.
    fn routed(
        &self,
        question: &SupposedRequest,
        judged: Judged<H>,
        account: &mut Account,
        steps: &mut Vec<Step>,
    ) {
        let Judged { user, route, .. } = judged;
        let egress = self.egress(question, &route);
        account.user = user;
        account.route = Some(route.name.to_string());
        account.allowed = !matches!(egress, Some(Err(_)));
        account.status = match &egress {
            Some(Err(_)) => Some(StatusCode::BAD_GATEWAY.as_u16()),
            _ => answered(question, &route),
        };
        account.egress = egress.map(|said| said.unwrap_or_else(|denied| denied));

        for upstream in upstreams(&route) {
            for said in (self.endpoints)(&upstream) {
                steps.push(Step {
                    phase: Phase::Forward,
                    path: child(&child("upstreams", &upstream), "endpoints"),
                    said,
                });
            }
        }
    }

    /// The verdict of the egress rules on the address, where the request chooses it.
    fn egress(
        &self,
        question: &SupposedRequest,
        route: &Route<H>,
    ) -> Option<Result<String, String>> {
        let action = route.config.action();
        let chosen = matches!(action, Some(Action::Terminate(Terminate::Target(_))));
        if !chosen {
            return None;
        }

        let rewrite = route.config.rewrite.as_ref();
        let rewritten = rewrite.and_then(|rewrite| rewrite.target.as_ref());
        let (host, port) = match (rewritten, &question.target) {
            (Some(target), _) => (&target.host, target.port),
            (None, Target::Host(target)) => (&target.host, target.port),
            // Each packet has its own.
            (None, target) => {
                return Some(Ok(format!("checked for each address that {target} means")));
            }
        };
        let Ok(ip) = host.parse::<IpAddr>() else {
            return Some(Ok(format!(
                "checked for each address of {host}, once it is known"
            )));
        };

        let address = SocketAddr::new(ip, port);
        let checked = (self.may_choose)(address);
        Some(
            checked
                .map(|()| format!("{address} may be chosen"))
                .map_err(|denied| denied.to_string()),
        )
    }
}

/// Whom authentication is supposed to have found.
fn authenticated<'a>(
    supposed: &'a SupposedExchange,
    claims: &'a SupposedClaims,
) -> Authenticated<'a> {
    Authenticated {
        user: supposed.user.as_deref(),
        claimed: claims.groups(),
        by_certificate: false,
    }
}

/// A step for a filter that is not asked.
pub fn unasked(document: &Document, index: usize, remedy: &str) -> Step {
    let name = document.authorize.get(index).map(|filter| &*filter.name);
    Step {
        phase: Phase::Authorize,
        path: element("authorize", index),
        said: format!("{} would be asked{remedy}", name.unwrap_or_default()),
    }
}

/// The status of such a refusal. A client that showed nothing and may not go on for that is asked who it is.
fn status_of(arrived: &Arrived<'_>, unrouted: &Unrouted) -> u16 {
    let is_anonymous =
        arrived.authenticated.user.is_none() && matches!(arrived.source, Source::Client);
    match unrouted {
        Unrouted::Denied(denial) if is_anonymous && denial.status == StatusCode::FORBIDDEN => {
            asks_again(arrived.entrance.config).unwrap_or(denial.status.as_u16())
        }
        Unrouted::Refused(refusal) => refusal.status,
        Unrouted::BadField(_) => StatusCode::BAD_REQUEST.as_u16(),
        Unrouted::Denied(denial) => denial.status.as_u16(),
        Unrouted::Unmatched(Unmatched::NoRoute) => StatusCode::NOT_FOUND.as_u16(),
        Unrouted::Unmatched(Unmatched::Ambiguous(_)) => StatusCode::BAD_REQUEST.as_u16(),
    }
}

/// The status with which a route answers here; `None` where the next hop decides about it.
fn answered<H>(question: &SupposedRequest, route: &Route<H>) -> Option<u16> {
    let is_tunnel = question.kind() != ExchangeKind::Http;
    match route.config.action() {
        // A tunnel cannot be answered with success.
        Some(Action::Respond(Respond {
            status: 200..300, ..
        })) if is_tunnel => Some(StatusCode::INTERNAL_SERVER_ERROR.as_u16()),
        Some(Action::Respond(respond)) => Some(respond.status),
        Some(Action::Redirect(redirect)) => {
            Some(redirect.status.unwrap_or(StatusCode::FOUND.as_u16()))
        }
        _ => None,
    }
}

/// The upstreams that a route may send it to.
fn upstreams<H>(route: &Route<H>) -> Vec<String> {
    match route.config.action() {
        Some(Action::To(hops)) => hops_of(hops).map(str::to_owned).collect(),
        Some(Action::Terminate(Terminate::Upstream(name))) => vec![name.clone()],
        _ => Vec::new(),
    }
}
