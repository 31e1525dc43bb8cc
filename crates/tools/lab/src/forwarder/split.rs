//! Beside the origin: each exchange of a link gets a connection or a socket of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use anyhow::Result;
use hermes_net::{RecvBatch, UdpSocket};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};

use super::frame::{HEADER, LinkSender, PIECE, Receiver};
use super::plain::Idle;

/// Pieces of an exchange that wait for the origin.
const WAITING: usize = 64;

/// Sockets at once; the oldest go first.
const SOCKETS: u32 = 8192;

/// Each exchange gets a connection.
pub async fn connections(link: TcpStream, idle: Rc<Idle>) -> Result<()> {
    let (from, back) = link.into_split();
    let mut receiver = Receiver::new(from);
    let sender = LinkSender::new(back);
    let mut exchanges: HashMap<u32, mpsc::Sender<Vec<u8>>> = HashMap::new();

    loop {
        let (number, piece) = receiver.receive().await?;
        if piece.is_empty() {
            exchanges.remove(&number);
            continue;
        }

        let pieces = exchanges.entry(number).or_insert_with(|| {
            let (pieces, queue) = mpsc::channel(WAITING);
            let idle = Rc::clone(&idle);
            let sender = sender.clone();
            spawn_local(async move {
                drop(exchange(queue, &idle, &sender, number).await);
                drop(sender.end(number).await);
            });

            pieces
        });

        // It waits while the origin is slow, and all other exchanges of the link with it: backpressure reaches the link.
        drop(pieces.send(piece.to_vec()).await);
    }
}

/// Forwards until the client or the origin ends.
async fn exchange(
    mut queue: mpsc::Receiver<Vec<u8>>,
    idle: &Idle,
    link: &LinkSender,
    number: u32,
) -> Result<()> {
    let mut target = idle.take().await?;
    let mut answer = vec![0; HEADER + PIECE];
    loop {
        tokio::select! {
            piece = queue.recv() => match piece {
                Some(piece) => target.write_all(&piece).await?,
                None => {
                    idle.put(target);
                    return Ok(());
                }
            },
            read = target.read(&mut answer[HEADER..]) => match read? {
                0 => return Ok(()),
                read => link.send(number, &mut answer[..HEADER + read]).await?,
            },
        }
    }
}

/// Each exchange gets a socket.
pub async fn datagrams(link: TcpStream, to: SocketAddr) -> Result<()> {
    let (from, back) = link.into_split();
    let mut receiver = Receiver::new(from);
    let sender = LinkSender::new(back);
    let mut sockets: HashMap<u32, (Rc<UdpSocket>, AbortHandle)> = HashMap::new();

    loop {
        let (number, datagram) = receiver.receive().await?;
        let socket = match sockets.get(&number) {
            Some((socket, _)) => socket,
            None => {
                // Numbers of clients only grow, so the oldest socket is the one so far below.
                if let Some((_, oldest)) = number
                    .checked_sub(SOCKETS)
                    .and_then(|number| sockets.remove(&number))
                {
                    oldest.abort();
                }

                let socket = Rc::new(UdpSocket::connected(to).await?);
                let answers = Rc::clone(&socket);
                let sender = sender.clone();
                let task =
                    spawn_local(async move { drop(answer(&answers, &sender, number).await) });

                &sockets
                    .entry(number)
                    .or_insert((socket, task.abort_handle()))
                    .0
            }
        };

        drop(socket.send_segments(None, datagram, None).await);
    }
}

async fn answer(socket: &UdpSocket, link: &LinkSender, number: u32) -> Result<()> {
    let mut batch = RecvBatch::with_slots(1);
    let mut piece = Vec::new();
    loop {
        socket.recv(&mut batch).await.ok();
        for (_, datagram) in batch.datagrams() {
            piece.clear();
            piece.extend([0; HEADER]);
            piece.extend(datagram);
            link.send(number, &mut piece).await?;
        }
    }
}
