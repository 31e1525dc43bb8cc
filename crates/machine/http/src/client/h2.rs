//! The client side of an HTTP/2 connection: a link that many exchanges share.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hermes_net::memory::{Account, Arrivals};
use hermes_net::{Stream, StreamInfo};
use hermes_proto::h1::MessageLimits;
use hermes_proto::h2::{ConnectionOptions, FieldSectionLimits, OpenError, Role};
use http::Method;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::error::{Cause, StreamError};
use crate::h2::alert::{Alert, AlertedStream};
use crate::h2::dispatch::News;
use crate::h2::drive::ConnectionDriver;
use crate::h2::handle::StreamHandle;
pub use crate::h2::keepalive::Keepalive;
use crate::h2::keepalive::silence;
use crate::h2::profile::{Profile, remembered_streams};
use crate::h2::shared::Joint;
use crate::h2::windows::{self, Windows};
use crate::h2::{
    FRAME_SIZE, HEADER_TABLE, SEND_BUFFER, STREAM_WINDOW, StreamReceiver, StreamSender, convert,
};
use crate::pending::{Awaited, Event};
use crate::{Incoming, Kind, Outgoing, RequestHead, link_ends};

/// A connection to a proxy or an origin. Clones share it; it closes when the last clone and the last stream are gone.
#[derive(Debug, Clone)]
pub struct TcpLink {
    opener: Arc<Opener>,
    state: Arc<State>,
}

/// Opens streams.
#[derive(Debug)]
struct Opener(Arc<Joint>);

impl Drop for Opener {
    fn drop(&mut self) {
        let mut core = self.0.core();
        // The driver may wait for input on a link without streams: it has to see that no more will follow.
        core.is_left = true;
        core.rouse();
    }
}

#[derive(Debug)]
struct State {
    alive: AtomicBool,
    /// A budget of its whole life is nearly used up.
    retired: AtomicBool,
    /// Becomes true when the peer's SETTINGS have arrived.
    settled: watch::Receiver<bool>,
    alert: Alert,
    source: Arc<StreamInfo>,
    arrivals: Arc<Arrivals>,
}

impl State {
    /// An error of a stream, or the alert that was its cause.
    fn explain(&self, error: StreamError) -> StreamError {
        let error = match self.alert.said() {
            Some((id, text)) => error.by_alert(id, text),
            None => error,
        };
        crate::h2::explain(self.arrivals.account(), error)
    }
}

/// Streams for which the budgets of a link that we open are meant: those of a usual listener.
const STREAMS: u32 = 1000;

fn machine_options(answers: &MessageLimits) -> ConnectionOptions {
    ConnectionOptions {
        role: Role::Client,
        stream_window: STREAM_WINDOW,
        connection_window: windows::of_link(),
        frame_size: FRAME_SIZE,
        section: FieldSectionLimits {
            bytes: answers.head_bytes,
            lines: answers.fields,
        },
        trailers: answers.trailer_bytes,
        table: HEADER_TABLE,
        streams: 0,
        queue: SEND_BUFFER,
        remembered: remembered_streams(STREAMS),
        budgets: Profile::link(STREAMS).budgets(),
    }
}

impl TcpLink {
    /// Begins HTTP/2 on a fresh stream. The connection's driver runs in `tasks`; with `keepalive` it ends the link when the
    /// peer falls silent.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn connect(
        stream: Stream,
        keepalive: Option<Keepalive>,
        tasks: &TaskTracker,
    ) -> Result<Self, StreamError> {
        let answers = MessageLimits::of_responses();
        Self::connect_within(stream, keepalive, tasks, &answers).await
    }

    /// As [`Self::connect`], for responses within these limits.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub async fn connect_within(
        mut stream: Stream,
        keepalive: Option<Keepalive>,
        tasks: &TaskTracker,
        answers: &MessageLimits,
    ) -> Result<Self, StreamError> {
        stream.batch_records();
        let source = stream.info().clone();
        let (stream, alert) = AlertedStream::new(stream);
        let arrivals = Arrivals::of(&Account::open(&source));
        let joint = Joint::new(machine_options(answers), &arrivals);
        let (settled_in, settled) = watch::channel(false);

        let state = Arc::new(State {
            alive: AtomicBool::new(true),
            retired: AtomicBool::new(false),
            settled,
            alert,
            source,
            arrivals,
        });

        let link = Self {
            opener: Arc::new(Opener(joint.clone())),
            state: state.clone(),
        };

        let driver = ConnectionDriver::new(stream, &joint).measuring();
        tasks.spawn(async move {
            drive(driver, &joint, &state, settled_in, keepalive).await;
            state.alive.store(false, Ordering::Relaxed);
        });

        Ok(link)
    }

    /// Whether new exchanges can be opened.
    pub fn is_alive(&self) -> bool {
        self.state.alive.load(Ordering::Relaxed)
    }

    /// Whether another link should take over: a budget of its whole life is nearly used up.
    pub fn is_retired(&self) -> bool {
        self.state.retired.load(Ordering::Relaxed)
    }

    /// The other end.
    pub fn source(&self) -> &Arc<StreamInfo> {
        &self.state.source
    }

    /// Exchanges that the peer allows at once on this link.
    pub fn max_streams(&self) -> usize {
        self.opener.0.core().machine.peer().streams as usize
    }

    /// Opens an exchange; waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// The link is closing, or the peer does not offer extended CONNECT and the exchange needs it. Nothing was processed.
    pub async fn open(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(Outgoing, crate::Pending), StreamError> {
        if head.kind().is_extended() {
            self.require_extended_connect().await?;
        }
        // END_STREAM in the HEADERS frame: a GET is one frame.
        let end = head.kind() == Kind::Message && length == Some(0);
        let stream = self.begin(head, end).await?;
        let pending = StreamResponse {
            stream: stream.clone(),
            method: head.method.clone(),
            state: self.state.clone(),
        };

        let outgoing = if end {
            Outgoing::Ended
        } else {
            Outgoing::H2(StreamSender::new(stream))
        };

        Ok((outgoing, Awaited::H2(pending).into()))
    }

    /// A stream with this request.
    async fn begin(&self, head: &RequestHead, end: bool) -> Result<StreamHandle, StreamError> {
        let joint = &self.opener.0;
        let mut has_waited = false;
        loop {
            let openable = joint.openable.notified();
            tokio::pin!(openable);

            // From here on, no event is missed.
            openable.as_mut().enable();
            match self.try_begin(head, end) {
                Ok(stream) => {
                    // There may be room for the next one that waits, too.
                    if has_waited {
                        joint.openable.notify_one();
                    }
                    return Ok(stream);
                }
                Err(OpenError::Full) => {}
                Err(OpenError::Closing) => {
                    let over = joint.over();
                    return Err(self.unprocessed(over.unwrap_or(StreamError::new(Cause::Closing))));
                }
                // The fault is that of the head alone: the link goes on.
                Err(OpenError::Unsendable(why)) => {
                    return Err(StreamError::unprocessed(Cause::Invalid(why.to_string())));
                }
            }

            openable.await;
            has_waited = true;
        }
    }

    fn try_begin(&self, head: &RequestHead, end: bool) -> Result<StreamHandle, OpenError> {
        let joint = &self.opener.0;
        let mut core = joint.core();
        if core.is_over() {
            return Err(OpenError::Closing);
        }

        // Open and adopt under one lock: the driver may not meet a stream that has no inbox.
        let number = core.machine.open(&convert::request_parts(head), end)?;
        let stream = joint.adopt(&mut core, number);
        core.rouse();

        Ok(stream)
    }

    /// An error of an exchange that was not sent. The link serves no further one.
    fn unprocessed(&self, error: StreamError) -> StreamError {
        self.state.alive.store(false, Ordering::Relaxed);
        StreamError::unprocessed(self.state.explain(error).cause)
    }

    /// The TLS alert that ended the link, if one did: its number and the peer's reason.
    pub fn alert(&self) -> Option<(u8, String)> {
        self.state.alert.said()
    }

    /// Waits until the peer has spoken HTTP/2; false if the link ended before.
    pub async fn settled(&self) -> bool {
        let mut settled = self.state.settled.clone();
        settled.wait_for(|settled| *settled).await.is_ok()
    }

    fn offers_extended_connect(&self) -> bool {
        self.opener.0.core().machine.peer().connect_protocol
    }

    /// Waits until the peer has answered a PING, as one that only speaks never does; false if the link ended before. For a link with
    /// [`Keepalive`], which asks.
    pub async fn answered(&self) -> bool {
        let joint = &self.opener.0;
        loop {
            let answered = joint.answered.notified();
            if joint.pongs.load(Ordering::Relaxed) > 0 {
                return true;
            }

            if joint.core().is_over() {
                return false;
            }
            answered.await;
        }
    }

    /// RFC 8441, 3: the peer's setting must be seen before extended CONNECT is used.
    async fn require_extended_connect(&self) -> Result<(), StreamError> {
        if self.offers_extended_connect() {
            return Ok(());
        }
        let seen = self.settled().await;
        if seen && self.offers_extended_connect() {
            return Ok(());
        }

        let cause = match self.state.alert.said() {
            Some((id, text)) => Cause::Alert { id, text },
            None if seen => Cause::Unsupported("extended CONNECT"),
            None => Cause::Incomplete,
        };

        Err(StreamError::unprocessed(cause))
    }
}

/// Drives the connection to its end.
async fn drive(
    mut driver: ConnectionDriver<AlertedStream>,
    joint: &Arc<Joint>,
    state: &State,
    settled: watch::Sender<bool>,
    keepalive: Option<Keepalive>,
) {
    let account = state.arrivals.account();
    let mut windows = Windows::new(account, STREAMS);
    let mut silent = silence(joint, keepalive);

    loop {
        tokio::select! {
            news = driver.next() => match news {
                Some(News::Settled) => {
                    windows.allow(joint.core().machine.peer().streams as usize);
                    settled.send_replace(true);
                }
                Some(News::Goaway(reason)) => {
                    state.alive.store(false, Ordering::Relaxed);
                    link_ends::tell_goaway(&state.source.peer, reason);
                }
                Some(News::Retire) => state.retired.store(true, Ordering::Relaxed),
                Some(News::Grow(window)) => windows.grow(window),
                Some(News::Request(..) | News::Refuse(..)) => {}
                None => {
                    if let Some(failure) = joint.core().machine.failure() {
                        link_ends::tell_own(2, &state.source.peer, &failure);
                    }
                    return;
                }
            },
            change = windows.change() => windows.apply(joint, change),
            () = account.ended() => return,
            () = &mut silent => return,
        }
    }
}

/// The response to come.
#[derive(Debug)]
pub struct StreamResponse {
    stream: StreamHandle,
    method: Method,
    state: Arc<State>,
}

impl StreamResponse {
    pub(crate) async fn event(&mut self) -> Result<Event, StreamError> {
        let head = poll_fn(|cx| self.stream.poll_head(cx)).await;
        let (head, end) = head.map_err(|error| self.state.explain(error))?;

        if head.status.is_informational() {
            return Ok(Event::Interim(head));
        }
        let incoming = StreamReceiver::new(self.stream.clone(), &head.fields, end);
        let incoming = Incoming::H2(incoming);

        Ok(
            if self.method == Method::CONNECT && head.status.is_success() {
                Event::Tunnel(head, incoming)
            } else {
                Event::Final(head, incoming)
            },
        )
    }
}
