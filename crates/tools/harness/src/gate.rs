//! A gate on the path to a node, for TCP and UDP at one port, each of which can be shut: packets then vanish, as in a firewall.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime;

/// Longest datagram.
const ROOM: usize = 65_536;

/// A gate; dropping it cuts its connections.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    udp: Arc<Udp>,
    tcp: watch::Sender<bool>,
    tasks: [AbortHandle; 2],
}

/// The fate of datagrams.
#[derive(Debug)]
struct Udp {
    open: AtomicBool,
    /// Whether datagrams of the node go on to clients.
    answers: AtomicBool,
    /// Clients of earlier times are not let through.
    time: AtomicUsize,
    /// How often the addresses of clients, as the node sees them, were changed.
    moves: AtomicUsize,
    /// How much later than they came the datagrams of the node go on to a client.
    answer_delay: Mutex<Duration>,
    /// Of a hundred datagrams, how many are lost in each direction.
    loss: AtomicUsize,
    /// How many have come.
    count: AtomicUsize,
    /// The first datagrams of clients, [`KEPT`] at most.
    sent: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
}

/// More than the tests look at.
const KEPT: usize = 4096;

impl Udp {
    fn lets(&self, of: usize) -> bool {
        self.open.load(Ordering::Relaxed) && of == self.time()
    }

    /// Whether one is lost: at random, the same in each run for the same order of datagrams.
    fn loses(&self) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed) as u64;
        let random = count.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (random ^ (random >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (mixed >> 33) % 100 < self.loss.load(Ordering::Relaxed) as u64
    }

    fn keep(&self, client: SocketAddr, datagram: &[u8]) {
        let mut sent = self.sent.lock().unwrap();
        if sent.len() < KEPT {
            sent.push((client, datagram.to_vec()));
        }
    }

    fn time(&self) -> usize {
        self.time.load(Ordering::Relaxed)
    }
}

impl Gate {
    /// A gate to a node at this address, open for both.
    ///
    /// # Panics
    /// When the system has no port for it.
    pub fn to(next: SocketAddr) -> Self {
        let (tcp, udp) = runtime::block_on(sockets());
        let address = udp.local_addr().unwrap();
        let open = Arc::new(Udp {
            open: AtomicBool::new(true),
            answers: AtomicBool::new(true),
            time: AtomicUsize::new(0),
            moves: AtomicUsize::new(0),
            loss: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            answer_delay: Mutex::default(),
            sent: Mutex::default(),
        });

        let packets = runtime::handle().spawn(packets(Arc::new(udp), next, open.clone()));
        let tcp_open = watch::Sender::new(true);
        let streams = runtime::handle().spawn(streams(tcp, next, tcp_open.subscribe()));
        Self {
            address,
            udp: open,
            tcp: tcp_open,
            tasks: [packets.abort_handle(), streams.abort_handle()],
        }
    }

    /// Where it is entered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The datagrams of clients, each client's in their order.
    ///
    /// # Panics
    /// Never.
    pub fn sent(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.udp.sent.lock().unwrap().clone()
    }

    /// Lets TCP through, or not. While it does not, connections are open and silent; when it does again, they are over.
    pub fn let_tcp(&self, through: bool) {
        self.tcp.send_replace(through);
    }

    /// Lets UDP through, or not.
    pub fn let_udp(&self, through: bool) {
        self.udp.open.store(through, Ordering::Relaxed);
    }

    /// Lets datagrams of the node through to clients, or not.
    pub fn let_udp_answers(&self, through: bool) {
        self.udp.answers.store(through, Ordering::Relaxed);
    }

    /// Loses so many of a hundred datagrams from now on, in each direction.
    pub fn lose_udp(&self, percent: usize) {
        self.udp.loss.store(percent, Ordering::Relaxed);
    }

    /// Delays every datagram of the node from now on, as a long path would.
    ///
    /// # Panics
    /// Never.
    pub fn delay_answers(&self, by: Duration) {
        *self.udp.answer_delay.lock().unwrap() = by;
    }

    /// Lets nothing through any more of those who sent UDP so far: an address translator lost its memory.
    pub fn forget_udp(&self) {
        self.udp.time.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the addresses of all clients so far, as the node sees them: datagrams under way to the old ones are lost.
    pub fn move_udp(&self) {
        self.udp.moves.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Both at one port.
async fn sockets() -> (TcpListener, UdpSocket) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            return (tcp, udp);
        }
    }
}

async fn streams(listener: TcpListener, next: SocketAddr, open: watch::Receiver<bool>) {
    let mut streams = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        streams.spawn(stream(client, next, open.clone()));
    }
}

async fn stream(
    mut client: TcpStream,
    next: SocketAddr,
    mut open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let copied = async {
        let mut server = TcpStream::connect(next).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    let mut until = open.clone();
    tokio::select! {
        // The gate is looked at first: nothing passes one that is shut.
        biased;
        _ = until.wait_for(|open| !open) => {}
        copied = copied => return copied.map(drop),
    }
    // Open and silent, as behind a firewall that drops packets.
    drop(open.wait_for(|open| *open).await);
    Ok(())
}

/// A client, as the node sees it.
struct Translated {
    /// Since which time.
    of: usize,
    towards: Arc<UdpSocket>,
    back: AbortHandle,
}

/// Each client has a socket of its own towards the node.
async fn packets(socket: Arc<UdpSocket>, next: SocketAddr, udp: Arc<Udp>) {
    let mut known: HashMap<SocketAddr, Translated> = HashMap::new();
    let mut moves = 0;
    let mut back = JoinSet::new();
    let mut room = vec![0; ROOM];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut room).await else {
            continue;
        };
        let moved = udp.moves.load(Ordering::Relaxed);
        if moved != std::mem::replace(&mut moves, moved) {
            known.values().for_each(|known| known.back.abort());
            known.clear();
        }
        let (of, towards) = match known.get(&from) {
            Some(known) => (known.of, known.towards.clone()),
            None => {
                let towards = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
                towards.connect(next).await.unwrap();
                let of = udp.time();
                let answering = answers(towards.clone(), socket.clone(), from, udp.clone(), of);
                let translated = Translated {
                    of,
                    towards: towards.clone(),
                    back: back.spawn(answering),
                };
                known.insert(from, translated);
                (of, towards)
            }
        };

        if udp.lets(of) && !udp.loses() {
            udp.keep(from, &room[..length]);
            // The node may have ended.
            drop(towards.send(&room[..length]).await);
        }
    }
}

async fn answers(
    from: Arc<UdpSocket>,
    to: Arc<UdpSocket>,
    client: SocketAddr,
    udp: Arc<Udp>,
    time: usize,
) {
    let mut room = vec![0; ROOM];
    let mut under_way = JoinSet::new();
    loop {
        let Ok(length) = from.recv(&mut room).await else {
            continue;
        };
        let is_let = udp.lets(time) && udp.answers.load(Ordering::Relaxed);
        if !is_let || udp.loses() {
            continue;
        }

        let delay = *udp.answer_delay.lock().unwrap();
        if delay.is_zero() {
            drop(to.send_to(&room[..length], client).await);
        } else {
            let to = to.clone();
            let datagram = room[..length].to_vec();
            under_way.spawn(async move {
                tokio::time::sleep(delay).await;
                to.send_to(&datagram, client).await
            });
        }

        while under_way.try_join_next().is_some() {}
    }
}
