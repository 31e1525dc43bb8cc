//! The cache as a handler between requests and their next hop, in the order of RFC 9111: section 4 for stored responses, 4.3 for
//! those that are validated, 3 for answers that are stored.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use hermes_config::Problem;
use hermes_http::{Incoming, RequestHead, ResponseHead, pipe};
use hermes_net::memory::{Memory, Owner, Purpose};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Opener, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;

use crate::body::{Body, Collected};
use crate::cache_status::{CacheStatus, Forwarded};
use crate::control::{Directives, joined};
use crate::flights::{Lead, Turn};
use crate::freshness::{Exchanged, Freshness, Reuse, Wish};
use crate::name::ResourceName;
use crate::precondition;
use crate::range::{Part, part};
use crate::selection::{Selection, keyed};
use crate::settings::{CacheSettings, Rules};
use crate::shared::Shared;
use crate::storable::{Audience, audience};
use crate::storage::Wanted;
use crate::stored::{COLLAPSED_WAIT, Shelf, Stored, size};

/// How often a request waits for others before it goes alone.
#[doc(alias = "bound")]
const TURNS: usize = 3;

/// Fields of an answer that are of its connection or of one exchange, and are not stored (section 3.1).
const NOT_STORED: &[&str] = &[
    "content-length",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-status",
];

/// Fields of a stored response that describe its content: a 304 has no content.
const OF_CONTENT: &[&str] = &[
    "content-encoding",
    "content-language",
    "content-type",
    "content-range",
];

/// Stores answers to GET, and gives them again.
pub(crate) struct Cache {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
}

/// A request that the cache may answer.
#[derive(Clone)]
struct Asked {
    head: RequestHead,
    name: ResourceName,
    user: Option<Arc<str>>,
    owner: Owner,
    /// The fields that are part of its key.
    keyed: String,
    wish: Wish,
    onward: Onward,
    opener: Opener,
    shared: Arc<Shared>,
    rules: Arc<Rules>,
    /// It waited for another one.
    collapsed: bool,
}

impl Cache {
    /// A cache that knows these responses, with every default.
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let rules = CacheSettings::default().rules();
        Self {
            shared,
            rules: Arc::new(rules.expect("the defaults are right")),
        }
    }

    fn make(
        shared: Arc<Shared>,
        settings: &CacheSettings,
    ) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let rules = Arc::new(settings.rules()?);
        Ok(Arc::new(Self { shared, rules }))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let HandlerRequest {
            head,
            content,
            target,
            user,
            source,
            onward,
            opener,
            ..
        } = request;
        let onward = onward.ok_or_else(|| {
            let details = "`cache` is for `through` of a route";
            Refusal::new(ProxyError::ProxyConfigurationError, details)
        })?;

        let content = content.into_incoming();
        let name = ResourceName::of(&self.rules.space, onward.upstream(), &target, &head);
        let is_read = head.method == Method::GET || head.method == Method::HEAD;
        if !is_read {
            return self
                .pass(Forwarded::Method, head, content, &onward, &name)
                .await;
        }

        // RFC 9110, section 9.3.1: a content has no meaning here, but some origin may see one.
        let has_content = !content.is_end() && content.length() != Some(0);
        let key = keyed(&head.fields, &self.rules.unkeyed);
        let is_for_origin = has_content || precondition::is_for_origin(&head.fields);
        let Some(keyed) = key.filter(|_| !is_for_origin) else {
            return self
                .pass(Forwarded::Bypass, head, content, &onward, &name)
                .await;
        };

        let owner = Owner::of(user.as_deref(), &source.peer);
        let wish = Wish::of(&Directives::of_request(&head.fields));
        let asked = Asked {
            head,
            name,
            user: user.map(Arc::from),
            owner,
            keyed,
            wish,
            onward,
            opener,
            shared: self.shared.clone(),
            rules: self.rules.clone(),
            collapsed: false,
        };
        asked.answer().await
    }

    /// Sends on a request that is not for the cache. One that may change its resource invalidates it (section 4.4).
    async fn pass(
        &self,
        forwarded: Forwarded,
        head: RequestHead,
        content: Incoming,
        onward: &Onward,
        name: &ResourceName,
    ) -> Result<Response, Refusal> {
        let is_safe = head.method.is_safe();
        let (mut answer, content) = onward.send(head, content).await?;

        let is_done = answer.status.is_success() || answer.status.is_redirection();
        if !is_safe && is_done {
            self.shared.invalidate(name);
            for field in ["location", "content-location"] {
                let changed = name.sibling(&joined(&answer.fields, field));
                if let Some(changed) = changed {
                    self.shared.invalidate(&changed);
                }
            }
        }

        self.shared.counts.bypassed();
        let status = CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        };
        status.append(&mut answer.fields);
        Ok(Response::Stream(answer, content))
    }
}

impl Asked {
    /// Section 4: a stored response if there is one that may be used, else the answer of the next hop.
    async fn answer(mut self) -> Result<Response, Refusal> {
        for _ in 0..TURNS {
            let now = Instant::now();
            let stored = self.find();
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
                return self.forward_as_it_is().await;
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
        let stored = self.find();
        self.fetch(stored, None).await
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

    fn may_be_stored(&self) -> bool {
        let control = Directives::of_request(&self.head.fields);
        self.head.method == Method::GET && !control.has("no-store")
    }

    async fn forward_as_it_is(self) -> Result<Response, Refusal> {
        let is_partial = self.head.fields.contains_key("range");
        let forwarded = if is_partial {
            Forwarded::Partial
        } else {
            Forwarded::Miss
        };
        let (mut answer, content) = self.onward.send(self.head.clone(), Incoming::Empty).await?;
        self.shared.counts.missed();
        let status = CacheStatus {
            forwarded: Some(forwarded),
            ..CacheStatus::default()
        };
        status.append(&mut answer.fields);
        Ok(Response::Stream(answer, content))
    }

    /// Asks the next hop: for a validation where there is a stored response, else for a new one.
    async fn fetch(
        self,
        stored: Option<Arc<Stored>>,
        lead: Option<Lead>,
    ) -> Result<Response, Refusal> {
        let stale = stored.and_then(|stored| {
            let request = precondition::validating(&self.head, &stored.head.fields)?;
            Some(Stale { stored, request })
        });
        let Some(Stale { stored, request }) = stale else {
            let sent = self.send(self.head.clone()).await?;
            return Ok(self.take(sent, Forwarded::Miss, lead));
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

    async fn send(&self, head: RequestHead) -> Result<Sent, Refusal> {
        let began = Instant::now();
        let (head, content) = self.onward.send(head, Incoming::Empty).await?;
        Ok(Sent {
            head,
            content,
            exchanged: Exchanged {
                response_time: SystemTime::now(),
                delay: began.elapsed(),
            },
        })
    }

    /// Section 4.3.4: a 304 makes a stored response fresh again.
    fn confirmed(&self, stored: &Arc<Stored>, sent: &Sent, lead: Option<&Lead>) -> Response {
        let head = precondition::freshened(&stored.head, &sent.head.fields);
        let control = Directives::of_response(&head.fields);
        let freshness = Freshness::of(&head.fields, &control, sent.exchanged);
        let fresh = Arc::new(stored.freshened(head, freshness, Instant::now()));

        let still_may = audience(&self.head, &fresh.head, &freshness).is_ok();
        if stored.is_there() && lead.is_none_or(Lead::may_store) {
            if still_may {
                self.shared.storage.insert(&fresh);
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

    /// Section 3: the answer of the next hop, stored on its way if it may be.
    fn take(&self, sent: Sent, forwarded: Forwarded, lead: Option<Lead>) -> Response {
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

    /// The answer as it is going to be stored; why it is not.
    fn store(&self, sent: &Sent) -> Result<Arc<Stored>, &'static str> {
        if self.head.method != Method::GET {
            return Err("the request is for a head");
        }
        let control = Directives::of_response(&sent.head.fields);
        let freshness = Freshness::of(&sent.head.fields, &control, sent.exchanged);
        let audience = audience(&self.head, &sent.head, &freshness)?;
        let length = sent.content.length();
        if length.is_some_and(|length| length > self.rules.object) {
            return Err("the answer is too long");
        }

        let selection = Selection::of(&self.head.fields, self.keyed.clone(), &sent.head.fields);
        let selection = selection.ok_or("the answer varies on too much")?;
        let mut head = sent.head.clone();
        head.fields
            .retain(|name| !NOT_STORED.contains(&name.as_str()));
        if !head.fields.contains_key("date") {
            // RFC 9110, section 6.6.1: a recipient with a clock adds the date when it came.
            let date = httpdate::fmt_http_date(sent.exchanged.response_time);
            if let Ok(date) = HeaderValue::try_from(date) {
                head.fields.append("date", date);
            }
        }

        let size = size(&head, &selection, length);
        let account = Memory::node().owner(self.owner.clone());
        let mut charge = account.empty_charge(Purpose::Cached);
        if !charge.grow_if_free(size) {
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
            size,
            is_used: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }))
    }

    /// Collects an answer, also when its client has left, and gives it to the client as it comes.
    fn stream(
        &self,
        stored: Arc<Stored>,
        sent: Sent,
        status: CacheStatus,
        lead: Option<Lead>,
    ) -> Response {
        let Sent { head, content, .. } = sent;
        // Of known length it is found at once, and others read it as it comes.
        let is_found = stored.length.is_some() && self.shared.storage.insert(&stored);
        let lead = if is_found { None } else { lead };
        let collecting = Collecting {
            shared: self.shared.clone(),
            stored: stored.clone(),
            lead,
            is_found,
            most: stored.length.unwrap_or(self.rules.object),
        };
        self.opener.spawn(collecting.run(content));

        let mut head = head;
        let is_done = precondition::is_not_modified(&self.head.fields, &stored.head.fields);
        let asks_for_less = is_done || self.head.fields.contains_key("range");
        if asks_for_less && stored.head.status == StatusCode::OK {
            return self.serve(&stored, status);
        }
        status.append(&mut head.fields);
        let (outgoing, incoming) = pipe(stored.length);
        let body = stored.body.clone();
        self.opener
            .spawn(async move { body.send(0, None, outgoing).await });
        Response::Stream(head, incoming)
    }

    /// A stored response, as it is.
    fn hit(&self, stored: &Arc<Stored>) -> Response {
        self.shared.counts.hit();
        let status = CacheStatus {
            ttl: Some(stored.ttl(stored.age(Instant::now()))),
            collapsed: self.collapsed,
            ..CacheStatus::default()
        };
        self.serve(stored, status)
    }

    /// A stale response, because the next hop fails.
    fn hit_despite(&self, stored: &Arc<Stored>) -> Option<Response> {
        let age = stored.age(Instant::now());
        let may = stored.is_there() && stored.freshness.serves_errors(age);
        may.then(|| {
            self.shared.counts.stale();
            let status = CacheStatus {
                forwarded: Some(Forwarded::Stale),
                ttl: Some(stored.ttl(age)),
                collapsed: self.collapsed,
                detail: Some("the next hop failed"),
                ..CacheStatus::default()
            };
            self.serve(stored, status)
        })
    }

    /// A stored response as this request asks for it: not modified, in part, or as a whole.
    fn serve(&self, stored: &Arc<Stored>, status: CacheStatus) -> Response {
        let mut head = stored.head.clone();
        let age = stored.age(Instant::now());
        // Section 4: a response that is given without validation says its age.
        head.fields.insert("age", HeaderValue::from(age));
        status.append(&mut head.fields);
        if stored.head.status != StatusCode::OK {
            return self.give(stored, head, 0, stored.length);
        }
        if precondition::is_not_modified(&self.head.fields, &stored.head.fields) {
            head.status = StatusCode::NOT_MODIFIED;
            head.fields
                .retain(|name| !OF_CONTENT.contains(&name.as_str()));
            return Response::Stream(head, Incoming::Empty);
        }

        let Some(length) = stored.length.filter(|_| self.head.method == Method::GET) else {
            return self.give(stored, head, 0, stored.length);
        };
        match part(&self.head.fields, &stored.head.fields, length) {
            Part::Whole => self.give(stored, head, 0, Some(length)),
            Part::Bytes(bytes) => {
                head.status = StatusCode::PARTIAL_CONTENT;
                let last = bytes.end - 1;
                content_range(&mut head, &format!("bytes {}-{last}/{length}", bytes.start));
                self.give(stored, head, bytes.start, Some(bytes.end))
            }
            Part::Unsatisfiable => {
                head.status = StatusCode::RANGE_NOT_SATISFIABLE;
                content_range(&mut head, &format!("bytes */{length}"));
                Response::Whole(head, Bytes::new())
            }
        }
    }

    /// The bytes of a stored content between two places: at once where all of it is there, else as it comes.
    fn give(
        &self,
        stored: &Arc<Stored>,
        head: ResponseHead,
        from: u64,
        to: Option<u64>,
    ) -> Response {
        if let (Some(whole), Some(to)) = (stored.body.whole(), to) {
            let within = |at: u64| usize::try_from(at).unwrap_or(whole.len()).min(whole.len());
            return Response::Whole(head, whole.slice(within(from)..within(to)));
        }
        let (outgoing, incoming) = pipe(to.map(|to| to - from));
        let body = stored.body.clone();
        self.opener
            .spawn(async move { body.send(from, to, outgoing).await });
        Response::Stream(head, incoming)
    }

    /// Validates a response while it is being used (RFC 5861, section 3); one request at a time does.
    fn revalidate_beside(&self, stored: &Arc<Stored>) {
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
            // The answer of it is for no client: what can be stored is collected in a task of its own.
            let _ = asked.fetch(Some(stored), Some(lead)).await;
        });
    }
}

/// A stored response that is to be validated, and the request that does it.
struct Stale {
    stored: Arc<Stored>,
    request: RequestHead,
}

/// An answer of the next hop.
struct Sent {
    head: ResponseHead,
    content: Incoming,
    exchanged: Exchanged,
}

/// An answer that is being collected.
struct Collecting {
    shared: Arc<Shared>,
    stored: Arc<Stored>,
    /// Held until it can be found.
    lead: Option<Lead>,
    is_found: bool,
    most: u64,
}

impl Collecting {
    async fn run(self, content: Incoming) {
        let collected = self.stored.body.collect(content, self.most).await;
        let storage = &self.shared.storage;
        match collected {
            // Section 3: only a complete response is stored (3.3).
            Collected::Partly if self.is_found => storage.remove(&self.stored),
            Collected::Partly => {}
            Collected::Whole if self.is_found || self.stored.length.is_some() => {}
            Collected::Whole => {
                let may_store = self.lead.as_ref().is_none_or(Lead::may_store);
                if may_store {
                    storage.insert(&self.stored.measured());
                }
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

fn content_range(head: &mut ResponseHead, range: &str) {
    if let Ok(range) = HeaderValue::try_from(range) {
        head.fields.insert("content-range", range);
    }
}

/// Section 5.2.1.7.
fn not_stored() -> Refusal {
    let details = "the request says only-if-cached, and nothing is stored that may be used";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::GATEWAY_TIMEOUT)
}

impl Handler for Cache {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let shared = self.shared.clone();
        Some(Settings::<dyn Handler>::new(
            move |settings: CacheSettings| Self::make(shared.clone(), &settings),
        ))
    }
}
