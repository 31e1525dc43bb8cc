//! *Policy*: whether an exchange may go on by the rules of the document.

use std::time::Duration;

use hermes_config::{child, element};
use hermes_http::RequestHead;
use hermes_identity::Proof;
use hermes_net::clock::unix_seconds;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::Phase;
use hermes_rules::policy::{Decision, Denial};
use http::StatusCode;

use super::candidate::{Candidate, Mode};
use crate::decision_log::{Author, Decided, DecisionDraft, DecisionResult, Ruling};

/// The permission of the policy.
#[derive(Debug, Default)]
pub struct Permitted {
    /// How long that counts for a tunnel; `None`: until the configuration changes.
    pub lasts: Option<Duration>,
    /// The position of the rule that decided; `None` if none did.
    pub rule: Option<usize>,
}

impl Candidate<'_> {
    /// *Policy*: whether `user`'s exchange may go on, and the fields that it has then.
    ///
    /// # Errors
    /// The policy denies it, or a field cannot be written.
    pub fn permit(
        &mut self,
        head: &mut RequestHead,
        user: Option<&str>,
    ) -> Result<Permitted, Refusal> {
        let snapshot = self.entry.snapshot;
        let rules = &snapshot.rules;
        if rules.policy.is_none() {
            return Ok(Permitted::default());
        }

        let now = self.now();
        let facts = self.facts(head, user);
        let Some(decision) = rules.decide(&facts, now, &mut ()) else {
            return Ok(Permitted::default());
        };
        if let Some(tally) = &snapshot.policing.tally {
            tally.decided(decision.rule.map(|rule| rule.index));
        }

        let draft = self.draft(head, user, &decision);
        if let Some(denial) = &decision.denied {
            let refusal = self.denied(denial, place(&decision), draft);
            return Err(self.asking_who(refusal));
        }
        if !decision.sets().is_empty() {
            self.entry
                .change(head, self.target, user, |values, fields| {
                    rules.apply(&decision, values, fields, &mut ())
                })?;
        }
        if let Some(draft) = draft {
            let result = DecisionResult {
                fields: set_by(&decision, &head.fields),
                ..DecisionResult::default()
            };
            self.log(*draft, result);
        }

        let until = decision.until;
        Ok(Permitted {
            lasts: until.map(|until| Duration::from_secs(until.saturating_sub(now))),
            rule: decision.rule.map(|rule| rule.index),
        })
    }

    /// When it is decided on, in Unix time.
    fn now(&self) -> u64 {
        let supposed = match &self.mode {
            Mode::DryRun(dry) => dry.at,
            Mode::Arriving(_) | Mode::Opened(_) | Mode::Reevaluated(_) => None,
        };
        supposed.unwrap_or_else(unix_seconds)
    }

    /// Begins the line about a decision, if it is to be logged.
    fn draft(
        &mut self,
        head: &RequestHead,
        user: Option<&str>,
        decision: &Decision<'_>,
    ) -> Option<Box<DecisionDraft>> {
        let asking = Decided {
            head,
            target: self.target,
            user,
        };
        let denies = decision.denied.is_some();
        let logger = self.mode.logger()?;
        logger.draft(&self.entry, asking, denies, || Author {
            phase: Phase::Policy,
            decision: format!("policy/{}", decision.by()),
            place: place(decision),
        })
    }

    /// The refusal of an exchange that is denied; it has the name of the decision where that is logged.
    fn denied(
        &mut self,
        denial: &Denial,
        place: String,
        draft: Option<Box<DecisionDraft>>,
    ) -> Refusal {
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, denial.reason.as_str());
        let refusal = refusal.status(denial.status).at(Phase::Policy, place);

        let result = || DecisionResult {
            ruling: Ruling::Refused(denial.status),
            reason: Some(denial.reason.clone()),
            ..DecisionResult::default()
        };
        let logged = draft.and_then(|draft| self.log(*draft, result()));
        logged.into_iter().fold(refusal, Refusal::named)
    }

    /// A client that arrives, has shown nothing, and may not go on for that is asked who it is.
    fn asking_who(&self, refusal: Refusal) -> Refusal {
        let is_anonymous = self.auth.proof == Proof::Nothing && !self.auth.peer;
        let is_asked = matches!(self.mode, Mode::Arriving(_)) && is_anonymous;
        if !is_asked || refusal.code() != StatusCode::FORBIDDEN {
            return refusal;
        }

        let listener = self.entry.listener;
        match listener
            .authenticator
            .asks_again(listener.config.is_gateway())
        {
            Some(challenge) => refusal.status(challenge.status).fields(challenge.fields),
            None => refusal,
        }
    }
}

/// Where a decision is written.
fn place(decision: &Decision<'_>) -> String {
    decision.rule.map_or_else(
        || child("policy", "default"),
        |rule| element("policy.rules", rule.index),
    )
}

/// The fields that a decision has set.
fn set_by(decision: &Decision<'_>, fields: &Fields) -> Fields {
    let is_set = |name: &str| {
        let mut sets = decision.sets().iter();
        sets.any(|rule| rule.set().keys().any(|set| set.eq_ignore_ascii_case(name)))
    };
    let set = fields.iter().filter(|(name, _)| is_set(name));
    set.collect()
}
