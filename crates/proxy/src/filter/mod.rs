//! *Authorize*: filters see an exchange after it was identified and tagged, and before its route is chosen.
//!
//! A filter decides on the head alone, so that messages and tunnels of every kind are alike to it. What it adds to the fields
//! feeds the routes.

mod answer;
mod external;
mod question;
mod stage;
mod timed;
mod undecided;

use std::sync::Arc;

use hermes_config::model::{Authorize, Document, ExchangeKind};
use hermes_http::{Kind, RequestHead};
use hermes_net::StreamInfo;
use hermes_proto::upgrade::Protocol;
use hermes_rules::{Facts, Matcher};
use hermes_upstream::Upstream;

use crate::plug::{Filter, Plugs};
use crate::target::Target;
pub(crate) use stage::{Denied, Stage};
use timed::Timed;

/// A filter where a document asks it.
pub(crate) struct Checkpoint {
    /// Its name in records, metrics and reasons.
    pub(crate) name: String,
    matcher: Matcher,
    filter: Arc<dyn Filter>,
}

impl Checkpoint {
    /// `None` if what decides is missing, which was reported.
    fn new(
        config: &Authorize,
        upstream: impl Fn(&str) -> Option<Arc<Upstream>>,
        plugs: &Plugs,
    ) -> Option<Self> {
        let filter: Arc<dyn Filter> = match &config.filter {
            Some(name) => Arc::new(Timed::new(config, plugs.filters.find(name).ok()?.clone())),
            None => Arc::new(external::External::new(config, upstream(&config.asked())?)),
        };
        Some(Self {
            name: config.name.clone(),
            matcher: Matcher::compile(&config.matches),
            filter,
        })
    }

    /// Whether the filter is asked about such an exchange.
    pub(crate) fn applies(&self, facts: &Facts<'_>) -> bool {
        self.matcher.matches(facts)
    }
}

/// The filters of a document, in their order; those of which something is missing were reported.
pub(crate) fn assemble(
    document: &Document,
    upstream: impl Fn(&str) -> Option<Arc<Upstream>>,
    plugs: &Plugs,
) -> Vec<Checkpoint> {
    document
        .authorize
        .iter()
        .filter_map(|config| Checkpoint::new(config, &upstream, plugs))
        .collect()
}

/// What rules can say about an exchange at this point.
pub(crate) fn facts<'a>(
    head: &'a RequestHead,
    target: &'a Target,
    user: Option<&'a str>,
    source: &StreamInfo,
    listener: &'a str,
) -> Facts<'a> {
    Facts {
        kind: exchange_kind(head.kind()),
        target: target.as_rules(),
        authority: head
            .authority
            .as_ref()
            .map(|authority| (authority.host(), authority.port_u16())),
        path: head.path(),
        method: &head.method,
        protocol: head.protocol.as_ref().map(Protocol::as_str),
        fields: &head.fields,
        user,
        source: source.peer.socket().map(|peer| peer.ip()),
        listener,
    }
}

/// What an exchange carries, in a word.
pub(crate) fn kind(head: &RequestHead) -> &'static str {
    exchange_kind(head.kind()).word()
}

fn exchange_kind(kind: Kind) -> ExchangeKind {
    match kind {
        Kind::Message => ExchangeKind::Http,
        Kind::Connect => ExchangeKind::Connect,
        Kind::ConnectUdp => ExchangeKind::ConnectUdp,
        Kind::ConnectIp => ExchangeKind::ConnectIp,
        Kind::ConnectTcp => ExchangeKind::ConnectTcp,
        Kind::Upgrade => ExchangeKind::Upgrade,
    }
}
