//! *Authorize*: the filters of the snapshot are asked, in their order.

use std::time::Duration;

use hermes_config::element;
use hermes_http::RequestHead;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Changes, Decision, Denial, Subject, Verdict};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::fields::USER;
use hermes_rules::judge::Phase;

use super::candidate::{Candidate, Grant, Mode};
use crate::decision_log::{Author, Decided, DecisionDraft, DecisionResult};
use crate::filter::{Checkpoint, other_readings};

/// An exchange that may not go on.
pub struct Denied {
    /// The answer to it.
    pub refusal: Refusal,
    /// How long an open tunnel may go on all the same, because no filter decided.
    pub grace: Duration,
}

/// The answer of one filter that allows an exchange.
struct Allowed {
    changes: Changes,
    /// How long that counts for a tunnel.
    lasts: Option<Duration>,
}

impl Candidate<'_> {
    /// Whether any filter is to be asked. Where none is, none is after another's changes.
    pub fn is_asked(&self, head: &RequestHead, user: Option<&str>) -> bool {
        let filters = &self.entry.snapshot.policing.filters;
        let applies = |head: &RequestHead| {
            let facts = self.facts(head, user);
            filters.iter().any(|filter| filter.applies(&facts))
        };

        // One that cannot be asked about is refused when it is asked.
        let others = || other_readings(&self.entry.snapshot.document, head);
        !filters.is_empty()
            && (applies(head) || others().map_or(true, |others| others.iter().any(applies)))
    }

    /// *Authorize*: asks every filter that applies; the first denial ends it. A filter may change fields and name the user.
    ///
    /// # Errors
    /// A filter denied the exchange.
    pub async fn authorize(
        &mut self,
        head: &mut RequestHead,
        user: &mut Option<String>,
    ) -> Result<Grant, Denied> {
        let snapshot = self.entry.snapshot;
        let mut granted = Grant::default();
        for filter in &snapshot.policing.filters {
            if self.passes_over(filter) {
                continue;
            }

            let others = other_readings(&snapshot.document, head);
            let others = others.map_err(|refusal| Denied {
                refusal,
                grace: Duration::ZERO,
            })?;
            for other in others {
                if filter.applies(&self.facts(&other, user.as_deref())) {
                    let allowed = self.ask(filter, &other, user.as_deref()).await?;
                    granted.at_most(allowed.lasts);
                }
            }

            if filter.applies(&self.facts(head, user.as_deref())) {
                let allowed = self.ask(filter, head, user.as_deref()).await?;
                granted.at_most(allowed.lasts);
                self.follow(&allowed.changes, head, user);
                if !allowed.changes.answer.is_empty() {
                    granted.answer.push(*allowed.changes.answer);
                }
            }
        }

        Ok(granted)
    }

    /// A dry run asks no server, and no filter of the program.
    fn passes_over(&self, filter: &Checkpoint) -> bool {
        matches!(self.mode, Mode::DryRun(_)) && !filter.is_rego
    }

    /// Changes the request as a filter says. The user field and the recorded identity have to agree.
    fn follow(&mut self, changes: &Changes, head: &mut RequestHead, user: &mut Option<String>) {
        changes.apply_to(head);
        let named = changes.set.get(USER);
        let named = named.and_then(|named| std::str::from_utf8(named.as_bytes()).ok());
        let Some(named) = named else {
            return;
        };

        if let Some(logger) = self.mode.logger() {
            logger.exchange.user(named);
        }
        *user = Some(named.to_owned());
    }

    /// Asks a filter, which changes nothing yet.
    async fn ask(
        &mut self,
        filter: &Checkpoint,
        head: &RequestHead,
        user: Option<&str>,
    ) -> Result<Allowed, Denied> {
        let verdict = self.verdict(filter, head, user).await;
        let named = self.logged(filter, head, user, &verdict);
        let reason = format!(
            "{} {}: {}",
            filter.name,
            verdict.outcome.word(),
            verdict.reason
        );
        match &mut self.mode {
            Mode::Arriving(logger) | Mode::Opened(logger) | Mode::Reevaluated(logger) => {
                logger.exchange.filtered(&reason);
            }
            Mode::DryRun(dry) => dry.said.push(reason.clone()),
        }

        match verdict.decision {
            Decision::Allow(changes) => Ok(Allowed {
                changes,
                lasts: verdict.lasts,
            }),
            Decision::Deny(denial) => {
                let refusal = self.refusal(&filter.name, denial, reason);
                Err(Denied {
                    refusal: named.into_iter().fold(refusal, Refusal::named),
                    grace: verdict.grace,
                })
            }
        }
    }

    /// The verdict of a filter on a request.
    async fn verdict(
        &mut self,
        filter: &Checkpoint,
        head: &RequestHead,
        user: Option<&str>,
    ) -> Verdict {
        let client = match &self.mode {
            Mode::Arriving(logger) | Mode::Opened(logger) | Mode::Reevaluated(logger) => {
                logger.client
            }
            Mode::DryRun(dry) => &dry.client,
        };
        let compared = self.target.canonical();
        let subject = Subject {
            client,
            head,
            target: &compared,
            user,
            source: self.entry.source,
            listener: &self.entry.listener.name,
            credentials: &self.auth.credentials,
            claims: self.auth.proof.claims(),
            groups: self.entry.snapshot.rules.names.groups_of(user),
        };
        filter.decide(&subject).await
    }

    /// Counts and logs a verdict; returns the name of the decision, where it is logged.
    fn logged(
        &mut self,
        filter: &Checkpoint,
        head: &RequestHead,
        user: Option<&str>,
        verdict: &Verdict,
    ) -> Option<RefusalId> {
        let decided = Decided {
            head,
            target: self.target,
            user,
        };
        let denies = matches!(verdict.decision, Decision::Deny(_));
        let document = &self.entry.snapshot.document;

        let logger = self.mode.logger()?;
        let outcome = verdict.outcome;
        logger
            .telemetry
            .filtered(&filter.name, outcome.word(), verdict.took);
        let draft = logger.draft(&self.entry, decided, denies, || {
            Author::filter(document, &filter.name)
        })?;

        let result =
            DecisionResult::of_filter(&verdict.decision, &verdict.reason, outcome, verdict.took);
        self.log(*draft, result)
    }

    /// Logs the outcome of a decision, and returns its name; `None` in a dry run.
    pub(super) fn log(
        &mut self,
        draft: DecisionDraft,
        result: DecisionResult,
    ) -> Option<RefusalId> {
        let logger = self.mode.logger()?;
        Some(logger.log(&self.entry, draft, result))
    }

    /// The refusal of an exchange that a filter denies.
    fn refusal(&self, name: &str, denial: Denial, reason: String) -> Refusal {
        let Denial {
            status,
            fields,
            content,
        } = denial;
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, reason)
            .status(status)
            .fields(fields)
            .at(Phase::Authorize, self.place(name));

        match content {
            Some(content) => refusal.content(content),
            None => refusal,
        }
    }

    /// Where a filter is written.
    fn place(&self, name: &str) -> String {
        let mut written = self.entry.snapshot.document.authorize.iter();
        let index = written.position(|filter| filter.name == name);
        index.map_or_else(
            || "authorize".to_owned(),
            |index| element("authorize", index),
        )
    }
}
