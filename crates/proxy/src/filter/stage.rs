//! An exchange on its way through the filters of its snapshot.

use std::time::Duration;

use hermes_http::RequestHead;
use hermes_observe::Exchange;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::Facts;
use hermes_rules::fields::USER;
use http::HeaderMap;

use super::{Checkpoint, facts};
use crate::entry::Entry;
use crate::plug::{Decision, Denial, Subject, Verdict};
use crate::refusal::Refusal;
use crate::target::Target;
use crate::worker::Worker;

/// An exchange on its way through the filters.
pub(crate) struct Stage<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) entry: Entry<'a>,
    pub(crate) exchange: &'a Exchange,
    pub(crate) target: &'a Target,
    pub(crate) credentials: &'a HeaderMap,
}

/// An exchange that may not go on.
pub(crate) struct Denied {
    /// The answer to it.
    pub(crate) refusal: Refusal,
    /// How long an open tunnel may go on all the same, because no one decided.
    pub(crate) grace: Duration,
}

impl Stage<'_> {
    /// Whether any filter is to be asked. Where none is, none is after another's changes.
    pub(crate) fn is_asked(&self, head: &RequestHead, user: Option<&str>) -> bool {
        self.entry
            .snapshot
            .filters
            .iter()
            .any(|filter| filter.applies(&self.facts(head, user)))
    }

    /// Asks every filter that applies; the first denial ends it. Returns how long that counts for a tunnel.
    ///
    /// # Errors
    /// A filter denied the exchange.
    pub(crate) async fn authorize(
        &self,
        head: &mut RequestHead,
        user: &mut Option<String>,
    ) -> Result<Option<Duration>, Denied> {
        let mut shortest = None;
        for filter in &self.entry.snapshot.filters {
            if filter.applies(&self.facts(head, user.as_deref())) {
                let lasts = self.ask(filter, head, user).await?;
                shortest = [shortest, lasts].into_iter().flatten().min();
            }
        }
        Ok(shortest)
    }

    fn facts<'b>(&'b self, head: &'b RequestHead, user: Option<&'b str>) -> Facts<'b> {
        facts(
            head,
            self.target,
            user,
            self.entry.source,
            &self.entry.listener.name,
        )
    }

    async fn ask(
        &self,
        asked: &Checkpoint,
        head: &mut RequestHead,
        user: &mut Option<String>,
    ) -> Result<Option<Duration>, Denied> {
        let Self {
            worker,
            target,
            credentials,
            entry: Entry {
                source, listener, ..
            },
            ..
        } = *self;
        let subject = Subject {
            client: &worker.client,
            head,
            target,
            user: user.as_deref(),
            source,
            listener: &listener.name,
            credentials,
        };
        let Verdict {
            decision,
            reason,
            outcome,
            took,
            lasts,
            grace,
        } = asked.filter.decide(&subject).await;
        worker
            .shared
            .seeing
            .filtered(&asked.name, outcome.word(), took);
        let reason = format!("{} {}: {reason}", asked.name, outcome.word());
        self.exchange.filtered(&reason);
        match decision {
            Decision::Allow(changes) => {
                changes.apply(&mut head.fields);
                if let Some(named) = changes
                    .set
                    .get(USER)
                    .and_then(|named| std::str::from_utf8(named.as_bytes()).ok())
                {
                    self.exchange.user(named);
                    *user = Some(named.to_owned());
                }
                Ok(lasts)
            }
            Decision::Deny(Denial {
                status,
                fields,
                content,
            }) => {
                let refusal = Refusal::new(ProxyError::HttpRequestDenied, reason)
                    .status(status)
                    .fields(fields);
                let refusal = match content {
                    Some(content) => refusal.content(content),
                    None => refusal,
                };
                Err(Denied { refusal, grace })
            }
        }
    }
}
