//! The thread that writes the files of a tap.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use super::pcapng::{self, FlowPacket};
use super::rotation::Rotation;

/// Bytes of pieces that wait for the thread, with their frames; further pieces are missing in the files.
#[doc(alias = "bound")]
const WAITING: usize = 4 * 1024 * 1024;

/// Bytes that a waiting piece counts beside its payload.
const FRAME: usize = 160;

/// Bytes that are written at once.
#[doc(alias = "bound")]
const BATCH: usize = 256 * 1024;

/// Bytes of a file beside its pieces: its opening, and the count of those that are missing.
#[doc(alias = "bound")]
const ROOM: u64 = 128;

/// How long pieces are gathered for one write, so that a short flow does not wake the thread for each of its own.
#[doc(alias = "bound")]
const GATHER: Duration = Duration::from_millis(10);

/// How often it is seen meanwhile whether a batch is full.
const LOOK: Duration = Duration::from_millis(1);

/// How long written pieces may be kept back, and how long a disk that failed is left alone.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(1);

/// The way to the thread. It ends with the last of these.
#[derive(Clone)]
pub(super) struct TapWriter {
    pieces: Sender<FlowPacket>,
    waiting: Arc<Waiting>,
}

/// The pieces between flows and the thread.
#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    missing: AtomicU64,
}

impl TapWriter {
    /// Starts the thread.
    pub(super) fn start(rotation: Rotation) -> io::Result<Self> {
        let (pieces, waits) = channel();
        let waiting = Arc::<Waiting>::default();
        let thread = WriterThread {
            rotation,
            waiting: waiting.clone(),
            current: None,
            number: 0,
            has_failed: false,
        };
        std::thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || thread.run(&waits))?;
        Ok(Self { pieces, waiting })
    }

    /// Hands a piece over, or counts it as missing.
    pub(super) fn send(&self, piece: FlowPacket) {
        let cost = cost(&piece);
        let before = self.waiting.bytes.fetch_add(cost, Ordering::Relaxed);
        if before + cost > WAITING || self.pieces.send(piece).is_err() {
            self.waiting.bytes.fetch_sub(cost, Ordering::Relaxed);
            self.waiting.missing.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn cost(piece: &FlowPacket) -> usize {
    let comment = piece.comment.as_ref().map_or(0, |comment| comment.len());
    piece.payload.len() + comment + FRAME
}

struct WriterThread {
    rotation: Rotation,
    waiting: Arc<Waiting>,
    current: Option<Current>,
    number: u64,
    /// Whether the last write failed: said once, not for each piece.
    has_failed: bool,
}

/// The file that is written.
struct Current {
    file: File,
    written: u64,
}

impl WriterThread {
    fn run(mut self, waits: &Receiver<FlowPacket>) {
        let mut batch = Vec::with_capacity(BATCH);
        let most = (BATCH as u64).min(self.rotation.size - ROOM);
        loop {
            let first = match waits.recv_timeout(PAUSE) {
                Ok(piece) => piece,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.gather();
            let mut count = 0;
            let mut next = Some(first);
            while let Some(piece) = next {
                self.waiting
                    .bytes
                    .fetch_sub(cost(&piece), Ordering::Relaxed);
                // No batch is larger than a file.
                if count > 0 && (batch.len() + cost(&piece)) as u64 > most {
                    self.write(&mut batch, count);
                    count = 0;
                }
                pcapng::append(&mut batch, &piece);
                count += 1;
                next = waits.try_recv().ok();
            }
            self.write(&mut batch, count);
        }
    }

    /// Lets pieces come while there are fewer than a batch: each that found the thread waiting would have to wake it.
    fn gather(&self) {
        let until = Instant::now() + GATHER;
        while self.waiting.bytes.load(Ordering::Relaxed) < BATCH && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    /// Writes a batch of so many pieces, or counts them as missing.
    fn write(&mut self, batch: &mut Vec<u8>, count: u64) {
        let missing = self.waiting.missing.load(Ordering::Relaxed);
        if missing > 0 {
            pcapng::missing(batch, SystemTime::now(), missing);
        }
        let written = self.try_write(batch);
        batch.clear();
        match written {
            Ok(()) if self.has_failed => {
                self.has_failed = false;
                tracing::info!(missing, "tap: files are written again");
            }
            Ok(()) => {}
            Err(error) => {
                self.current = None;
                self.waiting.missing.fetch_add(count, Ordering::Relaxed);
                if !self.has_failed {
                    let folder = self.rotation.folder.display();
                    tracing::error!(%error, "tap: nothing can be written to {folder}; flows go on unrecorded");
                }
                self.has_failed = true;
                // A full disk is not asked for each batch; what comes meanwhile is missing, too.
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn try_write(&mut self, batch: &[u8]) -> io::Result<()> {
        let length = batch.len() as u64;
        // The bound of the files holds for whole batches, none of which is larger than one.
        let fits = |current: &Current| current.written + length <= self.rotation.size;
        let mut current = match self.current.take().filter(fits) {
            Some(current) => current,
            None => self.begin()?,
        };
        current.file.write_all(batch)?;
        current.written += length;
        self.current = Some(current);
        Ok(())
    }

    fn begin(&mut self) -> io::Result<Current> {
        self.number += 1;
        let mut file = self.rotation.next(self.number)?;
        let mut opening = Vec::new();
        pcapng::begin(&mut opening);
        file.write_all(&opening)?;
        Ok(Current {
            file,
            written: opening.len() as u64,
        })
    }
}
