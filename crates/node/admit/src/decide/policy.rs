//! *Policy*: whether an exchange may go on by the rules of the document.

use std::time::Duration;

use hermes_config::{child, element};
use hermes_http::RequestHead;
use hermes_net::clock::unix_seconds;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::Phase;
use hermes_rules::policy::{Decision, Denial};

use crate::decision_log::{Author, Came, Decided, DecisionDraft, Ruling, Witness};
use crate::entry::Entry;
use crate::filter;
use crate::filter::KnownUser;

/// The request that is decided on, and who tells of that. No one tells of what is only supposed.
pub struct Permitting<'a, 'b> {
    /// The target that it names.
    pub target: &'a Target,
    /// Whose it is.
    pub whose: KnownUser<'a>,
    /// Who logs the decision; `None` in a dry run.
    pub witness: Option<&'a mut Witness<'b>>,
    /// When, in Unix time; `None`: now.
    pub at: Option<u64>,
}

impl Entry<'_> {
    /// *Policy*: whether this user's exchange may go on, and the fields that it has then. Returns how long that counts for a tunnel.
    ///
    /// # Errors
    /// The policy denies it, or a field cannot be written.
    pub fn permit(
        &self,
        head: &mut RequestHead,
        permitting: Permitting<'_, '_>,
    ) -> Result<Option<Duration>, Refusal> {
        let rules = &self.snapshot.rules;
        if rules.policy.is_none() {
            return Ok(None);
        }

        let Permitting {
            target,
            whose,
            witness,
            at,
        } = permitting;
        let user = whose.user;
        let now = at.unwrap_or_else(unix_seconds);
        let facts = filter::facts(head, target, whose, self.source, &self.listener.name);
        let Some(decision) = rules.decide(&facts, now, &mut ()) else {
            return Ok(None);
        };
        if let Some(tally) = &self.snapshot.policing.tally {
            tally.decided(decision.rule.map(|rule| rule.index));
        }

        let asking = Decided { head, target, user };
        let told =
            witness.and_then(|witness| Some((self.draft(witness, asking, &decision)?, witness)));
        if let Some(denial) = &decision.denied {
            return Err(self.denied(denial, place(&decision), told));
        }
        if !decision.sets().is_empty() {
            self.change(head, target, user, |values, fields| {
                rules.apply(&decision, values, fields, &mut ())
            })?;
        }
        if let Some((draft, witness)) = told {
            let fields = set_by(&decision, &head.fields);
            let came = Came {
                fields,
                ..Came::default()
            };
            witness.end(self, *draft, came);
        }

        let until = decision.until;
        Ok(until.map(|until| Duration::from_secs(until.saturating_sub(now))))
    }

    /// Begins to tell of a decision, if it is to be told of.
    fn draft(
        &self,
        witness: &Witness<'_>,
        asking: Decided<'_>,
        decision: &Decision<'_>,
    ) -> Option<Box<DecisionDraft>> {
        let denies = decision.denied.is_some();
        witness.draft(self, asking, denies, || Author {
            phase: Phase::Policy,
            decision: format!("policy/{}", decision.by()),
            place: place(decision),
        })
    }

    /// The refusal of what is denied, which has the name of the decision where that is told of.
    fn denied(
        &self,
        denial: &Denial,
        place: String,
        told: Option<(Box<DecisionDraft>, &mut Witness<'_>)>,
    ) -> Refusal {
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, denial.reason.as_str());
        let refusal = refusal.status(denial.status).at(Phase::Policy, place);

        let Some((draft, witness)) = told else {
            return refusal;
        };
        let came = Came {
            ruling: Ruling::Refused(denial.status),
            reason: Some(denial.reason.clone()),
            ..Came::default()
        };
        refusal.named(witness.end(self, *draft, came))
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
