//! The users' traffic during moves, and the servers that answer.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use hermes_net::network::Network;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout, timeout_at};

use crate::demo::says::{Says, expect};

/// The port of servers.
pub const PORT: u16 = 5000;

/// Time between two questions, and between two numbers.
const PACE: Duration = Duration::from_millis(10);

/// How long an answer that is still on its way is awaited.
const LATE: Duration = Duration::from_secs(1);

/// How long a flow may stand still.
const STANDSTILL: Duration = Duration::from_secs(10);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// Bytes of a number.
const NUMBER: usize = 4;

/// Room for an answer: a number and a name.
const ANSWER: usize = 64;

/// Servers, until this is dropped. They say their name.
pub struct Answering(JoinSet<()>);

impl Answering {
    /// None yet.
    pub fn new() -> Self {
        Self(JoinSet::new())
    }

    /// One in a network, at these addresses.
    pub fn add(
        &mut self,
        network: &Network,
        name: &'static str,
        at: &[Ipv4Addr],
    ) -> io::Result<()> {
        for address in at {
            let to = SocketAddr::from((*address, PORT));
            let datagrams = within(network, move || std::net::UdpSocket::bind(to))?;
            datagrams.set_nonblocking(true)?;
            self.0.spawn(answer(UdpSocket::from_std(datagrams)?, name));
            let streams = within(network, move || std::net::TcpListener::bind(to))?;
            streams.set_nonblocking(true)?;
            self.0.spawn(accept(TcpListener::from_std(streams)?, name));
        }
        Ok(())
    }
}

/// Makes a socket in a network.
fn within<T: Send>(
    network: &Network,
    make: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    network.within(make)?
}

/// Answers with the question and its own name.
async fn answer(socket: UdpSocket, name: &'static str) {
    let mut room = [0; ANSWER];
    while let Ok((length, from)) = socket.recv_from(&mut room).await {
        let said = [&room[..length.min(NUMBER)], name.as_bytes()].concat();
        // A lost answer is not asked for again: the client counts it.
        let _ = socket.send_to(&said, from).await;
    }
}

async fn accept(listener: TcpListener, name: &'static str) {
    let mut connections = JoinSet::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        connections.spawn(async move {
            drop(stream.set_nodelay(true));
            let (mut reads, mut writes) = stream.split();
            let greeting = format!("{name}\n");
            if writes.write_all(greeting.as_bytes()).await.is_ok() {
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            }
        });
    }
}

/// Questions that a user asks, one every 10 ms.
pub struct Questions {
    stop: oneshot::Sender<()>,
    asked: JoinHandle<Answers>,
}

/// The results of questions.
#[derive(Debug, Default)]
pub struct Answers {
    /// How many were asked.
    pub asked: u32,
    /// Those that no one answered.
    pub lost: usize,
    /// Who answered, in the order of the first answer of each.
    pub by: Vec<String>,
    /// The middle one of the times.
    pub median: Duration,
}

/// A socket, and its open questions.
struct Asking {
    socket: UdpSocket,
    asked: Vec<Instant>,
    open: BTreeSet<u32>,
    by: Vec<String>,
    times: Vec<Duration>,
}

impl Questions {
    /// Begins to ask in this network.
    pub fn begin(network: &Network, to: Ipv4Addr) -> Result<Self, String> {
        let asking = Asking::open(network, to).says(to)?;
        let (stop, stopped) = oneshot::channel();
        let asked = tokio::spawn(asking.run(stopped));
        Ok(Self { stop, asked })
    }

    /// Ends the questions, and waits for answers on their way.
    pub async fn end(self) -> Result<Answers, String> {
        drop(self.stop);
        self.asked.await.says("questions")
    }

    /// Asks a few times: how long an answer takes, and who gives it.
    pub async fn few(network: &Network, to: Ipv4Addr) -> Result<Answers, String> {
        let questions = Self::begin(network, to)?;
        tokio::time::sleep(PACE * 30).await;
        let answers = questions.end().await?;
        expect(!answers.by.is_empty(), || format!("no one answers at {to}"))?;
        Ok(answers)
    }
}

impl Asking {
    fn open(network: &Network, to: Ipv4Addr) -> io::Result<Self> {
        let socket = within(network, || {
            std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        })?;
        socket.connect((to, PORT))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UdpSocket::from_std(socket)?,
            asked: Vec::new(),
            open: BTreeSet::new(),
            by: Vec::new(),
            times: Vec::new(),
        })
    }

    async fn run(mut self, mut stopped: oneshot::Receiver<()>) -> Answers {
        let mut ticks = interval(PACE);
        // No burst of questions after a delay.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut room = [0; ANSWER];
        loop {
            tokio::select! {
                _ = ticks.tick() => self.ask().await,
                heard = self.socket.recv(&mut room) => self.hear(heard, &room),
                _ = &mut stopped => break,
            }
        }

        let until = tokio::time::Instant::now() + LATE;
        while !self.open.is_empty() {
            match timeout_at(until, self.socket.recv(&mut room)).await {
                Ok(heard) => self.hear(heard, &room),
                Err(_) => break,
            }
        }
        self.answers()
    }

    async fn ask(&mut self) {
        let number = self.asked.len() as u32;
        self.asked.push(Instant::now());
        self.open.insert(number);
        // One that does not leave is lost, too.
        let _ = self.socket.send(&number.to_be_bytes()).await;
    }

    /// Takes an answer; errors are about questions that were lost.
    fn hear(&mut self, heard: io::Result<usize>, room: &[u8]) {
        let answer = heard.ok().and_then(|length| room.get(..length));
        let parts = answer.and_then(|answer| answer.split_first_chunk::<NUMBER>());
        let Some((number, name)) = parts else {
            return;
        };
        let number = u32::from_be_bytes(*number);
        if self.open.remove(&number) {
            self.times.push(self.asked[number as usize].elapsed());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        if !self.by.contains(&name) {
            self.by.push(name);
        }
    }

    fn answers(mut self) -> Answers {
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2);
        Answers {
            asked: self.asked.len() as u32,
            lost: self.open.len(),
            median: median.copied().unwrap_or_default(),
            by: self.by,
        }
    }
}

/// A connection over which numbers go to a server and come back, one after the other.
pub struct NumberFlow {
    /// Who is at its other end.
    pub server: String,
    stop: oneshot::Sender<()>,
    counted: JoinHandle<Result<u32, String>>,
}

impl NumberFlow {
    /// Opens it in this network, where the server says its name.
    pub async fn begin(network: &Network, to: Ipv4Addr) -> Result<Self, String> {
        let runtime = Handle::current();
        // The kernel looks for a way where the socket was made.
        let socket = within(network, || {
            let _entered = runtime.enter();
            tokio::net::TcpSocket::new_v4()
        });
        let connecting = socket.says(to)?.connect((to, PORT).into());
        let connected = timeout(CONNECT, connecting).await;
        let mut stream = connected.says(to)?.says(to)?;
        drop(stream.set_nodelay(true));

        let server = timeout(CONNECT, greeting(&mut stream)).await.says(to)??;
        let (stop, stopped) = oneshot::channel();
        let counted = tokio::spawn(count(stream, stopped));
        Ok(Self {
            server,
            stop,
            counted,
        })
    }

    /// Ends it: how many numbers came back, all of them and in their order.
    pub async fn end(self) -> Result<u32, String> {
        drop(self.stop);
        self.counted.await.says("a flow")?
    }
}

async fn greeting(stream: &mut TcpStream) -> Result<String, String> {
    let mut name = Vec::new();
    while name.len() < ANSWER {
        match stream.read_u8().await.says("a greeting")? {
            b'\n' => break,
            byte => name.push(byte),
        }
    }
    Ok(String::from_utf8_lossy(&name).into_owned())
}

async fn count(mut stream: TcpStream, mut stopped: oneshot::Receiver<()>) -> Result<u32, String> {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut number = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = &mut stopped => return Ok(number),
        }
        stream.write_u32(number).await.says("a flow")?;
        let back = timeout(STANDSTILL, stream.read_u32()).await;
        let back = back.says("a flow stands still")?.says("a flow")?;
        expect(back == number, || {
            format!("a flow returns {back} for {number}")
        })?;
        number += 1;
    }
}
