//! Connections to a broker: subscribers whose messages are counted, and a publisher.

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::event::{Timespec, epoll};
use rustix::net::{RecvFlags, recv};

use super::scanner::Scanner;
use super::systems::{BrokerAddress, PushSystem};
use super::words;

/// How long nothing may come where something must.
const SILENCE: Timespec = Timespec {
    tv_sec: 20,
    tv_nsec: 0,
};

/// The same for the head of an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Bytes of one read.
const READ: usize = 256 << 10;

/// Subscribers that connect at once.
const AT_ONCE: usize = 16;

/// Events at once.
const EVENTS: usize = 256;

/// Any number of subscribers of one channel, served by the thread that asks.
pub(super) struct Subscribers {
    poll: OwnedFd,
    all: Vec<CountedStream>,
    room: Vec<u8>,
}

struct CountedStream {
    stream: TcpStream,
    scanner: Scanner,
    messages: u64,
    /// All that came, beside messages too.
    bytes: u64,
}

/// A connection that publishes.
pub(super) struct Publisher {
    system: PushSystem,
    stream: TcpStream,
    /// One message, in the broker's protocol.
    message: Vec<u8>,
    room: Vec<u8>,
    /// Bytes of further answers in it.
    filled: usize,
}

/// What one publisher sends over and over.
pub(super) struct Batch {
    pub bytes: Vec<u8>,
    pub messages: u64,
    /// Answers that come to it before the next one.
    answers: u64,
}

impl Subscribers {
    /// Subscribes so many times.
    ///
    /// # Errors
    /// When a connection fails.
    pub(super) fn begin(at: BrokerAddress, channel: &str, count: usize) -> Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut all = Vec::new();
        for stream in subscribe_all(at, channel, count)? {
            let data = epoll::EventData::new_u64(all.len() as u64);
            epoll::add(&poll, &stream, data, epoll::EventFlags::IN)?;
            all.push(CountedStream {
                stream,
                scanner: Scanner::new(at.system),
                messages: 0,
                bytes: 0,
            });
        }
        Ok(Self {
            poll,
            all,
            room: vec![0; READ],
        })
    }

    /// Waits until each has so many messages more.
    ///
    /// # Errors
    /// When a subscription ends, or nothing comes.
    pub(super) fn wait_for(&mut self, messages: u64) -> Result<()> {
        // The first ones are looked at once, however many batches of events there are.
        let mut complete = 0;
        while let Some(counted) = self.all.get(complete) {
            if counted.messages >= messages {
                complete += 1;
            } else {
                ensure!(self.take(Some(&SILENCE))?, "nothing comes");
            }
        }
        for counted in &mut self.all {
            counted.messages -= messages;
        }
        Ok(())
    }

    /// Takes messages as they come; false if there were none for a while.
    ///
    /// # Errors
    /// When a subscription ends.
    pub(super) fn take_some(&mut self) -> Result<bool> {
        const WHILE: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        self.take(Some(&WHILE))
    }

    /// Messages that each has at least.
    pub(super) fn least(&self) -> u64 {
        let messages = self.all.iter().map(|counted| counted.messages);
        messages.min().unwrap_or(0)
    }

    /// Bytes that came for all of them, behind the heads of answers.
    pub(super) fn bytes(&self) -> u64 {
        self.all.iter().map(|counted| counted.bytes).sum()
    }

    /// Subscribers.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Reads once from each that has something; false if none has in this time.
    fn take(&mut self, wait: Option<&Timespec>) -> Result<bool> {
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        let (events, _) = epoll::wait(&self.poll, room.as_mut_slice(), wait)?;
        for event in events.iter() {
            let counted = &mut self.all[event.data.u64() as usize];
            // What is left is told again: one read a turn is fair to the others.
            let room = self.room.as_mut_slice();
            let (_, read) = recv(&counted.stream, room, RecvFlags::DONTWAIT)?;
            ensure!(read > 0, "a subscription ended");
            counted.bytes += read as u64;
            counted.messages += counted.scanner.count(&self.room[..read]);
            ensure!(!counted.scanner.has_lost(), "a message was lost");
        }
        Ok(!events.is_empty())
    }
}

impl Publisher {
    /// Connects, for messages of this size to this channel.
    ///
    /// # Errors
    /// When the connection fails.
    pub(super) fn begin(at: BrokerAddress, channel: &str, size: usize) -> Result<Self> {
        let mut stream = TcpStream::connect(at.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        if at.system == PushSystem::Nats {
            greet(&mut stream, "")?;
        }
        Ok(Self {
            system: at.system,
            stream,
            message: words::message(at.system, channel, size),
            room: vec![0; 32 << 10],
            filled: 0,
        })
    }

    /// Bytes of one message beside its content of so many.
    pub(super) fn head(&self, size: usize) -> usize {
        self.message.len() - size
    }

    /// Publishes a message.
    ///
    /// # Errors
    /// When the broker is gone.
    pub(super) fn publish(&mut self) -> Result<()> {
        Ok(self.stream.write_all(&self.message)?)
    }

    /// Takes the answer to it, where the protocol has one.
    ///
    /// # Errors
    /// When the broker refuses.
    pub(super) fn answer(&mut self) -> Result<()> {
        if self.system == PushSystem::Nats {
            return Ok(());
        }
        loop {
            if let Some(length) = whole_answer(&self.room[..self.filled])? {
                self.room.copy_within(length..self.filled, 0);
                self.filled -= length;
                return Ok(());
            }
            let read = self.stream.read(&mut self.room[self.filled..])?;
            ensure!(read > 0, "the broker hung up");
            self.filled += read;
        }
    }

    /// The bytes of many messages in one write, the way each broker takes them fastest: a stream of capsules, commands one behind
    /// the other, or requests whose answers are awaited together.
    pub(super) fn batch(&self, channel: &str, size: usize, messages: u64) -> Batch {
        let answers = match self.system {
            PushSystem::Hermes | PushSystem::Nats => 0,
            PushSystem::Nchan => messages,
            PushSystem::Centrifugo => 1,
        };
        let bytes = match self.system {
            PushSystem::Hermes => words::chunk_of_capsules(size, messages),
            PushSystem::Nats | PushSystem::Nchan => self.message.repeat(messages as usize),
            PushSystem::Centrifugo => words::commands(channel, size, messages),
        };
        Batch {
            bytes,
            messages,
            answers,
        }
    }

    /// Begins a stream of batches, none of which may be lost.
    ///
    /// # Errors
    /// When the broker is gone.
    pub(super) fn begin_batches(&mut self, channel: &str) -> Result<()> {
        if self.system == PushSystem::Hermes {
            let head = format!(
                "POST /{channel} HTTP/1.1\r\nHost: lab\r\nContent-Type: application/hermes-adu\r\n\
                 Hermes-Publish: mode=reliable\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            self.stream.write_all(head.as_bytes())?;
        }
        Ok(())
    }

    /// Sends a batch.
    ///
    /// # Errors
    /// When the broker is gone.
    pub(super) fn send(&mut self, batch: &Batch) -> Result<()> {
        self.stream.write_all(&batch.bytes)?;
        for _ in 0..batch.answers {
            self.answer()?;
        }
        Ok(())
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// When the broker refused a message.
    pub(super) fn end_batches(&mut self) -> Result<()> {
        match self.system {
            PushSystem::Hermes => {
                self.stream.write_all(b"0\r\n\r\n")?;
                self.answer()
            }
            PushSystem::Nats => self.flush(),
            PushSystem::Nchan | PushSystem::Centrifugo => Ok(()),
        }
    }

    /// Waits until NATS has taken all. Closing a socket with unread input, such as a PING of NATS, sends a reset, and NATS drops the messages
    /// that it has not read yet.
    fn flush(&mut self) -> Result<()> {
        self.stream.write_all(b"PING\r\n")?;
        loop {
            let line = read_to(&mut self.stream, b"\r\n")?;
            match line.trim_end() {
                "PONG" => return Ok(()),
                "PING" => self.stream.write_all(b"PONG\r\n")?,
                other => bail!("NATS says {other}"),
            }
        }
    }
}

/// Bytes of the first answer, once it is whole.
fn whole_answer(bytes: &[u8]) -> Result<Option<usize>> {
    const END: &[u8] = b"\r\n\r\n";

    let head = bytes.windows(END.len()).position(|window| window == END);
    let Some(head) = head else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    ensure!(text.starts_with("http/1.1 20"), "{text}");
    let mut lines = text.lines();
    let length = lines.find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let whole = head + END.len() + length.unwrap_or(0);
    Ok((bytes.len() >= whole).then_some(whole))
}

/// Subscribes so many times, some at once: the broker may be far away.
fn subscribe_all(at: BrokerAddress, channel: &str, count: usize) -> Result<Vec<TcpStream>> {
    std::thread::scope(|scope| {
        let subscribing: Vec<_> = (0..count.min(AT_ONCE))
            .map(|first| {
                scope.spawn(move || -> Result<Vec<_>> {
                    let own = (first..count).step_by(AT_ONCE);
                    own.map(|index| {
                        subscribe(at, channel).with_context(|| format!("subscriber {index}"))
                    })
                    .collect()
                })
            })
            .collect();
        let mut streams = Vec::with_capacity(count);
        for thread in subscribing {
            let own = thread.join();
            streams.extend(own.map_err(|_| anyhow!("a subscriber panicked"))??);
        }
        Ok(streams)
    })
}

fn subscribe(at: BrokerAddress, channel: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(at.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let words = words::subscription(at.system, channel);
    let end: &[u8] = match at.system {
        PushSystem::Hermes => b"\r\n\r\n",
        PushSystem::Nats => {
            greet(&mut stream, &words)?;
            return Ok(stream);
        }
        // The first event says that they listen.
        PushSystem::Nchan | PushSystem::Centrifugo => b"\n\n",
    };
    stream.write_all(words.as_bytes())?;
    let head = read_to(&mut stream, end)?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    Ok(stream)
}

/// Says who we are, and waits until all that was said is done.
fn greet(stream: &mut TcpStream, words: &str) -> Result<()> {
    read_to(stream, b"\r\n")?;
    let connect = "CONNECT {\"verbose\":false,\"pedantic\":false}";
    stream.write_all(format!("{connect}\r\n{words}PING\r\n").as_bytes())?;
    let answer = read_to(stream, b"\r\n")?;
    if answer.starts_with("PING") {
        stream.write_all(b"PONG\r\n")?;
        read_to(stream, b"PONG\r\n")?;
    } else if !answer.starts_with("PONG") {
        bail!("NATS says {answer}");
    }
    Ok(())
}

/// Reads up to this end, and nothing behind it.
fn read_to(stream: &mut TcpStream, end: &[u8]) -> Result<String> {
    let mut seen = [0; 2048];
    loop {
        let there = stream.peek(&mut seen)?;
        ensure!(there > 0, "the broker hung up");
        let found = seen[..there]
            .windows(end.len())
            .position(|window| window == end);
        let Some(found) = found else {
            // A head that comes in two pieces is rare: it need not be cheap to wait for the second.
            ensure!(there < seen.len(), "a head without an end");
            std::thread::yield_now();
            continue;
        };
        let length = found + end.len();
        stream.read_exact(&mut seen[..length])?;
        return Ok(String::from_utf8_lossy(&seen[..length]).into_owned());
    }
}
