//! Requests to the next hop: for a new answer, or for the validation of a stored one (RFC 9111, section 4.3).

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use hermes_http::{Incoming, RequestHead, ResponseHead};
use hermes_plug::Response;
use hermes_plug::refusal::Refusal;
use http::{Method, StatusCode};

use crate::asked::Asked;
use crate::cache_status::{CacheStatus, Forwarded};
use crate::control::Directives;
use crate::flights::Lead;
use crate::freshness::{Exchanged, Freshness};
use crate::parts::PartEpoch;
use crate::precondition;
use crate::storable::audience;
use crate::storage::PurgeEpoch;
use crate::stored::Stored;

/// An answer of the next hop.
pub(crate) struct Sent {
    pub(crate) head: ResponseHead,
    pub(crate) content: Incoming,
    /// The method by which it was asked for.
    pub(crate) method: Method,
    pub(crate) exchanged: Exchanged,
    /// When it was asked for, as purges go.
    pub(crate) asked: PurgeEpoch,
    /// The same, as parts go.
    pub(crate) epoch: PartEpoch,
}

impl Asked {
    /// Asks the next hop: for a validation where there is a stored response, else for a new one.
    pub(crate) async fn fetch(
        self,
        stored: Option<Arc<Stored>>,
        lead: Option<Lead>,
    ) -> Result<Response, Refusal> {
        let Some(stored) = stored else {
            return self.fetch_new(lead).await;
        };
        let Some(request) = precondition::validating(&self.head, &stored.head.fields) else {
            return self.replace(&stored, lead).await;
        };

        let sent = match self.send(request).await {
            Ok(sent) => sent,
            Err(refusal) => return self.hit_despite(&stored).ok_or(refusal),
        };
        if sent.head.status == StatusCode::NOT_MODIFIED {
            if !precondition::confirms(&sent.head.fields, &stored.head.fields) {
                // Section 4.3.4: it speaks of a response that is not stored here.
                self.shared.storage.remove(&stored);
                let head = precondition::unconditional(&self.head);
                let sent = self.send(head).await?;
                return Ok(self.take(sent, Forwarded::Stale, lead));
            }
            return Ok(self.confirmed(&stored, &sent, lead.as_ref()));
        }
        // Section 4.3.3, and RFC 5861, section 4.
        if sent.head.status.is_server_error()
            && let Some(response) = self.hit_despite(&stored)
        {
            return Ok(response);
        }
        Ok(self.take(sent, Forwarded::Stale, lead))
    }

    /// Asks for a new answer in place of a stored one that has no validator.
    async fn replace(&self, stored: &Arc<Stored>, lead: Option<Lead>) -> Result<Response, Refusal> {
        let sent = match self.send(self.head.clone()).await {
            Ok(sent) => sent,
            Err(refusal) => return self.hit_despite(stored).ok_or(refusal),
        };
        // RFC 5861, section 4.
        if sent.head.status.is_server_error()
            && let Some(response) = self.hit_despite(stored)
        {
            return Ok(response);
        }
        Ok(self.take(sent, Forwarded::Miss, lead))
    }

    pub(crate) async fn send(&self, head: RequestHead) -> Result<Sent, Refusal> {
        let asked = self.shared.storage.epoch();
        let epoch = self.shared.parts.epoch();
        let began = Instant::now();
        let method = head.method.clone();
        let (head, content) = self.onward.send(head, Incoming::Empty).await?;
        Ok(Sent {
            head,
            content,
            method,
            asked,
            epoch,
            exchanged: Exchanged {
                response_time: SystemTime::now(),
                delay: began.elapsed(),
            },
        })
    }

    /// Section 4.3.4: a 304 makes a stored response fresh again.
    pub(crate) fn confirmed(
        &self,
        stored: &Arc<Stored>,
        sent: &Sent,
        lead: Option<&Lead>,
    ) -> Response {
        let head = precondition::freshened(&stored.head, &sent.head.fields);
        let control = Directives::of_response(&head.fields);
        let freshness = Freshness::of(&head.fields, &control, sent.exchanged);
        let fresh = Arc::new(stored.freshened(head, freshness, Instant::now()));

        let still_may = audience(&self.head, &fresh.head, &freshness).is_ok();
        if stored.is_there() && lead.is_none_or(Lead::may_store) {
            if still_may {
                self.shared.storage.insert(&fresh, sent.asked);
            } else {
                self.shared.storage.remove(stored);
            }
        }
        self.shared.counts.validated();
        self.serve(
            &fresh,
            CacheStatus {
                forwarded: Some(Forwarded::Stale),
                forwarded_status: Some(StatusCode::NOT_MODIFIED),
                collapsed: self.collapsed,
                ..CacheStatus::default()
            },
        )
    }

    /// Section 4.3.5: a HEAD that was sent on tells whether a stored response is still that of its resource. `stored` has no validator by which
    /// it could be asked for.
    pub(crate) fn learn_from_head(&self, stored: &Arc<Stored>, sent: &Sent) {
        if sent.head.status != StatusCode::OK || !stored.is_there() {
            return;
        }
        if !precondition::describes(&sent.head.fields, &stored.head.fields, stored.length) {
            self.shared.storage.remove(stored);
            return;
        }
        let head = precondition::freshened(&stored.head, &sent.head.fields);
        let control = Directives::of_response(&head.fields);
        let freshness = Freshness::of(&head.fields, &control, sent.exchanged);
        if audience(&self.head, &head, &freshness).is_ok() {
            let fresh = stored.freshened(head, freshness, Instant::now());
            self.shared.storage.insert(&Arc::new(fresh), sent.asked);
        } else {
            self.shared.storage.remove(stored);
        }
    }

    /// Section 3: the answer of the next hop, stored on its way if it may be.
    pub(crate) fn take(&self, sent: Sent, forwarded: Forwarded, lead: Option<Lead>) -> Response {
        self.shared.counts.missed();
        let mut status = CacheStatus {
            forwarded: Some(forwarded),
            collapsed: self.collapsed,
            ..CacheStatus::default()
        };
        match self.store(&sent) {
            Ok(stored) if lead.as_ref().is_none_or(Lead::may_store) => {
                status.stored = true;
                self.stream(stored, sent, status, lead)
            }
            Ok(_) => pass_on(sent, status),
            Err(detail) => {
                // A 304 to a client's own condition, and a request that forbids storing, say nothing about other answers.
                let is_usual = sent.head.status != StatusCode::NOT_MODIFIED && self.may_be_stored();
                if is_usual {
                    self.shared
                        .flights
                        .note_unshared(&self.name, Instant::now());
                }
                status.detail = Some(detail);
                pass_on(sent, status)
            }
        }
    }
}

fn pass_on(sent: Sent, status: CacheStatus) -> Response {
    let Sent {
        mut head, content, ..
    } = sent;
    status.append(&mut head.fields);
    Response::Stream(head, content)
}
