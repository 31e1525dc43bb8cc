//! A thread that writes lines, and a queue to it that never makes a worker wait.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hermes_net::AppendedFile;
use hermes_net::memory::Owner;
use prometheus_client::metrics::counter::Counter;

use crate::LOG;
use crate::waiting::{WaitingPart, WaitingRoom};

/// How long to wait for room in a full queue before looking again, when flushing.
const RETRY: Duration = Duration::from_millis(5);

/// Something that can be written, a line each.
pub(super) trait Written: Send + 'static {
    /// How many may wait: traffic never waits for a disk.
    const QUEUE: usize;
    /// Bytes of those that wait, where their owners share these; `None` where they are bounded before they come here.
    const BYTES: Option<usize> = None;
    /// The name of the thread that writes.
    const THREAD: &'static str;
    /// The name of these lines, for the log.
    const WHAT: &'static str;

    /// Bytes of memory that it takes while it waits.
    fn size(&self) -> usize {
        0
    }

    /// Its owner, for when memory is short.
    fn owner(&self) -> Owner {
        Owner::Local
    }

    /// Writes the line, with its end.
    fn write(&self, output: &mut impl Write) -> io::Result<()>;
}

/// The destination of lines.
pub(super) enum Place {
    /// A file, which may be moved away.
    File(AppendedFile),
    /// Anything else.
    Other(Box<dyn Write + Send>),
}

/// Counts the fates of lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Fates {
    /// Written lines.
    pub(super) written: Counter,
    /// Lines without room in the queue.
    pub(super) crowded_out: Counter,
    /// Lines that could not be written.
    pub(super) failed: Counter,
}

impl Place {
    /// Whether it is time to look where the file is.
    fn is_due(&self) -> bool {
        matches!(self, Self::File(file) if file.is_due())
    }

    fn follow(&mut self) {
        if let Self::File(file) = self {
            file.follow();
        }
    }
}

impl Write for Place {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Other(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Other(writer) => writer.flush(),
        }
    }
}

/// A message in the queue.
enum Message<L> {
    Line(Box<WaitingLine<L>>),
    /// The file may have been moved; later lines go to a new one then.
    Follow,
    /// Write out everything before this; then the sender is dropped or used.
    Flush(SyncSender<()>),
}

/// A line, and its part of the memory of those that wait.
struct WaitingLine<L> {
    line: L,
    _part: Option<WaitingPart>,
}

/// The near end of the queue. Dropping it ends the thread after the last line.
#[derive(Debug)]
pub(super) struct Writer<L> {
    queue: Option<SyncSender<Message<L>>>,
    room: Option<Arc<WaitingRoom>>,
    fates: Fates,
}

impl<L: Written> Writer<L> {
    /// Starts the thread, if there is anywhere to write.
    pub fn start(place: Option<Place>, fates: Fates) -> Self {
        let queue = place.and_then(|writer| {
            let (near, far) = sync_channel(L::QUEUE);
            let counted = fates.clone();
            let thread = std::thread::Builder::new().name(L::THREAD.to_owned());
            let started = thread.spawn(move || write_all(&far, writer, &counted));

            if let Err(error) = &started {
                tracing::error!(target: LOG, "no {}: their thread does not start: {error}", L::WHAT);
            }
            started.is_ok().then_some(near)
        });
        Self {
            queue,
            room: L::BYTES.map(|bytes| WaitingRoom::new(L::QUEUE, bytes)),
            fates,
        }
    }

    /// Whether lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Queues `line`, or counts it as lost when the queue is full, or its owner's part of it.
    pub fn offer(&self, line: L) {
        let Some(queue) = &self.queue else { return };
        let part = match &self.room {
            None => Some(None),
            Some(room) => room.enter(line.size(), || line.owner()).map(Some),
        };
        // Never waits: a disk that stands still costs lines, and no worker.
        let is_queued = part.is_some_and(|part| {
            let line = WaitingLine { line, _part: part };
            queue.try_send(Message::Line(Box::new(line))).is_ok()
        });
        if !is_queued {
            self.fates.crowded_out.inc();
        }
    }

    /// Has it looked at once whether the file was moved. Where the queue is full, a look comes soon anyway.
    pub fn follow(&self) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(Message::Follow);
        }
    }

    /// Waits at most `limit` until everything queued so far is written out; false when it is not.
    pub fn flush(&self, limit: Duration) -> bool {
        let Some(queue) = &self.queue else {
            return true;
        };
        let deadline = Instant::now() + limit;
        let (done, heard) = sync_channel(1);
        let mut message = Message::Flush(done);

        while let Err(TrySendError::Full(back)) = queue.try_send(message) {
            if Instant::now() >= deadline {
                return false;
            }
            message = back;
            std::thread::sleep(RETRY);
        }

        heard
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
    }
}

/// Writes lines until the queue's near end is gone; flushes whenever the queue is empty.
fn write_all<L: Written>(queue: &Receiver<Message<L>>, writer: Place, fates: &Fates) {
    let mut output = BufWriter::new(writer);
    let mut failing = false;
    while let Some(message) = next(queue, &mut output) {
        let written = match message {
            Message::Line(line) => {
                let written =
                    follow_if_due(&mut output).and_then(|()| line.line.write(&mut output));
                written.map(|()| _ = fates.written.inc())
            }
            Message::Follow => follow(&mut output),
            Message::Flush(done) => {
                let flushed = output.flush();
                // The asker may have stopped waiting.
                let _ = done.send(());
                flushed
            }
        };
        match written {
            Ok(()) => failing = false,
            Err(error) => {
                fates.failed.inc();
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(target: LOG, "{} are lost: {error}", L::WHAT);
                }
            }
        }
    }
}

/// The next message. If there is none yet, written lines are flushed before waiting.
fn next<L>(queue: &Receiver<Message<L>>, output: &mut BufWriter<Place>) -> Option<Message<L>> {
    match queue.try_recv() {
        Ok(message) => Some(message),
        Err(TryRecvError::Empty) => {
            // A failure shows again at the next write.
            drop(output.flush());
            queue.recv().ok()
        }
        Err(TryRecvError::Disconnected) => None,
    }
}

fn follow_if_due(output: &mut BufWriter<Place>) -> io::Result<()> {
    if output.get_ref().is_due() {
        follow(output)
    } else {
        Ok(())
    }
}

/// Goes on in a new file if the old one was moved; earlier lines are whole in the old one.
fn follow(output: &mut BufWriter<Place>) -> io::Result<()> {
    let flushed = output.flush();
    output.get_mut().follow();
    flushed
}
