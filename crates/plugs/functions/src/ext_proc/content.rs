//! Contents on their way through a processor, piece by piece: one is shown, and goes on when the processor has answered.

use bytes::Bytes;
use hermes_http::{Frame, Incoming, Outgoing};
use hermes_plug::refusal::Refusal;
use tokio::sync::oneshot;

use super::conversation::{ConversationSide, PartVerdict, misspoken};
use super::messages::{BodyMutation, CommonResponse, HttpBody, ImmediateResponse, Mutation, Sent};

/// Bytes of a content that are shown at once.
#[doc(alias = "bound")]
const SHOWN: usize = 64 * 1024;

/// A content that a processor sees.
pub(super) struct ProcessedContent<H> {
    pub(super) side: ConversationSide,
    pub(super) content: Incoming,
    pub(super) outgoing: Outgoing,
    /// The part of the exchange that it is.
    pub(super) part: fn(HttpBody) -> Sent,
    /// Takes an answer that the client is to get instead.
    pub(super) immediate: Option<oneshot::Sender<ImmediateResponse>>,
    /// Held until the end.
    pub(super) _held: H,
}

/// Why a content went no further.
enum Stopped {
    /// The processor failed, or wants another answer: the receiver sees a content that broke.
    Processor(String),
    /// The content broke, or who takes it is gone.
    Content,
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Processor(refusal.reason())
    }
}

impl<H> ProcessedContent<H> {
    /// Passes it on. One that does not come to its end is dropped, so that no half of it looks whole.
    pub(super) async fn run(mut self) {
        match self.pass().await {
            Ok(()) | Err(Stopped::Content) => {}
            Err(Stopped::Processor(reason)) => {
                tracing::debug!(reason, "a content stopped at a processor");
            }
        }
    }

    async fn pass(&mut self) -> Result<(), Stopped> {
        let mut is_shown = true;
        let trailers = loop {
            let mut data = match self.content.frame().await {
                Some(Ok(Frame::Data(data))) => data,
                Some(Ok(Frame::Trailers(trailers))) => break Some(trailers),
                None => break None,
                Some(Err(_)) => return Err(Stopped::Content),
            };
            while !data.is_empty() {
                let piece = data.split_to(data.len().min(SHOWN));
                self.show(piece, false, &mut is_shown).await?;
            }
        };
        self.show(Bytes::new(), true, &mut is_shown).await?;
        let ended = self.outgoing.finish(trailers).await;
        ended.map_err(|_| Stopped::Content)
    }

    /// Shows a piece, and passes on what becomes of it.
    async fn show(
        &mut self,
        piece: Bytes,
        is_end: bool,
        is_shown: &mut bool,
    ) -> Result<(), Stopped> {
        let piece = match *is_shown {
            false => piece,
            true => {
                let part = (self.part)(HttpBody {
                    body: piece.clone(),
                    end_of_stream: is_end,
                });
                match self.side.ask(part).await? {
                    PartVerdict::Continue(response) => changed(piece, response)?,
                    PartVerdict::Over => {
                        *is_shown = false;
                        piece
                    }
                    PartVerdict::Immediate(answer) => {
                        let taken = self.immediate.take();
                        taken.map(|taken| taken.send(answer));
                        let reason = "it answers in the midst of a content".to_owned();
                        return Err(Stopped::Processor(reason));
                    }
                }
            }
        };
        if piece.is_empty() {
            return Ok(());
        }
        let sent = self.outgoing.data(piece, false).await;
        sent.map_err(|_| Stopped::Content)
    }
}

/// A piece after the changes of a processor. Changes of fields come too late here, and are ignored, as Envoy does.
fn changed(piece: Bytes, response: CommonResponse) -> Result<Bytes, Refusal> {
    if response.status != 0 {
        return Err(misspoken("replaces a content that has begun"));
    }
    let mutation = response
        .body_mutation
        .and_then(|BodyMutation { mutation }| mutation);
    match mutation {
        None | Some(Mutation::ClearBody(false)) => Ok(piece),
        Some(Mutation::Body(body)) => Ok(body),
        Some(Mutation::ClearBody(true)) => Ok(Bytes::new()),
        Some(Mutation::Streamed(_)) => Err(misspoken("answers in a mode that was not agreed on")),
    }
}
