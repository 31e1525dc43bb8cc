//! A request that the cache may answer (RFC 9111, section 4).

use std::sync::Arc;
use std::time::Instant;

use hermes_http::RequestHead;
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Onward, Opener, Response};
use hermes_proto::proxy_status::ProxyError;
use http::{Method, StatusCode};
use tokio::time::timeout;

use crate::cache_status::{CacheStatus, Forwarded};
use crate::control::Directives;
use crate::disk::{OpenContent, Opened};
use crate::flights::Turn;
use crate::freshness::{Reuse, Wish};
use crate::name::ResourceName;
use crate::precondition;
use crate::range::{Part, part};
use crate::settings::Rules;
use crate::shared::Shared;
use crate::storage::Wanted;
use crate::stored::{COLLAPSED_WAIT, Stored};

/// How often a request waits for others before it goes alone.
#[doc(alias = "bound")]
const TURNS: usize = 3;

/// A request that the cache may answer.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) head: RequestHead,
    pub(crate) name: ResourceName,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) owner: Owner,
    /// The fields that are part of its key.
    pub(crate) keyed: String,
    pub(crate) wish: Wish,
    pub(crate) onward: Onward,
    pub(crate) opener: Opener,
    pub(crate) shared: Arc<Shared>,
    pub(crate) rules: Arc<Rules>,
    /// It waited for another one.
    pub(crate) collapsed: bool,
    /// The file of the stored response that was found.
    pub(crate) opened: Option<OpenContent>,
}

impl Asked {
    /// Section 4: a stored response if there is one that may be used, else the answer of the next hop.
    pub(crate) async fn answer(mut self) -> Result<Response, Refusal> {
        for _ in 0..TURNS {
            let now = Instant::now();
            let stored = self.find_readable().await;
            if let Some(stored) = &stored {
                match stored.freshness.reuse(stored.age(now), self.wish) {
                    Reuse::Now => return Ok(self.hit(stored)),
                    Reuse::WhileRevalidating => {
                        self.revalidate_beside(stored);
                        return Ok(self.hit(stored));
                    }
                    Reuse::AfterValidation => {}
                }
            }

            if Directives::of_request(&self.head.fields).has("only-if-cached") {
                return Err(not_stored());
            }
            if self.is_not_worth_storing(stored.as_ref()) {
                return self.forward_as_it_is(stored.as_ref()).await;
            }
            match self.shared.flights.enter(&self.name, &self.keyed, now) {
                Turn::Lead(lead) => return self.fetch(stored, Some(lead)).await,
                Turn::Alone => return self.fetch(stored, None).await,
                // An origin that hangs holds up those who wait as it holds up the one who asks, but not for longer than this.
                Turn::Follow(flight) => {
                    let _ = timeout(COLLAPSED_WAIT, flight.over()).await;
                    self.collapsed = true;
                }
            }
        }
        let stored = self.find_readable().await;
        self.fetch(stored, None).await
    }

    /// The stored response, once its content can be read. One that is damaged is not there.
    async fn find_readable(&mut self) -> Option<Arc<Stored>> {
        let stored = self.find()?;
        let Some(content) = stored.body.disk() else {
            return Some(stored);
        };
        let part = part(&self.head.fields, &stored.head.fields, content.length());
        let first = match part {
            Part::Bytes(bytes) => bytes.start,
            Part::Whole | Part::Unsatisfiable => 0,
        };
        match content.open(first).await {
            Opened::Well(opened) => {
                self.promote(&stored, &opened);
                self.opened = Some(opened);
                Some(stored)
            }
            Opened::Damaged => {
                self.shared.storage.remove(&stored);
                None
            }
            Opened::Late => None,
        }
    }

    fn find(&self) -> Option<Arc<Stored>> {
        self.shared.storage.find(Wanted {
            name: &self.name,
            user: self.user.as_ref(),
            fields: &self.head.fields,
            keyed: &self.keyed,
        })
    }

    /// Whether its answer is none that could be stored (a head alone, a part, one that the client forbids to store), and none that
    /// could validate a stored one.
    fn is_not_worth_storing(&self, stored: Option<&Arc<Stored>>) -> bool {
        let is_whole = self.may_be_stored() && !self.head.fields.contains_key("range");
        let has_validator = stored.is_some_and(|stored| {
            let fields = &stored.head.fields;
            fields.contains_key("etag") || fields.contains_key("last-modified")
        });
        !is_whole && !has_validator
    }

    pub(crate) fn may_be_stored(&self) -> bool {
        let control = Directives::of_request(&self.head.fields);
        self.head.method == Method::GET && !control.has("no-store")
    }

    async fn forward_as_it_is(self, stored: Option<&Arc<Stored>>) -> Result<Response, Refusal> {
        let is_partial = self.head.fields.contains_key("range");
        let forwarded = if is_partial {
            Forwarded::Partial
        } else {
            Forwarded::Miss
        };
        let mut sent = self.send(self.head.clone()).await?;
        if let Some(stored) = stored.filter(|_| self.head.method == Method::HEAD) {
            self.learn_from_head(stored, &sent);
        }
        self.shared.counts.missed();
        let status = CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        };
        if let Some(part) = self.part(&sent) {
            return Ok(self.pass_part(part, sent, status));
        }
        status.append(&mut sent.head.fields);
        Ok(Response::Stream(sent.head, sent.content))
    }

    /// Validates a response while it is being used (RFC 5861, section 3); one request at a time does.
    pub(crate) fn revalidate_beside(&self, stored: &Arc<Stored>) {
        let Turn::Lead(lead) = self
            .shared
            .flights
            .enter(&self.name, &self.keyed, Instant::now())
        else {
            return;
        };
        let asked = Self {
            head: precondition::unconditional(&self.head),
            ..self.clone()
        };
        let stored = stored.clone();
        self.opener.spawn(async move {
            // Its answer is for no client: a task of its own collects a response that can be stored.
            let _ = asked.fetch(Some(stored), Some(lead)).await;
        });
    }
}

/// Section 5.2.1.7.
fn not_stored() -> Refusal {
    let details = "the request says only-if-cached, and nothing is stored that may be used";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::GATEWAY_TIMEOUT)
}
