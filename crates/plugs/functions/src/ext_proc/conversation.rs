//! The conversation with a processor about one exchange: questions about its request and its answer, which may overlap.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hermes_config::model::EndpointAddress;
use hermes_plug::Opener;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Streaming;

use super::connection::ProcessorConnection;
use super::messages::{
    CommonResponse, ImmediateResponse, PartResponse, ProcessingRequest, ProcessingResponse,
    ProtocolConfiguration, STREAMED, Said, Sent,
};

/// Answers to the questions of one side.
pub(super) enum PartVerdict {
    /// The part goes on, with these changes.
    Continue(CommonResponse),
    /// The client gets this answer.
    Immediate(ImmediateResponse),
    /// The processor has ended the conversation properly: all that follows goes on as it is.
    Over,
}

/// One direction of an exchange, as a processor is asked about it. It has one question at a time.
pub(super) struct ConversationSide {
    requests: mpsc::Sender<ProcessingRequest>,
    answers: mpsc::Receiver<SideAnswer>,
    state: Arc<ConversationState>,
    is_request: bool,
    silence: Duration,
}

/// The two directions.
pub(super) struct Conversation {
    pub(super) request: ConversationSide,
    pub(super) answer: ConversationSide,
}

enum SideAnswer {
    Headers(PartResponse),
    Body(PartResponse),
    Immediate(ImmediateResponse),
}

#[derive(Default)]
struct ConversationState {
    /// Whether a question about the request waits for an answer.
    asks_request: AtomicBool,
    asks_answer: AtomicBool,
    /// How it ended; empty where that was proper.
    end: OnceLock<String>,
}

impl Conversation {
    /// Connects, and begins with the first question, whose answer is the first of that side.
    ///
    /// # Errors
    /// The processor is away, silent, or refuses the call.
    pub(super) async fn begin(
        to: &EndpointAddress,
        opener: &Opener,
        silence: Duration,
        first: Sent,
    ) -> Result<(Self, PartVerdict), Refusal> {
        let is_request = matches!(first, Sent::RequestHeaders(_));
        let (requests, waiting) = mpsc::channel(2);
        let state = Arc::new(ConversationState::default());
        state.side(is_request).store(true, Ordering::Release);
        let message = ProcessingRequest {
            request: Some(first),
            protocol_config: Some(ProtocolConfiguration {
                request_body_mode: STREAMED,
                response_body_mode: STREAMED,
            }),
        };
        let _ = requests.try_send(message);

        let calling = async {
            let connection = ProcessorConnection::open(to, opener).await;
            let connection = connection.map_err(|error| failed(&error.to_string()))?;
            // Some servers send no head of their answer before they have heard the first question: it goes with the call.
            let called = connection.process(waiting).await;
            called.map_err(|status| failed(status.message()))
        };
        let called = timeout(silence, calling)
            .await
            .unwrap_or_else(|_| Err(silent()))?;

        let (to_request, request_answers) = mpsc::channel(1);
        let (to_answer, answer_answers) = mpsc::channel(1);
        let listening = Listening {
            from: called,
            to_request,
            to_answer,
            state: state.clone(),
        };
        opener.spawn(listening.run());
        let side = |is_request, answers| ConversationSide {
            requests: requests.clone(),
            answers,
            state: state.clone(),
            is_request,
            silence,
        };
        let mut conversation = Self {
            request: side(true, request_answers),
            answer: side(false, answer_answers),
        };
        let side = match is_request {
            true => &mut conversation.request,
            false => &mut conversation.answer,
        };
        let verdict = side.heard(true).await?;
        Ok((conversation, verdict))
    }
}

impl ConversationState {
    fn side(&self, is_request: bool) -> &AtomicBool {
        match is_request {
            true => &self.asks_request,
            false => &self.asks_answer,
        }
    }
}

impl ConversationSide {
    /// Asks about a part, and waits for the answer.
    ///
    /// # Errors
    /// The processor is silent, breaks off, or answers another question.
    pub(super) async fn ask(&mut self, part: Sent) -> Result<PartVerdict, Refusal> {
        let is_head = matches!(part, Sent::RequestHeaders(_) | Sent::ResponseHeaders(_));
        let own = self.state.side(self.is_request);
        own.store(true, Ordering::Release);
        let message = ProcessingRequest {
            request: Some(part),
            protocol_config: None,
        };
        // It fails where the conversation is over, which is told with the answer.
        let sending = timeout(self.silence, self.requests.send(message)).await;
        sending.map_err(|_| silent())?.ok();
        self.heard(is_head).await
    }

    async fn heard(&mut self, is_head: bool) -> Result<PartVerdict, Refusal> {
        let heard = timeout(self.silence, self.answers.recv()).await;
        let heard = heard.map_err(|_| silent())?;
        let part = match (heard, is_head) {
            (Some(SideAnswer::Immediate(answer)), _) => return Ok(PartVerdict::Immediate(answer)),
            (Some(SideAnswer::Headers(part)), true) | (Some(SideAnswer::Body(part)), false) => part,
            (Some(_), _) => return Err(misspoken("answers another question than was asked")),
            (None, _) => {
                return match self.state.end.get().map(String::as_str) {
                    Some("") => Ok(PartVerdict::Over),
                    Some(reason) => Err(failed(reason)),
                    None => Err(failed("it ended")),
                };
            }
        };
        Ok(PartVerdict::Continue(part.response.unwrap_or_default()))
    }
}

/// Hears the processor, and passes its answers to the sides that asked.
struct Listening {
    from: Streaming<ProcessingResponse>,
    to_request: mpsc::Sender<SideAnswer>,
    to_answer: mpsc::Sender<SideAnswer>,
    state: Arc<ConversationState>,
}

impl Listening {
    async fn run(mut self) {
        let end = loop {
            // Until both sides are gone there may be another question.
            let message = tokio::select! {
                message = self.from.message() => message,
                () = async { tokio::join!(self.to_request.closed(), self.to_answer.closed()); } => break String::new(),
            };
            match message {
                Ok(Some(message)) => {
                    if let Err(reason) = self.pass(message) {
                        break reason.to_owned();
                    }
                }
                Ok(None) => break String::new(),
                Err(status) => {
                    break match status.message() {
                        "" => format!("it failed: {}", status.code()),
                        message => message.to_owned(),
                    };
                }
            }
        };
        // Before its channels close: the sides look when they do.
        let _ = self.state.end.set(end);
    }

    fn pass(&self, message: ProcessingResponse) -> Result<(), &'static str> {
        let (is_request, answer) = match message.response {
            Some(Said::RequestHeaders(part)) => (true, SideAnswer::Headers(part)),
            Some(Said::RequestBody(part)) => (true, SideAnswer::Body(part)),
            Some(Said::ResponseHeaders(part)) => (false, SideAnswer::Headers(part)),
            Some(Said::ResponseBody(part)) => (false, SideAnswer::Body(part)),
            Some(Said::Immediate(answer)) => {
                let is_request = self.state.asks_request.load(Ordering::Acquire);
                (is_request, SideAnswer::Immediate(answer))
            }
            Some(Said::RequestTrailers(_) | Said::ResponseTrailers(_)) | None => {
                return Err("it says something that it was not asked");
            }
        };
        // One answer for one question: a second one would be taken for that of the next.
        if !self.state.side(is_request).swap(false, Ordering::AcqRel) {
            return Err("it answers a question twice, or one that was not asked");
        }
        let to = if is_request {
            &self.to_request
        } else {
            &self.to_answer
        };
        // One who has gone away needs no answer.
        let _ = to.try_send(answer);
        Ok(())
    }
}

pub(super) fn failed(reason: &str) -> Refusal {
    let details = format!("the processor broke off: {reason}");
    Refusal::new(ProxyError::ConnectionTerminated, details)
}

fn silent() -> Refusal {
    Refusal::new(ProxyError::HttpResponseTimeout, "the processor is silent")
}

pub(super) fn misspoken(reason: &str) -> Refusal {
    let details = format!("the processor {reason}");
    Refusal::new(ProxyError::HttpProtocolError, details)
}
