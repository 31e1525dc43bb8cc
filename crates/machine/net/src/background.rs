//! Writing by a thread of its own, so that no worker waits for a slow disk, a pipe that no one
//! empties, or a network file system.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Pieces that may wait for such a thread.
#[doc(alias = "bound")]
const PIECES: usize = 8192;

/// Their bytes: some seconds of a busy log.
#[doc(alias = "bound")]
const BYTES: usize = 2 << 20;

/// How often one who flushes looks whether a full queue has room.
const LOOK: Duration = Duration::from_millis(5);

/// Pieces lost by all such threads of the process.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Where pieces are written to, at the far end of a [`Background`].
pub trait Sink: Send + 'static {
    /// A piece that is written at once.
    type Piece: Send + 'static;

    /// Bytes of memory that a piece takes, about.
    fn size(piece: &Self::Piece) -> usize;

    /// Writes one. May block.
    ///
    /// # Errors
    /// The piece could not be written: it is counted as lost.
    fn write(&mut self, piece: Self::Piece) -> io::Result<()>;

    /// Says that so many pieces were lost since the last time.
    ///
    /// # Errors
    /// The number could not be reported.
    fn tell_lost(&mut self, lost: u64) -> io::Result<()>;

    /// Looks whether the file was moved away, and begins a new one then.
    fn follow(&mut self) {}
}

enum Delivery<P> {
    Piece(P),
    Follow,
    /// Everything before it was written.
    Flush(SyncSender<()>),
}

/// The near end of the queue to a thread that writes. Clones share it; the thread ends when the last is gone.
pub struct Background<P> {
    queue: SyncSender<Delivery<P>>,
    waiting: Arc<Backlog>,
}

/// The waiting pieces, and the number of lost ones.
#[derive(Debug, Default)]
struct Backlog {
    bytes: AtomicUsize,
    lost: AtomicU64,
}

/// Pieces that were lost in this process because their file was too slow, or failed.
#[must_use]
pub fn pieces_lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}

impl Backlog {
    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        LOST.fetch_add(1, Ordering::Relaxed);
    }
}

impl<P: Send + 'static> Background<P> {
    /// Starts a thread of that name, which has the sink.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start<S: Sink<Piece = P>>(name: &str, sink: S) -> io::Result<Self> {
        let (queue, far) = sync_channel(PIECES);
        let waiting = Arc::<Backlog>::default();
        let shared = waiting.clone();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || write_all(&far, sink, &shared))?;
        Ok(Self { queue, waiting })
    }

    /// Hands over a piece of so many bytes without waiting. Where there is no room it is lost, and counted.
    pub fn offer(&self, piece: P, bytes: usize) {
        let before = self.waiting.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before + bytes <= BYTES || before == 0;
        if fits && self.queue.try_send(Delivery::Piece(piece)).is_ok() {
            return;
        }

        self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.lose();
    }

    /// Has it looked at whether the file was moved. Where the queue is full, a look comes soon anyway.
    pub fn follow(&self) {
        let _ = self.queue.try_send(Delivery::Follow);
    }

    /// Waits at most `limit` until everything that was handed over so far is written; false when it is not.
    pub fn flush(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let (done, heard) = sync_channel(1);
        let mut message = Delivery::Flush(done);

        while let Err(TrySendError::Full(back)) = self.queue.try_send(message) {
            if Instant::now() >= deadline {
                return false;
            }
            message = back;
            thread::sleep(LOOK);
        }

        let left = deadline.saturating_duration_since(Instant::now());
        heard.recv_timeout(left).is_ok()
    }
}

impl<P> Clone for Background<P> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            waiting: self.waiting.clone(),
        }
    }
}

impl<P> std::fmt::Debug for Background<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.waiting.fmt(f)
    }
}

fn write_all<S: Sink>(queue: &Receiver<Delivery<S::Piece>>, mut sink: S, waiting: &Backlog) {
    while let Ok(message) = queue.recv() {
        match message {
            Delivery::Piece(piece) => {
                let bytes = S::size(&piece);
                let written = sink.write(piece);
                waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
                if written.is_err() {
                    waiting.lose();
                }
            }
            Delivery::Follow => sink.follow(),
            // The asker may have stopped waiting.
            Delivery::Flush(done) => drop(done.send(())),
        }

        let lost = waiting.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && sink.tell_lost(lost).is_err() {
            // Told when something can be written again.
            waiting.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Writes when it is let.
    struct Gate {
        open: Receiver<()>,
        written: SyncSender<String>,
    }

    impl Sink for Gate {
        type Piece = String;

        fn size(piece: &String) -> usize {
            piece.len()
        }

        fn write(&mut self, piece: String) -> io::Result<()> {
            // Open for good once the test has dropped its end.
            let _ = self.open.recv();
            self.written
                .send(piece)
                .map_err(|_| io::ErrorKind::BrokenPipe.into())
        }

        fn tell_lost(&mut self, lost: u64) -> io::Result<()> {
            self.write(format!("lost {lost}"))
        }
    }

    #[test]
    fn what_stands_still_loses_pieces_and_says_so_and_makes_no_one_wait() {
        let (gate, open) = channel();
        let (written, read) = sync_channel(2 * PIECES);
        let background = Background::start("gate", Gate { open, written }).unwrap();
        let line = "x".repeat(1024);
        let lines = 2 * BYTES / line.len();
        for _ in 0..lines {
            background.offer(line.clone(), line.len());
        }
        assert!(!background.flush(Duration::from_millis(20)));

        drop(gate);
        assert!(background.flush(Duration::from_secs(60)));
        let all: Vec<String> = read.try_iter().collect();
        let kept = all.iter().filter(|piece| **piece == line).count();
        assert!(kept * line.len() <= BYTES + line.len(), "{kept}");
        assert!(all.contains(&format!("lost {}", lines - kept)));
        assert!(pieces_lost() >= (lines - kept) as u64);
    }
}
