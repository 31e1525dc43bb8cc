//! The parts of a tunnel of bytes between its client, the detours of its route and its target.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use hermes_http::{Cause, Frame, Incoming, Outgoing, StreamError};
use hermes_packet::{Broken, Side};

use crate::pump::{Direction, Source, pump};
use crate::stage::Stage;
use crate::transformed::TransformedSource;

/// One end of a segment.
pub(crate) struct SegmentEnd<'a> {
    pub(crate) incoming: &'a mut Incoming,
    pub(crate) outgoing: &'a mut Outgoing,
}

/// The ends of the directions of a tunnel's segments: no function ends a direction that its sender has not ended, or it has died.
#[derive(Default)]
pub(crate) struct SegmentFlags {
    to_target: AtomicBool,
    to_client: AtomicBool,
}

/// The function at one end of a segment, if there is one.
#[derive(Clone, Copy)]
pub(crate) struct FunctionEnd<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// The segment behind it.
    pub(crate) beyond: &'a SegmentFlags,
    /// Counts the bytes that it takes here.
    pub(crate) taken: &'a AtomicU64,
    /// Counts the bytes that it gives here.
    pub(crate) given: &'a AtomicU64,
}

/// A part of a tunnel.
pub(crate) struct Segment<'a> {
    pub(crate) client: SegmentEnd<'a>,
    pub(crate) target: SegmentEnd<'a>,
    /// From the client, in the order in which they change its bytes.
    pub(crate) to_target: Vec<Stage<'a>>,
    /// Of the other direction, in the order of the route: the last is the first to change.
    pub(crate) to_client: Vec<Stage<'a>>,
    /// The function in place of the client.
    pub(crate) client_function: Option<FunctionEnd<'a>>,
    /// The function in place of the target.
    pub(crate) target_function: Option<FunctionEnd<'a>>,
    pub(crate) flags: &'a SegmentFlags,
    /// Counts bytes to the target, where that is the tunnel's own.
    pub(crate) moved_to_target: &'a AtomicU64,
    /// Counts bytes to the client, where that is the tunnel's own.
    pub(crate) moved_to_client: &'a AtomicU64,
}

/// A segment that is carried.
pub(crate) type CarriedSegment<'a> = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send + 'a>>;

impl<'a> Segment<'a> {
    /// Carries both directions to their ends.
    pub(crate) fn carry(self) -> CarriedSegment<'a> {
        let flags = self.flags;
        let to_target = WatchedSource {
            inner: self.client.incoming,
            function: self.client_function,
            may_end: self
                .client_function
                .map(|function| &function.beyond.to_target),
            answered: Some(&flags.to_client),
            ended: &flags.to_target,
        };
        let to_client = WatchedSource {
            inner: self.target.incoming,
            function: self.target_function,
            may_end: self
                .target_function
                .map(|function| &function.beyond.to_client),
            answered: None,
            ended: &flags.to_client,
        };
        let upwards = Direction {
            from: Side::Client,
            moved: self
                .target_function
                .map_or(self.moved_to_target, |one| one.taken),
            rules: None,
        };
        let downwards = Direction {
            from: Side::Target,
            moved: self
                .client_function
                .map_or(self.moved_to_client, |one| one.taken),
            rules: None,
        };
        let mut to_target = through(Box::new(to_target), self.to_target.into_iter());
        let mut to_client = through(Box::new(to_client), self.to_client.into_iter().rev());
        let client = self.client.outgoing;
        let target = self.target.outgoing;

        Box::pin(async move {
            let both = tokio::try_join!(
                pump(&mut to_target, target, upwards),
                pump(&mut to_client, client, downwards),
            );
            both.map(|_| ())
        })
    }
}

/// The source of a direction, through any number of stages.
type DynSource<'a> = Box<dyn Source + Send + 'a>;

fn through<'a>(
    mut source: DynSource<'a>,
    stages: impl Iterator<Item = Stage<'a>>,
) -> DynSource<'a> {
    for stage in stages {
        source = Box::new(TransformedSource::new(source, stage));
    }
    source
}

/// Carries all segments; the first that breaks ends them.
pub(crate) async fn all(mut segments: Vec<CarriedSegment<'_>>) -> Result<(), Broken> {
    std::future::poll_fn(|cx| {
        let mut at = 0;
        while let Some(segment) = segments.get_mut(at) {
            match segment.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => drop(segments.swap_remove(at)),
                Poll::Ready(Err(broken)) => return Poll::Ready(Err(broken)),
                Poll::Pending => at += 1,
            }
        }
        match segments.is_empty() {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    })
    .await
}

/// The bytes that enter a segment.
struct WatchedSource<'a> {
    inner: &'a mut Incoming,
    /// The function that they come from.
    function: Option<FunctionEnd<'a>>,
    /// Whether the sender of that function has ended.
    may_end: Option<&'a AtomicBool>,
    /// Whether the target has ended, where these are for it: a function without half-close ends both ways then, and the answer is whole.
    answered: Option<&'a AtomicBool>,
    /// Takes the end of these.
    ended: &'a AtomicBool,
}

impl WatchedSource<'_> {
    fn broke(&self, reason: &str) -> StreamError {
        let name = self.function.map_or("", |function| function.name);
        StreamError::new(Cause::Protocol(format!("the function {name} {reason}")))
    }
}

impl Source for WatchedSource<'_> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        let frame = ready!(self.inner.poll_frame(cx));
        // The end of a process that was killed looks like that of one that has done its work.
        let is_too_soon = || {
            let may_end = self.may_end;
            may_end.is_some_and(|may_end| !may_end.load(Ordering::Relaxed))
        };
        let is_answered = self
            .answered
            .is_some_and(|answered| answered.load(Ordering::Relaxed));
        if self.function.is_some() && is_answered && !matches!(frame, Some(Ok(Frame::Data(_)))) {
            self.ended.store(true, Ordering::Relaxed);
            return Poll::Ready(None);
        }
        Poll::Ready(match frame {
            None | Some(Ok(Frame::Trailers(_))) if is_too_soon() => {
                Some(Err(self.broke("ended before its sender did")))
            }
            Some(Err(error)) if self.function.is_some() => {
                Some(Err(self.broke(&format!("broke: {error}"))))
            }
            Some(Ok(Frame::Data(data))) => {
                if let Some(function) = self.function {
                    let length = data.len() as u64;
                    function.given.fetch_add(length, Ordering::Relaxed);
                }
                Some(Ok(Frame::Data(data)))
            }
            end @ (None | Some(Ok(Frame::Trailers(_)))) => {
                self.ended.store(true, Ordering::Relaxed);
                end
            }
            error @ Some(Err(_)) => error,
        })
    }

    fn is_end(&self) -> bool {
        // The end itself has to be seen, so that what lies behind knows of it.
        false
    }

    fn limit(&mut self, most: usize) {
        self.inner.limit(most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.inner.poll_unasked(cx)
    }
}
