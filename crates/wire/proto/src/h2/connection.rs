//! The machine of one connection.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::batch::Content;
use super::event::{Event, Failure};
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{self, FrameKind, PREFACE};
use super::hpack::{HpackDecoder, HpackEncoder, TABLE_SIZE};
use super::inbound::Taken;
use super::meter::{Budgets, Meter, Verdict};
use super::reason::{ConnectionError, Reason};
use super::settings::{FIRST_WINDOW, LARGEST_WINDOW, OwnSettings, PeerSettings};
use super::streams::Streams;
use crate::h3::Role;
use crate::qpack::FieldSectionLimits;

/// The PING that finds out when the first GOAWAY was read (RFC 9113, section 6.8).
pub(super) const FAREWELL_PING: [u8; 8] = *b"farewell";

/// The PING that finds out whether the peer is there.
pub(super) const PROBE_PING: [u8; 8] = *b"presence";

/// The limits and settings of a connection.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionOptions {
    /// Which side we are.
    pub role: Role,
    /// Bytes that the peer may send on a stream before we read.
    pub stream_window: u32,
    /// Bytes that it may send on all streams together.
    pub connection_window: u32,
    /// Bytes of the largest frame that we take.
    pub frame_size: u32,
    /// The limits of a field section.
    pub section: FieldSectionLimits,
    /// Bytes of trailers, counted in the same way.
    pub trailers: usize,
    /// Bytes of the dynamic tables of both sides that field sections use: at most 4096; 0 for none.
    pub table: usize,
    /// Streams that the peer may open at once.
    pub streams: u32,
    /// Bytes that one stream may queue.
    pub queue: usize,
    /// How many of the streams that we reset are remembered, so that their late frames are told
    /// from mistakes.
    pub remembered: usize,
    /// Budgets for the costs that a peer causes.
    pub budgets: Budgets,
}

/// The next part of the input.
#[derive(Debug)]
pub(super) enum Expecting {
    /// The preface of a client.
    Preface,
    /// A frame.
    Frame,
    /// Content of a DATA frame.
    Content(Arriving),
    /// This many bytes without meaning.
    Nothing(u32),
    /// The connection has failed: input is not looked at.
    Failed(ConnectionError),
}

/// A DATA frame that is not here as a whole yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arriving {
    pub(super) stream: u32,
    pub(super) left: u32,
    pub(super) padding: u32,
    pub(super) end: bool,
}

/// A field section that awaits CONTINUATION frames.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) end: bool,
    /// The stream that it depends on.
    pub(super) dependency: Option<u32>,
    pub(super) bytes: BytesMut,
    /// Its cost, its frames included.
    pub(super) cost: usize,
}

/// A field section of which more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnfinishedBlock {
    /// Its stream.
    pub stream: u32,
    /// Bytes of memory that it takes.
    pub memory: usize,
}

/// Our own settings.
#[derive(Debug)]
pub(super) struct Own {
    /// The window of new streams that the peer knows of.
    pub(super) window: u32,
    /// One that it has not acknowledged.
    pub(super) told: Option<u32>,
    /// The room for all streams.
    pub(super) room: u32,
    /// SETTINGS that are not acknowledged.
    pub(super) unacknowledged: u32,
    /// PINGs that are not answered.
    pub(super) probes: u32,
}

/// How far the end of the connection has come.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// GOAWAY was sent that includes all streams.
    pub(super) is_announced: bool,
    /// The last stream that the last GOAWAY of ours includes.
    pub(super) last: Option<u32>,
    /// The last stream that the last GOAWAY of the peer includes.
    pub(super) heard: Option<u32>,
    /// The peer's first SETTINGS came.
    pub(super) is_settled: bool,
    /// The owner was told to retire.
    pub(super) is_retired: bool,
}

/// One connection: bytes and commands go in, events and batches of frames come out.
#[derive(Debug)]
pub struct Connection<C = Bytes> {
    pub(super) options: ConnectionOptions,
    pub(super) expecting: Expecting,
    pub(super) block: Option<Block>,
    pub(super) compression: Compression,
    pub(super) peer: PeerSettings,
    pub(super) own: Own,
    pub(super) streams: Streams<C>,
    pub(super) flow: Flow,
    pub(super) meter: Meter,
    pub(super) events: VecDeque<Event>,
    /// Frames to be written, but DATA.
    pub(super) control: BytesMut,
    pub(super) farewell: Farewell,
}

/// The compression contexts of both directions (RFC 9113, section 4.3).
#[derive(Debug)]
pub(super) struct Compression {
    pub(super) decoder: HpackDecoder,
    pub(super) encoder: HpackEncoder,
    /// Bytes that the peer's table has saved it, as long as it may use one because it does not know yet that it should not.
    pub(super) unsettled: Option<usize>,
    /// Bytes of decoded field sections since all events were polled.
    pub(super) unpolled: usize,
}

/// Bytes that a dynamic table may save a peer before it acknowledges that its table has no room:
/// heads of a first round trip with some kilobytes of cookies each. Without this bound, a peer that
/// never acknowledges would keep the table.
#[doc(alias = "bound")]
const UNSETTLED: usize = 1024 * 1024;

impl Compression {
    /// The peer knows how large its table may be.
    pub(super) fn settle(&mut self, table: usize) {
        self.decoder.allow(table);
        self.unsettled = None;
    }

    /// A section of `encoded` bytes has become so many.
    ///
    /// # Errors
    /// The peer should know by now that it has no table (RFC 9113, section 6.5.3).
    pub(super) fn note_decoded(&mut self, encoded: usize, decoded: usize) -> Taken {
        self.unpolled += decoded;
        let Some(saved) = &mut self.unsettled else {
            return Ok(());
        };
        *saved += decoded.saturating_sub(encoded);
        if *saved <= UNSETTLED {
            return Ok(());
        }

        Err(ConnectionError::new(
            Reason::SETTINGS_TIMEOUT,
            "the size of the dynamic table is not acknowledged",
        ))
    }
}

/// The windows of the connection.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) receive: ReceiveWindow,
    pub(super) send: SendWindow,
}

impl<C: Content> Connection<C> {
    /// A connection of which nothing is written or read yet.
    pub fn new(options: ConnectionOptions, now: Instant) -> Self {
        let mut connection = Self {
            expecting: match options.role {
                Role::Server => Expecting::Preface,
                Role::Client => Expecting::Frame,
            },
            block: None,
            compression: Compression {
                decoder: HpackDecoder::default(),
                encoder: HpackEncoder::new(options.table),
                // The peer starts with 4096 bytes; a smaller table holds once it has acknowledged our SETTINGS.
                unsettled: (options.table < TABLE_SIZE).then_some(0),
                unpolled: 0,
            },
            peer: PeerSettings::default(),
            own: Own {
                window: options.stream_window,
                told: None,
                room: FIRST_WINDOW,
                // Those of `greet`.
                unacknowledged: 1,
                probes: 0,
            },
            streams: Streams::new(options.role, options.remembered),
            flow: Flow {
                receive: ReceiveWindow::new(FIRST_WINDOW),
                send: SendWindow::default(),
            },
            meter: Meter::new(options.budgets, now),
            events: VecDeque::new(),
            control: BytesMut::new(),
            farewell: Farewell::default(),
            options,
        };

        connection.greet();
        connection
    }

    /// RFC 9113, section 3.4.
    fn greet(&mut self) {
        let is_server = self.options.role == Role::Server;
        if !is_server {
            self.control.extend_from_slice(PREFACE);
        }

        let settings = OwnSettings {
            header_table: self.options.table.min(TABLE_SIZE) as u32,
            // Without pushes a server opens none.
            streams: is_server.then_some(self.options.streams),
            window: self.options.stream_window,
            frame_size: self.options.frame_size,
            header_list: u32::try_from(self.options.section.bytes).unwrap_or(u32::MAX),
            connect_protocol: is_server,
        };

        frame::put(
            &mut self.control,
            FrameKind::Settings,
            0,
            0,
            &settings.encode(),
        );

        // RFC 9113, section 6.9.2: SETTINGS do not change this window, WINDOW_UPDATE does.
        self.set_connection_window(self.options.connection_window);
    }

    /// The events of the connection, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.meter.verdict() >= Verdict::Retire && !self.farewell.is_retired {
            self.farewell.is_retired = true;
            self.events.push_back(Event::Retire);
        }
        let event = self.events.pop_front();
        if event.is_none() {
            // The owner holds all decoded heads now: `handle` may go on.
            self.compression.unpolled = 0;
        }
        event
    }

    /// The peer's settings.
    pub fn peer(&self) -> &PeerSettings {
        &self.peer
    }

    /// Whether the peer's first SETTINGS have come.
    pub fn is_settled(&self) -> bool {
        self.farewell.is_settled
    }

    /// Whether there are streams.
    pub fn has_streams(&self) -> bool {
        self.streams.len() > 0
    }

    /// The field section of which more is to come.
    pub fn unfinished(&self) -> Option<UnfinishedBlock> {
        let block = self.block.as_ref()?;
        Some(UnfinishedBlock {
            stream: block.stream,
            memory: block.bytes.capacity(),
        })
    }

    /// Why the connection has failed, if it has. The bytes still to write tell the peer.
    pub fn failure(&self) -> Option<ConnectionError> {
        match self.expecting {
            Expecting::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Whether either side has said goodbye, and nothing is left to be done.
    pub fn is_over(&self) -> bool {
        let said = self.farewell.heard.is_some() || self.farewell.last.is_some();
        said && !self.has_streams()
    }

    /// Whether new streams can be opened at all.
    pub fn is_closing(&self) -> bool {
        self.farewell.heard.is_some() || self.farewell.last.is_some() || self.failure().is_some()
    }

    /// Asks the peer whether it is there; [`Event::Pong`] is its answer.
    pub fn ping(&mut self) {
        self.own.probes = self.own.probes.saturating_add(1);
        frame::put(&mut self.control, FrameKind::Ping, 0, 0, &PROBE_PING);
    }

    /// Takes no streams any more but those that are on their way (RFC 9113, section 6.8).
    pub fn shut_down(&mut self) {
        if self.farewell.is_announced || self.failure().is_some() {
            return;
        }
        self.farewell.is_announced = true;
        // All streams are included at first: after a round trip, `close_door` names the last one without losing any.
        self.put_goaway(LARGEST_WINDOW, Reason::NO_ERROR);
        frame::put(&mut self.control, FrameKind::Ping, 0, 0, &FAREWELL_PING);
    }

    /// Whether the peer has yet to say that it knows of the end.
    pub(super) fn awaits_farewell(&self) -> bool {
        self.farewell.is_announced && self.farewell.last.is_none()
    }

    /// The peer has acknowledged it: everything it sent before is here.
    pub(super) fn close_door(&mut self) {
        let last = self.streams.highest;
        self.farewell.last = Some(last);
        self.put_goaway(last, Reason::NO_ERROR);
    }

    /// Says goodbye as a client that needs nothing more.
    pub fn leave(&mut self) {
        if self.farewell.last.is_none() && self.failure().is_none() {
            self.farewell.last = Some(0);
            self.put_goaway(0, Reason::NO_ERROR);
        }
    }

    /// Drops all streams and their queues: the connection is gone.
    pub fn clear(&mut self) {
        self.streams.clear();
    }

    /// Bytes of frames, but DATA, that wait to be written.
    pub fn backlog(&self) -> usize {
        self.control.len()
    }

    /// Ends the connection at once; all streams fail.
    pub fn abort(&mut self, reason: Reason, words: &'static str) {
        self.fail(ConnectionError::new(reason, words));
    }

    pub(super) fn fail(&mut self, error: ConnectionError) {
        if self.failure().is_some() {
            return;
        }
        // RFC 9113, section 6.8: never above an earlier GOAWAY, for the client may have sent those requests elsewhere.
        let last = self.farewell.last.unwrap_or(self.streams.highest);
        self.put_goaway(last, error.reason);
        self.expecting = Expecting::Failed(error);
        self.block = None;
    }

    fn put_goaway(&mut self, last: u32, reason: Reason) {
        let mut content = [0; 8];
        content[..4].copy_from_slice(&last.to_be_bytes());
        content[4..].copy_from_slice(&reason.number().to_be_bytes());
        frame::put(&mut self.control, FrameKind::GoAway, 0, 0, &content);
    }

    /// Resets a stream, which is gone then.
    pub(super) fn put_reset(&mut self, stream: u32, reason: Reason) {
        self.streams.remove(stream);
        self.streams.remember(stream);
        let code = reason.number().to_be_bytes();
        frame::put(&mut self.control, FrameKind::RstStream, 0, stream, &code);
        self.note_openable();
    }

    pub(super) fn put_window_update(&mut self, stream: u32, bytes: u32) {
        frame::put(
            &mut self.control,
            FrameKind::WindowUpdate,
            0,
            stream,
            &bytes.to_be_bytes(),
        );
    }

    /// A stream of ours has ended: there may be room for another one.
    pub(super) fn note_openable(&mut self) {
        if self.options.role == Role::Client {
            self.events.push_back(Event::Openable);
        }
    }

    /// A stream has failed, and is gone.
    pub(super) fn note_failed(&mut self, stream: u32, failure: Failure) {
        self.events.push_back(Event::Failed { stream, failure });
    }

    /// Forgets a stream whose halves have both ended.
    pub(super) fn close_if_done(&mut self, stream: u32) {
        if self
            .streams
            .get(stream)
            .is_some_and(|stream| stream.is_closed())
        {
            self.streams.remove(stream);
            self.note_openable();
        }
    }

    /// The room for all streams together is to be this many bytes.
    pub fn set_connection_window(&mut self, room: u32) {
        let room = room.min(LARGEST_WINDOW);
        let by = i64::from(room) - i64::from(self.own.room);
        self.own.room = room;
        self.flow.receive.resize(by);
        self.tell_room();
    }

    /// Sets the window of each stream; false while the peer has not acknowledged the previous size.
    pub fn set_stream_window(&mut self, size: u32) -> bool {
        if self.own.unacknowledged > 0 || self.failure().is_some() {
            return false;
        }
        self.own.unacknowledged += 1;
        self.own.told = Some(size.min(LARGEST_WINDOW));
        let content = super::settings::window(size.min(LARGEST_WINDOW));
        frame::put(&mut self.control, FrameKind::Settings, 0, 0, &content);

        true
    }

    pub(super) fn tell_room(&mut self) {
        if let Some(bytes) = self.flow.receive.update() {
            self.put_window_update(0, bytes);
        }
    }

    /// This many received bytes were read, or never will be.
    pub(super) fn release_room(&mut self, bytes: u32) {
        if bytes > 0 {
            self.flow.receive.release(bytes);
            self.tell_room();
        }
    }
}
