//! What would become of an exchange that is only supposed.

use std::net::{IpAddr, SocketAddr};

use hermes_config::model::{Action, Document, ExchangeKind, Respond, Terminate};
use hermes_config::{Places, child, element};
use hermes_net::clock::unix_seconds;
use hermes_proto::path;
use hermes_rules::judge::{
    Arrived, Authenticated, Entrance, Judged, Permitted, Phase, Step, Unrouted, listener_user,
};
use hermes_rules::route::{Route, hops_of};
use hermes_rules::{ClaimedGroups, Denied, Rules};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::account::{Account, Stated};
use super::question::{self, SupposedRequest};

/// Where the supposed connection comes from, but for its address.
pub(super) const CLIENT_PORT: u16 = 50_000;

/// An exchange that is only supposed, as a person describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SupposedExchange {
    /// What it asks for: a URL, a method and a URL, or CONNECT, CONNECT-TCP or CONNECT-UDP and host:port. Nothing for a `tcp` or
    /// `udp` listener.
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
    /// Peer that hands it over, by its name in `peers`.
    #[serde(default)]
    pub peer: Option<String>,
    /// Address of its client.
    pub source: IpAddr,
    /// Its fields, each `name: value`.
    #[serde(default)]
    pub fields: Vec<String>,
    /// Whether filters are asked.
    #[serde(default)]
    pub ask: bool,
}

/// What filters make of an exchange that the policy permitted.
pub struct Filtered {
    /// The status with which one denied it, and its words.
    pub denied: Option<(u16, String)>,
}

/// What a forecast is made with.
pub struct Forecaster<'a, H> {
    /// What is decided by.
    pub rules: &'a Rules<H>,
    /// What that was made of.
    pub document: &'a Document,
    /// Where the document is written.
    pub places: Option<&'a Places>,
    /// Whether a request may choose an address.
    pub may_choose: &'a dyn Fn(SocketAddr) -> Result<(), Denied>,
    /// What is known of the endpoints of an upstream, a line each.
    pub endpoints: &'a dyn Fn(&str) -> Vec<String>,
}

impl<H> Forecaster<'_, H> {
    /// What becomes of an exchange. `filter` stands for the filters: it may change what is permitted, and says what they say.
    ///
    /// # Errors
    /// The question is none, in words.
    pub fn forecast(
        &self,
        supposed: &SupposedExchange,
        filter: impl FnOnce(&Arrived<'_>, &mut Permitted, &mut Vec<Step>) -> Filtered,
    ) -> Result<Account, String> {
        let (name, config) = question::listener(self.document, supposed.listener.as_deref())?;
        let question =
            match SupposedRequest::of_listener(config).filter(|_| supposed.words.is_empty()) {
                Some(question) => question,
                None => SupposedRequest::parse(&supposed.words)?,
            };

        let user = listener_user(self.document, config);
        let peer = supposed.peer.as_deref();
        let source = question::source(&self.rules.peers, peer, config, supposed.source)?;
        let fields = question::fields(&supposed.fields)?;
        let claimed = Value::from(supposed.claim_groups.clone());
        let arrived = Arrived {
            entrance: Entrance {
                name,
                config,
                user: user.as_deref(),
            },
            source,
            authenticated: Authenticated {
                user: supposed.user.as_deref(),
                claimed: ClaimedGroups(Some(&claimed)),
                by_certificate: false,
            },
            kind: question.kind(),
            target: question.target(),
            target_host: &question.target.host,
            authority: question.authority(),
            method: &question.method,
            path: &question.path,
            protocol: question.protocol,
            peer: Some(SocketAddr::new(supposed.source, CLIENT_PORT)),
            tls_peer: peer,
        };

        let mut steps = Vec::new();
        let mut account = Account {
            question: question.describe(),
            listener: name.to_owned(),
            ..Account::default()
        };

        match self.judge(&arrived, fields, filter, &mut steps) {
            Ok(judged) => self.routed(&question, judged, &mut account, &mut steps),
            Err((status, reason)) => {
                account.status = Some(status);
                account.refused = Some(reason);
            }
        }

        let stated = steps.into_iter().map(|step| Stated::new(step, self.places));
        account.steps = stated.collect();
        Ok(account)
    }

    /// The route, or the status of a refusal and its words.
    fn judge(
        &self,
        arrived: &Arrived<'_>,
        fields: hermes_rules::Fields,
        filter: impl FnOnce(&Arrived<'_>, &mut Permitted, &mut Vec<Step>) -> Filtered,
        steps: &mut Vec<Step>,
    ) -> Result<Judged<H>, (u16, String)> {
        let bad_path =
            |error: &dyn std::fmt::Display| (StatusCode::BAD_REQUEST.as_u16(), error.to_string());
        path::refuse_dots(arrived.path).map_err(|error| bad_path(&error))?;

        let refused = |unrouted: Unrouted| (status_of(&unrouted), unrouted.to_string());
        let mut permitted = self
            .rules
            .permit(arrived, fields, unix_seconds(), steps)
            .map_err(refused)?;

        let filtered = filter(arrived, &mut permitted, steps);
        if let Some(denied) = filtered.denied {
            return Err(denied);
        }
        self.rules
            .take_route(arrived, permitted, steps)
            .map_err(refused)
    }

    /// What the route does with it.
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

    /// What the egress rules say of the address, where the request chooses it.
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
        let target = rewritten.unwrap_or(&question.target);
        let host = &target.host;
        let Ok(ip) = host.parse::<IpAddr>() else {
            return Some(Ok(format!(
                "checked for each address of {host}, once it is known"
            )));
        };

        let address = SocketAddr::new(ip, target.port);
        let checked = (self.may_choose)(address);
        Some(
            checked
                .map(|()| format!("{address} may be chosen"))
                .map_err(|denied| denied.to_string()),
        )
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

/// The status of such a refusal.
fn status_of(unrouted: &Unrouted) -> u16 {
    match unrouted {
        Unrouted::Refused(refusal) => refusal.status,
        Unrouted::BadField(_) => StatusCode::BAD_REQUEST.as_u16(),
        Unrouted::Denied(denial) => denial.status.as_u16(),
        Unrouted::NoRoute => StatusCode::NOT_FOUND.as_u16(),
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
