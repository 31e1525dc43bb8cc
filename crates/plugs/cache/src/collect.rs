//! The answers of the next hop, stored on their way (RFC 9111, section 3).

use std::sync::Arc;
use std::time::Instant;

use hermes_http::{Incoming, ResponseHead, pipe};
use hermes_net::memory::{Memory, Purpose};
use hermes_plug::Response;
use http::{HeaderValue, Method, StatusCode};

use crate::asked::Asked;
use crate::body::{Body, Collected};
use crate::cache_status::CacheStatus;
use crate::control::Directives;
use crate::fetch::Sent;
use crate::flights::Lead;
use crate::freshness::{Exchanged, Freshness};
use crate::parts::PartEpoch;
use crate::precondition;
use crate::selection::Selection;
use crate::shared::Shared;
use crate::storable::{Audience, audience};
use crate::storage::PurgeEpoch;
use crate::stored::{Marks, Shelf, Stored, beside, next_serial};
use crate::tags::Tags;

/// Fields of an answer that are of its connection or of one exchange, and are not stored (section 3.1).
const NOT_STORED: &[&str] = &[
    "content-length",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-status",
];

/// An answer that is being collected.
struct Collecting {
    shared: Arc<Shared>,
    stored: Arc<Stored>,
    /// Held until it can be found.
    lead: Option<Lead>,
    is_found: bool,
    most: u64,
    asked: PurgeEpoch,
    epoch: PartEpoch,
}

impl Asked {
    /// The answer as it is going to be stored; why it is not.
    pub(crate) fn store(&self, sent: &Sent) -> Result<Arc<Stored>, &'static str> {
        self.store_as(&sent.head, sent, sent.content.length())
    }

    /// The same with another head, and a content of another length.
    pub(crate) fn store_as(
        &self,
        answer: &ResponseHead,
        sent: &Sent,
        length: Option<u64>,
    ) -> Result<Arc<Stored>, &'static str> {
        // One that validates is a GET, also where the client's is a HEAD: its answer is stored in any case.
        if sent.method != Method::GET {
            return Err("the request is for a head");
        }
        let control = Directives::of_response(&answer.fields);
        let freshness = Freshness::of(&answer.fields, &control, sent.exchanged);
        let audience = audience(&self.head, answer, &freshness)?;
        if length.is_some_and(|length| length > self.rules.object) {
            return Err("the answer is too long");
        }

        let selection = Selection::of(&self.head.fields, self.keyed.clone(), &answer.fields);
        let selection = selection.ok_or("the answer varies on too much")?;
        // A purge by a tag has to find every response that has it.
        let tags = Tags::of(&answer.fields).ok_or("the answer has too many tags")?;
        let head = storable_head(answer, sent.exchanged);
        let beside = beside(&head, &selection, &tags);
        let size = beside.saturating_add(length.unwrap_or(0));
        let account = Memory::node().owner(self.owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        if !charge.grow_if_free(usize::try_from(size).unwrap_or(usize::MAX)) {
            return Err("no memory for the answer");
        }
        let user = self.user.clone().filter(|_| audience == Audience::Asker);
        Ok(Arc::new(Stored {
            shelf: Shelf {
                name: self.name.clone(),
                user,
                owner: self.owner.clone(),
            },
            selection,
            head,
            freshness,
            body: Arc::new(Body::new(charge, length.unwrap_or(0))),
            length,
            stored_at: Instant::now(),
            tags,
            serial: next_serial(),
            beside,
            marks: Marks::new(size),
        }))
    }

    /// Collects an answer, also when its client has left, and gives it to the client as it comes.
    pub(crate) fn stream(
        &self,
        stored: Arc<Stored>,
        sent: Sent,
        status: CacheStatus,
        lead: Option<Lead>,
    ) -> Response {
        self.shared.parts.forget(&stored);
        // Of known length it is found at once, and others read it as it comes.
        let is_found = stored.length.is_some() && self.shared.storage.insert(&stored, sent.asked);
        let lead = if is_found { None } else { lead };
        let collecting = Collecting {
            shared: self.shared.clone(),
            stored: stored.clone(),
            lead,
            is_found,
            most: stored.length.unwrap_or(self.rules.object),
            asked: sent.asked,
            epoch: sent.epoch,
        };
        self.opener.spawn(collecting.run(sent.content));

        let mut head = sent.head;
        let is_done = precondition::is_not_modified(&self.head.fields, &stored.head.fields);
        let asks_for_less = is_done || self.head.fields.contains_key("range");
        if asks_for_less && stored.head.status == StatusCode::OK {
            return self.serve(&stored, status);
        }
        status.append(&mut head.fields);
        let (outgoing, incoming) = pipe(stored.length);
        let body = stored.body.clone();
        self.opener
            .spawn(async move { body.send(0, None, None, outgoing).await });
        Response::Stream(head, incoming)
    }
}

/// The head as it is stored (section 3.1).
fn storable_head(answer: &ResponseHead, exchanged: Exchanged) -> ResponseHead {
    let mut head = answer.clone();
    head.fields
        .retain(|name| !NOT_STORED.contains(&name.as_str()));
    if !head.fields.contains_key("date") {
        // RFC 9110, section 6.6.1: a recipient with a clock adds the date when it came.
        let date = httpdate::fmt_http_date(exchanged.response_time);
        if let Ok(date) = HeaderValue::try_from(date) {
            head.fields.append("date", date);
        }
    }
    head
}

impl Collecting {
    async fn run(self, content: Incoming) {
        let collected = self.stored.body.collect(content, self.most).await;
        let storage = &self.shared.storage;
        match collected {
            // Section 3: only a complete response is stored (3.3).
            Collected::Partly => {
                // Before it is gone: the next request finds the one or the other.
                let whole = self.shared.keep_beginning(&self.stored, self.epoch);
                if self.is_found {
                    storage.remove(&self.stored);
                }
                if let Some(content) = whole {
                    self.shared.complete(&self.stored, content, self.asked);
                }
            }
            Collected::Whole if self.is_found => self.shared.keep(&self.stored),
            Collected::Whole if self.stored.length.is_some() => {}
            Collected::Whole => {
                let may_store = self.lead.as_ref().is_none_or(Lead::may_store);
                let measured = self.stored.measured();
                if may_store && storage.insert(&measured, self.asked) {
                    self.shared.keep(&measured);
                }
            }
        }
    }
}
