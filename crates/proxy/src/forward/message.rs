//! A request and its response.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;

use hermes_http::{Event, Incoming, Outgoing, Pending, RequestHead, Reset, Responder, ResponseHead};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{hop, via};
use hermes_upstream::Timeouts;
use http::{Method, StatusCode};
use tokio::time::Instant;

use super::departure::{self, Next, depart};
use super::pump::{Direction, pump, silence};
use super::reach::{self, Reached};
use super::{Broken, Failed, Side, Unanswered};
use crate::arrival::Arrival;
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::target::Target;

/// Forwards a message and its response, whose contents stream in both directions at once.
pub(crate) async fn forward(routed: &Routed, arrival: Arrival, next: &Next) -> Result<String, Failed> {
    let (head, target) = match depart(routed, arrival.head(), next) {
        Ok(departing) => departing,
        Err(refusal) => return Err(Failed { unanswered: Unanswered::Arrival(arrival), refusal }),
    };
    let Arrival::Offered(offered) = arrival else {
        let refusal = Refusal::new(ProxyError::ProxyInternalError, "a datagram is no message");
        return Err(Failed { unanswered: Unanswered::Arrival(arrival), refusal });
    };
    let (_, mut content, mut responder) = offered.message();
    let timeouts = reach::timeouts(routed, next);
    let request = Request { routed, next, head: &head, target: &target, timeouts: &timeouts };
    let mut retries = RETRIES;
    loop {
        match request.attempt(&mut content, responder).await {
            Ok(reason) => return Ok(reason),
            Err(attempt) if attempt.again && retries > 0 => {
                retries -= 1;
                responder = attempt.responder;
            }
            Err(Attempt { responder, refusal, .. }) => {
                return Err(Failed { unanswered: Unanswered::Responder(responder), refusal });
            }
        }
    }
}

/// Further tries of what certainly had no effect: a kept connection may die, or a link be closed, just as it is used.
const RETRIES: usize = 3;

struct Request<'a> {
    routed: &'a Routed,
    next: &'a Next,
    head: &'a RequestHead,
    target: &'a Target,
    timeouts: &'a Timeouts,
}

/// An attempt that got no response.
struct Attempt {
    responder: Responder,
    refusal: Refusal,
    again: bool,
}

impl Request<'_> {
    async fn attempt(&self, content: &mut Incoming, mut responder: Responder) -> Result<String, Attempt> {
        let Self { routed, next, head, target, timeouts } = *self;
        // Content is not kept: once some of it was taken, there is no second try.
        let replayable = content.is_end();
        let reached = reach::open(routed, next, head, target, content.length(), timeouts).await;
        let Reached { mut outgoing, mut pending, active: _active, endpoint, reused } = match reached {
            Ok(reached) => reached,
            Err(unreached) => {
                return Err(Attempt { responder, refusal: unreached.refusal, again: unreached.stale });
            }
        };
        let counters = routed.exchange.counters();
        let upload = pump(content, &mut outgoing, self.direction(Side::Client, &counters.client_to_target));
        let silent = silence(counters, timeouts.idle);
        let mut upload = Upload { pump: std::pin::pin!(upload), done: false, silent: std::pin::pin!(silent) };
        match self.response(&mut pending, &mut upload, &mut responder).await {
            Ok((head, incoming)) => Ok(self.deliver(head, incoming, upload, responder).await),
            Err(error) => {
                let idempotent = head.method.is_idempotent();
                // RFC 9110, 9.2.2.
                let again = replayable && (error.stale && reused && idempotent || error.unprocessed);
                Err(Attempt { responder, refusal: error.refusal.next_hop(&endpoint), again })
            }
        }
    }

    /// Waits for the final response while the request's content goes out; passes on interim ones.
    async fn response<F: Future<Output = Result<(), Broken>>, S: Future<Output = ()>>(
        &self,
        pending: &mut Pending,
        upload: &mut Upload<'_, F, S>,
        responder: &mut Responder,
    ) -> Result<(ResponseHead, Incoming), NoResponse> {
        let mut deadline = Instant::now() + self.timeouts.header;
        loop {
            tokio::select! {
                biased;
                event = pending.event(None) => match event.map_err(|error| NoResponse::of(&error))? {
                    Event::Interim(head) => {
                        deadline = Instant::now() + self.timeouts.header;
                        responder.interim(&self.returning(head)).await.map_err(|_| NoResponse::client_gone())?;
                    }
                    Event::Final(head, incoming) => return Ok((head, incoming)),
                    Event::Tunnel(..) => return Err(NoResponse::unexpected_tunnel()),
                },
                sent = upload.pump.as_mut(), if !upload.done => {
                    upload.done = true;
                    deadline = Instant::now() + self.timeouts.header;
                    match sent {
                        Err(broken) if broken.side == Side::Client => return Err(NoResponse::client_broke(&broken)),
                        // The target may have answered before it stopped reading.
                        Err(_) | Ok(()) => {}
                    }
                }
                () = upload.silent.as_mut(), if !upload.done => return Err(NoResponse::silent()),
                () = responder.gone() => return Err(NoResponse::client_gone()),
                () = tokio::time::sleep_until(deadline), if upload.done => return Err(NoResponse::timeout()),
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
        let head = self.returning(head);
        exchange.status(head.status.as_u16());
        // A response may have no content and still trailers.
        let length = incoming.length().filter(|length| *length > 0 || incoming.is_end());
        let length = if self.head.method == Method::HEAD { Some(0) } else { length };
        let mut outgoing: Outgoing = match responder.respond(head, length).await {
            Ok(outgoing) => outgoing,
            Err(error) => return format!("client_closed: {error}"),
        };
        let counters = exchange.counters();
        let done = {
            let direction = self.direction(Side::Target, &counters.target_to_client);
            let download = pump(&mut incoming, &mut outgoing, direction);
            tokio::pin!(download);
            loop {
                tokio::select! {
                    biased;
                    done = &mut download => break done,
                    _ = upload.pump.as_mut(), if !upload.done => upload.done = true,
                    () = upload.silent.as_mut() => break Err(Broken::idle(Side::Target)),
                }
            }
        };
        match done {
            Ok(()) => "done".to_owned(),
            Err(broken) => {
                // RFC 9113, 7: CONNECT_ERROR speaks of tunnels only.
                let reset = if broken.reset == Reset::Connect { Reset::Internal } else { broken.reset };
                outgoing.reset(reset);
                broken.reason()
            }
        }
    }

    fn direction<'a>(&'a self, from: Side, moved: &'a AtomicU64) -> Direction<'a> {
        let overlay = Some(&self.routed.snapshot.overlay);
        Direction { from, moved, overlay }
    }

    /// A response head on its way back: without what concerned the connection it came on.
    fn returning(&self, mut head: ResponseHead) -> ResponseHead {
        // A connection field that cannot be read names nothing that could be kept.
        if hop::strip(&mut head.fields).is_err() {
            head.fields.remove(http::header::CONNECTION);
        }
        departure::keep_own_challenge(&mut head);
        via::append(&mut head.fields, head.version, &self.routed.snapshot.node);
        head
    }
}

/// The request's content on its way out, and the silence of the whole exchange.
struct Upload<'a, F, S> {
    pump: Pin<&'a mut F>,
    done: bool,
    silent: Pin<&'a mut S>,
}

/// Why no response came.
struct NoResponse {
    refusal: Refusal,
    /// The connection ended without a byte of a response.
    stale: bool,
    unprocessed: bool,
}

impl NoResponse {
    fn of(error: &hermes_http::StreamError) -> Self {
        let stale = matches!(error.cause, hermes_http::Cause::Incomplete | hermes_http::Cause::Reset(_));
        let unprocessed = error.processed == hermes_http::Processed::No;
        Self { refusal: Refusal::of_stream(error, ""), stale, unprocessed }
    }

    fn last(refusal: Refusal) -> Self {
        Self { refusal, stale: false, unprocessed: false }
    }

    fn timeout() -> Self {
        Self::last(Refusal::new(ProxyError::HttpResponseTimeout, "no response head came in time"))
    }

    /// Neither did the client send nor the next hop take any content for too long.
    fn silent() -> Self {
        let refusal = Refusal::new(ProxyError::ConnectionReadTimeout, "the request's content stopped for too long");
        Self::last(refusal.status(StatusCode::REQUEST_TIMEOUT))
    }

    fn unexpected_tunnel() -> Self {
        Self::last(Refusal::new(ProxyError::HttpProtocolError, "the next hop opened a tunnel that nobody asked for"))
    }

    fn client_gone() -> Self {
        Self::last(Refusal::new(ProxyError::HttpRequestError, "the client is gone"))
    }

    fn client_broke(broken: &Broken) -> Self {
        Self::last(Refusal::new(ProxyError::HttpRequestError, broken.reason()).status(StatusCode::BAD_REQUEST))
    }
}
