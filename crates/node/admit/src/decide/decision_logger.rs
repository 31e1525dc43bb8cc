//! Logs the decisions on one exchange.

use hermes_identity::AuthContext;
use hermes_observe::{DecisionLine, Exchange, Telemetry};
use hermes_plug::Subject;
use hermes_proto::refusal_id::RefusalId;
use hermes_upstream::Client;

use crate::decision_log::{self, Author, Decided, DecisionDraft, DecisionResult, Scene};
use crate::entry::Entry;
use crate::snapshot::Snapshot;

/// Logs the decisions on one exchange, and counts the answers of filters.
pub struct DecisionLogger<'a> {
    /// The client that filters ask with.
    pub(super) client: &'a Client,
    pub(super) telemetry: &'a Telemetry,
    /// The record of the exchange.
    pub(super) exchange: &'a Exchange,
    auth: &'a AuthContext,
    /// Of an open tunnel: the lines that are logged if they change it. `None`: each is logged at once.
    held: Option<HeldBack>,
}

/// Decisions on an open tunnel that are not logged yet.
#[derive(Default)]
struct HeldBack {
    lines: Vec<DecisionLine>,
    /// The name of the decision that denies it.
    denial: Option<RefusalId>,
}

impl<'a> DecisionLogger<'a> {
    /// Of an exchange that begins.
    pub(crate) fn new(
        client: &'a Client,
        telemetry: &'a Telemetry,
        exchange: &'a Exchange,
        auth: &'a AuthContext,
    ) -> Self {
        Self {
            client,
            telemetry,
            exchange,
            auth,
            held: None,
        }
    }

    /// Of an open tunnel: nothing is logged unless [`Self::log_held`] says so.
    pub(crate) fn holding_back(self) -> Self {
        Self {
            held: Some(HeldBack::default()),
            ..self
        }
    }

    /// Begins a line about a decision, if it is to be logged. Denials always are.
    pub(super) fn draft(
        &self,
        entry: &Entry<'_>,
        asking: Decided<'_>,
        denies: bool,
        author: impl FnOnce() -> Author,
    ) -> Option<Box<DecisionDraft>> {
        let log = entry.snapshot.reports.decisions.as_deref()?;
        if !denies && !log.samples() {
            return None;
        }

        let user = asking.user;
        let target = asking.target.canonical();
        let subject = Subject {
            client: self.client,
            head: asking.head,
            target: &target,
            user,
            source: entry.source,
            listener: &entry.listener.name,
            credentials: &self.auth.credentials,
            claims: self.auth.proof.claims(),
            groups: entry.snapshot.rules.names.groups_of(user),
        };
        let mut draft = DecisionDraft::new(&subject, author());
        draft.erase_signatures(&entry.snapshot.policing.signed);
        Some(Box::new(draft))
    }

    /// Logs the outcome, and returns the name of the decision.
    pub(super) fn log(
        &mut self,
        entry: &Entry<'_>,
        draft: DecisionDraft,
        result: DecisionResult,
    ) -> RefusalId {
        let id = draft.id;
        let Some(log) = entry.snapshot.reports.decisions.as_deref() else {
            return id;
        };
        let denies = result.denies();
        let scene = Scene {
            node: &entry.snapshot.node.name,
            revision: entry.snapshot.revision,
            source: entry.source,
            exchange: self.exchange,
            again: self.held.is_some(),
        };
        let line = log.line(draft, &scene, result);

        match &mut self.held {
            None => decision_log::write(self.telemetry, log, line),
            Some(held) => {
                held.lines.push(line);
                held.denial = denies.then_some(id).or(held.denial);
            }
        }
        id
    }

    /// The decisions change the tunnel: they are logged.
    pub(crate) fn log_held(&mut self, snapshot: &Snapshot) {
        let Some(log) = snapshot.reports.decisions.as_deref() else {
            return;
        };
        let held = self.held.take().unwrap_or_default();
        self.exchange.denied(held.denial);
        for line in held.lines {
            decision_log::write(self.telemetry, log, line);
        }
    }
}
