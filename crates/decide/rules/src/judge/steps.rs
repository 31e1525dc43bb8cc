//! The comparisons of a decision's phases, and the places of the compared keys.

use hermes_config::child;
use hermes_proto::fields::Fields;
use http::HeaderName;

use super::{Entrance, key_of, names};
use crate::fields::USER;
use crate::trust::{Refusal, Source};

/// Names of claimed fields that are recorded for one client.
#[doc(alias = "bound")]
const REMOVED: usize = 16;

/// Records the steps of a decision. `()` records no steps, and costs nothing.
pub trait Steps {
    /// Whether steps are taken down.
    fn is_wanted(&self) -> bool;

    /// Records a step; not called if no steps are wanted.
    fn take(&mut self, step: Step);

    /// Called for each removed field line, whether steps are wanted or not.
    fn removes(&mut self, _name: &str) {}
}

impl Steps for () {
    fn is_wanted(&self) -> bool {
        false
    }

    fn take(&mut self, _: Step) {}
}

impl Steps for Vec<Step> {
    fn is_wanted(&self) -> bool {
        true
    }

    fn take(&mut self, step: Step) {
        self.push(step);
    }
}

/// Takes down which fields were removed, and nothing else.
#[derive(Debug, Default)]
pub struct RemovedFields(pub Vec<String>);

impl Steps for RemovedFields {
    fn is_wanted(&self) -> bool {
        false
    }

    fn take(&mut self, _: Step) {}

    fn removes(&mut self, name: &str) {
        // A client chooses the number of its fields, so the record of them needs a bound.
        if self.0.len() < REMOVED && !self.0.iter().any(|known| known == name) {
            self.0.push(name.to_owned());
        }
    }
}

/// A comparison or a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub phase: Phase,
    /// The place of the compared key, as `routes[2].match`; the document may leave the key to its default.
    pub path: String,
    /// The result, in words.
    pub said: String,
}

/// A phase of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Whether the request is valid.
    Accept,
    /// Finding the user.
    Identify,
    /// Fields that the listener adds.
    Tag,
    /// Whether it may go on.
    Policy,
    /// Whether the filters allow it.
    Authorize,
    /// Which route it takes.
    Route,
    /// The next hop on that route, and whether it is reached.
    Forward,
}

impl Phase {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Identify => "identify",
            Self::Tag => "tag",
            Self::Policy => "policy",
            Self::Authorize => "authorize",
            Self::Route => "route",
            Self::Forward => "forward",
        }
    }
}

/// Why the claimed user is not accepted.
pub(super) fn refused(
    steps: &mut impl Steps,
    entrance: &Entrance<'_>,
    source: &Source<'_>,
    refusal: &Refusal,
) {
    if steps.is_wanted() {
        steps.take(Step {
            phase: Phase::Identify,
            path: place_of(source, entrance),
            said: format!("refused: {}", refusal.reason),
        });
    }
}

/// The user of the exchange.
pub(super) fn identified(
    steps: &mut impl Steps,
    entrance: &Entrance<'_>,
    source: &Source<'_>,
    user: Option<&str>,
) {
    if !steps.is_wanted() {
        return;
    }
    let from = match source {
        Source::Client => "a client".to_owned(),
        Source::Peer { name, .. } => format!("peer {name}"),
        Source::InsecurePeer => "a peer listed in insecure_trust".to_owned(),
    };

    let is_own = matches!(source, Source::Client) && user.is_some() && user == entrance.user;
    let whose = user.map_or_else(|| "no user".to_owned(), |user| format!("user {user}"));
    steps.take(Step {
        phase: Phase::Identify,
        path: if is_own {
            key_of(entrance, "user")
        } else {
            place_of(source, entrance)
        },
        said: format!("from {from}: {whose}"),
    });
}

/// Which fields were not believed.
pub(super) fn removed(
    steps: &mut impl Steps,
    entrance: &Entrance<'_>,
    before: &Fields,
    after: &Fields,
) {
    for name in names(before) {
        if !after.contains_key(name) {
            not_believed(steps, entrance, &name);
        } else if name == USER && before.get(name) != after.get(name) {
            steps.take(Step {
                phase: Phase::Identify,
                path: key_of(entrance, "forged"),
                said: "field user said someone else, and is replaced".to_owned(),
            });
        }
    }
}

/// That this field was not trusted.
pub(super) fn not_believed(steps: &mut impl Steps, entrance: &Entrance<'_>, name: &str) {
    steps.take(Step {
        phase: Phase::Identify,
        path: key_of(entrance, "accepts"),
        said: format!("field {name} is not trusted, and removed"),
    });
}

/// Which fields the listener set, appended and removed.
pub(super) fn tagged(steps: &mut impl Steps, entrance: &Entrance<'_>, fields: &Fields) {
    if !steps.is_wanted() {
        return;
    }
    let config = entrance.config;
    let written = config.set.keys().map(|name| ("set", name));
    let appended = config.append.keys().map(|name| ("append", name));

    for (key, name) in written.chain(appended) {
        let value = HeaderName::from_bytes(name.as_bytes())
            .ok()
            .and_then(|name| fields.values(name).next_back());
        let said = match value {
            Some(value) => format!(
                "field {name}: {}",
                String::from_utf8_lossy(value.as_bytes())
            ),
            None => format!("field {name}: nothing to write"),
        };

        steps.take(Step {
            phase: Phase::Tag,
            path: child(&key_of(entrance, key), name),
            said,
        });
    }
}

/// The place of the configuration that defines the trust in a source.
pub(super) fn place_of(source: &Source<'_>, entrance: &Entrance<'_>) -> String {
    match source {
        Source::Client => key_of(entrance, "auth"),
        Source::Peer { name, .. } => child("peers", name),
        Source::InsecurePeer => key_of(entrance, "insecure_trust"),
    }
}
