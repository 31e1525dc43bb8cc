//! An exchange on its way through the filters of its snapshot.

use std::time::Duration;

use hermes_config::element;
use hermes_http::{AnswerFields, RequestHead};
use hermes_identity::AuthContext;
use hermes_observe::Exchange;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{Changes, Decision, Denial, Subject, Verdict};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::Facts;
use hermes_rules::fields::USER;
use hermes_rules::judge::Phase;

use super::{Checkpoint, KnownUser, facts, other_readings};
use crate::decision_log::{Author, Came, Decided, Witness};
use crate::entry::Entry;
use crate::worker::Worker;

/// An exchange on its way through the filters.
pub struct Stage<'a> {
    /// The worker that asks.
    pub worker: &'a Worker,
    /// Where it came in.
    pub entry: Entry<'a>,
    /// Its record.
    pub exchange: &'a Exchange,
    /// The target that it names.
    pub target: &'a Target,
    /// Who the client is.
    pub auth: &'a AuthContext,
}

/// What filters have allowed, besides changes to the request.
#[derive(Default)]
pub struct FilterGrant {
    /// How long that counts for a tunnel.
    pub(crate) lasts: Option<Duration>,
    /// What the answer gets, of each filter that gives it something.
    pub answer: Vec<AnswerFields>,
}

/// An exchange that may not go on.
pub struct Denied {
    /// The answer to it.
    pub refusal: Refusal,
    /// How long an open tunnel may go on all the same, because no one decided.
    pub(crate) grace: Duration,
}

impl Stage<'_> {
    /// Whether any filter is to be asked. Where none is, none is after another's changes.
    pub fn is_asked(&self, head: &RequestHead, user: Option<&str>) -> bool {
        let filters = &self.entry.snapshot.filters;
        let applies = |head: &RequestHead| {
            let facts = self.facts(head, user);
            filters.iter().any(|filter| filter.applies(&facts))
        };

        // One that cannot be asked about is refused when it is asked.
        let others = || other_readings(&self.entry.snapshot.document, head);
        !filters.is_empty()
            && (applies(head) || others().map_or(true, |others| others.iter().any(applies)))
    }

    /// Asks every filter that applies; the first denial ends it.
    ///
    /// # Errors
    /// A filter denied the exchange.
    pub async fn authorize(
        &self,
        head: &mut RequestHead,
        user: &mut Option<String>,
        witness: &mut Witness<'_>,
    ) -> Result<FilterGrant, Denied> {
        let mut granted = FilterGrant::default();
        for filter in &self.entry.snapshot.filters {
            let others = other_readings(&self.entry.snapshot.document, head);
            let others = others.map_err(|refusal| Denied {
                refusal,
                grace: Duration::ZERO,
            })?;
            for other in others {
                if filter.applies(&self.facts(&other, user.as_deref())) {
                    let (_, lasts) = self
                        .question(filter, &other, user.as_deref(), witness)
                        .await?;
                    granted.lasts = [granted.lasts, lasts].into_iter().flatten().min();
                }
            }

            if filter.applies(&self.facts(head, user.as_deref())) {
                let also = self.ask(filter, head, user, witness).await?;
                granted.lasts = [granted.lasts, also.lasts].into_iter().flatten().min();
                granted.answer.extend(also.answer);
            }
        }

        Ok(granted)
    }

    fn facts<'b>(&'b self, head: &'b RequestHead, user: Option<&'b str>) -> Facts<'b> {
        facts(
            head,
            self.target,
            KnownUser::new(self.auth, self.entry.listener, user),
            self.entry.source,
            &self.entry.listener.name,
        )
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

    /// The refusal of what a filter denies.
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

    /// Tells of a decision, if it is told of; what it is called then.
    fn tell(
        &self,
        name: &str,
        decided: Decided<'_>,
        denies: bool,
        (witness, came): (&mut Witness<'_>, &dyn Fn() -> Came),
    ) -> Option<RefusalId> {
        let author = || Author::filter(self.entry.snapshot, name);
        let draft = witness.draft(&self.entry, decided, denies, author)?;
        Some(witness.end(&self.entry, *draft, came()))
    }

    /// Asks a filter, and changes the request as it says.
    async fn ask(
        &self,
        asked: &Checkpoint,
        head: &mut RequestHead,
        user: &mut Option<String>,
        witness: &mut Witness<'_>,
    ) -> Result<FilterGrant, Denied> {
        let (changes, lasts) = self.question(asked, head, user.as_deref(), witness).await?;
        changes.apply_to(head);

        // A filter may name the user; the field and the recorded identity have to agree.
        if let Some(named) = changes
            .set
            .get(USER)
            .and_then(|named| std::str::from_utf8(named.as_bytes()).ok())
        {
            self.exchange.user(named);
            *user = Some(named.to_owned());
        }

        let mut answer = Vec::new();
        if !changes.answer.is_empty() {
            answer.push(*changes.answer);
        }
        Ok(FilterGrant { lasts, answer })
    }

    /// Asks a filter, which changes nothing by that: what it allows, and for how long.
    async fn question(
        &self,
        asked: &Checkpoint,
        head: &RequestHead,
        user: Option<&str>,
        witness: &mut Witness<'_>,
    ) -> Result<(Changes, Option<Duration>), Denied> {
        let Self {
            worker,
            target,
            auth,
            entry:
                Entry {
                    snapshot,
                    source,
                    listener,
                },
            ..
        } = *self;

        let compared = target.canonical();
        let subject = Subject {
            client: &worker.client,
            head,
            target: &compared,
            user,
            source,
            listener: &listener.name,
            credentials: &auth.credentials,
            claims: auth.proof.claims(),
            groups: snapshot.rules.names.groups_of(user),
        };

        let Verdict {
            decision,
            reason,
            outcome,
            took,
            lasts,
            grace,
        } = asked.decide(&subject).await;

        worker
            .shared
            .telemetry
            .filtered(&asked.name, outcome.word(), took);
        let came = || Came::of_filter(&decision, &reason, outcome, took);
        let decided = Decided { head, target, user };
        let is_denial = matches!(decision, Decision::Deny(_));
        let told = self.tell(&asked.name, decided, is_denial, (witness, &came));

        let reason = format!("{} {}: {reason}", asked.name, outcome.word());
        self.exchange.filtered(&reason);

        match decision {
            Decision::Allow(changes) => Ok((changes, lasts)),
            Decision::Deny(denial) => {
                let refusal = self.refusal(&asked.name, denial, reason);
                let refusal = told.into_iter().fold(refusal, Refusal::named);

                Err(Denied { refusal, grace })
            }
        }
    }
}
