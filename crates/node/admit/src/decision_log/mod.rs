//! The log of decisions: an event for each, in the form of Open Policy Agent's.
//!
//! A `DecisionDraft` begins before the fields of an exchange change, because the decision is about those, and becomes an event with
//! the outcome. `mask` leaves out credentials, and values that the document names. Exchanges are logged by
//! [`DecisionLogger`](crate::decide::DecisionLogger), flows of packets by [`DeniedFlow`](crate::denied_flow::DeniedFlow).

mod draft;
mod mask;

use std::path::Path;

use hermes_config::element;
use hermes_config::model::{self, DecisionPointer, Document, Percent};
use hermes_http::RequestHead;
use hermes_observe::{DecisionLine, Destination, Telemetry};
use hermes_plug::target::Target;
use hermes_rules::judge::Phase;

pub(crate) use draft::{DecisionDraft, DecisionResult, Ruling, Scene};

/// The log of decisions, as a document configures it.
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
    pub(crate) fn samples(&self) -> bool {
        self.sample >= ALL || fastrand::u32(..ALL) < self.sample
    }

    /// The line about a decision and its outcome, which takes its owner's share of the log.
    pub(crate) fn line(
        &self,
        draft: DecisionDraft,
        scene: &Scene<'_>,
        result: DecisionResult,
    ) -> DecisionLine {
        let owner = draft.owner.clone();
        mask::line(draft.event(scene, result), &self.mask).owned_by(owner)
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
    pub fn filter(document: &Document, name: &str) -> Self {
        let mut filters = document.authorize.iter().enumerate();
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

/// Writes a line where the document says: to a service, or to a file.
pub(crate) fn write(telemetry: &Telemetry, log: &DecisionLog, line: DecisionLine) {
    if log.service.is_some() {
        telemetry.post_decision(line);
    } else {
        telemetry.write_decision(line);
    }
}

#[cfg(test)]
mod tests;
