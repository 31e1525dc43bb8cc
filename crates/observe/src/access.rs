//! Where access records go: one thread that writes, and a queue that never makes a worker wait.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use hermes_config::model::Access;
use hermes_net::AppendedFile;
use prometheus_client::metrics::counter::Counter;

use super::record::Record;
use crate::LOG;
use crate::shown::write_json;

/// Access records that wait for the writer: a fraction of a second's traffic at full speed. Traffic
/// never waits for a disk.
#[doc(alias = "bound")]
const QUEUE: usize = 8192;

/// How long to wait for room in a full queue before looking again, when flushing.
const RETRY: Duration = Duration::from_millis(5);

/// A place for access records.
pub struct AccessSink(Option<Place>);

/// What records are written to.
enum Place {
    /// A file, which may be moved away.
    File(AppendedFile),
    /// Anything else.
    Other(Box<dyn Write + Send>),
}

impl AccessSink {
    /// Opens what the configuration names. A file is appended to, and made readable by this user only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(access: &Access) -> io::Result<Self> {
        Ok(match access {
            Access::Stdout => Self::writer(Box::new(io::stdout())),
            Access::Stderr => Self::writer(Box::new(io::stderr())),
            Access::Off => Self::off(),
            Access::File(path) => Self(Some(Place::File(AppendedFile::open(&path.0)?))),
        })
    }

    /// Nowhere.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Anything that can be written to.
    #[must_use]
    pub fn writer(writer: Box<dyn Write + Send>) -> Self {
        Self(Some(Place::Other(writer)))
    }
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

/// What goes through the queue.
enum Message {
    Record(Box<Record>),
    /// The file may have been moved; what follows goes to a new one then.
    Follow,
    /// Everything before this is to be written out; then the sender is dropped or used.
    Flush(SyncSender<()>),
}

/// The near end of the queue. Dropping it ends the thread after the last record.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Option<SyncSender<Message>>,
    lost: Counter,
}

impl Writer {
    /// Starts the thread, if there is anywhere to write. `lost` counts the records that were not written.
    pub fn start(sink: AccessSink, lost: Counter) -> Self {
        let queue = sink.0.and_then(|writer| {
            let (near, far) = sync_channel(QUEUE);
            let counted = lost.clone();
            let thread = std::thread::Builder::new().name("hermes-access".to_owned());
            let started = thread.spawn(move || write_all(&far, writer, &counted));

            if let Err(error) = &started {
                tracing::error!(target: LOG, "no access records: their thread does not start: {error}");
            }
            started.is_ok().then_some(near)
        });
        Self { queue, lost }
    }

    /// Whether records go anywhere.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Queues `record`, or counts it as lost when the queue is full.
    pub fn offer(&self, record: Record) {
        let Some(queue) = &self.queue else { return };
        if queue.try_send(Message::Record(Box::new(record))).is_err() {
            self.lost.inc();
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

/// Writes records until the queue's near end is gone; flushes whenever the queue is empty.
fn write_all(queue: &Receiver<Message>, writer: Place, lost: &Counter) {
    let mut output = BufWriter::new(writer);
    let mut failing = false;
    while let Some(message) = next(queue, &mut output) {
        let written = match message {
            Message::Record(record) => {
                follow_if_due(&mut output).and_then(|()| write_one(&mut output, &record))
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
                lost.inc();
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(target: LOG, "access records are lost: {error}");
                }
            }
        }
    }
}

/// The next message. When there is none yet, what was written is flushed before waiting.
fn next(queue: &Receiver<Message>, output: &mut BufWriter<Place>) -> Option<Message> {
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

/// Goes on in a new file if the old one was moved; what was written before is in the old one, to the end of its line.
fn follow(output: &mut BufWriter<Place>) -> io::Result<()> {
    let flushed = output.flush();
    output.get_mut().follow();
    flushed
}

/// One line.
fn write_one(output: &mut impl Write, record: &Record) -> io::Result<()> {
    write_json(output, record)?;
    output.write_all(b"\n")
}
