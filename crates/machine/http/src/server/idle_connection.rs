//! A connection with a silent client.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hermes_net::{Stream, StreamInfo, Watch};
use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::WaitForCancellationFuture;

use super::options::{Handler, LAST_REQUEST, Options, SILENCE};
use super::version::exchanges;

/// A connection of a client while nothing is open on it.
///
/// Most connections wait most of their time: this one is the stream alone, without a buffer, timer
/// or state of HTTP. It alternates between [`Self::spoken`] and [`Self::serve`].
#[derive(Debug)]
pub struct IdleConnection {
    stream: Stream,
    /// Whether HTTP/1.1 was spoken on it: the version does not change any more.
    begun: bool,
}

impl IdleConnection {
    /// A connection on which nothing was said yet.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            begun: false,
        }
    }

    /// The properties known since it was accepted.
    #[must_use]
    pub fn source(&self) -> &Arc<StreamInfo> {
        self.stream.info()
    }

    /// The stream, to do something else with it before HTTP is spoken.
    #[must_use]
    pub fn into_stream(self) -> Stream {
        self.stream
    }

    /// Waits until the client has said something, or left; false if it has not within `time`, or if the connection is to end. Over
    /// TLS it is true at once.
    pub async fn spoken(&mut self, time: Duration, watch: &Watch) -> bool {
        match Silence::of(self, time, watch).await {
            Broken::Spoken => true,
            Broken::Elapsed => false,
            Broken::Draining => Box::pin(self.spoken_at_last(watch)).await,
        }
    }

    /// A connection that is to end: a request may be on its way, and would be lost.
    async fn spoken_at_last(&mut self, watch: &Watch) -> bool {
        tokio::select! {
            biased;
            () = poll_fn(|cx| self.stream.poll_said(cx)) => true,
            () = sleep(LAST_REQUEST) => false,
            () = watch.forced() => false,
        }
    }

    /// How long the client may still be silent.
    #[must_use]
    pub fn time(&self, options: &Options) -> Duration {
        if self.begun {
            options.idle_time.saturating_sub(SILENCE)
        } else {
            options.idle_time
        }
    }

    /// Serves the client's exchanges until the connection ends, is drained or is forced to stop:
    /// `None`; or until the client has been silent for a while.
    pub async fn serve<H: Handler>(
        self,
        options: &Options,
        handler: H,
        watch: &Watch,
    ) -> Option<Self> {
        let stream = exchanges(self.stream, self.begun, options, handler, watch).await?;
        Some(Self {
            stream,
            begun: true,
        })
    }
}
pin_project! {
    /// Resolves when a connection has not to wait any more. By hand, as every byte of it is held for every connection that does.
    struct Silence<'a> {
        connection: &'a mut IdleConnection,
        #[pin]
        timer: Sleep,
        #[pin]
        ending: WaitForCancellationFuture<'a>,
    }
}

/// The event that broke a silence.
enum Broken {
    Spoken,
    Elapsed,
    Draining,
}

impl<'a> Silence<'a> {
    fn of(connection: &'a mut IdleConnection, time: Duration, watch: &'a Watch) -> Self {
        Self {
            connection,
            timer: sleep(time),
            ending: watch.graceful(),
        }
    }
}

impl Future for Silence<'_> {
    type Output = Broken;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Broken> {
        let this = self.project();
        // Input before the timer: a request that came in the last moment is served.
        if this.connection.stream.poll_said(cx).is_ready() {
            return Poll::Ready(Broken::Spoken);
        }
        if this.timer.poll(cx).is_ready() {
            return Poll::Ready(Broken::Elapsed);
        }
        this.ending.poll(cx).map(|()| Broken::Draining)
    }
}
