//! One decision, from its subject to its result.

use std::time::{Duration, SystemTime};

use hermes_net::StreamInfo;
use hermes_net::memory::Owner;
use hermes_observe::Exchange;
use hermes_plug::{Decision, Outcome, Subject};
use hermes_proto::fields::Fields;
use hermes_proto::refusal_id::RefusalId;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Author, mask};
use crate::filter;
use crate::signed_routes::SignedRoutes;
use crate::snapshot::hidden_paths;

/// A decision whose subject is known and whose result is not.
pub struct DecisionDraft {
    /// Its name. A refusal has the same one.
    pub id: RefusalId,
    author: Author,
    /// Whose share of the log it takes.
    pub owner: Owner,
    input: Value,
    /// Pointers to the values that were left out of it.
    erased: Vec<String>,
    began: SystemTime,
}

/// Whether the exchange or packet may go on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// It may.
    #[default]
    Allowed,
    /// It is answered with this status.
    Refused(StatusCode),
    /// It gets no answer of HTTP: a packet.
    Dropped,
}

/// The node and the exchange of a decision.
pub struct Scene<'a> {
    /// Name of this node.
    pub node: &'a str,
    /// The snapshot that decides.
    pub revision: u64,
    pub source: &'a StreamInfo,
    pub exchange: &'a Exchange,
    /// It was decided on before: an open tunnel.
    pub again: bool,
}

/// The result of a decision.
#[derive(Default)]
pub struct DecisionResult {
    pub(crate) ruling: Ruling,
    /// Why, in words.
    pub reason: Option<String>,
    /// Fields that the exchange gets, or the answer to it.
    pub fields: Fields,
    /// Fields that the answer gets when it comes.
    pub answer: Fields,
    /// How a filter reached it.
    pub outcome: Option<Outcome>,
    /// How long that took; `None` where it was remembered, or nothing was asked.
    pub took: Option<Duration>,
}

impl DecisionResult {
    /// Of a filter.
    pub(crate) fn of_filter(
        decision: &Decision,
        reason: &str,
        outcome: Outcome,
        took: Option<Duration>,
    ) -> Self {
        let result = Self {
            reason: Some(reason.to_owned()),
            outcome: Some(outcome),
            took,
            ..Self::default()
        };

        match decision {
            Decision::Allow(changes) => Self {
                fields: joint([
                    &changes.set,
                    &changes.append,
                    &changes.if_absent,
                    &changes.if_present,
                ]),
                answer: joint(changes.answer.each()),
                ..result
            },
            Decision::Deny(denial) => Self {
                ruling: Ruling::Refused(denial.status),
                fields: denial.fields.clone(),
                ..result
            },
        }
    }

    pub(crate) fn denies(&self) -> bool {
        self.ruling != Ruling::Allowed
    }

    /// The decision, in the form in which a policy in Rego answers.
    fn rego_answer(&self, erased: &mut Vec<String>) -> Value {
        let mut result = json!({ "allow": !self.denies() });
        if let Ruling::Refused(status) = self.ruling {
            result["status"] = status.as_u16().into();
        }
        if let Some(reason) = &self.reason {
            result["reason"] = reason.as_str().into();
        }

        for (key, fields) in [("fields", &self.fields), ("answer_fields", &self.answer)] {
            let shown = mask::without_secrets(fields, &format!("/result/{key}"), erased);
            if !shown.is_empty() {
                result[key] = filter::joined(&shown);
            }
        }
        result
    }

    /// The error that prevented a decision.
    fn error(&self) -> Option<Value> {
        let undecided = [Outcome::FailedOpen, Outcome::FailedClosed];
        self.outcome.filter(|how| undecided.contains(how))?;
        Some(json!({ "code": "undecided", "message": self.reason }))
    }
}

/// Both.
fn joint(given: [&Fields; 4]) -> Fields {
    let mut joint = Fields::new();
    for fields in given {
        joint.extend(fields);
    }
    joint
}

impl DecisionDraft {
    pub fn new(subject: &Subject<'_>, author: Author) -> Self {
        let mut erased = Vec::new();
        let fields = &subject.head.fields;
        let shown = mask::without_secrets(fields, "/input/fields", &mut erased);
        let owner = Owner::of(subject.user, &subject.source.peer);
        Self {
            erased,
            ..Self::of(filter::known(subject, &shown), owner, author)
        }
    }

    /// About this input, of which nothing was left out.
    pub fn of(input: Value, owner: Owner, author: Author) -> Self {
        Self {
            id: RefusalId::from_random(fastrand::u64(..)),
            author,
            owner,
            input,
            erased: Vec::new(),
            began: SystemTime::now(),
        }
    }

    /// Leaves out signatures of URLs: anyone who reads one may use it until it expires.
    pub(crate) fn erase_signatures(&mut self, signed: &SignedRoutes) {
        signed.erase(&mut self.input, &mut self.erased);
    }

    /// The event for the log.
    pub fn event(self, scene: &Scene<'_>, result: DecisionResult) -> Map<String, Value> {
        let Scene {
            node,
            revision,
            source,
            exchange,
            again,
        } = *scene;
        let (input, mut erased) = hidden_paths::erase(exchange, self.input, self.erased);
        let own = json!({
            "exchange": exchange.id().to_string(),
            "phase": self.author.phase.word(),
            "place": self.author.place,
            "outcome": result.outcome.map(Outcome::word),
            "reevaluated": again,
        });

        let mut event = Map::new();
        let labels = json!({ "id": node, "version": env!("CARGO_PKG_VERSION") });
        event.insert("labels".to_owned(), labels);
        event.insert("decision_id".to_owned(), self.id.as_str().into());
        if let Some(span) = exchange.span() {
            let context = &span.context;
            event.insert("trace_id".to_owned(), context.trace.to_string().into());
            event.insert("span_id".to_owned(), context.parent.to_string().into());
        }

        let revision = revision.to_string();
        let source = source.peer.to_string();
        let began = humantime::format_rfc3339_micros(self.began).to_string();
        event.insert("revision".to_owned(), revision.into());
        event.insert("path".to_owned(), self.author.decision.into());
        event.insert("requested_by".to_owned(), source.into());
        event.insert("timestamp".to_owned(), began.into());
        event.insert("input".to_owned(), input);
        event.insert("result".to_owned(), result.rego_answer(&mut erased));

        if let Some(error) = result.error() {
            event.insert("error".to_owned(), error);
        }
        if let Some(took) = result.took {
            let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            event.insert("metrics".to_owned(), json!({ "timer_filter_ns": took }));
        }
        event.insert("hermes".to_owned(), own);
        event.insert(mask::ERASED.to_owned(), erased.into());
        event
    }
}
