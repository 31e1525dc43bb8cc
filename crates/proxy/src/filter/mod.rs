//! *Authorize*: filters see an exchange after it was identified and tagged, and before its route is chosen.
//!
//! A filter decides on the head alone, so that messages and tunnels of every kind are alike to it. What it adds to the fields
//! feeds the routes.

mod answer;
mod external;
mod question;
mod stage;
mod undecided;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::{Document, ExchangeKind, FieldPattern};
use hermes_http::{Kind, RequestHead};
use hermes_net::StreamInfo;
use hermes_proto::upgrade::Protocol;
use hermes_rules::Facts;
use hermes_rules::fields::{USER, is_reserved};
use hermes_upstream::{Client, Upstream};
use http::{HeaderMap, StatusCode};

use crate::target::Target;
pub(crate) use stage::{Denied, Stage};

/// Something that may refuse an exchange, or change its fields, before its route is chosen.
pub(crate) trait Filter: Send + Sync {
    /// Its name in records, metrics and reasons; from the configuration.
    fn name(&self) -> &str;

    /// Whether it has anything to say about such an exchange.
    fn applies(&self, facts: &Facts<'_>) -> bool;

    /// Decides. Must end within a bounded time.
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a>;
}

/// A decision on its way.
pub(crate) type Deciding<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// What a filter sees.
pub(crate) struct Subject<'a> {
    /// What the worker that carries the exchange reaches others with.
    pub(crate) client: &'a Client,
    /// The request, with the fields that are believed.
    pub(crate) head: &'a RequestHead,
    /// What it is for.
    pub(crate) target: &'a Target,
    /// Whose it is.
    pub(crate) user: Option<&'a str>,
    /// Where it came from.
    pub(crate) source: &'a StreamInfo,
    /// Where it entered.
    pub(crate) listener: &'a str,
    /// What was shown to prove whose it is, as far as a filter is to see it.
    pub(crate) credentials: &'a HeaderMap,
}

/// A decision, and how it came about.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    /// What is to happen.
    pub(crate) decision: Decision,
    /// Why, in words for records; says no field value.
    pub(crate) reason: String,
    /// For metrics.
    pub(crate) outcome: Outcome,
    /// How long it took; `None` if it was remembered.
    pub(crate) took: Option<Duration>,
    /// How long it counts for a tunnel; `None`: until the configuration changes.
    pub(crate) lasts: Option<Duration>,
    /// How long an open tunnel may go on where this is no one's decision; zero where someone decided.
    pub(crate) grace: Duration,
}

/// What is to happen to an exchange.
#[derive(Debug, Clone)]
pub(crate) enum Decision {
    /// It goes on, with these changes.
    Allow(Changes),
    /// It is answered here.
    Deny(Denial),
}

/// How a decision came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Someone allowed it.
    Allowed,
    /// Someone denied it.
    Denied,
    /// No one decided, and it goes on.
    FailedOpen,
    /// No one decided, and it is refused.
    FailedClosed,
}

impl Outcome {
    /// A word for metrics and records.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::FailedOpen => "failed_open",
            Self::FailedClosed => "failed_closed",
        }
    }
}

/// Changes to fields: first `remove`, which never means `user` and reserved fields, then `set`, then `append`. A `user` that is set is whose the exchange is from here on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    /// Removed, except where something is appended.
    pub(crate) remove: Vec<FieldPattern>,
    /// Set, in place of what is there.
    pub(crate) set: HeaderMap,
    /// Appended.
    pub(crate) append: HeaderMap,
}

impl Changes {
    fn apply(&self, fields: &mut HeaderMap) {
        let unwanted = |name: &http::HeaderName| {
            self.remove
                .iter()
                .any(|pattern| pattern.matches(name.as_str()))
                && !self.append.contains_key(name)
                && name != USER
                && !is_reserved(name.as_str())
        };
        let removed: Vec<_> = fields
            .keys()
            .filter(|name| unwanted(name))
            .cloned()
            .collect();
        for name in removed.iter().chain(self.set.keys()) {
            fields.remove(name);
        }
        for (name, value) in self.set.iter().chain(&self.append) {
            // A map that is full of fields is left as it is.
            let _ = fields.try_append(name, value.clone());
        }
    }
}

/// The answer to an exchange that is denied.
#[derive(Debug, Clone)]
pub(crate) struct Denial {
    /// Its status: not 1xx and not 2xx.
    pub(crate) status: StatusCode,
    /// Its fields.
    pub(crate) fields: HeaderMap,
    /// Its content; `None` for our own words.
    pub(crate) content: Option<Bytes>,
}

/// The filters of a document, in their order; those whose upstream is missing were reported by the rules.
pub(crate) fn assemble(
    document: &Document,
    upstream: impl Fn(&str) -> Option<Arc<Upstream>>,
) -> Vec<Arc<dyn Filter>> {
    let external = |config: &hermes_config::model::Authorize| {
        let upstream = upstream(&config.asked())?;
        Some(Arc::new(external::External::new(config, upstream)) as Arc<dyn Filter>)
    };
    document.authorize.iter().filter_map(external).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn changes_remove_then_set_then_append() {
        let changes = Changes {
            remove: ["x-*", "user", "v*"]
                .map(|pattern| pattern.parse().unwrap())
                .to_vec(),
            set: map(&[("x-role", "admin"), ("x-role", "editor"), ("other", "new")]),
            append: map(&[("x-list", "b")]),
        };
        let mut fields = map(&[
            ("x-role", "forged"),
            ("x-list", "a"),
            ("other", "old"),
            ("user", "alice"),
            ("via", "b"),
        ]);
        changes.apply(&mut fields);
        let expected = map(&[
            ("user", "alice"),
            ("via", "b"),
            ("x-role", "admin"),
            ("x-role", "editor"),
            ("other", "new"),
            ("x-list", "a"),
            ("x-list", "b"),
        ]);
        assert_eq!(fields, expected);
    }
}
