//! The parts of a connection beside its requests: control streams, QPACK streams and datagrams.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::clock;
use hermes_net::quic::{ReadError, RecvStream, WriteError};
use hermes_proto::h3::{
    Code, Control, ControlEvent, Fault, FrameDecoder, PeerStreams, Piece, Role, Settings,
    StreamType, TypeDecoder,
};
use hermes_proto::varint;
use parking_lot::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::group_receiver;
use super::group_sender::GroupWriter;
use super::instruction_streams::{write_all, write_instructions};
use super::shared::Shared;
use crate::h2::{Bucket, Budget, Verdict};

/// Streams of unknown types that a peer may open at once: each costs a stream, and has no use.
#[doc(alias = "bound")]
const UNKNOWN_STREAMS: u32 = 256;

/// Streams of unknown types that a peer may open each second, for as long as the connection lives: some are opened so that no one
/// comes to rely on their absence (RFC 9114, 6.2.3).
#[doc(alias = "bound")]
const UNKNOWN_STREAMS_A_SECOND: u32 = 1;

/// Groups of datagrams without a use that a client may send at once, and each second.
const USELESS_GROUPS: Budget = Budget {
    burst: 256,
    per_second: 64,
};

/// Bytes that are taken from such a stream at once.
const READ: usize = 4096;

/// Datagrams that are taken from the connection at once.
const DATAGRAMS: usize = 256;

/// Runs until the connection ends. `later` brings the content of the control stream after SETTINGS.
pub(crate) async fn drive(
    shared: Arc<Shared>,
    settings: Settings,
    control: Budget,
    later: Receiver<Bytes>,
) {
    let mut tasks = JoinSet::new();
    tasks.spawn(write_control(shared.clone(), settings, later));
    tasks.spawn(receive_datagrams(shared.clone()));
    tasks.spawn(write_instructions(shared.clone()));
    let peer = Arc::new(Mutex::new(Peer::new(shared.role, control)));
    let mut groups = shared.groups.take();

    loop {
        tokio::select! {
            accepted = shared.connection.accept_uni() => match accepted {
                Ok(stream) => drop(tasks.spawn(read(shared.clone(), peer.clone(), stream))),
                Err(_) => break,
            },
            pushed = shared.connection.accept_bi(), if shared.role == Role::Client => match pushed {
                // RFC 9114, 6.1: servers open no bidirectional streams.
                Ok(_) => shared.fail(Fault::connection(Code::StreamCreationError, "a server opened a bidirectional stream")),
                Err(_) => break,
            },
            group = begun(&mut groups) => drop(tasks.spawn(async move {
                group.run().await;
                Ok(())
            })),
            Some(done) = tasks.join_next() => if let Ok(Err(fault)) = done {
                shared.fail(fault);
            },
        }
    }

    shared.end();
}

/// The next group of datagrams that is to be written.
async fn begun(groups: &mut Option<Receiver<GroupWriter>>) -> GroupWriter {
    let next = match groups {
        Some(groups) => groups.recv().await,
        None => None,
    };
    match next {
        Some(group) => group,
        None => std::future::pending().await,
    }
}

/// The common state of the peer's streams.
struct Peer {
    streams: PeerStreams,
    unknown: Bucket,
    /// Groups of datagrams that were of no use.
    groups: Bucket,
    /// Frames of the control stream.
    frames: Bucket,
}

impl Peer {
    fn new(role: Role, control: Budget) -> Self {
        let now = Instant::now().into_std();
        let unknown = Budget {
            burst: UNKNOWN_STREAMS,
            per_second: UNKNOWN_STREAMS_A_SECOND,
        };

        Self {
            streams: PeerStreams::new(role),
            unknown: Bucket::new(unknown, now),
            groups: Bucket::new(USELESS_GROUPS, now),
            frames: Bucket::new(control, now),
        }
    }

    fn handle_open(&mut self, kind: StreamType) -> Result<bool, Fault> {
        let taken = self.streams.handle_open(kind)?;
        let now = Instant::now().into_std();
        if !taken && self.unknown.take(now) != Verdict::Fine {
            return Err(Fault::connection(
                Code::ExcessiveLoad,
                "too many streams of unknown types",
            ));
        }

        Ok(taken)
    }

    /// A group of datagrams was of no use. Some come late, behind the end of their session.
    fn handle_useless_group(&mut self) -> Result<(), Fault> {
        match self.groups.take(Instant::now().into_std()) {
            Verdict::Fine => Ok(()),
            _ => Err(Fault::connection(
                Code::ExcessiveLoad,
                "too many groups of datagrams without a use",
            )),
        }
    }
}

/// Our control stream, which lasts as long as the connection.
async fn write_control(
    shared: Arc<Shared>,
    settings: Settings,
    mut later: Receiver<Bytes>,
) -> Result<(), Fault> {
    if shared.role == Role::Client {
        // Sent early, it would be lost for good where the server does not take early data.
        shared.connection.confirmed().await;
    }

    let Ok(mut stream) = shared.connection.open_uni().await else {
        return Ok(());
    };

    // Before everything else: peers wait for it.
    stream.set_priority(i32::MAX);
    let mut first = BytesMut::new();
    varint::encode(StreamType::Control.number(), &mut first);
    settings.encode(&mut first);
    let mut next = Some(first.freeze());

    while let Some(bytes) = next {
        match write_all(&mut stream, bytes).await {
            Ok(()) => {}
            // RFC 9114, 6.2.1: it must not be stopped either.
            Err(WriteError::Stopped(_)) => {
                return Err(Fault::connection(
                    Code::ClosedCriticalStream,
                    "the control stream was stopped",
                ));
            }
            Err(_) => return Ok(()),
        }
        next = later.recv().await;
    }

    shared.connection.closed().await;
    Ok(())
}

async fn receive_datagrams(shared: Arc<Shared>) -> Result<(), Fault> {
    let mut batch = Vec::with_capacity(DATAGRAMS);
    while shared
        .connection
        .recv_datagrams(&mut batch, DATAGRAMS)
        .await
        .is_ok()
    {
        shared.datagrams.deliver(&mut batch)?;
    }

    Ok(())
}

/// A stream that the peer opened towards us.
async fn read(
    shared: Arc<Shared>,
    peer: Arc<Mutex<Peer>>,
    mut stream: RecvStream,
) -> Result<(), Fault> {
    let mut types = TypeDecoder::default();
    let (kind, rest) = loop {
        // RFC 9114, 6.2: a stream that ends before its type does is no error.
        let Ok(Some(bytes)) = stream.read(READ).await else {
            return Ok(());
        };
        let mut rest = &bytes[..];
        if let Some(kind) = types.handle(&mut rest) {
            break (kind, bytes.slice_ref(rest));
        }
    };

    if !peer.lock().handle_open(kind)? {
        stream.stop(Code::StreamCreationError.number());
        return Ok(());
    }

    let mut source = Source {
        stream,
        first: Some(rest),
    };

    match kind {
        StreamType::DatagramGroup => {
            let received = group_receiver::receive(&shared, &mut source).await;
            // A link carries the sessions of many: none ends for another's groups.
            return match received.is_err() && shared.priorities.order().in_turn {
                true => peer.lock().handle_useless_group(),
                false => Ok(()),
            };
        }
        StreamType::QpackEncoder => {
            instructions(&mut source, |bytes| shared.tables.encoder_says(bytes)).await?;
        }
        StreamType::QpackDecoder => {
            instructions(&mut source, |bytes| shared.tables.decoder_says(bytes)).await?;
        }
        _ => control(&shared, &peer, &mut source).await?,
    }

    Err(peer.lock().streams.handle_end())
}

/// A stream with its first bytes read.
pub(super) struct Source {
    stream: RecvStream,
    first: Option<Bytes>,
}

impl Source {
    /// The next bytes; `None` at the end. Waits for ever when the connection has ended, which others see.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match self.stream.read(READ).await {
            Ok(bytes) => bytes,
            Err(ReadError::Connection(_)) => std::future::pending().await,
            Err(_) => None,
        }
    }

    /// Tells the peer to stop.
    pub(super) fn stop(&mut self, code: Code) {
        self.stream.stop(code.number());
    }
}

async fn instructions(
    source: &mut Source,
    take: impl Fn(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    while let Some(bytes) = source.next().await {
        take(&bytes)?;
    }
    Ok(())
}

async fn control(shared: &Shared, peer: &Mutex<Peer>, source: &mut Source) -> Result<(), Fault> {
    let mut frames = FrameDecoder::control();
    let mut control = Control::new(shared.role);
    while let Some(bytes) = source.next().await {
        frames.push(bytes);
        if frames.is_counting() {
            frames.handle_time(clock::now().into_std());
        }

        while let Some(piece) = frames.next()? {
            let Piece::Frame(frame) = piece else { continue };
            if peer.lock().frames.take(Instant::now().into_std()) != Verdict::Fine {
                return Err(Fault::connection(
                    Code::ExcessiveLoad,
                    "too many frames on the control stream",
                ));
            }

            match control.handle_frame(&frame)? {
                Some(ControlEvent::Settings(settings)) => shared.settle(settings),
                Some(ControlEvent::Goaway(stream)) if shared.role == Role::Client => {
                    shared.goaway(stream)
                }
                Some(ControlEvent::Priority { stream, priority }) => {
                    shared.priorities.update(stream, priority)?
                }
                Some(ControlEvent::Goaway(_)) | None => {}
            }
        }
    }

    Ok(())
}
