//! The server side of an HTTP/3 connection: all exchanges at once.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_net::Watch;
use hermes_net::memory::ExchangeCharge;
use hermes_net::quic::{Connection, RecvStream, SendStream};
use hermes_proto::h3::{BadRequest, Code, Fault, Role, Section, Settings, decode_request, frame};
use hermes_proto::path::BadPath;
use hermes_proto::varint;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::options::{Handler, Options};
use crate::exchanges::{Active, Exchanges};
use crate::h2::{Bucket, Profile, Verdict};
use crate::h3::drive::drive;
use crate::h3::priority::Order;
use crate::h3::reader::{Failure, Part, Reader};
use crate::h3::sender::Sender;
use crate::h3::shared::Shared;
use crate::h3::stream_state::StreamState;
use crate::h3::tables::{HEADER_TABLE, SectionBounds};
use crate::h3::{RequestStreamReceiver, convert};
use crate::pace::Pace;
use crate::responders::RequestStreamResponder;
use crate::{Incoming, Offered, RequestHead, Responder};

/// Frames that wait for the control stream: the two GOAWAYs of a connection.
#[doc(alias = "bound")]
const LATER: usize = 2;

/// How long a client has to learn that the connection is to end before its requests are refused:
/// two round trips (RFC 9114, 5.2), within these bounds.
#[doc(alias = "bound")]
const NOTICE: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_millis(500);

/// How long the end of a request without announced content is waited for: it is most often in the
/// same packet as the head, or in the next one. Without it the request would have content of
/// unknown length.
#[doc(alias = "bound")]
const END_TIME: Duration = Duration::from_millis(5);

/// How long the peer's settings are waited for before an extended CONNECT is offered: they say
/// whether datagrams may be sent.
#[doc(alias = "bound")]
const SETTINGS_TIME: Duration = Duration::from_secs(1);

/// Offers the exchanges of a connection until it ends, is drained, or is forced to stop.
pub async fn serve<H: Handler>(
    connection: Connection,
    options: &Options,
    handler: H,
    watch: &Watch,
) {
    let bounds = SectionBounds::of(&options.head);

    connection.set_max_bi_streams(u64::from(options.streams));
    let profile = if options.link {
        Profile::link
    } else {
        Profile::public
    };

    let profile = profile(options.streams);
    let order = Order {
        streams: u64::from(options.streams),
        in_turn: !options.link,
    };

    let table = if options.link { HEADER_TABLE } else { 0 };
    let shared = Shared::new(connection, Role::Server, bounds, order, table);
    let settings = Settings {
        max_field_section: Some(bounds.heads.bytes as u64),
        connect_protocol: true,
        datagrams: true,
        datagram_groups: true,
        qpack_capacity: shared.tables.announced(),
        ..Settings::default()
    };

    let (later, next) = mpsc::channel(LATER);
    let server = Server {
        context: Arc::new(Context {
            options: options.clone(),
            handler,
            resets: Mutex::new(Bucket::new(profile.resets, Instant::now().into_std())),
        }),
        shared: shared.clone(),
        active: Arc::default(),
        later,
        watch,
    };

    // Until the connection is closed: no one is to find that our control stream ends before (RFC 9114, 6.2.1).
    let mut driven = pin!(drive(shared.clone(), settings, profile.control, next));
    tokio::select! {
        () = driven.as_mut() => {}
        () = server.run() => {}
        () = watch.forced() => {}
        () = shared.evicted() => {}
    }

    shared.connection.close(Code::NoError.number(), b"");
    shared.end();
}

/// The common context of a connection's exchanges.
struct Context<H> {
    options: Options,
    handler: H,
    /// Requests that their client broke off (CVE-2023-44487).
    resets: Mutex<Bucket>,
}

struct Server<'a, H> {
    context: Arc<Context<H>>,
    shared: Arc<Shared>,
    active: Arc<Exchanges>,
    /// Content of the control stream.
    later: mpsc::Sender<Bytes>,
    watch: &'a Watch,
}

impl<H: Handler> Server<'_, H> {
    /// Accepts requests until it is time to end, then says so (RFC 9114, 5.2).
    async fn run(&self) {
        let mut next = 0;
        loop {
            tokio::select! {
                accepted = self.shared.connection.accept_bi() => match accepted {
                    Ok((send, recv)) => next = self.accept(send, recv),
                    Err(_) => return,
                },
                () = self.watch.graceful() => break,
                // QUIC's own idle timer counts packets, and a client's probes are some: here requests count.
                () = self.active.none_for(self.context.options.idle_time) => break,
            }
        }

        // First that requests are to stop, then, when that is known, which are left out.
        self.goaway(varint::MAX - 3);
        let notice = (self.shared.connection.rtt() * 2).clamp(*NOTICE.start(), *NOTICE.end());
        let left_out = sleep_until(Instant::now() + notice);
        tokio::pin!(left_out);

        loop {
            tokio::select! {
                accepted = self.shared.connection.accept_bi() => match accepted {
                    Ok((send, recv)) => next = self.accept(send, recv),
                    Err(_) => return,
                },
                () = &mut left_out => break,
            }
        }

        // RFC 9114, 5.2: the identifier of the first request that is not processed, so that the client can send those again at once.
        self.goaway(next);
        self.leave().await;
    }

    /// Refuses new exchanges, and waits for the open ones and for their last bytes.
    async fn leave(&self) {
        let done = async {
            self.active.none_for(Duration::ZERO).await;
            self.shared.delivered().await;
        };

        tokio::pin!(done);
        loop {
            tokio::select! {
                accepted = self.shared.connection.accept_bi() => match accepted {
                    Ok((mut send, mut recv)) => {
                        // A PRIORITY_UPDATE for it may be on its way, and must not look like one for a stream that is not allowed yet.
                        self.shared.priorities.refuse(send.id());
                        send.reset(Code::RequestRejected.number());
                        recv.stop(Code::RequestRejected.number());
                    }
                    Err(_) => return,
                },
                () = &mut done => return,
            }
        }
    }

    fn goaway(&self, stream: u64) {
        let mut bytes = BytesMut::new();
        frame::encode_goaway(stream, &mut bytes);
        // Fails only when the connection has ended.
        let _ = self.later.try_send(bytes.freeze());
    }

    /// Begins an exchange; the stream that comes after it.
    fn accept(&self, send: SendStream, recv: RecvStream) -> u64 {
        let next = send.id() + 4;
        let context = self.context.clone();
        // Before the task runs: the connection must not look idle in between.
        let active = Active::enter(&self.active);
        let state = StreamState::new(&self.shared, send.id(), None);
        self.shared.priorities.accept(&state);
        self.watch.spawn(async move {
            let _active = active;
            context.exchange(state, send, recv).await;
        });

        next
    }
}

impl<H: Handler> Context<H> {
    async fn exchange(&self, state: Arc<StreamState>, send: SendStream, recv: RecvStream) {
        let shared = state.shared();
        let mut reader = Reader::new(recv, state.clone());
        let head = match timeout(self.options.head_time, head_of(&mut reader)).await {
            Ok(Ok(head)) => head,
            Ok(Err(bad)) => {
                self.refuse(bad, reader, Sender::new(send, state.clone()))
                    .await;
                state.part().await;
                return self.count(&state);
            }
            // A client that opens streams and sends no heads would keep a task for each of them.
            Err(_) => return state.abandon(Code::RequestIncomplete),
        };

        // The request may be tried again (RFC 9114, 4.1.1).
        let Ok(charge) = shared.tables.charges.arrive(head.footprint()) else {
            return state.abandon(Code::RequestRejected);
        };

        shared
            .priorities
            .request(&state, crate::priority::signal(&head.fields));
        if head.kind().carries_packets() {
            // As early as the kind is known: datagrams overtake the stream that announces them.
            state.open_datagrams();
            let _ = timeout(SETTINGS_TIME, shared.settled()).await;
        }

        let sender = Sender::new(send, state.clone());
        self.offer(head, charge, reader, sender).await;
        state.part().await;
        self.count(&state);
    }

    async fn offer(
        &self,
        mut head: RequestHead,
        charge: ExchangeCharge,
        reader: Reader,
        sender: Sender,
    ) {
        let source = sender.state.shared().connection.info().clone();
        let early = reader.is_early();
        if early {
            head.fields.insert(
                HeaderName::from_static("early-data"),
                HeaderValue::from_static("1"),
            );
        }

        let (pace, answered) =
            Pace::of_content(self.options.min_rate, head.fields.contains_key(EXPECT));
        let length = head
            .fields
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        let mut incoming = RequestStreamReceiver::new(reader, length);

        // A tunnel may be as quiet as its ends like.
        if head.method != Method::CONNECT {
            incoming.pace(pace);
        }
        let responder = RequestStreamResponder::new(sender, &head, self.options.min_rate, answered);
        let incoming = Incoming::H3(Box::new(incoming));
        let harmless = head.method.is_safe();
        let mut offered = Offered::new(head, source, incoming, Responder::H3(responder));
        offered.charge(charge);

        // RFC 8470, 3: early data may be replayed, and only a safe request may happen twice.
        if early && !harmless {
            return self.handler.too_early(offered).await;
        }
        self.handler.handle(offered).await;
    }

    /// Refuses a request for its head: one that is too large is answered, a malformed one is a
    /// stream error.
    async fn refuse(&self, bad: HeadFailure, reader: Reader, sender: Sender) {
        match bad {
            HeadFailure::Request(BadRequest::Fault(Fault {
                code: Code::ExcessiveLoad,
                reason,
                ..
            })) => {
                drop(reader);
                self.answer(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, reason, sender)
                    .await;
            }
            HeadFailure::Request(BadRequest::Fault(fault)) => sender.state.fail(fault),
            HeadFailure::Request(BadRequest::Path(path)) => {
                drop(reader);
                let too_long = path == BadPath::TooLong;
                let status = if too_long {
                    StatusCode::URI_TOO_LONG
                } else {
                    StatusCode::BAD_REQUEST
                };

                self.answer(status, &path.to_string(), sender).await;
            }
            HeadFailure::Broken => {}
        }
    }

    async fn answer(&self, status: StatusCode, reason: &str, mut sender: Sender) {
        let head = self.handler.malformed(
            status,
            reason,
            &sender.state.shared().connection.info().clone(),
        );
        let Ok(section) = convert::from_response(&head, &sender.state) else {
            return;
        };

        // Fails only when the client is gone.
        if sender.section(&section).await.is_ok() {
            let _ = sender.finish().await;
        }
    }

    /// Counts a request that its client broke off, or made us break off (CVE-2025-8671).
    fn count(&self, state: &StreamState) {
        if state.was_cancelled()
            && self.resets.lock().take(Instant::now().into_std()) != Verdict::Fine
        {
            let peer = &state.shared().connection.info().peer;
            tracing::warn!(%peer, "connection ended: too many requests were broken off");
            state.shared().fail(Fault::connection(
                Code::ExcessiveLoad,
                "too many requests were broken off",
            ));
        }
    }
}

/// Why there is no head that could be used.
enum HeadFailure {
    /// The request cannot be taken.
    Request(BadRequest),
    /// The stream or the connection broke.
    Broken,
}

impl From<BadRequest> for HeadFailure {
    fn from(bad: BadRequest) -> Self {
        Self::Request(bad)
    }
}

impl From<Fault> for HeadFailure {
    fn from(fault: Fault) -> Self {
        Self::Request(fault.into())
    }
}

impl From<Failure> for HeadFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fault(fault) => fault.into(),
            Failure::Broken(_) => Self::Broken,
        }
    }
}

/// Reads a request's head, and whether it is all of the request.
async fn head_of(reader: &mut Reader) -> Result<RequestHead, HeadFailure> {
    let section = match poll_fn(|cx| reader.poll_part(cx)).await? {
        Part::Section(Section::Head, section) => section,
        _ => return Err(Fault::stream(Code::RequestIncomplete, "no head came").into()),
    };

    let state = &reader.state;
    let head = (state.shared().tables).read(state.id(), &section, decode_request)?;
    let length = hermes_proto::h3::content_length(&head.fields)?;
    if head.method == Method::CONNECT {
        reader.sequence.begin_tunnel();
        return Ok(head);
    }

    reader.sequence.begin_content(length);
    // A failure is told to the next read.
    let ended = poll_fn(|cx| reader.poll_peek(cx).map(|_| ()));
    match length {
        Some(0) | None if head.method.is_safe() => drop(timeout(END_TIME, ended).await),
        // Polled once: content that is there already is seen, and none is waited for.
        _ => drop(poll_fn(|cx| Poll::Ready(reader.poll_peek(cx).is_ready())).await),
    }

    Ok(head)
}
