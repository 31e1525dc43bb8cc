//! How much content in transit the node holds: an account for each connection, and one for the
//! process.
//!
//! Bytes are [`HeldBytes`] from the time they are taken from one side until the other side has them. A
//! direction of a stream, a [`Part`], may hold its share of the connection's: much while few others
//! hold anything, and little, but never nothing, while many do. So a connection whose peer stops
//! reading costs a bounded amount, however many streams it has. While the process holds more than
//! it should, connections that hold more than their fair share get no more room; those that make no
//! progress are ended ([`Memory::press`]).

mod arrivals;
mod carrier;
mod exchanges;
mod fields_charge;
mod input;
mod owners;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::peer::{PeerAddress, StreamInfo};
pub use arrivals::Arrivals;
pub use carrier::{AccountedTransport, Flow, Pressure};
pub use exchanges::{ConnectionCharges, ExchangeCharge, USUAL_HEAD};
pub use fields_charge::FieldsCharge;
use input::Input;
pub use input::Level;
use owners::Owners;
pub use owners::{Charge, OWNER_FLOOR, Overdrawn, Owner, OwnerAccount, Purpose};

/// Bytes that the process may hold for slow readers.
#[doc(alias("bound", "memory.total"))]
pub const BUDGET: usize = 128 << 20;

/// Bytes that one connection may hold for slow readers.
#[doc(alias("bound", "memory.connection"))]
pub const CONNECTION: usize = 16 << 20;

/// Bytes that a direction of a stream may hold however many others do.
#[doc(alias = "bound")]
pub const FLOOR: usize = 16 << 10;

/// Bytes that a direction of a stream may hold at most: a few pieces, so that there is one to
/// send while another is read.
#[doc(alias = "bound")]
const MOST: usize = 256 << 10;

/// The process hears of changes by this many bytes: most connections hold less, and tell it nothing.
const STEP: usize = 16 << 10;

/// How often the account of the process is looked at by a task without room because of it.
const LOOK: Duration = Duration::from_millis(100);

/// Looks within which a connection must have moved its bytes, or counts as stalled.
#[doc(alias = "bound")]
const LOOKS: usize = 60;

/// Bytes that an account has moved since the last look.
const UNSEEN: usize = usize::MAX;

/// The account of the process.
#[derive(Debug)]
pub struct Memory {
    held: AtomicUsize,
    /// Connections that hold a [`STEP`] or more.
    holding: AtomicUsize,
    budget: AtomicUsize,
    connection: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
    owners: Owners,
}

/// The memory of this process.
static NODE: Memory = Memory::new(BUDGET, CONNECTION);

/// The memory of a connection, as status shows it.
#[derive(Debug)]
pub struct Holder {
    /// The connection.
    pub info: Arc<StreamInfo>,
    /// How much it holds, in bytes.
    pub held: usize,
}

impl Memory {
    /// The account of this process.
    pub fn node() -> &'static Self {
        &NODE
    }

    /// An account of `budget` bytes, with at most `connection` of them for each connection.
    pub const fn new(budget: usize, connection: usize) -> Self {
        Self {
            held: AtomicUsize::new(0),
            holding: AtomicUsize::new(0),
            budget: AtomicUsize::new(budget),
            connection: AtomicUsize::new(connection),
            accounts: Mutex::new(Vec::new()),
            owners: Owners::new(),
        }
    }

    /// Sets the bounds.
    pub fn set(&self, budget: usize, connection: usize) {
        self.budget.store(budget, Ordering::Relaxed);
        self.connection
            .store(connection.max(4 * FLOOR), Ordering::Relaxed);
    }

    /// Bytes held, to within a few KiB for each connection.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes that may be held.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// Bytes that a connection may hold.
    pub fn connection(&self) -> usize {
        self.connection.load(Ordering::Relaxed)
    }

    /// The connections that hold most, this many at most.
    pub fn holders(&self, count: usize) -> Vec<Holder> {
        let holders = self.accounts().into_iter().map(|account| Holder {
            held: account.held(),
            info: account.info.clone(),
        });
        let mut holders: Vec<Holder> = holders.filter(|holder| holder.held > 0).collect();
        holders.sort_by_key(|holder| std::cmp::Reverse(holder.held));
        holders.truncate(count);

        holders
    }

    /// To be called once a second: while the process holds more than it may, ends connections that hold more than their share and do
    /// not move, those that hold most first. They are named.
    pub fn press(&self) -> Vec<Holder> {
        let mut accounts = self.accounts();
        let pressure = Pressure {
            fair: self.is_full().then(|| self.fair()),
        };

        accounts
            .iter()
            .for_each(|account| account.measure(pressure));
        let moving: Vec<bool> = accounts.iter().map(|account| account.look()).collect();
        let mut over = (self.held() + self.charged()).saturating_sub(self.budget());
        let mut still: Vec<Arc<Account>> = accounts
            .drain(..)
            .zip(moving)
            .filter_map(|(account, moves)| (!moves).then_some(account))
            .collect();
        still.sort_by_key(|account| std::cmp::Reverse(account.held()));
        let fair = self.fair();
        let mut ended = Vec::new();

        for account in still {
            let held = account.held();
            // Sorted by size: no later one holds more. Those within their share are not to blame.
            if over == 0 || held <= fair.min(self.budget() / 8) {
                break;
            }

            over = over.saturating_sub(held);
            account.end();
            ended.push(Holder {
                info: account.info.clone(),
                held,
            });
        }

        ended
    }

    fn accounts(&self) -> Vec<Arc<Account>> {
        let mut accounts = self.accounts.lock();
        accounts.retain(|account| account.strong_count() > 0);
        accounts.iter().filter_map(Weak::upgrade).collect()
    }

    fn is_full(&self) -> bool {
        self.held() + self.charged() > self.budget()
    }

    /// The fair share of each connection that holds anything.
    fn fair(&self) -> usize {
        self.budget().saturating_sub(self.charged()) / self.holding.load(Ordering::Relaxed).max(1)
    }

    /// A connection holds this many steps now, and held this many before.
    fn note(&self, before: usize, now: usize) {
        if before == now {
            return;
        }
        if before == 0 {
            self.holding.fetch_add(1, Ordering::Relaxed);
        } else if now == 0 {
            self.holding.fetch_sub(1, Ordering::Relaxed);
        }

        if now > before {
            self.held
                .fetch_add((now - before) * STEP, Ordering::Relaxed);
        } else {
            self.held
                .fetch_sub((before - now) * STEP, Ordering::Relaxed);
        }
    }
}

/// The account of a connection.
pub struct Account {
    memory: &'static Memory,
    info: Arc<StreamInfo>,
    held: AtomicUsize,
    /// Directions that hold something to be sent.
    holders: AtomicUsize,
    input: Input,
    /// Bytes that went on, all in all, and how many had when it was looked at last.
    moved: AtomicUsize,
    seen: AtomicUsize,
    is_ended: AtomicBool,
    ended: Notify,
    /// Holds more memory for it, counted with the rest.
    transport: OnceLock<Box<dyn AccountedTransport>>,
    kept: AtomicUsize,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("peer", &self.info.peer)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

impl Account {
    /// An account of a connection of this process.
    pub fn open(info: &Arc<StreamInfo>) -> Arc<Self> {
        Self::within(Memory::node(), info)
    }

    /// An account that counts in `memory`.
    pub fn within(memory: &'static Memory, info: &Arc<StreamInfo>) -> Arc<Self> {
        let account = Arc::new(Self {
            memory,
            info: info.clone(),
            held: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
            input: Input::new(),
            moved: AtomicUsize::new(0),
            seen: AtomicUsize::new(UNSEEN),
            is_ended: AtomicBool::new(false),
            ended: Notify::new(),
            transport: OnceLock::new(),
            kept: AtomicUsize::new(0),
        });

        let mut accounts = memory.accounts.lock();
        // Only where the list would grow: clearing it costs as much as growing, so that opening a connection is constant on average.
        if accounts.len() == accounts.capacity() {
            accounts.retain(|account| account.strong_count() > 0);
        }

        accounts.push(Arc::downgrade(&account));
        account
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The address of the other end.
    pub fn peer(&self) -> &PeerAddress {
        &self.info.peer
    }

    /// Resolves when the connection must be ended: it holds too much and makes no progress.
    pub async fn ended(&self) {
        while !self.is_ended.load(Ordering::Relaxed) {
            // The notice is subscribed to before the flag is read again: `end` sets the flag first.
            let ended = self.ended.notified();
            if self.is_ended.load(Ordering::Relaxed) {
                return;
            }
            ended.await;
        }
    }

    /// Whether the connection must be ended.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// How much room its peer should have.
    pub fn level(&self) -> Level {
        self.input.level()
    }

    /// Resolves when the level has changed, or as many bytes have come as [`Account::arrives`] was asked for. For a waiting task.
    pub async fn changed(&self) {
        self.input.changed().await;
    }

    /// Bytes that have come on its streams, all in all.
    pub fn arrived(&self) -> u64 {
        self.input.arrived()
    }

    /// Whether `count` bytes have come. If not, [`Account::changed`] will tell.
    pub fn arrives(&self, count: u64) -> bool {
        self.input.arrives(count)
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    /// Whether it has moved since the last look.
    fn look(&self) -> bool {
        let moved = self.moved.load(Ordering::Relaxed);
        let seen = self.seen.swap(moved, Ordering::Relaxed);
        let since = moved.wrapping_sub(seen);
        seen == UNSEEN || since.saturating_mul(LOOKS) >= self.held()
    }

    fn add(&self, bytes: usize) {
        let before = self.held.fetch_add(bytes, Ordering::Relaxed);
        self.memory.note(before / STEP, (before + bytes) / STEP);
    }

    fn take(&self, bytes: usize) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
        self.withdraw(bytes);
    }

    fn withdraw(&self, bytes: usize) {
        let before = self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.note(before / STEP, (before - bytes) / STEP);
    }

    /// Whether it has more than its share while there is not enough for all.
    fn is_over(&self) -> bool {
        self.memory.is_full() && self.of_streams() > self.memory.fair()
    }

    /// The share of each direction of a stream.
    fn share(&self) -> usize {
        let most = self.memory.connection() / 4;
        if self.is_over() {
            0
        } else if self.of_streams() >= most {
            FLOOR
        } else {
            (most / self.holders.load(Ordering::Relaxed).max(1)).clamp(FLOOR, MOST)
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // Streams have withdrawn what they held; the transport's part was measured, and goes with the account.
        let kept = *self.kept.get_mut();
        self.withdraw(kept);
    }
}

/// The outgoing bytes of one stream.
#[derive(Debug)]
pub struct Part {
    account: Arc<Account>,
    held: AtomicUsize,
    waiting: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Part {
    /// The part of a stream of this connection.
    pub fn of(account: &Arc<Account>) -> Arc<Self> {
        let held = AtomicUsize::new(0);
        let waiting = AtomicBool::new(false);
        Arc::new(Self {
            account: account.clone(),
            held,
            waiting,
            waker: Mutex::new(None),
        })
    }

    /// Counts bytes until the result is dropped.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> HeldBytes {
        if bytes > 0 && self.held.fetch_add(bytes, Ordering::Relaxed) == 0 {
            self.account.holders.fetch_add(1, Ordering::Relaxed);
        }
        self.account.add(bytes);
        HeldBytes {
            part: self.clone(),
            bytes,
        }
    }

    /// How much more it may hold now; 0 until some of its bytes have left.
    pub fn room(&self) -> usize {
        self.account
            .share()
            .saturating_sub(self.held.load(Ordering::Relaxed))
    }

    /// Waits until there is room, and says how much.
    pub async fn roomy(&self) -> usize {
        loop {
            let room = self.room();
            if room > 0 {
                return room;
            }

            tokio::select! {
                room = std::future::poll_fn(|cx| self.poll_room(cx)) => return room,
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        // Waker, flag, then the look: `release` frees the bytes before it reads the flag, so that one of both notices.
        *self.waker.lock() = Some(cx.waker().clone());
        self.waiting.store(true, Ordering::SeqCst);
        match self.room() {
            0 => Poll::Pending,
            room => Poll::Ready(room),
        }
    }

    fn release(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        if self.held.fetch_sub(bytes, Ordering::SeqCst) == bytes {
            self.account.holders.fetch_sub(1, Ordering::Relaxed);
        }

        self.account.take(bytes);
        if self.waiting.load(Ordering::SeqCst) && self.waiting.swap(false, Ordering::SeqCst) {
            let waker = self.waker.lock().take();
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

/// Bytes that a [`Part`] holds.
#[derive(Debug)]
pub struct HeldBytes {
    part: Arc<Part>,
    bytes: usize,
}

impl HeldBytes {
    /// Releases bytes that have left.
    pub fn left(&mut self, bytes: usize) {
        let left = bytes.min(self.bytes);
        self.bytes -= left;
        self.part.release(left);
    }

    /// A part of them, as a hold of its own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            part: self.part.clone(),
            bytes,
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.part.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::PeerAddress;

    const MIB: usize = 1 << 20;

    pub(super) fn account(budget: usize) -> Arc<Account> {
        let memory = Box::leak(Box::new(Memory::new(budget, CONNECTION)));
        another(memory)
    }

    fn another(memory: &'static Memory) -> Arc<Account> {
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid: None },
            local: None,
            tls: None,
            origin: None,
        };
        Account::within(memory, &Arc::new(info))
    }

    #[test]
    fn a_few_streams_have_much_and_a_thousand_cost_a_bounded_sum() {
        let account = account(BUDGET);
        let alone = Part::of(&account);
        assert_eq!(alone.room(), MOST);
        let mut held = Vec::new();
        for _ in 0..1_000 {
            let part = Part::of(&account);
            while part.room() > 0 {
                held.push(part.hold(part.room().min(MOST)));
            }
        }
        assert!(account.held() < 21 * MIB, "{}", account.held());
        assert_eq!(alone.room(), FLOOR, "but never nothing");
        drop(held);
        assert_eq!(
            (account.held(), account.memory.held(), alone.room()),
            (0, 0, MOST)
        );
    }

    #[test]
    fn what_has_left_makes_room_and_what_is_split_is_counted_once() {
        let account = account(BUDGET);
        let part = Part::of(&account);
        let mut first = part.hold(MOST);
        let second = first.split(MOST / 2);
        assert_eq!(part.room(), 0);
        first.left(1_000);
        assert_eq!((part.room(), account.held()), (1_000, MOST - 1_000));
        drop((first, second));
        assert_eq!((part.room(), account.held()), (MOST, 0));
    }

    struct Below(AtomicUsize);

    impl AccountedTransport for Below {
        fn look(&self, _: Pressure) -> Flow {
            Flow {
                kept: self.0.swap(MIB, Ordering::Relaxed),
                moved: 0,
            }
        }
    }

    #[test]
    fn what_a_transport_keeps_counts_and_takes_no_room_from_streams() {
        let account = account(4 * MIB);
        account.carried_by(Below(AtomicUsize::new(6 * MIB)));
        assert!(account.memory.press().is_empty(), "it has just come");
        assert_eq!(
            (
                account.held(),
                account.memory.held(),
                Part::of(&account).room()
            ),
            (6 * MIB, 6 * MIB, MOST)
        );
        account.memory.press();
        assert_eq!((account.held(), account.is_ended()), (MIB, false));
        let memory = account.memory;
        drop(account);
        assert_eq!(memory.held(), 0);
    }

    #[tokio::test]
    async fn a_task_that_waits_for_room_is_woken_by_what_leaves() {
        let part = Part::of(&account(BUDGET));
        let mut held = part.hold(MOST);
        let room = tokio::join!(part.roomy(), async { held.left(10) }).0;
        assert_eq!(room, 10);
    }

    #[test]
    fn where_there_is_too_little_only_who_has_more_than_others_waits_and_is_ended_if_it_stands_still()
     {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(8 * MIB, CONNECTION)));
        let (large, small, moving) = (another(memory), another(memory), another(memory));
        let _held = Part::of(&large).hold(6 * MIB);
        let _few = Part::of(&small).hold(MIB / 2);
        let of_moving = Part::of(&moving);
        let mut much = of_moving.hold(7 * MIB);
        assert!(memory.press().is_empty(), "all have moved into place");
        much.left(MIB);
        assert_eq!(
            (Part::of(&large).room(), Part::of(&small).room() > 0),
            (0, true)
        );
        let ended = memory.press();
        assert_eq!(
            ended.iter().map(|holder| holder.held).collect::<Vec<_>>(),
            [6 * MIB]
        );
        assert!(large.is_ended() && !small.is_ended() && !moving.is_ended());
        assert_eq!(
            memory
                .holders(2)
                .iter()
                .map(|holder| holder.held)
                .collect::<Vec<_>>(),
            [6 * MIB, 6 * MIB]
        );
    }
}
