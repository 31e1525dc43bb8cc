//! A request and its response.

pub(crate) mod answer_changes;
pub(crate) mod broadcast;
pub(crate) mod hedge;
mod interrupted;
mod read_ahead;
mod rest;

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hermes_admit::alternative;
use hermes_admit::explain;
use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_config::model::Hedge;
use hermes_http::{
    Event, Incoming, Outgoing, Pending, RequestHead, Reset, Responder, ResponseHead,
};
use hermes_packet::{Broken, Side};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::hop;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::retry::{Outcome, Stop};
use hermes_upstream::Hop;
use http::{Method, StatusCode};

use super::pump::{Direction, Source, meanwhile, pump, silence};
use super::reach::{self, Reached, Unreached};
use crate::failed::{Failed, Unanswered};
use crate::message::hedge::Responded;
use crate::message::interrupted::Interrupted;
use crate::message::read_ahead::ReadAhead;
use crate::message::rest::Original;
use crate::reach::cause;
use crate::reach::departure;
use crate::reach::departure::depart;
use crate::reach::retry;
use crate::reach::retry::{Replay, Tries};
use crate::reach::verdict;
use crate::reach::wait::{TimeoutKey, Wait};

/// Forwards a message and its response, whose contents stream in both directions at once.
pub(crate) async fn forward(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<String, Failed> {
    let tries = Tries::new(routed, next, arrival.head());
    let (head, target) = match depart(routed, arrival.head_mut().take(), next) {
        Ok(departing) => departing,
        Err(refusal) => {
            return Err(Failed {
                unanswered: Unanswered::Arrival(arrival),
                refusal,
            });
        }
    };

    let Arrival::Offered(offered) = arrival else {
        let refusal = Refusal::new(ProxyError::ProxyInternalError, "a datagram is no message");
        return Err(Failed {
            unanswered: Unanswered::Arrival(arrival),
            refusal,
        });
    };

    let (_, content, mut responder) = offered.message();
    let lost = AtomicBool::new(false);
    let counters = routed.exchange.counters();

    let account = || routed.account();
    let mut content = Replay::new(
        content,
        tries.keep_bytes(),
        &account,
        &lost,
        &counters.client_to_target,
    );

    let request = Request {
        routed,
        head: &head,
        target: &target,
        tries: &tries,
        lost: &lost,
    };

    loop {
        // Here rather than in a function of its own: each future that is awaited is copied into the one around it.
        let attempted = match tries.hedge(&head.method) {
            Some(hedge) if content.is_end() => Box::pin(request.race(hedge, responder)).await,
            _ => request.single(&mut content, responder).await,
        };
        let Lost {
            responder: unanswered,
            refusal,
            again,
        } = match attempted {
            Ok(reason) => return Ok(reason),
            Err(lost) => lost,
        };

        responder = unanswered;
        let refusal = match again {
            Ok(pause) => {
                // Kept content goes out once more; that it can be is what `again` was decided by.
                content.rewind();
                if let Some(kept) = tries.kept() {
                    Box::pin(kept.failed(&tries, &head, &refusal, &mut responder)).await;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => continue,
                    () = responder.gone() => client_gone(),
                }
            }
            Err(stop) => explained(&tries, &content, refusal, stop),
        };

        return Err(Failed {
            unanswered: Unanswered::Responder(responder),
            refusal,
        });
    }
}

/// The last refusal, with the reason why there is no further attempt.
fn explained(tries: &Tries<'_>, content: &Replay<'_>, refusal: Refusal, stop: Stop) -> Refusal {
    let refusal = tries.explain(refusal, stop);
    match content.overdrawn() {
        Some(overdrawn) if stop == Stop::NotKept => refusal.note(&overdrawn.to_string()),
        _ => refusal,
    }
}

struct Request<'a> {
    routed: &'a Routed,
    head: &'a RequestHead,
    target: &'a Target,
    tries: &'a Tries<'a>,
    /// Whether content was sent that was not kept; once set, none is.
    lost: &'a AtomicBool,
}

/// An attempt whose response, if there was one, is not for the client.
struct Lost {
    responder: Responder,
    refusal: Refusal,
    /// After which pause another attempt follows, or why none does.
    again: Result<Duration, Stop>,
}

impl Request<'_> {
    /// One attempt.
    async fn single(
        &self,
        content: &mut Replay<'_>,
        mut responder: Responder,
    ) -> Result<String, Lost> {
        let Self {
            routed,
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
        let Reached {
            mut outgoing,
            mut pending,
            active,
            endpoint,
            reused,
            hop,
        } = match reached.unwrap_or_else(|| Err(Unreached::too_late(tries))) {
            Ok(reached) => reached,
            Err(unreached) => return Err(self.lost(responder, unreached.into())),
        };

        // The content counts what came from the client; what is sent again came once.
        let sent = AtomicU64::new(0);
        let is_empty = content.is_end();
        let upload = pump(content, &mut outgoing, self.direction(Side::Client, &sent));
        let silent = silence(routed.exchange.counters(), tries.next.timeouts.idle_of(hop));

        let mut upload = Upload {
            pump: pin!(upload),
            done: false,
            is_empty,
            silent: pin!(silent),
            hop,
        };

        let answered = tokio::select! {
            biased;
            answered = self.response(&mut pending, &mut upload, &mut responder, (&active, reused)) => answered,
            () = retry::over(deadline) => Err(NoResponse::timeout(tries.attempt().no_head(tries))),
        };

        match answered {
            Ok((head, incoming)) => {
                verdict::answered(&active, tries.next, head.status);
                tries.answered();
                let unaccepted = departure::unaccepted(routed, tries.next, &head);
                match (self.again(&head), unaccepted) {
                    (Some(pause), _) => Err(Lost {
                        responder,
                        refusal: client_gone(),
                        again: Ok(pause),
                    }),
                    (None, Some(refusal)) => Err(self.lost(responder, NoResponse::last(refusal))),
                    (None, None) => Ok(self.deliver(head, incoming, upload, responder).await),
                }
            }
            Err(error) => Err(self.lost(responder, error.next_hop(&endpoint))),
        }
    }

    /// Several attempts beside each other.
    async fn race(&self, hedge: &Hedge, mut responder: Responder) -> Result<String, Lost> {
        let raced = tokio::select! {
            raced = hedge::race(self.tries, self.head, self.target, hedge) => raced,
            () = responder.gone() => Err(NoResponse::last(client_gone())),
        };

        let answered = match raced {
            Ok(answered) => answered,
            Err(error) => return Err(self.lost(responder, error)),
        };

        if let Some(pause) = self.again(&answered.head) {
            return Err(Lost {
                responder,
                refusal: client_gone(),
                again: Ok(pause),
            });
        }

        if let Some(refusal) = departure::unaccepted(self.routed, self.tries.next, &answered.head) {
            return Err(self.lost(responder, NoResponse::last(refusal)));
        }

        let Responded {
            head,
            incoming,
            interim,
            endpoint,
            // The stream must live until its response has been passed on.
            held: _held,
        } = answered;

        self.routed.exchange.answered_by(&endpoint);
        // Kept until now: only those of the attempt that won may reach the client.
        for head in interim {
            if responder.interim(&self.returning(head)).await.is_err() {
                return Err(self.lost(responder, NoResponse::last(client_gone())));
            }
        }

        let upload = std::future::ready(Ok(()));
        let silent = std::future::pending();
        let upload = Upload {
            pump: pin!(upload),
            done: true,
            is_empty: true,
            silent: pin!(silent),
            hop: Hop::Origin,
        };

        Ok(self.deliver(head, incoming, upload, responder).await)
    }

    /// Whether a response is one that is tried again, and after which pause.
    fn again(&self, head: &ResponseHead) -> Option<Duration> {
        self.tries
            .again(Some(retry::of_response(head)), self.is_replayable())
            .ok()
    }

    fn lost(&self, responder: Responder, error: NoResponse) -> Lost {
        Lost {
            responder,
            refusal: error.refusal,
            again: self.tries.again(error.outcome, self.is_replayable()),
        }
    }

    fn is_replayable(&self) -> bool {
        !self.lost.load(Ordering::Relaxed)
    }

    /// Waits for the final response while the request's content goes out; passes on interim ones.
    async fn response<F: Future<Output = Result<(), Broken>>, S: Future<Output = ()>>(
        &self,
        pending: &mut Pending,
        upload: &mut Upload<'_, F, S>,
        responder: &mut Responder,
        (active, reused): (&hermes_upstream::Active, bool),
    ) -> Result<(ResponseHead, Incoming), NoResponse> {
        let wait = self.tries.header(upload.hop);
        let mut deadline = wait.deadline();
        let mut read_ahead = ReadAhead::default();

        loop {
            // Biased: a response that has come counts, even if the client gave up in the same
            // moment.
            tokio::select! {
                biased;
                event = read_ahead.next(pending) => match event.map_err(|error| NoResponse::broken(active, &error, reused))? {
                    Event::Interim(head) => {
                        let head = self.returning(head);
                        // Boxed, as few responses have one: the room for it would be in all.
                        let passed = Box::pin(read_ahead.ahead(pending, responder.interim(&head)));
                        tokio::select! {
                            biased;
                            sent = passed => sent
                                .map_err(|error| NoResponse::broken(active, &error, reused))?
                                .map_err(|_| NoResponse::last(client_gone()))?,
                            () = upload.silent.as_mut() => return Err(NoResponse::last(client_gone())),
                        }

                        // The target is at work: the wait for its final response begins anew.
                        deadline = wait.deadline();
                    }
                    Event::Final(head, incoming) => return Ok((head, incoming)),
                    Event::Tunnel(..) => return Err(NoResponse::unexpected_tunnel()),
                },
                sent = upload.pump.as_mut(), if !upload.done => {
                    // The target can answer only what it has, so its time begins with the end of
                    // the content.
                    upload.done = true;
                    deadline = wait.deadline();
                    match sent {
                        Err(broken) if broken.side == Side::Client => return Err(NoResponse::client_broke(&broken)),
                        // The target may have answered before it stopped reading.
                        Err(_) | Ok(()) => {}
                    }
                }
                () = upload.silent.as_mut(), if !upload.done => return Err(NoResponse::silent(&self.silence(upload.hop))),
                () = responder.gone() => return Err(NoResponse::last(client_gone())),
                () = retry::over(deadline), if upload.done => {
                    return Err(NoResponse::timeout(wait.no_head(self.tries)));
                }
            }
        }
    }

    /// Sends the response to the client.
    async fn deliver<F: Future<Output = Result<(), Broken>>, S: Future<Output = ()>>(
        &self,
        head: ResponseHead,
        mut incoming: Incoming,
        mut upload: Upload<'_, F, S>,
        responder: Responder,
    ) -> String {
        let exchange = &self.routed.exchange;
        let refused = cause::of(self.routed, self.tries.next, &head);
        let interrupted = self.interrupted(&head, &incoming, &upload);

        // There is no further attempt, so what is still to come need not be kept.
        self.lost.store(true, Ordering::Relaxed);
        let mut head = self.returning(head);
        if explain::hide(self.routed, &mut head) {
            incoming = Incoming::Empty;
        }

        exchange.status(head.status.as_u16());
        let length = self.response_length(&incoming);
        let responding = self.respond((head, length), &mut incoming, &mut upload, responder);
        let mut outgoing = match responding.await {
            Ok(outgoing) => outgoing,
            Err(reason) => return reason,
        };

        let counters = exchange.counters();
        let done = {
            let direction = self.direction(Side::Target, &counters.target_to_client);
            let download = pump(&mut incoming, &mut outgoing, direction);
            tokio::pin!(download);
            loop {
                tokio::select! {
                    biased;
                    // The response is first: its end ends the exchange, whether or not the content
                    // was all taken.
                    done = &mut download => break done,
                    _ = upload.pump.as_mut(), if !upload.done => upload.done = true,
                    () = upload.silent.as_mut() => break Err(Broken::silent(Side::Target, &self.silence(upload.hop))),
                }
            }
        };

        let done = match (done, interrupted) {
            (Err(broken), Some(interrupted)) => {
                // The rest of what failed before belongs to no one.
                drop(incoming);
                Box::pin(interrupted.go_on(broken, &mut outgoing)).await
            }
            (done, _) => done,
        };

        match done {
            Ok(()) => refused.map_or_else(|| "done".to_owned(), |told| told.to_string()),
            Err(broken) => {
                outgoing.reset(reset_of_message(broken.reset));
                broken.reason()
            }
        }
    }

    /// Sends the head of the response, with this length of the content.
    async fn respond<F, S: Future<Output = ()>>(
        &self,
        (head, length): (ResponseHead, Option<u64>),
        incoming: &mut Incoming,
        upload: &mut Upload<'_, F, S>,
        responder: Responder,
    ) -> Result<Outgoing, String> {
        let respond = pin!(responder.respond(head, length));
        let responded = tokio::select! {
            biased;
            responded = meanwhile(incoming, respond) => responded,
            () = upload.silent.as_mut() => return Err(Broken::idle(Side::Client).reason()),
        };
        match responded {
            Ok(Ok(outgoing)) => Ok(outgoing),
            Ok(Err(error)) => Err(format!("client_closed: {error}")),
            Err(error) => Err(Broken::read(Side::Target, &error).reason()),
        }
    }

    /// What may go on with a response that breaks off, where the policy says so.
    fn interrupted<F, S>(
        &self,
        head: &ResponseHead,
        incoming: &Incoming,
        upload: &Upload<'_, F, S>,
    ) -> Option<Box<Interrupted<'_>>> {
        if !self.tries.asks_for_rest() || !upload.is_empty {
            return None;
        }
        let original = Original::of(self.head, head, incoming.length())?;
        Some(Box::new(Interrupted {
            tries: self.tries,
            request: self.head,
            target: self.target,
            original,
            idle: self.tries.next.timeouts.idle_of(upload.hop),
        }))
    }

    /// Bytes of content that the response announces.
    fn response_length(&self, incoming: &Incoming) -> Option<u64> {
        if self.head.method == Method::HEAD {
            return Some(0);
        }
        // A response may have no content and still trailers.
        incoming
            .length()
            .filter(|length| *length > 0 || incoming.is_end())
    }

    /// How long contents may be silent, in words.
    fn silence(&self, hop: Hop) -> String {
        let time = Some(self.tries.next.timeouts.idle_of(hop));
        Wait {
            time,
            key: TimeoutKey::Idle,
        }
        .told(self.tries)
    }

    fn direction<'a>(&'a self, from: Side, moved: &'a AtomicU64) -> Direction<'a> {
        let rules = Some(&*self.routed.snapshot);
        Direction { from, moved, rules }
    }

    /// A response head on its way back: without what concerned the connection it came on.
    fn returning(&self, head: ResponseHead) -> ResponseHead {
        returning(self.routed, head)
    }
}

/// A response of the next hop as the client gets it.
pub(crate) fn returning(routed: &Routed, mut head: ResponseHead) -> ResponseHead {
    // A connection field that cannot be read names nothing that could be kept.
    if hop::strip(&mut head.fields).is_err() {
        head.fields.remove(http::header::CONNECTION);
    }
    // RFC 9110, 8.6: these announce no content.
    if head.status.is_informational() || head.status == StatusCode::NO_CONTENT {
        head.fields.remove(http::header::CONTENT_LENGTH);
    }
    departure::keep_own_challenge(&mut head);
    routed.snapshot.via.append(&mut head.fields, head.version);
    alternative::advertise(routed, &mut head.fields);

    head
}

/// The request's content on its way out, and the silence of the whole exchange.
struct Upload<'a, F, S> {
    pump: Pin<&'a mut F>,
    done: bool,
    /// The request has no content.
    is_empty: bool,
    silent: Pin<&'a mut S>,
    /// Where it goes.
    hop: Hop,
}

/// Why no response came.
pub(crate) struct NoResponse {
    refusal: Refusal,
    /// What that means for another attempt; `None` if it would end in the same way.
    outcome: Option<Outcome>,
}

impl From<Unreached> for NoResponse {
    fn from(unreached: Unreached) -> Self {
        Self {
            refusal: unreached.refusal,
            outcome: unreached.outcome,
        }
    }
}

impl NoResponse {
    /// The exchange broke; `reused`: on a connection that had served others.
    pub(crate) fn of(error: &hermes_http::StreamError, reused: bool) -> Self {
        Self {
            refusal: Refusal::of_stream(error, ""),
            outcome: retry::of_stream(error, reused),
        }
    }

    /// As [`Self::of`], which also speaks against the endpoint.
    pub(crate) fn broken(
        active: &hermes_upstream::Active,
        error: &hermes_http::StreamError,
        reused: bool,
    ) -> Self {
        verdict::broke(active, error);
        Self::of(error, reused)
    }

    pub(crate) fn next_hop(self, endpoint: &str) -> Self {
        Self {
            refusal: self.refusal.next_hop(endpoint),
            ..self
        }
    }

    /// Why, in words.
    pub(crate) fn reason(&self) -> String {
        self.refusal.reason()
    }

    fn last(refusal: Refusal) -> Self {
        Self {
            refusal,
            outcome: None,
        }
    }

    /// No response head came in time.
    pub(crate) fn timeout(refusal: Refusal) -> Self {
        Self {
            refusal,
            outcome: Some(Outcome::Timeout),
        }
    }

    /// Neither did the client send nor the next hop take any content for too long.
    fn silent(time: &str) -> Self {
        let details = format!("the request's content stopped for {time}");
        let refusal = Refusal::new(ProxyError::ConnectionReadTimeout, details);
        Self::last(refusal.status(StatusCode::REQUEST_TIMEOUT))
    }

    pub(crate) fn unexpected_tunnel() -> Self {
        Self::last(Refusal::new(
            ProxyError::HttpProtocolError,
            "the next hop opened a tunnel that no one asked for",
        ))
    }

    fn client_broke(broken: &Broken) -> Self {
        Self::last(match broken.reset {
            _ if broken.is_slow() => Refusal::new(ProxyError::HttpRequestError, broken.reason())
                .status(StatusCode::REQUEST_TIMEOUT),
            // The next hop takes no content.
            _ if broken.is_of_memory() => {
                Refusal::new(ProxyError::ConnectionWriteTimeout, broken.details())
            }
            Reset::Protocol | Reset::Internal => {
                Refusal::new(ProxyError::HttpRequestError, broken.details())
            }
            _ => Refusal::client_gone(broken.details()),
        })
    }
}

fn client_gone() -> Refusal {
    Refusal::client_gone("before the answer")
}

/// How a message that broke is told: CONNECT_ERROR speaks of tunnels only (RFC 9113, section 7).
fn reset_of_message(reset: Reset) -> Reset {
    match reset {
        Reset::Connect | Reset::Lost | Reset::Silent(_) => Reset::Internal,
        other => other,
    }
}
