//! The loop that moves one direction of an exchange, and the pair of loops that is a tunnel.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::snapshot::Snapshot;
use hermes_http::{Duplex, Frame, Incoming, Outgoing, Reset, StreamError};
use hermes_net::{SpliceError, splice};
use hermes_observe::Counters;
use hermes_packet::{Broken, Side};
use pin_project_lite::pin_project;
use tokio::net::TcpStream;

/// How long the end of a stream may take to be sent to a peer that does not read.
#[doc(alias = "bound")]
pub(crate) const END_TIME: Duration = Duration::from_secs(5);

/// One direction of an exchange.
#[derive(Clone, Copy)]
pub struct Direction<'a> {
    /// The side that it comes from.
    pub from: Side,
    /// Counts its bytes.
    pub moved: &'a AtomicU64,
    /// The rules by which fields are never taken from trailers: those come after everything was decided.
    pub rules: Option<&'a Snapshot>,
}

/// The source of a direction.
pub trait Source {
    /// Polls for the next frame; `None` at the end.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>>;

    /// Whether it is certain that nothing more arrives.
    fn is_end(&self) -> bool;

    /// The other side has room for this many bytes.
    fn limit(&mut self, most: usize);

    /// To be polled while nothing is asked for; ready once the source was ended for that.
    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError>;

    /// The connection itself, where bytes come in bulk that the kernel could forward, and how many.
    fn bulk(&self) -> Option<(&TcpStream, u64)> {
        None
    }

    /// Counts received bytes, beside [`Direction::moved`].
    fn count(&self) -> Option<&AtomicU64> {
        None
    }

    /// The kernel has moved this many bytes in all.
    fn passed(&mut self, _bytes: u64) {}
}

impl Source for Incoming {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        Self::poll_frame(self, cx)
    }

    fn is_end(&self) -> bool {
        Self::is_end(self)
    }

    fn limit(&mut self, most: usize) {
        Self::limit(self, most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        Self::poll_unasked(self, cx)
    }

    fn bulk(&self) -> Option<(&TcpStream, u64)> {
        Self::bulk(self)
    }

    fn passed(&mut self, bytes: u64) {
        Self::passed(self, bytes);
    }
}

/// Moves frames from one side to the other until they end.
///
/// # Errors
/// A side broke, or was silent for too long.
pub fn pump<'a, S: Source>(
    incoming: &'a mut S,
    outgoing: &'a mut Outgoing,
    direction: Direction<'a>,
) -> impl Future<Output = Result<(), Broken>> {
    watched::<S, BrokenOff>(incoming, outgoing, direction)
}

/// The same for the content of an answer, whose reader may be gone while nothing is sent to it.
///
/// # Errors
/// A side broke, was silent for too long, or the reader is gone.
pub fn pump_answer<'a, S: Source>(
    incoming: &'a mut S,
    outgoing: &'a mut Outgoing,
    direction: Direction<'a>,
) -> impl Future<Output = Result<(), Broken>> {
    watched::<S, ReaderGone>(incoming, outgoing, direction)
}

/// The end of a direction that is seen on the side to which nothing is sent for now.
trait Watch {
    fn ended(outgoing: &mut Outgoing) -> impl Future<Output = Reset>;
}

/// Of a tunnel: a side that has ended its own bytes may read on.
struct BrokenOff;

/// Of an answer.
struct ReaderGone;

impl Watch for BrokenOff {
    fn ended(outgoing: &mut Outgoing) -> impl Future<Output = Reset> {
        outgoing.broken()
    }
}

impl Watch for ReaderGone {
    fn ended(outgoing: &mut Outgoing) -> impl Future<Output = Reset> {
        outgoing.gone()
    }
}

fn watched<'a, S: Source, W: Watch>(
    incoming: &'a mut S,
    outgoing: &'a mut Outgoing,
    direction: Direction<'a>,
) -> impl Future<Output = Result<(), Broken>> {
    let mut pump = Pump {
        incoming,
        outgoing,
        direction,
        slot: Slot::default(),
        end: false,
    };

    // Two of these are most of an idle tunnel. Nothing is kept over an `await` that the next poll does not need: arguments of an `async fn`
    // would be, twice, and so would all that is borrowed before.
    async move {
        loop {
            pump.may_read().await?;

            let mut read = pump.read().await;
            if read == Read::Nothing {
                // Gathered bytes must not wait for more.
                pump.flush().await?;
                read = pump.wait::<W>().await?;
            }
            match read {
                Read::Data => pump.write().await?,
                Read::Last => return Box::pin(pump.end()).await,
                Read::Nothing => return Ok(()),
            }

            if pump.end {
                return Ok(());
            }
            if pump.is_bulk() {
                Box::pin(bulk(pump.incoming, pump.outgoing, direction)).await?;
            }
        }
    }
}

/// One direction while it is moved.
struct Pump<'a, S> {
    incoming: &'a mut S,
    outgoing: &'a mut Outgoing,
    direction: Direction<'a>,
    slot: Slot,
    /// The bytes that were written are the last.
    end: bool,
}

/// Frame that was read. It is handed on here and not from hand to hand, each of which would keep room for it.
#[derive(Default)]
struct Slot {
    data: Bytes,
    /// Trailers or an error. Boxed, as there is one in the life of a direction, at most.
    last: Option<Box<Result<Frame, StreamError>>>,
}

/// Outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Bytes, which are in the slot.
    Data,
    /// The end, of which the slot says more.
    Last,
    /// Nothing is there; after a wait: nothing more is wanted.
    Nothing,
}

impl Slot {
    fn fill(&mut self, frame: Arrived) -> Read {
        match frame {
            Some(Ok(Frame::Data(data))) => {
                self.data = data;
                Read::Data
            }
            other => {
                self.last = other.map(Box::new);
                Read::Last
            }
        }
    }
}

impl<S: Source> Pump<'_, S> {
    /// Waits until the other side has room: frames that were read have to be kept until they are written.
    async fn may_read(&mut self) -> Result<(), Broken> {
        let room = match self.outgoing.room() {
            // Boxed, as most of the time there is room: the place for it would be in every pump.
            0 => {
                let roomy = Box::pin(self.outgoing.roomy());
                written(self.incoming, roomy, self.direction.from).await?
            }
            room => room,
        };

        self.incoming.limit(room);
        Ok(())
    }

    /// Reads the next frame, if it is there without waiting.
    fn read(&mut self) -> impl Future<Output = Read> {
        poll_fn(|cx| {
            Poll::Ready(match self.incoming.poll_frame(cx) {
                Poll::Ready(frame) => self.slot.fill(frame),
                Poll::Pending => Read::Nothing,
            })
        })
    }

    /// Waits for the next frame. The other side may also break meanwhile, or say that it has all it wants (RFC 9113, 8.1), which is its end
    /// of this direction.
    fn wait<W: Watch>(&mut self) -> impl Future<Output = Result<Read, Broken>> {
        Waiting {
            incoming: self.incoming,
            slot: &mut self.slot,
            from: self.direction.from,
            broken: W::ended(self.outgoing),
        }
    }

    /// Sends bytes that are held back.
    fn flush(&mut self) -> impl Future<Output = Result<(), Broken>> {
        written(self.incoming, self.outgoing.flush(), self.direction.from)
    }

    /// Writes the bytes that were read.
    fn write(&mut self) -> impl Future<Output = Result<(), Broken>> {
        let data = std::mem::take(&mut self.slot.data);
        let moved = self.direction.moved;
        moved.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.end = self.incoming.is_end();

        let sending = self.outgoing.data(data, self.end);
        written(self.incoming, sending, self.direction.from)
    }

    /// Whether the kernel can go on.
    fn is_bulk(&self) -> bool {
        self.incoming.bulk().is_some() && self.outgoing.plain().is_some()
    }

    /// Ends this direction in the way that its bytes ended. It happens once in its life.
    async fn end(&mut self) -> Result<(), Broken> {
        let Direction { from, rules, .. } = self.direction;
        let trailers = match self.slot.last.take().map(|last| *last) {
            Some(Err(error)) => return Err(Broken::read(from, &error)),
            Some(Ok(Frame::Trailers(mut trailers))) => {
                if let Some(rules) = rules {
                    rules.strip_trailers(&mut trailers, from);
                }
                Some(trailers)
            }
            Some(Ok(Frame::Data(_))) | None => None,
        };

        let finished = self.outgoing.finish(trailers).await;
        finished.map_err(|error| Broken::write(from.other(), &error))
    }
}

pin_project! {
    /// The wait of an idle direction, in no more room than it needs.
    struct Waiting<'a, S, F> {
        incoming: &'a mut S,
        slot: &'a mut Slot,
        from: Side,
        #[pin]
        broken: F,
    }
}

impl<S: Source, F: Future<Output = Reset>> Future for Waiting<'_, S, F> {
    type Output = Result<Read, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waiting = self.project();
        if let Poll::Ready(frame) = waiting.incoming.poll_frame(cx) {
            return Poll::Ready(Ok(waiting.slot.fill(frame)));
        }
        waiting.broken.poll(cx).map(|reset| match reset {
            Reset::Unneeded => Ok(Read::Nothing),
            reset => Err(Broken::reset(waiting.from.other(), reset)),
        })
    }
}

/// Has the kernel move the bytes as long as they come in bulk, where it can. The end is left for the next read to find.
async fn bulk<S: Source>(
    incoming: &mut S,
    outgoing: &mut Outgoing,
    direction: Direction<'_>,
) -> Result<(), Broken> {
    let Some(((read, most), (write, room))) = incoming.bulk().zip(outgoing.plain()) else {
        return Ok(());
    };
    let mut passed = 0;
    let counts = [Some(direction.moved), incoming.count()];

    let moved = |bytes: usize| {
        passed += bytes as u64;
        for count in counts.iter().flatten() {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    };

    let from = direction.from;
    let to = direction.from.other();
    let spliced = splice(read, write, most.min(room), moved).await;

    // Counted even if a side broke then: a response may go on from here by another attempt.
    incoming.passed(passed);
    outgoing.passed(passed);
    match spliced {
        Ok(_) => Ok(()),
        Err(SpliceError::Read(error)) => Err(Broken::read(from, &error.into())),
        Err(SpliceError::Write(error)) => Err(Broken::write(to, &error.into())),
        Err(SpliceError::Broken) => Err(Broken::reset(to, Reset::Connect)),
    }
}

type Arrived = Option<Result<Frame, StreamError>>;

pin_project! {
    /// The wait for bytes that came `from` a side to be sent.
    struct Writing<'a, S, W> {
        incoming: &'a mut S,
        from: Side,
        #[pin]
        write: W,
    }
}

/// Waits until `write` has sent bytes that came `from` a side, or until that side was ended because this takes too long.
fn written<S, W>(incoming: &mut S, write: W, from: Side) -> Writing<'_, S, W> {
    Writing {
        incoming,
        from,
        write,
    }
}

impl<S: Source, T, W: Future<Output = Result<T, StreamError>>> Future for Writing<'_, S, W> {
    type Output = Result<T, Broken>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let writing = self.project();
        let from = *writing.from;
        match writing.write.poll(cx) {
            Poll::Ready(written) => {
                Poll::Ready(written.map_err(|error| Broken::write(from.other(), &error)))
            }
            Poll::Pending => writing
                .incoming
                .poll_unasked(cx)
                .map(|error| Err(Broken::read(from, &error))),
        }
    }
}

/// Waits for `work`, and meanwhile packs received bytes: a tunnel fed byte by byte whose far end has stopped would else use up the room
/// that small frames may cost on the link that it shares.
///
/// # Errors
/// The source was ended, because nothing asked for its bytes.
pub(crate) fn meanwhile<S: Source, W: Future>(
    incoming: &mut S,
    mut work: Pin<&mut W>,
) -> impl Future<Output = Result<W::Output, StreamError>> {
    poll_fn(move |cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Ok(done)),
        Poll::Pending => incoming.poll_unasked(cx).map(Err),
    })
}

/// Resolves when an exchange moved nothing in either direction for `time`, looked at four times in that span.
///
/// One silent direction is no silence: a long download leaves the client nothing to say.
pub async fn silence(counters: &Counters, time: Duration) {
    let mut last = counters.moved();
    let mut silent = 0;
    while silent < 4 {
        tokio::time::sleep(time / 4).await;
        let now = counters.moved();
        silent = if now == last { silent + 1 } else { 0 };
        last = now;
    }
}

/// Carries a tunnel of bytes: two independent directions, each of which may end before the other. When one breaks, or the
/// tunnel may not go on, both are reset.
///
/// # Errors
/// A side broke, or the rules changed.
pub async fn tunnel(
    client: &mut Duplex,
    target: &mut Duplex,
    counters: &Counters,
    guard: &mut TunnelGuard,
) -> Result<(), Broken> {
    let direction = |from, moved| Direction {
        from,
        moved,
        rules: None,
    };

    // One task for both directions: a tunnel has one place in the run time, and no channel between its halves.
    let both = async {
        tokio::try_join!(
            pump(
                &mut client.incoming,
                &mut target.outgoing,
                direction(Side::Client, &counters.client_to_target)
            ),
            pump(
                &mut target.incoming,
                &mut client.outgoing,
                direction(Side::Target, &counters.target_to_client)
            ),
        )
    };

    let carried = tokio::select! {
        carried = both => carried.map(|_| ()),
        reason = guard.ended() => Err(Broken::policy(&reason)),
    };

    close(client, target, &carried).await;
    carried
}

/// Ends both sides of a tunnel in the way that its bytes ended.
pub(crate) async fn close(client: &mut Duplex, target: &mut Duplex, carried: &Result<(), Broken>) {
    if let Err(broken) = carried {
        client.outgoing.reset(broken.reset);
        target.outgoing.reset(broken.reset);
    } else if client.outgoing.is_wrapped() || target.outgoing.is_wrapped() {
        Box::pin(async { tokio::join!(part(client), part(target)) }).await;
    }
}

/// Ends a stream whose bytes have ended before, within capsules, and waits for the end of its peer: a stream that is dropped half
/// open looks broken. A peer that does not end it is not waited for.
pub(crate) async fn part(streams: &mut Duplex) {
    let parting = async {
        if streams.outgoing.part().await.is_ok() {
            streams.incoming.parted().await;
        }
    };
    // Whatever becomes of it, the bytes have arrived.
    let _ = tokio::time::timeout(END_TIME, parting).await;
}
