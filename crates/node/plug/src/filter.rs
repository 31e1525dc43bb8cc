//! A filter: sees the heads of exchanges, and says which may go on.

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::FieldPattern;
use hermes_http::{AnswerFields, RequestHead};
use hermes_net::{CertificateNames, StreamInfo};
use hermes_proto::fields::{FieldName, Fields};
use hermes_rules::fields::{USER, is_reserved};
use hermes_upstream::Client;
use http::StatusCode;
use serde_json::{Map, Value};

use super::query::QueryChanges;
use crate::settings::Settings;
use crate::target::Target;

/// Decides on an exchange after it was identified and tagged, and before its route is chosen. `authorize: [{ name: a, filter: NAME }]`
/// has it asked; the entry's `match` says about which exchanges.
///
/// - **Gets** the head with the fields that are believed, never content: it sees messages and
///   tunnels of every kind alike.
/// - **Must** allow, possibly changing fields that the routes look at, or deny. If it allows a
///   tunnel for a [time](Verdict::lasts), it is asked again afterwards, while the tunnel goes on.
/// - **Time**: the entry's `timeout`, 200 ms by default; then the exchange is refused with 503. It goes on without a decision where
///   `fail` is `open` and the filter says that it [cannot decide at all](Filter::is_away). It is dropped in the middle when its client
///   goes away.
/// - **Errors**: a filter that cannot decide says so itself, with [`Outcome::FailedClosed`] or [`Outcome::FailedOpen`].
/// - **Charged**: its memory is its own business; it sees each exchange before the bounds of users apply.
/// - **Runs** on the worker of the exchange, many at once on one thread: it must not block.
pub trait Filter: Send + Sync {
    /// Decides.
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a>;

    /// The settings that it takes, as `filter: { NAME: {..} }`. Default: none.
    fn settings(&self) -> Option<Settings<dyn Filter>> {
        None
    }

    /// Whether it can decide about no exchange, because a server that it needs is away: then `fail: open` lets those go on for which it takes too
    /// long. An exchange may take it long because of its client's words, which proves nothing: `false` unless the filter knows otherwise.
    fn is_away(&self) -> bool {
        false
    }
}

/// A decision on its way.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// An exchange as a filter sees it.
pub struct Subject<'a> {
    /// The client with which the exchange's worker reaches others.
    pub client: &'a Client,
    /// The request, with the fields that are believed. Its authority is as the client wrote it: compare `target`.
    pub head: &'a RequestHead,
    /// Its target, in the one form in which it is compared: a name in lower case, an IPv4 address as one.
    pub target: &'a Target,
    /// Whose it is.
    pub user: Option<&'a str>,
    /// Where it came from.
    pub source: &'a StreamInfo,
    /// Where it entered.
    pub listener: &'a str,
    /// The credentials of its user, as far as `send` lets the filter see them.
    pub credentials: &'a Fields,
    /// The claims of the token that proved its user. Only filters of this program see them.
    pub claims: Option<&'a Map<String, Value>>,
    /// The groups of the document that the user is in.
    pub groups: Vec<&'a str>,
}

impl Subject<'_> {
    /// The names in the certificate of the other end, which was verified.
    pub fn certificate(&self) -> Option<&CertificateNames> {
        self.source.tls.as_ref()?.certificate.as_ref()
    }

    /// Where the client connected to: by the PROXY header, else our own address.
    pub fn destination(&self) -> Option<SocketAddr> {
        self.source.local
    }
}

/// A decision, and how it came about.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// Why, in words for records; says no field value.
    pub reason: String,
    /// For metrics.
    pub outcome: Outcome,
    /// How long it took; `None` if it was remembered.
    pub took: Option<Duration>,
    /// How long it counts for a tunnel; `None`: until the configuration changes.
    pub lasts: Option<Duration>,
    /// How long an open tunnel may go on without a decision; zero if there is one.
    pub grace: Duration,
}

impl Verdict {
    /// It goes on as it is, until the configuration changes.
    pub fn allow(reason: impl Into<String>) -> Self {
        Self::decided(
            Decision::Allow(Changes::default()),
            Outcome::Allowed,
            reason,
        )
    }

    /// It is refused with this status, 400 to 599, and our own words.
    pub fn deny(status: StatusCode, reason: impl Into<String>) -> Self {
        let denial = Denial {
            status,
            fields: Fields::new(),
            content: None,
        };
        Self::decided(Decision::Deny(denial), Outcome::Denied, reason)
    }

    fn decided(decision: Decision, outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            decision,
            reason: reason.into(),
            outcome,
            took: None,
            lasts: None,
            grace: Duration::ZERO,
        }
    }

    /// It counts for an open tunnel for `time` only; then the filter is asked again.
    #[must_use]
    pub fn lasting(mut self, time: Duration) -> Self {
        self.lasts = Some(time);
        self
    }
}

/// A decision on an exchange.
#[derive(Debug, Clone)]
pub enum Decision {
    /// It goes on, with these changes.
    Allow(Changes),
    /// It is answered here.
    Deny(Denial),
}

/// How a decision came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
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
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::FailedOpen => "failed_open",
            Self::FailedClosed => "failed_closed",
        }
    }
}

/// Changes to fields: first `remove`, which never means `user` and reserved fields, then `set`,
/// then `append`. Setting `user` changes whose the exchange is from here on. Then to the query, and to the answer when it comes.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// Removed, except where something is appended.
    pub remove: Vec<FieldPattern>,
    /// Set, in place of present ones.
    pub set: Fields,
    /// Appended.
    pub append: Fields,
    /// Added where there is no field of the name after all that.
    pub if_absent: Fields,
    /// Set where there was a field of the name before all that, or is one after it.
    pub if_present: Fields,
    /// To the query, where there is one.
    pub query: QueryChanges,
    /// Fields of the answer. Reserved ones are not for a filter to set. In a place of their own: few decisions have any.
    pub answer: Box<AnswerFields>,
}

impl Changes {
    /// The fields that a request gets of them.
    pub fn apply_to(&self, head: &mut RequestHead) {
        self.apply(&mut head.fields);
        if let Ok(Some(path)) = self.query.of(head) {
            head.path = Some(path);
        }
    }

    /// Makes these changes.
    pub fn apply(&self, fields: &mut Fields) {
        let unwanted = |name: FieldName<'_>| {
            self.remove.iter().any(|pattern| pattern.matches(&name))
                && !self.append.contains_key(name)
                && name != USER
                && !is_reserved(&name)
        };

        // A field that is removed because it is not believed was present all the same.
        let mut present = self.if_present.clone();
        present.retain(|name| fields.contains_key(name));

        fields.retain(|name| !unwanted(name));
        fields.replace(&self.set);
        fields.extend(&self.append);

        fields.extend_absent(&self.if_absent);
        fields.replace_present(&self.if_present);
        fields.replace(&present);
    }
}

/// The answer to an exchange that is denied.
#[derive(Debug, Clone)]
pub struct Denial {
    /// Its status: not 1xx and not 2xx.
    pub status: StatusCode,
    /// Its fields.
    pub fields: Fields,
    /// Its content; `None` for our own words.
    pub content: Option<Bytes>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> Fields {
        let mut map = Fields::new();
        for (name, value) in fields {
            map.append(*name, value.parse::<http::HeaderValue>().unwrap());
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
            ..Changes::default()
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

    #[test]
    fn changes_that_depend_on_what_is_there_see_what_was_removed() {
        let changes = Changes {
            remove: vec!["x-role".parse().unwrap()],
            set: map(&[("x-set", "1")]),
            if_absent: map(&[("x-role", "user"), ("x-set", "2"), ("x-here", "2")]),
            if_present: map(&[("x-set", "3"), ("x-none", "3"), ("x-here", "3")]),
            ..Changes::default()
        };
        let mut fields = map(&[("x-role", "forged"), ("x-here", "0")]);
        changes.apply(&mut fields);
        let expected = [("x-role", "user"), ("x-set", "3"), ("x-here", "3")];
        for (name, value) in expected {
            let got: Vec<_> = fields.values(name).collect();
            assert_eq!(got.len(), 1, "{name}");
            assert_eq!(got[0].as_bytes(), value.as_bytes(), "{name}");
        }
        assert!(!fields.contains_key("x-none"));

        let changes = Changes {
            remove: vec!["x-role".parse().unwrap()],
            if_present: map(&[("x-role", "checked")]),
            ..Changes::default()
        };
        let mut fields = map(&[("x-role", "forged")]);
        changes.apply(&mut fields);
        assert_eq!(fields, map(&[("x-role", "checked")]));
    }
}
