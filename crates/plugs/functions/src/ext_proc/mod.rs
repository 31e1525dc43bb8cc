//! Processors of requests and answers, by Envoy's `ext_proc` (`envoy.service.ext_proc.v3`): a stream of gRPC for each exchange.
//!
//! A processor sees heads and, in the mode `STREAMED`, contents piece by piece. It may change fields and pieces, or answer in place of the
//! target. It may change neither target nor status, nor fields that [guard](crate::guard) names. Modes that gather contents, trailers and
//! overrides of modes are not spoken: one that answers so is refused.

mod connection;
mod content;
mod conversation;
mod heads;
mod messages;

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::{Duration as Interval, EndpointAddress};
use hermes_http::{Incoming, RequestHead, ResponseHead, pipe};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Onward, Opener, Response, Settings};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::oneshot;

use crate::need::Need;
use crate::room::{Place, Room, RoomOwner};
use crate::sees::Sees;
use content::ProcessedContent;
use conversation::{Conversation, ConversationSide, PartVerdict, misspoken};
use messages::{CommonResponse, HeaderMutation, ImmediateResponse, Sent};

/// Silence of a processor after which it has failed, where its settings do not say.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(5);

/// Exchanges with one processor at once, where its settings do not say.
#[doc(alias = "bound")]
const EXCHANGES: u16 = 256;

/// The settings of `ext_proc`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExtProcSettings {
    /// Where the processor listens, for HTTP/2 without TLS: `host:port` or `unix:/path`.
    to: EndpointAddress,
    /// Which messages it sees. Default: both.
    #[serde(default)]
    sees: Sees,
    /// Whether it sees contents, too. Default: true.
    #[serde(default = "yes")]
    contents: bool,
    /// `all`: exchanges that it does not take are refused. `best`: they pass without it while it is away. Default: `all`.
    #[serde(default)]
    need: Need,
    /// Silence after a question after which it has failed. Default: 5s.
    #[serde(default)]
    silence: Option<Interval>,
    /// Exchanges at once, half of them of one user; further requests are refused. Default: 256.
    #[serde(default)]
    exchanges: Option<u16>,
}

fn yes() -> bool {
    true
}

/// Shows exchanges to a processor. Named alone it knows none, and refuses all.
#[derive(Default)]
pub struct ExtProc(Option<Arc<Processor>>);

struct Processor {
    to: EndpointAddress,
    sees: Sees,
    contents: bool,
    need: Need,
    silence: Duration,
    room: Arc<Room>,
}

/// The means of one exchange: where its tasks run, and its room at the processor.
#[derive(Clone)]
struct Means {
    opener: Opener,
    place: Arc<Place>,
}

/// The request after the processor has seen its head.
enum SeenRequest {
    GoesOn(Box<RequestHead>, Option<Conversation>),
    Answered(Response),
}

impl ExtProc {
    fn make(settings: ExtProcSettings) -> Result<Arc<dyn Handler>, Vec<Problem>> {
        let silence = settings.silence.map_or(SILENCE, |silence| silence.0);
        if silence.is_zero() {
            let problem = Problem::new("silence", "no processor is so fast");
            return Err(vec![problem.remedy("write a time, such as 5s")]);
        }
        Ok(Arc::new(Self(Some(Arc::new(Processor {
            to: settings.to,
            sees: settings.sees,
            contents: settings.contents,
            need: settings.need,
            silence,
            room: Room::new(settings.exchanges.unwrap_or(EXCHANGES)),
        })))))
    }

    async fn answer(&self, request: HandlerRequest) -> Result<Response, Refusal> {
        let Some(processor) = &self.0 else {
            return Err(unconfigured("`ext_proc` has no processor: give it `to`"));
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
        let onward =
            onward.ok_or_else(|| unconfigured("`ext_proc` is for `through` of a route"))?;
        let owner = RoomOwner::of(user.as_deref(), source.peer.ip());
        let means = Means {
            opener,
            place: Arc::new(processor.room.take(owner)?),
        };
        processor
            .process(head, content.into_incoming(), &onward, &means)
            .await
    }
}

impl Processor {
    async fn process(
        &self,
        head: RequestHead,
        content: Incoming,
        onward: &Onward,
        means: &Means,
    ) -> Result<Response, Refusal> {
        if self.sees == Sees::Answers {
            let (answer, content) = onward.send(head, content).await?;
            return self.answered(None, answer, content, means).await;
        }
        let is_empty = is_empty(&content);
        let (head, conversation) = match self.seen(head, is_empty, means).await? {
            SeenRequest::Answered(response) => return Ok(response),
            SeenRequest::GoesOn(head, conversation) => (*head, conversation),
        };
        // Away, where it is only welcome, or no longer interested.
        let Some(Conversation { request, answer }) = conversation else {
            let (answer, content) = onward.send(head, content).await?;
            return Ok(Response::Stream(answer, content));
        };

        let (told, mut immediate) = oneshot::channel();
        let content = match is_empty || !self.contents {
            true => content,
            false => self.processed(request, content, Sent::RequestBody, Some(told), means),
        };
        let sending = onward.send(head, content);
        let (head, content) = tokio::select! {
            // First: a content that was stopped for this answer breaks the request as well.
            biased;
            Ok(answer) = &mut immediate => return immediate_response(answer),
            sent = sending => match immediate.try_recv() {
                Ok(answer) => return immediate_response(answer),
                Err(_) => sent?,
            },
        };
        match self.sees {
            Sees::Requests => Ok(Response::Stream(head, content)),
            Sees::Both | Sees::Answers => self.answered(Some(answer), head, content, means).await,
        }
    }

    /// Shows the head of a request.
    async fn seen(
        &self,
        mut head: RequestHead,
        is_empty: bool,
        means: &Means,
    ) -> Result<SeenRequest, Refusal> {
        let shown = Sent::RequestHeaders(heads::request(&head, is_empty));
        let begun = Conversation::begin(&self.to, &means.opener, self.silence, shown).await;
        let (conversation, verdict) = match begun {
            Ok(begun) => begun,
            // Nothing has gone on yet.
            Err(refusal) if self.need == Need::Best => {
                tracing::debug!(
                    reason = refusal.reason(),
                    "a request passes without `ext_proc`"
                );
                return Ok(SeenRequest::GoesOn(Box::new(head), None));
            }
            Err(refusal) => return Err(refusal),
        };
        match verdict {
            PartVerdict::Immediate(answer) => immediate_response(answer).map(SeenRequest::Answered),
            PartVerdict::Over => Ok(SeenRequest::GoesOn(Box::new(head), None)),
            PartVerdict::Continue(response) => {
                if let Some(changes) = changes(response)? {
                    head.fields = heads::changed(&head.fields, changes)?;
                }
                Ok(SeenRequest::GoesOn(Box::new(head), Some(conversation)))
            }
        }
    }

    /// Shows an answer; where its request was shown, in the same conversation.
    async fn answered(
        &self,
        side: Option<ConversationSide>,
        mut head: ResponseHead,
        content: Incoming,
        means: &Means,
    ) -> Result<Response, Refusal> {
        let is_empty = is_empty(&content);
        let shown = Sent::ResponseHeaders(heads::answer(&head, is_empty));
        let asked = match side {
            Some(mut side) => side.ask(shown).await.map(|verdict| (side, verdict)),
            None => Conversation::begin(&self.to, &means.opener, self.silence, shown)
                .await
                .map(|(conversation, verdict)| (conversation.answer, verdict)),
        };
        let (side, verdict) = match asked {
            Ok(asked) => asked,
            Err(_) if self.need == Need::Best => return Ok(Response::Stream(head, content)),
            Err(refusal) => return Err(refusal),
        };
        match verdict {
            PartVerdict::Immediate(answer) => return immediate_response(answer),
            PartVerdict::Over => return Ok(Response::Stream(head, content)),
            PartVerdict::Continue(response) => {
                if let Some(changes) = changes(response)? {
                    head.fields = heads::changed(&head.fields, changes)?;
                }
            }
        }
        if is_empty || !self.contents {
            return Ok(Response::Stream(head, content));
        }
        // Its length is not known before the processor has seen all of it.
        head.fields.remove(http::header::CONTENT_LENGTH);
        let content = self.processed(side, content, Sent::ResponseBody, None, means);
        Ok(Response::Stream(head, content))
    }

    /// The content as the processor gives it.
    fn processed(
        &self,
        side: ConversationSide,
        content: Incoming,
        part: fn(messages::HttpBody) -> Sent,
        immediate: Option<oneshot::Sender<ImmediateResponse>>,
        means: &Means,
    ) -> Incoming {
        let (outgoing, incoming) = pipe(None);
        let processed = ProcessedContent {
            side,
            content,
            outgoing,
            part,
            immediate,
            _held: means.place.clone(),
        };
        means.opener.spawn(processed.run());
        incoming
    }
}

/// The changes of a head.
fn changes(response: CommonResponse) -> Result<Option<HeaderMutation>, Refusal> {
    if response.status != 0 {
        return Err(misspoken("replaces a content, which is not supported"));
    }
    Ok(response.header_mutation)
}

fn immediate_response(answer: ImmediateResponse) -> Result<Response, Refusal> {
    let (head, content) = heads::immediate(answer)?;
    Ok(Response::Whole(head, content))
}

fn is_empty(content: &Incoming) -> bool {
    content.length() == Some(0) || content.is_end()
}

fn unconfigured(details: &str) -> Refusal {
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}

impl Handler for ExtProc {
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
