//! One attempt of a request, to the head of its response.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hermes_admit::routed::Routed;
use hermes_config::model::Hedge;
use hermes_http::{Event, Incoming, Pending, RequestHead, Responder, ResponseHead, StreamError};
use hermes_packet::Side;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_rules::retry::Stop;
use hermes_upstream::{Active, Hop};
use tokio::time::Instant;

use super::answer::{Answer, AnsweredStream, Upload};
use super::hedge;
use super::hedge::Responded;
use super::no_response::NoResponse;
use super::read_ahead::ReadAhead;
use super::returning;
use crate::pump::silence;
use crate::reach::departure;
use crate::reach::retry;
use crate::reach::retry::{Replay, Tries};
use crate::reach::verdict;
use crate::reach::wait::{TimeoutKey, Wait};
use crate::reach::{self, Reached, Unreached};

/// A request as it leaves.
pub(super) struct Request<'a> {
    pub(super) routed: &'a Routed,
    pub(super) head: &'a RequestHead,
    pub(super) target: &'a Target,
    pub(super) tries: &'a Tries<'a>,
    /// Whether content was sent that was not kept; once set, none is.
    pub(super) lost: &'a AtomicBool,
}

/// An attempt whose response, if there was one, is not for the client.
pub(super) struct Lost {
    pub(super) refusal: Refusal,
    /// After which pause another attempt follows, or why none does.
    pub(super) again: Result<Duration, Stop>,
}

/// The stream to the next hop while its response is awaited.
struct PendingAnswer<'a> {
    pending: Pending,
    active: &'a Active,
    /// The connection had served others.
    reused: bool,
}

impl Request<'_> {
    /// One attempt. The client hears of interim responses.
    pub(super) async fn single<'c>(
        &'c self,
        content: &'c mut Replay<'_>,
        responder: &mut Responder,
    ) -> Result<Answer<'c>, Lost> {
        let Self {
            head,
            target,
            tries,
            ..
        } = *self;
        let deadline = tries.begin();
        let reached = retry::within(
            deadline,
            pin!(reach::open(tries, head, target, content.length())),
        )
        .await;
        let reached = reached.unwrap_or_else(|| Err(Unreached::too_late(tries)));
        self.asked(reached, deadline, content, responder).await
    }

    /// The rest of an attempt, which has reached the next hop or not.
    pub(super) async fn asked<'c>(
        &'c self,
        reached: Result<Reached, Unreached>,
        deadline: Option<Instant>,
        content: &'c mut Replay<'_>,
        responder: &mut Responder,
    ) -> Result<Answer<'c>, Lost> {
        let Self { routed, tries, .. } = *self;
        let Reached {
            outgoing,
            pending,
            active,
            endpoint,
            reused,
            hop,
        } = match reached {
            Ok(reached) => reached,
            Err(unreached) => return Err(self.lost(unreached.into())),
        };

        let mut upload = Upload::new(content, outgoing, &routed.snapshot, hop);
        let mut awaited = PendingAnswer {
            pending,
            active: &active,
            reused,
        };
        let answered = tokio::select! {
            biased;
            // A response that has come counts, even if the time of the attempt is over in the same moment.
            answered = self.response(&mut awaited, &mut upload, responder) => answered,
            () = retry::over(deadline) => Err(NoResponse::timeout(tries.attempt().no_head(tries))),
        };
        let pending = awaited.pending;

        let (head, content) = match answered {
            Ok(answered) => answered,
            Err(error) => return Err(self.lost(error.next_hop(&endpoint))),
        };
        // Before the retry policy sees it: whatever becomes of a response, the endpoint has given it.
        verdict::answered(&active, tries.next, head.status);
        tries.answered();
        self.accepted(&head)?;
        Ok(Answer {
            head,
            content,
            upload,
            _stream: AnsweredStream {
                _pending: pending,
                _active: active,
            },
        })
    }

    /// Several attempts beside each other.
    pub(super) async fn race(
        &self,
        hedge: &Hedge,
        responder: &mut Responder,
    ) -> Result<Answer<'static>, Lost> {
        let raced = tokio::select! {
            raced = hedge::race(self.tries, self.head, self.target, hedge) => raced,
            () = responder.gone() => Err(NoResponse::last(client_gone())),
        };
        let Responded {
            head,
            incoming,
            interim,
            endpoint,
            held: (outgoing, pending, active),
        } = raced.map_err(|error| self.lost(error))?;
        self.accepted(&head)?;

        self.routed.exchange.answered_by(&endpoint);
        // Kept until now: only those of the attempt that won may reach the client.
        for head in interim {
            let sent = responder.interim(&returning(self.routed, head)).await;
            sent.map_err(|_| self.lost(NoResponse::last(client_gone())))?;
        }

        Ok(Answer {
            head,
            content: incoming,
            upload: Upload::over(outgoing),
            _stream: AnsweredStream {
                _pending: pending,
                _active: active,
            },
        })
    }

    /// Whether a response is for the client.
    fn accepted(&self, head: &ResponseHead) -> Result<(), Lost> {
        let again = self
            .tries
            .again(Some(retry::of_response(head)), self.is_replayable());
        if let Ok(pause) = again {
            return Err(Lost {
                refusal: client_gone(),
                again: Ok(pause),
            });
        }

        match departure::unaccepted(self.routed, self.tries.next, head) {
            Some(refusal) => Err(self.lost(NoResponse::last(refusal))),
            None => Ok(()),
        }
    }

    fn lost(&self, error: NoResponse) -> Lost {
        Lost {
            refusal: error.refusal,
            again: self.tries.again(error.outcome, self.is_replayable()),
        }
    }

    pub(super) fn is_replayable(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    /// Waits for the final response while the request's content goes out; passes on interim ones.
    async fn response(
        &self,
        awaited: &mut PendingAnswer<'_>,
        upload: &mut Upload<'_>,
        responder: &mut Responder,
    ) -> Result<(ResponseHead, Incoming), NoResponse> {
        let hop = upload.hop;
        let idle = self.tries.next.timeouts.idle_of(hop);
        let mut silent = pin!(silence(self.routed.exchange.counters(), idle));
        let wait = self.tries.header(hop);
        let mut deadline = wait.deadline();
        let mut read_ahead = ReadAhead::default();

        loop {
            // Biased: a response that has come counts, even if the client gave up in the same
            // moment.
            tokio::select! {
                biased;
                event = read_ahead.next(&mut awaited.pending) => match event.map_err(|error| awaited.broken(&error))? {
                    Event::Interim(head) => {
                        let head = returning(self.routed, head);
                        // Boxed, as few responses have one: the room for it would be in all.
                        let passed = Box::pin(awaited.interim(&mut read_ahead, &head, responder));
                        tokio::select! {
                            biased;
                            sent = passed => sent?,
                            () = silent.as_mut() => return Err(NoResponse::last(client_gone())),
                        }

                        // The target is at work: the wait for its final response begins anew.
                        deadline = wait.deadline();
                    }
                    Event::Final(head, incoming) => return Ok((head, incoming)),
                    Event::Tunnel(..) => return Err(NoResponse::unexpected_tunnel()),
                },
                sent = upload.sent(), if !upload.is_over() => {
                    // The target answers a whole request, so its time begins with the end of the
                    // content.
                    deadline = wait.deadline();
                    match sent {
                        Err(broken) if broken.side == Side::Client => return Err(NoResponse::client_broke(&broken)),
                        // The target may have answered before it stopped reading.
                        Err(_) | Ok(()) => {}
                    }
                }
                () = silent.as_mut(), if !upload.is_over() => return Err(NoResponse::silent(&silence_of(self.tries, hop))),
                () = responder.gone() => return Err(NoResponse::last(client_gone())),
                () = retry::over(deadline), if upload.is_over() => {
                    return Err(NoResponse::timeout(wait.no_head(self.tries)));
                }
            }
        }
    }
}

impl PendingAnswer<'_> {
    fn broken(&self, error: &StreamError) -> NoResponse {
        NoResponse::broken(self.active, error, self.reused)
    }

    /// Passes an interim response on, and reads ahead meanwhile.
    async fn interim(
        &mut self,
        read_ahead: &mut ReadAhead,
        head: &ResponseHead,
        responder: &mut Responder,
    ) -> Result<(), NoResponse> {
        let passed = read_ahead.ahead(&mut self.pending, responder.interim(head));
        let sent = passed.await.map_err(|error| self.broken(&error))?;
        sent.map_err(|_| NoResponse::last(client_gone()))
    }
}

/// How long contents may be silent on their way to this hop, in words.
pub(super) fn silence_of(tries: &Tries<'_>, hop: Hop) -> String {
    let time = Some(tries.next.timeouts.idle_of(hop));
    Wait {
        time,
        key: TimeoutKey::Idle,
    }
    .told(tries)
}

pub(super) fn client_gone() -> Refusal {
    Refusal::client_gone("before the answer")
}
