//! A filter: sees the heads of exchanges, and says which may go on.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::FieldPattern;
use hermes_http::RequestHead;
use hermes_net::StreamInfo;
use hermes_rules::fields::{USER, is_reserved};
use hermes_upstream::Client;
use http::{HeaderMap, StatusCode};

use crate::target::Target;

/// Decides on an exchange after it was identified and tagged, and before its route is chosen. `authorize: [{ name: a, filter: NAME }]`
/// has it asked; the entry's `match` says about which exchanges.
///
/// - **Gets** the head with the fields that are believed, never content: messages and tunnels of every kind are alike to it.
/// - **Must** allow, possibly with changed fields, on which the routes look; or deny. What it allows for a [time](Verdict::lasts)
///   it is asked about again, while the tunnel goes on.
/// - **Time**: the entry's `timeout`, 200 ms by default; then `fail` says what becomes of the exchange. It is dropped in the middle
///   when its client goes away.
/// - **Errors**: a filter that cannot decide says so itself, with [`Outcome::FailedClosed`] or [`Outcome::FailedOpen`].
/// - **Charged**: what it holds is its own business; it sees each exchange before the bounds of users apply.
/// - **Runs** on the worker of the exchange, many at once on one thread: it must not block.
pub trait Filter: Send + Sync {
    /// Decides.
    fn decide<'a>(&'a self, subject: &'a Subject<'a>) -> Deciding<'a>;
}

/// A decision on its way.
pub type Deciding<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// What a filter sees.
pub struct Subject<'a> {
    /// What the worker that carries the exchange reaches others with.
    pub client: &'a Client,
    /// The request, with the fields that are believed.
    pub head: &'a RequestHead,
    /// What it is for.
    pub target: &'a Target,
    /// Whose it is.
    pub user: Option<&'a str>,
    /// Where it came from.
    pub source: &'a StreamInfo,
    /// Where it entered.
    pub listener: &'a str,
    /// What was shown to prove whose it is, as far as `send` lets the filter see it.
    pub credentials: &'a HeaderMap,
}

/// A decision, and how it came about.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// What is to happen.
    pub decision: Decision,
    /// Why, in words for records; says no field value.
    pub reason: String,
    /// For metrics.
    pub outcome: Outcome,
    /// How long it took; `None` if it was remembered.
    pub took: Option<Duration>,
    /// How long it counts for a tunnel; `None`: until the configuration changes.
    pub lasts: Option<Duration>,
    /// How long an open tunnel may go on where this is no one's decision; zero where someone decided.
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
            fields: HeaderMap::new(),
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

/// What is to happen to an exchange.
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
pub struct Changes {
    /// Removed, except where something is appended.
    pub remove: Vec<FieldPattern>,
    /// Set, in place of what is there.
    pub set: HeaderMap,
    /// Appended.
    pub append: HeaderMap,
}

impl Changes {
    pub(crate) fn apply(&self, fields: &mut HeaderMap) {
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
pub struct Denial {
    /// Its status: not 1xx and not 2xx.
    pub status: StatusCode,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its content; `None` for our own words.
    pub content: Option<Bytes>,
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
