//! Scanners of contents, by ICAP (RFC 3507): requests before they leave, answers before they go to the client.
//!
//! A content is shown by a preview. A scanner that is content with that answers 204, and the content goes on as it came; one that wants more
//! gets it while it sends its answer, and nothing of it is gathered here. A scanner sees heads with all fields but those of the proxy's own
//! authentication; it may change contents and fields, but neither the target nor fields that [guard](crate::guard) names.
//!
//! The connection of each transaction is its own: there is no multiplexing in ICAP, and a scanner that stopped in the midst of one must not
//! be the next one's.

mod connection;
mod heads;
mod options;
mod preview;
mod scanner;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::{Duration as Interval, EndpointAddress};
use hermes_http::{Incoming, RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::need::Need;
use crate::room::{Room, RoomOwner};
use crate::sees::Sees;
use options::KnownOptions;
use scanner::{Held, Scanner, misspoken};
use transaction::{Question, Transaction, Verdict};

/// Silence of a scanner after which a transaction has failed, where its settings do not say.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(30);

/// Transactions with one scanner at once, where its settings do not say.
#[doc(alias = "bound")]
const TRANSACTIONS: u16 = 256;

/// The settings of `icap`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IcapSettings {
    /// Where the scanner listens: `host:port` or `unix:/path`.
    to: EndpointAddress,
    /// The name of its service, such as `avscan`.
    service: String,
    /// Which messages it sees. Default: both.
    #[serde(default)]
    sees: Sees,
    /// `all`: messages that it does not judge are refused. `best`: they pass without it. Default: `all`.
    #[serde(default)]
    need: Need,
    /// Silence after which it has failed. Default: 30s.
    #[serde(default)]
    silence: Option<Interval>,
    /// Transactions at once, half of them of one user; further requests are refused. Default: 256.
    #[serde(default)]
    transactions: Option<u16>,
}

/// Shows requests and answers to a scanner. Named alone it knows none, and refuses all.
#[derive(Default)]
pub struct Icap(Option<Arc<SeeingScanner>>);

/// A scanner, and the messages that it sees.
struct SeeingScanner {
    sees: Sees,
    room: Arc<Room>,
    scanner: Scanner,
}

impl Icap {
    fn make(settings: IcapSettings) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'"';
        if settings.service.is_empty() || !settings.service.bytes().all(is_name) {
            let problem = Problem::new("service", "no name of a service");
            return Err(vec![problem.remedy("write one, such as `avscan`")]);
        }
        let transactions = settings.transactions.unwrap_or(TRANSACTIONS);
        let scanner = Scanner {
            to: settings.to,
            service: settings.service.trim_start_matches('/').to_owned(),
            need: settings.need,
            silence: settings.silence.map_or(SILENCE, |silence| silence.0),
            options: KnownOptions::default(),
        };
        Ok(Arc::new(Self(Some(Arc::new(SeeingScanner {
            sees: settings.sees,
            room: Room::new(transactions),
            scanner,
        })))))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let Some(scanner) = &self.0 else {
            return Err(unconfigured(
                "`icap` has no scanner: give it `to` and `service`",
            ));
        };
        let HandlerRequest {
            head,
            content,
            user,
            source,
            onward,
            opener,
            ..
        } = request;
        let onward = onward.ok_or_else(|| unconfigured("`icap` is for `through` of a route"))?;
        let owner = RoomOwner::of(user.as_deref(), source.peer.ip());
        let room = scanner.room.take(owner)?;

        // Held for as long as a content comes from the scanner.
        let held = Held {
            opener,
            _room: Arc::new(room),
        };

        let mut head = head;
        let mut content = content.into_incoming();
        if scanner.sees != Sees::Answers {
            let question = Question::of_request(&head, content)?;
            match scanner.judge(question, &held).await? {
                Verdict::Unchanged(unchanged) => content = unchanged,
                Verdict::Request(changed, changed_content) => {
                    head = heads::changed_request(head, changed)?;
                    content = changed_content;
                }
                Verdict::Answer(answer, content) => return Ok(Response::Stream(answer, content)),
            }
        }

        let shown = head.clone();
        let (answer, content) = onward.send(head, content).await?;
        if scanner.sees == Sees::Requests {
            return Ok(Response::Stream(answer, content));
        }
        scanner.judge_answer(&shown, answer, content, &held).await
    }
}

impl SeeingScanner {
    async fn judge_answer(
        &self,
        request: &RequestHead,
        answer: ResponseHead,
        content: Incoming,
        held: &Held,
    ) -> Result<Response, Refusal> {
        let question = Question::of_answer(request, &answer, content)?;
        match self.judge(question, held).await? {
            Verdict::Unchanged(content) => Ok(Response::Stream(answer, content)),
            Verdict::Answer(answer, content) => Ok(Response::Stream(answer, content)),
            Verdict::Request(..) => Err(misspoken("answers an answer with a request")),
        }
    }

    async fn judge(&self, question: Question, held: &Held) -> Result<Verdict, Refusal> {
        let transaction = Transaction {
            scanner: &self.scanner,
            held,
        };
        transaction.judge(question).await
    }
}

fn unconfigured(details: &str) -> Refusal {
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

impl Handler for Icap {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        Box::pin(self.answer(request))
    }

    fn stands_between(&self) -> bool {
        true
    }

    fn settings(&self) -> Option<Settings<dyn Handler>> {
        Some(Settings::<dyn Handler>::new(Self::make))
    }
}
