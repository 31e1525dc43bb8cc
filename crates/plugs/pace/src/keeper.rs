//! One budget for several nodes: a node asks the keeper of it for turns, by HTTP and by its own routes.
//!
//! ```text
//! POST /   {"ask": {"origin": "https://api.example:443", "mode": "learned", "wait_ms": 30000, "again": false}}
//!          200 {"permit": "00c0ffee..."} when the turn has come; 429 with Retry-After when it does not come in time
//! POST /   {"answered": {"permit": "00c0ffee...", "refused": false, "told": {"left": 3, "resets_in_ms": 17000}}}
//!          204; 404 where no such turn is lent
//! ```

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, RequestHead, ResponseHead};
use hermes_net::memory::Owner;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Opener, Response};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Version};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::origin::{NotSent, Origin, Permit};
use crate::permits::PermitName;
use crate::settings::Mode;
use crate::shared::Shared;
use crate::words::Told;

/// Bytes of a question or an answer.
#[doc(alias = "bound")]
const LONGEST: usize = 4096;

/// How often one that waits looks for turns that do not come back.
const LOOK: Duration = Duration::from_secs(5);

/// Time that a keeper has beside the wait itself.
const SPARE: Duration = Duration::from_secs(5);

/// A question to a keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    Ask(Ask),
    Answered(Report),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ask {
    origin: String,
    mode: Mode,
    wait_ms: u64,
    again: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    permit: PermitName,
    refused: bool,
    #[serde(default)]
    told: ToldNumbers,
}

/// [`Told`] in numbers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ToldNumbers {
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resets_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Granted {
    permit: PermitName,
}

impl ToldNumbers {
    fn of(told: Told) -> Self {
        let number = |time: Option<Duration>| {
            time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        Self {
            retry_after_ms: number(told.retry_after),
            left: told.left,
            resets_in_ms: number(told.resets_in),
            quota: told.quota,
            window_ms: number(told.window),
        }
    }

    fn told(&self) -> Told {
        Told {
            retry_after: self.retry_after_ms.map(Duration::from_millis),
            left: self.left,
            resets_in: self.resets_in_ms.map(Duration::from_millis),
            quota: self.quota,
            window: self.window_ms.map(Duration::from_millis),
        }
        .bounded()
    }
}

/// The turns of a node that keeps them for others.
pub(crate) struct Keeper<'k>(pub(crate) &'k Shared);

impl Keeper<'_> {
    /// Answers a question.
    pub(crate) async fn answer(
        &self,
        method: &Method,
        content: Incoming,
        who: &Owner,
    ) -> Result<Response, Refusal> {
        if *method != Method::POST {
            let details = "a keeper of turns is asked by POST";
            return Err(Refusal::new(ProxyError::HttpRequestError, details)
                .status(StatusCode::METHOD_NOT_ALLOWED));
        }
        let question = serde_json::from_slice(&beginning(content).await);
        let question: Question = question.map_err(|error| {
            let details = format!("no question to a keeper of turns: {error}");
            Refusal::new(ProxyError::HttpRequestError, details)
        })?;
        match question {
            Question::Ask(ask) => self.lend(ask, who).await,
            Question::Answered(report) => {
                let told = report.told.told();
                let is_lent = self.0.permits.answered(report.permit, report.refused, told);
                let status = match is_lent {
                    true => StatusCode::NO_CONTENT,
                    false => StatusCode::NOT_FOUND,
                };
                Ok(Response::Whole(ResponseHead::new(status), Bytes::new()))
            }
        }
    }

    /// Waits for a turn, and takes back meanwhile those of nodes that say nothing: they are what others wait for.
    async fn turn(
        &self,
        origin: &Arc<Origin>,
        who: &Owner,
        deadline: Instant,
        is_again: bool,
    ) -> Result<Permit, NotSent> {
        let mut turn = pin!(origin.turn(who, deadline, is_again));
        loop {
            match timeout(LOOK, &mut turn).await {
                Ok(turn) => return turn,
                Err(_) => self.0.permits.expire(Instant::now()),
            }
        }
    }

    async fn lend(&self, ask: Ask, who: &Owner) -> Result<Response, Refusal> {
        let now = Instant::now();
        self.0.permits.expire(now);
        let origin = self.0.origins.of(ask.mode, ask.origin, now);
        let origin = origin.ok_or_else(|| {
            let details = "too many origins are paced at once";
            Refusal::new(ProxyError::ConnectionLimitReached, details)
        })?;
        let share = self.0.shares.take(who);
        let share = share.ok_or_else(|| NotSent::NoRoomOfUser.refusal(&origin.name))?;
        let wait = Duration::from_millis(ask.wait_ms).min(Duration::from_secs(3600));
        let turn = self.turn(&origin, who, now + wait, ask.again).await;
        let permit = turn.map_err(|reason| reason.refusal(&origin.name))?;
        let name = self
            .0
            .permits
            .lend(permit, share, Instant::now())
            .ok_or_else(|| {
                let details = "too many turns are lent at once";
                Refusal::new(ProxyError::ConnectionLimitReached, details)
            })?;
        let mut head = ResponseHead::new(StatusCode::OK);
        head.fields
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let said = serde_json::to_vec(&Granted { permit: name }).unwrap_or_default();
        Ok(Response::Whole(head, said.into()))
    }
}

/// A turn, of this node or of a keeper.
pub(crate) enum Turn {
    Own(Permit),
    Lent(LentTurn),
}

/// A turn of a keeper. One that is dropped is taken back by the keeper in time.
pub(crate) struct LentTurn {
    borrower: Borrower,
    name: PermitName,
}

impl Turn {
    /// The origin has answered.
    pub(crate) fn answered(self, is_refused: bool, told: Told) {
        match self {
            Self::Own(permit) => permit.answered(is_refused, told),
            Self::Lent(lent) => lent.answered(is_refused, told),
        }
    }
}

impl LentTurn {
    fn answered(self, is_refused: bool, told: Told) {
        let report = Question::Answered(Report {
            permit: self.name,
            refused: is_refused,
            told: ToldNumbers::of(told),
        });
        let opener = self.borrower.opener.clone();
        opener.spawn(async move {
            // A report that is lost is a turn that the keeper takes back in time.
            drop(timeout(SPARE, self.borrower.say(&report)).await);
        });
    }
}

/// A node that asks a keeper.
#[derive(Clone)]
pub(crate) struct Borrower {
    pub(crate) opener: Opener,
    pub(crate) keeper: Arc<Authority>,
}

/// The answer of a keeper.
pub(crate) enum Borrowed {
    Turn(Turn),
    Refused(NotSent),
    /// It cannot be reached, or is none.
    Fails,
}

impl Borrower {
    /// Asks for a turn.
    pub(crate) async fn borrow(
        &self,
        origin: &str,
        mode: Mode,
        wait: Duration,
        again: bool,
    ) -> Borrowed {
        let question = Question::Ask(Ask {
            origin: origin.to_owned(),
            mode,
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            again,
        });
        let Ok(said) = timeout(wait + SPARE, self.say(&question)).await else {
            return Borrowed::Fails;
        };
        let Ok((head, content)) = said else {
            return Borrowed::Fails;
        };
        if head.status == StatusCode::TOO_MANY_REQUESTS {
            let after = head.fields.get(RETRY_AFTER);
            let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
            return Borrowed::Refused(NotSent::TooLate(Duration::from_secs(after.unwrap_or(1))));
        }
        let granted = beginning(content).await;
        match serde_json::from_slice::<Granted>(&granted) {
            Ok(granted) if head.status == StatusCode::OK => Borrowed::Turn(Turn::Lent(LentTurn {
                borrower: self.clone(),
                name: granted.permit,
            })),
            _ => Borrowed::Fails,
        }
    }

    async fn say(&self, question: &Question) -> Result<(ResponseHead, Incoming), Refusal> {
        let said = serde_json::to_vec(question).unwrap_or_default();
        let mut fields = Fields::new();
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let head = RequestHead {
            method: Method::POST,
            scheme: Some(Scheme::HTTP),
            authority: Some((*self.keeper).clone()),
            path: Some(PathAndQuery::from_static("/")),
            protocol: None,
            fields,
            version: Version::HTTP_11,
            origin_form: false,
        };
        self.opener
            .open(head, Incoming::Full(Some(said.into())))
            .await
    }
}

async fn beginning(mut content: Incoming) -> BytesMut {
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = content.frame().await {
        if let Frame::Data(data) = frame {
            read.extend_from_slice(&data[..data.len().min(LONGEST - read.len())]);
        }
        if read.len() == LONGEST {
            break;
        }
    }
    read
}
