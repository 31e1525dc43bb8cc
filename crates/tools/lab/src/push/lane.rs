//! A direction from one program to another: a connection, a connection through a forwarder, or a channel of a broker.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::client::{Batch, Publisher, Subscribers};
use super::flow::{FlowRate, MessageFlow, WINDOW};
use super::side::{Side, apart};
use super::systems::BrokerAddress;

/// Bytes of one read.
const READ: usize = 256 << 10;

/// Silence after which a connection is given up.
const LONGEST: Duration = Duration::from_secs(20);

/// The way of messages between two programs.
#[derive(Debug, Clone, Copy)]
pub(super) enum LaneKind {
    /// A connection from the one to the other.
    Direct,
    /// The same through a forwarder of TCP.
    Indirect(ForwardedPorts),
    /// A channel.
    Broker(BrokerAddress),
}

/// A forwarder for each of two directions.
#[derive(Debug, Clone, Copy)]
pub(super) struct ForwardedPorts {
    /// Where each listens.
    pub entries: [SocketAddr; 2],
    /// The port of the program that each leads to.
    pub ports: [u16; 2],
}

/// The sending end of a lane.
pub(super) enum LaneSender {
    /// A connection, and a message.
    Stream(TcpStream, Vec<u8>),
    Publisher(LanePublisher),
}

/// A publisher, and what it sends where it sends many messages in one stream.
pub(super) struct LanePublisher {
    publisher: Publisher,
    channel: String,
    message: Batch,
}

/// The receiving end of a lane.
pub(super) enum LaneReceiver {
    /// A connection, and the bytes of a message.
    Stream(TcpStream, Vec<u8>),
    Subscriber(Subscribers),
}

/// The two ends of a direction.
pub(super) struct LaneEnds {
    pub sender: LaneSender,
    pub receiver: LaneReceiver,
}

impl fmt::Display for LaneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Indirect(_) => "indirect",
            Self::Broker(at) => at.system.name(),
        })
    }
}

impl LaneKind {
    /// Opens the lane of a direction, 0 or 1, from the first side to the second, for messages of this size. The calling thread is on
    /// the first side then.
    ///
    /// # Errors
    /// A connection fails.
    pub(super) fn open(
        &self,
        direction: usize,
        sides: [Side<'_>; 2],
        size: usize,
    ) -> Result<LaneEnds> {
        let [from, to] = sides;
        to.enter()?;
        if let Self::Broker(at) = *self {
            let channel = new_channel();
            let receiver = Subscribers::begin(at, &channel, 1)?;
            from.enter()?;
            let sender = Publisher::begin(at, &channel, size)?;
            return Ok(LaneEnds {
                sender: LaneSender::Publisher(LanePublisher {
                    message: sender.batch(&channel, size, 1),
                    publisher: sender,
                    channel,
                }),
                receiver: LaneReceiver::Subscriber(receiver),
            });
        }

        let port = match self {
            Self::Indirect(forwarded) => forwarded.ports[direction],
            Self::Direct | Self::Broker(_) => 0,
        };
        let listener = TcpListener::bind((to.address, port))?;
        let entry = match self {
            Self::Indirect(forwarded) => forwarded.entries[direction],
            Self::Direct | Self::Broker(_) => listener.local_addr()?,
        };
        from.enter()?;
        let sending = TcpStream::connect(entry)?;
        let (receiving, _) = listener.accept()?;
        for stream in [&sending, &receiving] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(LONGEST))?;
            stream.set_write_timeout(Some(LONGEST))?;
        }
        Ok(LaneEnds {
            sender: LaneSender::Stream(sending, vec![b'x'; size]),
            receiver: LaneReceiver::Stream(receiving, vec![0; size]),
        })
    }

    /// Messages of this size without a pause, for so long.
    ///
    /// # Errors
    /// A connection fails.
    pub(super) fn flow(
        &self,
        sides: [Side<'_>; 2],
        size: usize,
        limit: Duration,
    ) -> Result<FlowRate> {
        if let Self::Broker(at) = *self {
            let flow = MessageFlow {
                at: [at; 2],
                sides,
                channel: &new_channel(),
                subscribers: 1,
                size,
                window: WINDOW,
                limit,
            };
            return flow.run();
        }
        apart(|| {
            let lane = self.open(0, sides, size)?;
            let (LaneSender::Stream(mut sending, message), LaneReceiver::Stream(receiving, _)) =
                (lane.sender, lane.receiver)
            else {
                anyhow::bail!("a connection has two ends");
            };
            let begin = Instant::now();
            let bytes = std::thread::scope(|scope| {
                let counting = scope.spawn(|| count(receiving));
                while begin.elapsed() < limit {
                    sending.write_all(&message)?;
                }
                // Its end ends the count.
                drop(sending);
                let counted = counting.join();
                counted.map_err(|_| anyhow::anyhow!("the receiver panicked"))?
            })?;
            Ok(FlowRate {
                deliveries: bytes / size as u64,
                took: begin.elapsed(),
            })
        })
    }
}

/// The name of a channel that no one has had: those who had one before may wait there for a while.
fn new_channel() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);

    format!("lane{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Bytes up to the end of a connection.
fn count(mut stream: TcpStream) -> Result<u64> {
    let mut room = vec![0; READ];
    let mut bytes = 0;
    loop {
        let read = stream.read(&mut room)?;
        if read == 0 {
            return Ok(bytes);
        }
        bytes += read as u64;
    }
}

impl LaneSender {
    /// Begins to send messages as one stream, without an answer to each.
    ///
    /// # Errors
    /// The broker is gone.
    pub(super) fn begin_stream(&mut self) -> Result<()> {
        match self {
            Self::Stream(..) => Ok(()),
            Self::Publisher(ours) => ours.publisher.begin_batches(&ours.channel),
        }
    }

    /// Sends the next one.
    ///
    /// # Errors
    /// The other side is gone.
    pub(super) fn send_in_stream(&mut self) -> Result<()> {
        match self {
            Self::Stream(stream, message) => Ok(stream.write_all(message)?),
            Self::Publisher(ours) => ours.publisher.send(&ours.message),
        }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// The broker refused a message.
    pub(super) fn end_stream(mut self) -> Result<()> {
        match &mut self {
            Self::Stream(..) => Ok(()),
            Self::Publisher(ours) => ours.publisher.end_batches(),
        }
    }
}

impl LaneReceiver {
    /// Waits for a message.
    ///
    /// # Errors
    /// None comes, or the other side is gone.
    pub(super) fn receive(&mut self) -> Result<()> {
        match self {
            Self::Stream(stream, room) => Ok(stream.read_exact(room)?),
            Self::Subscriber(subscriber) => subscriber.wait_for(1),
        }
    }
}

/// Pings: a message there, and as it comes one back. Seconds of each, without those that warm up.
///
/// # Errors
/// A connection fails.
pub(super) fn pings(
    kind: LaneKind,
    sides: [Side<'_>; 2],
    size: usize,
    count: usize,
) -> Result<Vec<f64>> {
    let warm = (count / 10).clamp(1, 20);
    apart(|| {
        let [near, far] = sides;
        let mut there = kind.open(0, [near, far], size)?;
        let mut back = kind.open(1, [far, near], size)?;
        std::thread::scope(|scope| {
            let answering = scope.spawn(move || {
                back.sender.begin_stream()?;
                for _ in 0..warm + count {
                    there.receiver.receive()?;
                    back.sender.send_in_stream()?;
                }
                back.sender.end_stream()
            });
            there.sender.begin_stream()?;
            let mut times = Vec::new();
            for ping in 0..warm + count {
                let begin = Instant::now();
                there.sender.send_in_stream()?;
                back.receiver.receive()?;
                if ping >= warm {
                    times.push(begin.elapsed().as_secs_f64());
                }
            }
            there.sender.end_stream()?;
            let answered = answering.join();
            answered.map_err(|_| anyhow::anyhow!("the far side panicked"))??;
            ensure!(times.len() == count, "pings are missing");
            Ok(times)
        })
    })
}
