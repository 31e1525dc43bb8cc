//! Requests for objects that several origins have.

use std::sync::Arc;
use std::time::Instant;

use hermes_config::Problem;
use hermes_http::{Incoming, RequestHead, ResponseHead, pipe};
use hermes_plug::refusal::Refusal;
use hermes_plug::rest::Original;
use hermes_plug::{Handler, HandlerRequest, Handling, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use http::header::{ACCEPT_RANGES, CONTENT_RANGE, RANGE};
use http::{HeaderValue, Method, StatusCode};
use tokio::time::timeout;

use crate::digest::Told;
use crate::settings::OriginsSettings;
use crate::transfer::Transfer;
use crate::ways::{Group, KnownGroups, Ways};

/// Fields that make a request one for something else than a whole object.
const CONDITIONAL: &[&str] = &[
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
];

/// Fetches objects from several origins.
pub(crate) struct Origins {
    known: Arc<KnownGroups>,
    /// `None`: it was named without settings.
    group: Option<Arc<Group>>,
}

impl Origins {
    /// Named alone: it refuses all requests.
    pub(crate) fn without_settings(known: Arc<KnownGroups>) -> Self {
        Self { known, group: None }
    }

    fn make(
        known: Arc<KnownGroups>,
        settings: &OriginsSettings,
    ) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let group = known.open(settings.rules()?);
        Ok(Arc::new(Self {
            known,
            group: Some(group),
        }))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let internal = |details: &str| Refusal::new(ProxyError::ProxyInternalError, details);
        let HandlerRequest {
            head,
            content,
            onward,
            opener,
            ..
        } = request;
        let onward = onward.ok_or_else(|| internal("origins: it stands in `through` only"))?;
        let group = self.group.clone();
        let group = group.ok_or_else(|| internal("origins: it names no others"))?;
        let content = content.into_incoming();
        let is_whole = head.method == Method::GET && content.is_end();
        let is_conditional = CONDITIONAL
            .iter()
            .any(|name| head.fields.contains_key(*name));
        if !is_whole || is_conditional {
            let (head, content) = onward.send(head, content).await?;
            return Ok(Response::Stream(head, content));
        }
        let ways = Ways {
            group,
            head,
            onward,
            opener,
        };
        Fetching(ways).run().await
    }
}

/// A request for a whole object.
struct Fetching(Ways);

impl Fetching {
    /// The first piece, from the best origin that has it; the others follow.
    async fn run(self) -> Result<Response, Refusal> {
        let count = self.0.group.rules.others.len() + 1;
        let mut is_aside = vec![false; count];
        let mut last = None;
        for _ in 0..count {
            let chosen = self
                .0
                .group
                .book
                .lock()
                .choose(0, &is_aside, Instant::now());
            let Some(origin) = chosen else {
                break;
            };
            let mut asking = self.0.head.clone();
            let range = format!("bytes=0-{}", self.0.group.rules.piece - 1);
            asking.fields.insert(
                RANGE,
                HeaderValue::try_from(range).unwrap_or(HeaderValue::from_static("bytes=0-")),
            );
            is_aside[origin] = true;
            let has_others = is_aside.contains(&false);
            let answered = self.first(origin, asking, has_others).await;
            let next = answered
                .as_ref()
                .map_or(Next::Failing, |(answer, _)| Next::of(origin, answer.status));
            if next == Next::Failing {
                self.0.group.book.lock().failed(origin, Instant::now());
            }
            if next != Next::Taken {
                // The answer of the route's origin is the client's if no other has the object.
                if origin == 0 || last.is_none() {
                    last = Some(answered);
                }
                continue;
            }
            let (answer, content) = answered?;
            return self.begin(origin, answer, content).await;
        }
        let (head, content) = last.unwrap_or_else(|| {
            let details = "origins: there is none to ask";
            Err(Refusal::new(ProxyError::DestinationUnavailable, details))
        })?;
        Ok(Response::Stream(head, content))
    }

    /// Asks for the first piece; an origin that says nothing is left where there are others.
    async fn first(
        &self,
        origin: usize,
        asking: RequestHead,
        has_others: bool,
    ) -> Result<(ResponseHead, Incoming), Refusal> {
        let asked = self.0.ask(origin, asking);
        if !has_others {
            return asked.await;
        }
        let stall = self.0.group.rules.stall;
        timeout(stall, asked).await.unwrap_or_else(|_| {
            let details = "origins: it has not answered in time";
            Err(Refusal::new(ProxyError::HttpResponseTimeout, details))
        })
    }

    /// An origin has answered the first piece.
    async fn begin(
        self,
        origin: usize,
        answer: ResponseHead,
        content: Incoming,
    ) -> Result<Response, Refusal> {
        let Some(whole) = whole_of(&answer) else {
            return self.plainly(answer, content).await;
        };
        let mut head = answer;
        head.status = StatusCode::OK;
        head.fields.remove(CONTENT_RANGE);
        head.fields
            .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        let original = Original::of(&self.0.head, &head, Some(whole.length));
        // Without a strong validator pieces cannot be told apart: all comes from one answer.
        let Some(original) = original else {
            return match whole.last + 1 == whole.length {
                true => Ok(Response::Stream(head, content)),
                false => self.plainly_again(origin).await,
            };
        };
        let (outgoing, incoming) = pipe(Some(whole.length));
        let opener = self.0.opener.clone();
        let told = Told::of(&head.fields);
        let transfer = Transfer::new(self.0, original, told, whole.length);
        opener.spawn(transfer.run(origin, content, outgoing));
        Ok(Response::Stream(head, incoming))
    }

    /// An answer that is no piece.
    async fn plainly(self, answer: ResponseHead, content: Incoming) -> Result<Response, Refusal> {
        match answer.status {
            // An empty object has no first byte.
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PARTIAL_CONTENT => {
                drop(content);
                self.plainly_again(0).await
            }
            _ => Ok(Response::Stream(answer, content)),
        }
    }

    async fn plainly_again(&self, origin: usize) -> Result<Response, Refusal> {
        let (head, content) = self.0.ask(origin, self.0.head.clone()).await?;
        Ok(Response::Stream(head, content))
    }
}

/// The decision on an origin's answer to the first piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is the object's.
    Taken,
    /// It is not here: another origin is asked.
    Missing,
    /// The same, and this one is left alone for a while.
    Failing,
}

impl Next {
    fn of(origin: usize, status: StatusCode) -> Self {
        let is_object = status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE;
        match status {
            _ if status.is_server_error() => Self::Failing,
            // The origin of the route decides who may have its objects; another one is asked without credentials, and knows less.
            _ if origin == 0 || is_object => Self::Taken,
            _ => Self::Missing,
        }
    }
}

/// The first piece of a representation.
struct FirstPiece {
    last: u64,
    length: u64,
}

/// The piece that an answer has, if it is the first of one whose length is told.
fn whole_of(answer: &ResponseHead) -> Option<FirstPiece> {
    if answer.status != StatusCode::PARTIAL_CONTENT {
        return None;
    }
    let range = answer.fields.get(CONTENT_RANGE)?;
    let (places, length) = range
        .to_str()
        .ok()?
        .strip_prefix("bytes 0-")?
        .split_once('/')?;
    let last = places.parse().ok()?;
    let length = length.parse().ok()?;
    (last < length).then_some(FirstPiece { last, length })
}

impl Handler for Origins {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        let known = self.known.clone();
        Some(Settings::<dyn Handler>::new(
            move |settings: OriginsSettings| Self::make(known.clone(), &settings),
        ))
    }
}
