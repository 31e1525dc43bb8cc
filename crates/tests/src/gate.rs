//! A gate on the path to a node, for TCP and UDP at one port, each of which can be shut: packets then vanish, as in a firewall.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::{AbortHandle, JoinSet};

use crate::runtime;

/// Longest datagram.
const ROOM: usize = 65_536;

/// A gate; dropping it cuts what goes through.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    udp: Arc<AtomicBool>,
    tasks: [AbortHandle; 2],
}

impl Gate {
    /// A gate to a node at this address, open for both.
    ///
    /// # Panics
    /// When the system has no port for it.
    pub fn to(next: SocketAddr) -> Self {
        let (tcp, udp) = runtime::block_on(sockets());
        let (address, open) = (udp.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
        let packets = runtime::handle().spawn(packets(Arc::new(udp), next, open.clone()));
        let streams = runtime::handle().spawn(streams(tcp, next));
        Self { address, udp: open, tasks: [packets.abort_handle(), streams.abort_handle()] }
    }

    /// Where it is entered.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets UDP through, or not.
    pub fn let_udp(&self, through: bool) {
        self.udp.store(through, Ordering::Relaxed);
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

async fn streams(listener: TcpListener, next: SocketAddr) {
    let mut open = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        open.spawn(async move {
            let mut server = TcpStream::connect(next).await?;
            client.set_nodelay(true)?;
            server.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await
        });
    }
}

/// Each client has a socket of its own towards the node.
async fn packets(socket: Arc<UdpSocket>, next: SocketAddr, open: Arc<AtomicBool>) {
    let known: Mutex<HashMap<SocketAddr, Arc<UdpSocket>>> = Mutex::default();
    let (mut back, mut room) = (JoinSet::new(), vec![0; ROOM]);
    loop {
        let Ok((length, from)) = socket.recv_from(&mut room).await else { continue };
        let found = known.lock().get(&from).cloned();
        let towards = match found {
            Some(towards) => towards,
            None => {
                let towards = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap());
                towards.connect(next).await.unwrap();
                known.lock().insert(from, towards.clone());
                back.spawn(answers(towards.clone(), socket.clone(), from, open.clone()));
                towards
            }
        };
        if open.load(Ordering::Relaxed) {
            // The node may have ended.
            drop(towards.send(&room[..length]).await);
        }
    }
}

async fn answers(from: Arc<UdpSocket>, to: Arc<UdpSocket>, client: SocketAddr, open: Arc<AtomicBool>) {
    let mut room = vec![0; ROOM];
    loop {
        let Ok(length) = from.recv(&mut room).await else { continue };
        if open.load(Ordering::Relaxed) {
            drop(to.send_to(&room[..length], client).await);
        }
    }
}
