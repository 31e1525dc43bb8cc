//! The log of decisions: what is told of each, in the form of Open Policy Agent's.
//!
//! A [`Witness`] stands beside an exchange while it is decided on. It begins a draft before the fields change, because that is what
//! was decided about, and ends it with what came of it. A [`DeniedFlow`] is what rules on packets deny. Where no log is configured,
//! nothing is made or copied.

mod denied_flow;
mod draft;
mod mask;

use std::path::Path;

use hermes_config::element;
use hermes_config::model::{self, DecisionPointer, Document, Percent};
use hermes_http::RequestHead;
use hermes_identity::AuthContext;
use hermes_observe::{DecisionLine, Destination, Exchange};
use hermes_plug::Subject;
use hermes_plug::target::Target;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::Phase;

use crate::entry::Entry;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
pub use denied_flow::DeniedFlow;
use draft::Scene;
pub(crate) use draft::{Came, DecisionDraft, Ruling};

/// What a document says of its log of decisions.
pub struct DecisionLog {
    /// In millionths: which share of the decisions to allow is logged.
    sample: u32,
    mask: Vec<DecisionPointer>,
    /// Who gets them; `None`: a file.
    pub service: Option<Destination>,
}

/// The file that a document logs decisions to.
pub fn decisions_file(document: &Document) -> Option<&Path> {
    let file = document.log.decisions.as_ref()?.file.as_ref()?;
    Some(&file.0)
}

/// All of something, in millionths.
const ALL: u32 = 1_000_000;

impl DecisionLog {
    /// As a document says, with the service that it names.
    pub fn new(config: &model::DecisionLog, service: Option<Destination>) -> Self {
        Self {
            sample: config.sample.map_or(ALL, |Percent(share)| share),
            mask: config.mask.clone(),
            service,
        }
    }

    /// Whether a decision to allow is logged.
    fn samples(&self) -> bool {
        self.sample >= ALL || fastrand::u32(..ALL) < self.sample
    }
}

/// Who decided, and where that is written.
pub struct Author {
    /// The phase that decided.
    pub phase: Phase,
    /// The decision, as OPA writes the path of a rule: `policy/admins`, `overlay/decision`.
    pub decision: String,
    /// As `policy.rules[3]`.
    pub place: String,
}

impl Author {
    /// The filter of this name in a document: a policy in Rego by its query, a server by its name.
    pub fn filter(snapshot: &Snapshot, name: &str) -> Self {
        let mut filters = snapshot.document.authorize.iter().enumerate();
        let found = filters.find(|(_, filter)| filter.name == name);
        let query = found.and_then(|(_, filter)| filter.rego.as_ref());
        let decision = query.map_or_else(
            || format!("authorize/{name}"),
            |rego| rego.query.trim_start_matches("data.").replace('.', "/"),
        );

        Self {
            phase: Phase::Authorize,
            decision,
            place: found.map_or_else(
                || "authorize".to_owned(),
                |(index, _)| element("authorize", index),
            ),
        }
    }
}

/// Tells of the decisions on one exchange.
pub struct Witness<'a> {
    worker: &'a Worker,
    exchange: &'a Exchange,
    auth: &'a AuthContext,
    /// Of an open tunnel: what is told if it changes. `None`: everything is told at once.
    held: Option<HeldBack>,
}

/// What was decided again about an open tunnel.
#[derive(Default)]
struct HeldBack {
    lines: Vec<DecisionLine>,
    /// The name of the decision that denies it.
    denial: Option<RefusalId>,
}

/// The request that is decided on.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The request.
    pub head: &'a RequestHead,
    /// The target that it names.
    pub target: &'a Target,
    /// Its user, if the user is known.
    pub user: Option<&'a str>,
}

impl<'a> Witness<'a> {
    /// Of an exchange that begins.
    pub fn new(worker: &'a Worker, exchange: &'a Exchange, auth: &'a AuthContext) -> Self {
        Self {
            worker,
            exchange,
            auth,
            held: None,
        }
    }

    /// Of an open tunnel: nothing is told unless [`Self::changes`] says so.
    pub(crate) fn of_tunnel(
        worker: &'a Worker,
        exchange: &'a Exchange,
        auth: &'a AuthContext,
    ) -> Self {
        Self {
            held: Some(HeldBack::default()),
            ..Self::new(worker, exchange, auth)
        }
    }

    /// Begins to tell of a decision, if it is to be told of. Those to deny always are.
    pub fn draft(
        &self,
        entry: &Entry<'_>,
        asking: Decided<'_>,
        denies: bool,
        author: impl FnOnce() -> Author,
    ) -> Option<Box<DecisionDraft>> {
        let log = entry.snapshot.told.decisions.as_deref()?;
        if !denies && !log.samples() {
            return None;
        }

        let user = asking.user;
        let target = asking.target.canonical();
        let subject = Subject {
            client: &self.worker.client,
            head: asking.head,
            target: &target,
            user,
            source: entry.source,
            listener: &entry.listener.name,
            credentials: &self.auth.credentials,
            claims: self.auth.proof.claims(),
            groups: entry.snapshot.rules.names.groups_of(user),
        };
        Some(Box::new(DecisionDraft::new(&subject, author())))
    }

    /// Tells what came of it, and returns what the decision is called.
    pub fn end(&mut self, entry: &Entry<'_>, draft: DecisionDraft, came: Came) -> RefusalId {
        let id = draft.id;
        let Some(log) = entry.snapshot.told.decisions.as_deref() else {
            return id;
        };
        let denies = came.denies();
        let scene = Scene {
            snapshot: entry.snapshot,
            source: entry.source,
            exchange: self.exchange,
            again: self.held.is_some(),
        };
        let owner = draft.owner.clone();
        let line = mask::line(draft.event(&scene, came), &log.mask).owned_by(owner);

        match &mut self.held {
            None => tell(self.worker, log, line),
            Some(held) => {
                held.lines.push(line);
                held.denial = denies.then_some(id).or(held.denial);
            }
        }
        id
    }

    /// What was decided changes the tunnel: it is told.
    pub fn changes(&mut self, snapshot: &Snapshot) {
        let Some(log) = snapshot.told.decisions.as_deref() else {
            return;
        };
        let held = self.held.take().unwrap_or_default();
        self.exchange.denied(held.denial);
        for line in held.lines {
            tell(self.worker, log, line);
        }
    }
}

fn tell(worker: &Worker, log: &DecisionLog, line: DecisionLine) {
    let telemetry = &worker.shared.telemetry;
    if log.service.is_some() {
        telemetry.post_decision(line);
    } else {
        telemetry.write_decision(line);
    }
}

#[cfg(test)]
mod tests;
