//! The client side of an HTTP/3 connection: a link that many exchanges share.

use std::borrow::Borrow;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_net::quic::{Connection, RecvStream, SendStream};
use hermes_proto::h1::MessageLimits;
use hermes_proto::h3::{
    Code, Fault, Role, Section, Settings, Signal, decode_response, section_size,
};
use hermes_proto::qpack::LINE_OVERHEAD;
use http::{Method, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Cause, NO_ROOM, StreamError};
use crate::h2::Profile;
use crate::h3::convert;
use crate::h3::drive::drive;
use crate::h3::hold::Hold;
use crate::h3::priority::Order;
use crate::h3::reader::{Failure, Part, Reader};
use crate::h3::sender::Sender;
use crate::h3::shared::Shared;
use crate::h3::stream_state::StreamState;
use crate::h3::tables::{HEADER_TABLE, SectionBounds, Tables};
use crate::h3::{RequestStreamReceiver, RequestStreamSender, Watched};
use crate::pending::{Awaited, Event};
use crate::{Incoming, Kind, Outgoing, RequestHead};

/// How long a connection that is no longer needed waits at most for its last bytes to be acknowledged: they may be some megabytes, on a path of
/// a few hundred kilobits a second.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(60);

/// How long the handshake of a connection with early data may take: as one that is waited for, by
/// default.
#[doc(alias = "bound")]
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A connection to a proxy or an origin. Clones share it; it closes when the last clone and the last stream are gone.
#[derive(Debug, Clone)]
pub struct QuicLink {
    shared: Arc<Shared>,
    hold: Hold,
    spare: Spare,
    /// The claimed stream of this clone, and of its clones.
    place: Option<Arc<Place>>,
}

/// An exchange that is being opened.
pub type Opening<'a> =
    Pin<Box<dyn Future<Output = Result<(Outgoing, crate::Pending), StreamError>> + Send + 'a>>;

/// The halves of a stream.
type StreamHalves = (SendStream, RecvStream);

/// A stream that was opened for an exchange that did not come: the next one takes it, so that the peer sees no stream without a
/// request.
type Spare = Arc<Mutex<Option<StreamHalves>>>;

/// A stream that was opened for an exchange to come. QUIC says whether there may be one more only when it is opened.
#[derive(Debug)]
struct Place {
    streams: Mutex<Option<StreamHalves>>,
    spare: Spare,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.get_mut().take() {
            // A second one is reset.
            let second = self.spare.lock().replace(streams);
            drop(second);
        }
    }
}

impl QuicLink {
    /// Begins HTTP/3 on a fresh connection. Its driver runs in `tasks`.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn connect(connection: Connection, tasks: &TaskTracker) -> Result<Self, StreamError> {
        Self::connect_within(connection, tasks, &MessageLimits::of_responses())
    }

    /// As [`Self::connect`], for responses within these limits.
    ///
    /// # Errors
    /// As for [`Self::connect`].
    pub fn connect_within(
        connection: Connection,
        tasks: &TaskTracker,
        answers: &MessageLimits,
    ) -> Result<Self, StreamError> {
        if let Some(error) = connection.closed_reason() {
            return Err(StreamError::unprocessed(StreamError::from(error).cause));
        }
        let order = Order {
            streams: 0,
            in_turn: false,
        };
        let shared = Shared::new(
            connection,
            Role::Client,
            SectionBounds::of(answers),
            order,
            HEADER_TABLE,
        );

        let (hold, gone) = Hold::new();
        tasks.spawn(run(shared.clone(), gone));

        Ok(Self {
            shared,
            hold,
            spare: Spare::default(),
            place: None,
        })
    }

    /// Whether new exchanges can be opened.
    pub fn is_alive(&self) -> bool {
        self.shared.is_alive()
    }

    /// Whether nothing comes back on it at the moment, as its watcher says.
    pub fn is_silent(&self) -> bool {
        self.shared.is_silent()
    }

    /// The link, to be watched over.
    pub fn watched(&self) -> Watched {
        Watched {
            shared: self.shared.clone(),
        }
    }

    /// A clone with a place for one exchange; `None` while the peer allows no more at once.
    pub fn claim(&self) -> Option<Self> {
        // A stream that is opened early is lost if the server takes no early data.
        if !self.shared.connection.is_confirmed() {
            return Some(self.clone());
        }
        let spare = self.spare.lock().take();
        let streams = spare.or_else(|| self.shared.connection.try_open_bi())?;
        let place = Place {
            streams: Mutex::new(Some(streams)),
            spare: self.spare.clone(),
        };

        Some(Self {
            place: Some(Arc::new(place)),
            ..self.clone()
        })
    }

    /// The connection that carries the link.
    pub fn connection(&self) -> &Connection {
        &self.shared.connection
    }

    /// Waits until the peer's settings came; false if the link ended before.
    pub async fn settled(&self) -> bool {
        self.shared.settled().await.is_some()
    }

    /// Opens an exchange; without a place, waits while the peer's stream limit is reached.
    ///
    /// # Errors
    /// The link is closing, or the peer does not offer extended CONNECT and the exchange needs it. Nothing was processed.
    // Boxed: exchanges over other versions carry no room for it. As `dyn`, so that crates that await it do not compile it again.
    #[inline(never)]
    pub fn open<'a>(&'a self, head: &'a RequestHead, length: Option<u64>) -> Opening<'a> {
        Box::pin(self.open_now(head, length))
    }

    async fn open_now(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(Outgoing, crate::Pending), StreamError> {
        if head.kind().is_extended() {
            self.require_extended_connect().await?;
        }
        let request = Request::new(head, length);
        self.check_size(head)?;

        if !request.may_be_early {
            self.shared.connection.confirmed().await;
        }
        let early = !self.shared.connection.is_confirmed();
        if !early && self.shared.tables.are_used() {
            let write = |stream| convert::from_request(head, &self.shared.tables, stream);
            let (outgoing, reader) = self.send(&request, write).await?;
            return Ok((outgoing, self.pending(head, reader, None)));
        }

        // A section that may be sent again on another stream refers to no table.
        let section = convert::from_request(head, &Tables::none(), 0)?;
        let write = |_| Ok(&section);
        let (outgoing, reader) = match self.send(&request, write).await {
            // RFC 9001, 4.6.2: the server has not seen it.
            Err(_) if early && self.shared.connection.early_data_was_lost().await => {
                self.send(&request, write).await?
            }
            sent => sent?,
        };

        let again = early.then(|| EarlyRequest {
            link: self.clone(),
            request,
            section,
        });
        Ok((outgoing, self.pending(head, reader, again)))
    }

    fn pending(
        &self,
        head: &RequestHead,
        reader: Reader,
        again: Option<EarlyRequest>,
    ) -> crate::Pending {
        let pending = RequestStreamResponse {
            reader: Some(reader),
            method: head.method.clone(),
            again,
        };

        Awaited::H3(pending).into()
    }

    /// Sends a request; `write` writes the section for the new stream.
    async fn send<S: Borrow<BytesMut>>(
        &self,
        request: &Request,
        write: impl FnOnce(u64) -> Result<S, StreamError>,
    ) -> Result<(Outgoing, Reader), StreamError> {
        if !self.is_alive() {
            return Err(self.unprocessed(Cause::Closing));
        }
        let place = self
            .place
            .as_ref()
            .and_then(|place| place.streams.lock().take());
        let opened = match place {
            Some(streams) => Ok(streams),
            None => self.shared.connection.open_bi().await,
        };

        let (send, recv) =
            opened.map_err(|error| self.unprocessed(StreamError::from(error).cause))?;
        let state = StreamState::new(&self.shared, send.id(), Some(self.hold.clone()));
        if request.carries_packets {
            state.open_datagrams();
        }

        self.shared.priorities.request(&state, request.priority);
        let id = state.id();
        let mut sender = Sender::new(send, state.clone());
        let reader = Reader::new(recv, state);

        // A head that did not leave whole was not processed.
        sender
            .section(write(id)?.borrow())
            .await
            .map_err(|error| StreamError::unprocessed(error.cause))?;
        if request.ends {
            sender.finish().await?;
            return Ok((Outgoing::Ended, reader));
        }

        Ok((Outgoing::H3(RequestStreamSender::new(sender)), reader))
    }

    /// Why the request was not sent: the end of the connection, or `cause`.
    fn unprocessed(&self, cause: Cause) -> StreamError {
        StreamError::unprocessed(self.shared.explain(u64::MAX, StreamError::new(cause)).cause)
    }

    /// RFC 9114, 4.2.2: a section beyond the peer's limit is not sent.
    fn check_size(&self, head: &RequestHead) -> Result<(), StreamError> {
        let Some(most) = self
            .shared
            .peer()
            .and_then(|settings| settings.max_field_section)
        else {
            return Ok(());
        };

        let texts = [
            head.authority.as_ref().map_or("", |it| it.as_str()),
            head.path.as_ref().map_or("", |it| it.as_str()),
        ];
        let pseudo: usize = texts
            .iter()
            .map(|text| text.len() + LINE_OVERHEAD + 10)
            .sum();
        if (section_size(&head.fields) + pseudo) as u64 <= most {
            return Ok(());
        }

        let cause = Cause::Invalid(format!(
            "the head is larger than the {most} bytes that the peer takes"
        ));
        Err(StreamError::unprocessed(cause))
    }

    /// RFC 9220, 3: the peer's setting must be seen before extended CONNECT is used.
    async fn require_extended_connect(&self) -> Result<(), StreamError> {
        match self.shared.settled().await {
            Some(settings) if settings.connect_protocol => Ok(()),
            Some(_) => Err(StreamError::unprocessed(Cause::Unsupported(
                "extended CONNECT",
            ))),
            None => {
                let error = self
                    .shared
                    .connection
                    .closed_reason()
                    .map(StreamError::from);
                Err(self.unprocessed(error.map_or(Cause::Incomplete, |error| error.cause)))
            }
        }
    }
}

/// A request as it is sent.
#[derive(Debug)]
struct Request {
    priority: Option<Signal>,
    carries_packets: bool,
    /// The request has no content.
    ends: bool,
    /// Anyone who recorded it can repeat it, and that does no harm (RFC 8470, 4).
    may_be_early: bool,
    /// The request came to us as early data.
    was_early: bool,
}

impl Request {
    fn new(head: &RequestHead, length: Option<u64>) -> Self {
        let ends = head.kind() == Kind::Message && length == Some(0);
        Self {
            priority: crate::priority::signal(&head.fields),
            carries_packets: head.kind().carries_packets(),
            ends,
            may_be_early: ends
                && matches!(head.method, Method::GET | Method::HEAD | Method::OPTIONS),
            was_early: head.fields.contains_key("early-data"),
        }
    }
}

/// The parts of a request that are needed to send it again.
#[derive(Debug)]
struct EarlyRequest {
    link: QuicLink,
    request: Request,
    section: BytesMut,
}

impl EarlyRequest {
    /// Sends it when it is early no more.
    async fn send(self) -> Result<Reader, StreamError> {
        self.link.shared.connection.confirmed().await;
        let write = |_| Ok(&self.section);
        Ok(self.link.send(&self.request, write).await?.1)
    }
}

/// Drives a link until it ends or no one needs it.
async fn run(shared: Arc<Shared>, gone: CancellationToken) {
    let settings = Settings {
        max_field_section: Some(shared.tables.limits.bytes as u64),
        datagrams: true,
        datagram_groups: true,
        qpack_capacity: shared.tables.announced(),
        ..Settings::default()
    };

    let budget = Profile::link(0).control;
    // A client has nothing to say after SETTINGS.
    let (_, later) = mpsc::channel(1);

    // The driver runs to the end: a server that sees our control stream end (RFC 9114, 6.2.1)
    // closes the connection at once, in spite of open exchanges.
    let mut driven = pin!(drive(shared.clone(), settings, budget, later));
    let delivered = async {
        gone.cancelled().await;
        let _ = tokio::time::timeout(FAREWELL, shared.delivered()).await;
    };
    tokio::select! {
        () = driven.as_mut() => {}
        () = overdue(&shared) => {}
        () = shared.evicted() => {}
        () = delivered => {}
    }

    shared
        .connection
        .close_and_tell(Code::NoError.number(), b"")
        .await;
    shared.end();
}

/// Resolves when the handshake of a connection with early data does not end in time.
async fn overdue(shared: &Shared) {
    if tokio::time::timeout(HANDSHAKE, shared.connection.confirmed())
        .await
        .is_err()
    {
        shared.give_up("its handshake did not end");
        return;
    }

    std::future::pending().await
}

/// The response to come.
#[derive(Debug)]
pub struct RequestStreamResponse {
    /// Given to the content of the final response.
    reader: Option<Reader>,
    method: Method,
    /// The parts of a request that was sent early, until it is sent again.
    again: Option<EarlyRequest>,
}

impl RequestStreamResponse {
    pub(crate) async fn event(&mut self) -> Result<Event, StreamError> {
        let (mut reader, mut head) = loop {
            let section = match self.section().await {
                Err(error) => {
                    Box::pin(self.after_loss(error)).await?;
                    continue;
                }
                Ok(section) => section,
            };

            let Some(reader) = self.reader.take() else {
                return Err(answered());
            };
            let state = &reader.state;
            let tables = &state.shared().tables;
            let decoded = tables.read(state.id(), &section, decode_response);
            let head = decoded.map_err(|fault| failed(&reader, fault))?;

            // RFC 8470, 5.2: the sender of early data may send it again. An intermediary may not,
            // if the request came to it early.
            let again = self
                .again
                .take_if(|again| head.status == StatusCode::TOO_EARLY && !again.request.was_early);
            match again {
                Some(again) => self.reader = Some(Box::pin(again.send()).await?),
                None => break (reader, head),
            }
        };

        if head.status.is_informational() {
            self.reader = Some(reader);
            return Ok(Event::Interim(head));
        }

        let charges = &reader.state.shared().tables.charges;
        let charge = charges.add(head.fields.footprint()).map_err(|_| {
            reader.state.abandon(Code::ExcessiveLoad);
            StreamError::new(Cause::Memory(NO_ROOM))
        })?;

        if self.method == Method::CONNECT && head.status.is_success() {
            reader.sequence.begin_tunnel();
            let incoming = RequestStreamReceiver::new(reader, None).charged(charge);
            return Ok(Event::Tunnel(head, Incoming::H3(Box::new(incoming))));
        }

        let length = convert::response_length(&self.method, &mut head)
            .map_err(|fault| failed(&reader, fault))?;
        reader.sequence.begin_content(length);

        // Whether there is content at all is often here already.
        poll_fn(|cx| Poll::Ready(reader.poll_peek(cx).is_ready())).await;
        let incoming = RequestStreamReceiver::new(reader, length).charged(charge);
        Ok(Event::Final(head, Incoming::H3(Box::new(incoming))))
    }

    /// Sends the request again, if it was lost as early data.
    async fn after_loss(&mut self, error: StreamError) -> Result<(), StreamError> {
        let Some(again) = self.again.take() else {
            return Err(error);
        };
        let shared = again.link.shared.clone();
        if shared.connection.early_data_was_lost().await {
            self.reader = Some(again.send().await?);
            return Ok(());
        }

        // quinn calls it lost, too, when the connection ends first.
        Err(shared
            .connection
            .closed_reason()
            .map_or(error, |reason| shared.explain(u64::MAX, reason)))
    }

    /// The next field section; nothing else comes before the final response.
    async fn section(&mut self) -> Result<Bytes, StreamError> {
        let Some(reader) = &mut self.reader else {
            return Err(answered());
        };
        let state = reader.state.clone();
        let part = tokio::select! {
            biased;
            part = poll_fn(|cx| reader.poll_part(cx)) => part?,
            error = state.shared().unanswered(state.id()) => {
                state.abandon(Code::RequestCancelled);
                return Err(error);
            }
        };

        match part {
            Part::Section(Section::Head, section) => Ok(section),
            _ => Err(StreamError::new(Cause::Incomplete)),
        }
    }
}

fn failed(reader: &Reader, fault: Fault) -> StreamError {
    reader.state.fail(fault);
    Failure::Fault(fault).into()
}

fn answered() -> StreamError {
    StreamError::new(Cause::Invalid("the response was taken".to_owned()))
}
