//! Rejoins the two halves of a connection after an exchange.
//!
//! One such value belongs to the connection, and serves one exchange after the other, without
//! allocations.

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use parking_lot::{Mutex, MutexGuard};

use super::{Connection, ReadSide, WriteSide};

/// Where a connection goes after an exchange.
pub trait Home: Send + Sync {
    /// Takes the connection, which says itself [whether it is usable](Connection::is_usable).
    fn keep(self: Arc<Self>, connection: Connection);
}

impl<F: Fn(Connection) + Send + Sync> Home for F {
    fn keep(self: Arc<Self>, connection: Connection) {
        self(connection);
    }
}

/// Collects the halves of a connection after an exchange. If one of them is dropped, the connection closes.
pub(crate) struct Rejoin {
    halves: Mutex<Halves>,
    reusable: AtomicBool,
    /// Whether a message that is not read to its end must end in a reset.
    resets: bool,
}

/// The halves that have come back, and the waiting owner.
#[derive(Default)]
struct Halves {
    read: Whereabouts<ReadSide>,
    write: Whereabouts<WriteSide>,
    /// Keeps a client's connection after its exchange.
    home: Option<Arc<dyn Home>>,
    /// The server's task, while it waits for both halves.
    waiter: Option<Waker>,
}

/// Where a half is.
#[derive(Default)]
enum Whereabouts<T> {
    /// With the exchange.
    #[default]
    Away,
    /// Here.
    Back(T),
    /// A half was dropped.
    Lost,
}

impl<T> Whereabouts<T> {
    fn is_away(&self) -> bool {
        matches!(self, Self::Away)
    }

    fn take(&mut self) -> Option<T> {
        match std::mem::take(self) {
            Self::Back(half) => Some(half),
            Self::Away | Self::Lost => None,
        }
    }
}

impl fmt::Debug for Rejoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejoin")
            .field("reusable", &self.reusable)
            .finish_non_exhaustive()
    }
}

impl Rejoin {
    /// For a server, which tells its client why it does not read on, and closes in good order.
    pub(crate) fn of_server() -> Arc<Self> {
        Self::new(false)
    }

    /// For a client. The server has the whole request, so that an orderly close would look like the end of the requests, with
    /// a response still wanted: a server that is silent would keep the exchange.
    pub(crate) fn of_client() -> Arc<Self> {
        Self::new(true)
    }

    fn new(resets: bool) -> Arc<Self> {
        Arc::new(Self {
            halves: Mutex::default(),
            reusable: AtomicBool::new(true),
            resets,
        })
    }

    /// Begins an exchange, with both halves. Those of the previous one are back, or lost.
    pub(crate) fn part(
        self: &Arc<Self>,
        home: Option<Arc<dyn Home>>,
    ) -> (WayBack<ReadSide>, WayBack<WriteSide>) {
        self.reusable.store(true, Ordering::Relaxed);
        *self.halves.lock() = Halves {
            home,
            ..Halves::default()
        };
        (WayBack::to(self), WayBack::to(self))
    }

    /// The connection of a server, once neither half is with the exchange any more; `None` if one was lost.
    pub(crate) async fn returned(&self) -> Option<Connection> {
        poll_fn(|cx| {
            let mut halves = self.halves.lock();
            if !halves.are_settled() {
                halves.waiter = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(self.take(&mut halves))
        })
        .await
    }

    fn take(&self, halves: &mut Halves) -> Option<Connection> {
        let read = halves.read.take();
        let write = halves.write.take();
        Some(Connection {
            read: read?,
            write: write?,
            reusable: self.reusable.load(Ordering::Relaxed),
            rejoin: None,
        })
    }

    /// Tells the one who waits, if neither half is with the exchange any more.
    fn settle(self: Arc<Self>, mut halves: MutexGuard<'_, Halves>) {
        if !halves.are_settled() {
            return;
        }
        if !self.resets {
            let waiter = halves.waiter.take();
            drop(halves);
            waiter.into_iter().for_each(Waker::wake);
            return;
        }

        let home = halves.home.take();
        let connection = self.take(&mut halves);
        drop(halves);
        if let Some((home, mut connection)) = home.zip(connection) {
            // Kept with the connection, so that its next exchange allocates none.
            connection.rejoin = Some(self);
            home.keep(connection);
        }
    }
}

impl Halves {
    fn are_settled(&self) -> bool {
        !self.read.is_away() && !self.write.is_away()
    }
}

/// A half of a connection.
pub(crate) trait Half: Sized {
    /// Its place.
    #[expect(private_interfaces, reason = "both are known here only")]
    fn place(halves: &mut Halves) -> &mut Whereabouts<Self>;
}

impl Half for ReadSide {
    #[expect(private_interfaces, reason = "both are known here only")]
    fn place(halves: &mut Halves) -> &mut Whereabouts<Self> {
        &mut halves.read
    }
}

impl Half for WriteSide {
    #[expect(private_interfaces, reason = "both are known here only")]
    fn place(halves: &mut Halves) -> &mut Whereabouts<Self> {
        &mut halves.write
    }
}

/// The way back of one half, for one exchange. Dropped, the half is lost.
pub(crate) struct WayBack<T: Half> {
    /// `None` once the half was given back.
    rejoin: Option<Arc<Rejoin>>,
    half: PhantomData<fn(T)>,
}

impl<T: Half> fmt::Debug for WayBack<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rejoin.fmt(f)
    }
}

impl<T: Half> WayBack<T> {
    fn to(rejoin: &Arc<Rejoin>) -> Self {
        Self {
            rejoin: Some(rejoin.clone()),
            half: PhantomData,
        }
    }

    /// Whether it is to a server.
    pub(crate) fn is_server(&self) -> bool {
        self.rejoin.as_ref().is_some_and(|rejoin| !rejoin.resets)
    }

    /// The connection will not serve another exchange.
    pub(crate) fn spoil(&self) {
        if let Some(rejoin) = &self.rejoin {
            rejoin.reusable.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the connection is known not to serve another exchange.
    pub(crate) fn is_spoilt(&self) -> bool {
        self.rejoin
            .as_ref()
            .is_none_or(|rejoin| !rejoin.reusable.load(Ordering::Relaxed))
    }

    /// Gives the half back.
    pub(crate) fn give(mut self, half: T) {
        self.end(Whereabouts::Back(half));
    }

    fn end(&mut self, half: Whereabouts<T>) {
        let Some(rejoin) = self.rejoin.take() else {
            return;
        };
        // For as long as the lock is held.
        let held = rejoin.clone();
        let mut halves = held.halves.lock();
        *T::place(&mut halves) = half;
        rejoin.settle(halves);
    }
}

impl WayBack<ReadSide> {
    /// The rest of the input is not read any more.
    pub(crate) fn abandon(&self, read: &ReadSide) {
        self.spoil();
        if !self.is_server() {
            read.half.set_abort();
        }
    }
}

impl WayBack<WriteSide> {
    /// Whether the peer has ended its side, seen while its message has been read and another has not begun to come.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(rejoin) = &self.rejoin else {
            return Poll::Pending;
        };
        let mut halves = rejoin.halves.lock();
        let Whereabouts::Back(read) = &mut halves.read else {
            return Poll::Pending;
        };
        if !read.buffer.is_empty() {
            return Poll::Pending;
        }

        match ready!(read.poll_fill(cx)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            // The next request: it waits for its turn.
            Ok(_) => Poll::Pending,
        }
    }
}

impl<T: Half> Drop for WayBack<T> {
    fn drop(&mut self) {
        self.end(Whereabouts::Lost);
    }
}
