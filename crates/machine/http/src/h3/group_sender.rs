//! Datagrams of a session that leave in groups, each on a stream of its own.
//!
//! QUIC sends a lost part of a stream again, and a group that has not arrived in time is reset. The receiver puts datagrams in order by their
//! numbers. A group is made of the datagrams of a short time: that needs no look into them, which may be encrypted, and the packets of one
//! picture leave together.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_net::memory::Charge;
use hermes_net::quic::{SendStream, SentDatagrams};
use hermes_proto::h3::datagram_group::GroupHead;
use hermes_proto::h3::{Code, datagram_group, datagram_order};
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::group_counts::GroupCounts;
use super::instruction_streams::write_all;
use super::shared::Shared;
use super::stream_state::StreamState;

/// How long datagrams join the group of the first of them.
const GROUP_TIME: Duration = Duration::from_millis(10);

/// Groups of one session that are on their way at once. Further datagrams leave as QUIC datagrams until one has arrived.
#[doc(alias = "bound")]
const GROUPS: usize = 64;

/// Bytes of datagrams that wait to be written. Those that find no room are dropped.
#[doc(alias = "bound")]
const BYTES: usize = 1024 * 1024;

/// Groups of a connection that its driver is to write.
#[doc(alias = "bound")]
const BEGUN: usize = 256;

/// Sends the datagrams of one session in groups.
#[derive(Debug)]
pub(crate) struct GroupSender {
    within: Duration,
    begun: Mutex<NumberedGroups>,
    groups: Arc<Semaphore>,
    room: Arc<Semaphore>,
    pub(super) counts: GroupCounts,
    /// Of the bytes that wait in both directions.
    _charge: Charge,
}

/// The group that takes further datagrams, and the number of the next of them.
#[derive(Debug, Default)]
struct NumberedGroups {
    filling: Option<FillingGroup>,
    next: u64,
}

/// A group that takes further datagrams.
#[derive(Debug)]
struct FillingGroup {
    ends: Instant,
    pieces: UnboundedSender<GroupPiece>,
}

/// Datagrams as they are written, and their room.
#[derive(Debug)]
struct GroupPiece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

impl GroupSender {
    /// Bytes of memory that both directions of its session take at most: those that wait here, and those that came ahead of others.
    pub(crate) const MEMORY: usize = BYTES + datagram_order::WAITING_BYTES;

    /// Groups that are given up when they have not arrived within this time.
    pub(super) fn new(within: Duration, counts: GroupCounts, charge: Charge) -> Self {
        Self {
            within,
            begun: Mutex::default(),
            groups: Arc::new(Semaphore::new(GROUPS)),
            room: Arc::new(Semaphore::new(BYTES)),
            counts,
            _charge: charge,
        }
    }

    /// Sends payloads, each behind `prefix`, within one group.
    ///
    /// # Errors
    /// There is none for them at the moment, and none is taken.
    pub(crate) fn send<'a>(
        &self,
        state: &StreamState,
        prefix: &[u8],
        payloads: impl Iterator<Item = &'a [u8]>,
    ) -> Result<SentDatagrams, NoGroup> {
        let mut begun = self.begun.lock();
        let begun = &mut *begun;
        let now = Instant::now();
        let group = match begun.filling.take().filter(|group| group.takes(now)) {
            Some(group) => group,
            None => self.begin(state, begun.next, now)?,
        };
        let group = begun.filling.insert(group);

        let mut bytes = BytesMut::new();
        let mut count = 0;
        for payload in payloads {
            datagram_group::encode(prefix, payload, &mut bytes);
            count += 1;
        }
        let piece = self.piece(bytes.freeze());
        let is_sent = piece.is_some_and(|piece| group.pieces.send(piece).is_ok());
        let sent = if is_sent { count } else { 0 };
        begun.next += sent as u64;
        self.counts.dropped(count - sent);
        Ok(SentDatagrams {
            sent,
            dropped: count - sent,
            ..SentDatagrams::default()
        })
    }

    fn piece(&self, bytes: Bytes) -> Option<GroupPiece> {
        let size = u32::try_from(bytes.len()).ok()?;
        let room = self.room.clone().try_acquire_many_owned(size).ok()?;
        Some(GroupPiece { bytes, _room: room })
    }

    /// Opens the stream of a group whose first datagram has this number.
    fn begin(
        &self,
        state: &StreamState,
        first: u64,
        now: Instant,
    ) -> Result<FillingGroup, NoGroup> {
        let shared = state.shared();
        let group = self.groups.clone().try_acquire_owned();
        let group = group.map_err(|_| NoGroup)?;
        let place = shared.groups.place()?;
        let stream = shared.connection.try_open_uni().ok_or(NoGroup)?;

        let mut bytes = BytesMut::new();
        let head = GroupHead {
            stream: state.id(),
            first,
        };
        head.encode(&mut bytes);
        let (pieces, waiting) = unbounded_channel();
        let ends = now + GROUP_TIME;
        place.send(GroupWriter {
            stream,
            head: bytes.freeze(),
            waiting,
            ends,
            deadline: now + self.within,
            counts: self.counts.clone(),
            _group: group,
        });
        self.counts.begun();
        Ok(FillingGroup { ends, pieces })
    }
}

/// Nothing more can be sent in groups at the moment: too much is on its way.
#[derive(Debug)]
pub(crate) struct NoGroup;

impl FillingGroup {
    fn takes(&self, now: Instant) -> bool {
        now < self.ends && !self.pieces.is_closed()
    }
}

/// Writes a group. The driver of its connection runs it.
#[derive(Debug)]
pub(crate) struct GroupWriter {
    stream: SendStream,
    head: Bytes,
    waiting: UnboundedReceiver<GroupPiece>,
    ends: Instant,
    deadline: Instant,
    counts: GroupCounts,
    _group: OwnedSemaphorePermit,
}

impl GroupWriter {
    /// Writes the group to its end, and waits until it has arrived, or resets its stream at the deadline.
    pub(super) async fn run(mut self) {
        let deadline = self.deadline;
        if timeout_at(deadline, self.write()).await.is_err() {
            self.stream.reset(Code::RequestCancelled.number());
            self.counts.given_up();
        }
    }

    async fn write(&mut self) {
        if write_all(&mut self.stream, self.head.clone())
            .await
            .is_err()
        {
            return;
        }
        loop {
            let next = timeout_at(self.ends, self.waiting.recv()).await;
            let piece = match next {
                Ok(Some(piece)) => piece,
                // The rest was sent before.
                Err(_) if !self.waiting.is_closed() => {
                    self.waiting.close();
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            if write_all(&mut self.stream, piece.bytes).await.is_err() {
                return;
            }
        }
        if self.stream.finish().is_ok() {
            self.stream.stopped().await;
        }
    }
}

/// Groups of a connection that have begun, on their way to its driver.
#[derive(Debug)]
pub(crate) struct BegunGroups {
    sender: mpsc::Sender<GroupWriter>,
    /// Taken by the driver.
    receiver: Mutex<Option<mpsc::Receiver<GroupWriter>>>,
}

impl Default for BegunGroups {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(BEGUN);
        Self {
            sender,
            receiver: Mutex::new(Some(receiver)),
        }
    }
}

impl BegunGroups {
    /// Room for one more.
    fn place(&self) -> Result<mpsc::Permit<'_, GroupWriter>, NoGroup> {
        self.sender.try_reserve().map_err(|_| NoGroup)
    }

    /// For the driver, which calls it once.
    pub(super) fn take(&self) -> Option<mpsc::Receiver<GroupWriter>> {
        self.receiver.lock().take()
    }
}

impl Shared {
    /// Whether the peer takes groups of datagrams.
    pub(crate) fn takes_groups(&self) -> bool {
        self.peer().is_some_and(|settings| settings.datagram_groups)
    }
}
