//! The forwarder beside the client: many clients share one link.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use hermes_net::{RecvBatch, UdpSocket};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::frame::{Exchanges, HEADER, LinkSender, Receiver, send_all};

/// Pause before the other end is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Each connection becomes an exchange of the link.
pub async fn connections(listener: TcpListener, to: SocketAddr) -> Result<()> {
    let (mut receiver, sender) = link(to).await?;
    let exchanges: Exchanges = Rc::default();
    let answers = Rc::clone(&exchanges);

    let back = spawn_local(async move {
        loop {
            let (number, piece) = receiver.receive().await?;
            let mut exchanges = answers.lock().await;
            if piece.is_empty() {
                exchanges.remove(&number);
            } else if let Some(client) = exchanges.get_mut(&number) {
                // A client that left breaks its own exchange, not the link. One that does not read holds up the others.
                drop(client.write_all(piece).await);
            }
        }
    });

    let forth = accept(listener, sender, exchanges);
    tokio::select! {
        ended = forth => ended,
        ended = back => ended?,
    }
}

async fn accept(listener: TcpListener, sender: LinkSender, exchanges: Exchanges) -> Result<()> {
    for number in 0.. {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (from, back) = stream.into_split();
        exchanges.lock().await.insert(number, back);
        let sender = sender.clone();
        let exchanges = Rc::clone(&exchanges);
        spawn_local(async move {
            if send_all(from, &sender, number).await.is_err() {
                exchanges.lock().await.remove(&number);
                drop(sender.end(number).await);
            }
        });
    }
    Ok(())
}

/// The datagrams of each client address become an exchange of the link.
pub async fn datagrams(socket: UdpSocket, to: SocketAddr) -> Result<()> {
    let socket = Rc::new(socket);
    let clients: Rc<RefCell<Vec<SocketAddr>>> = Rc::default();
    let (mut receiver, sender) = link(to).await?;
    let answers = Rc::clone(&socket);
    let addresses = Rc::clone(&clients);

    let back = spawn_local(async move {
        loop {
            let (number, datagram) = receiver.receive().await?;
            let client = addresses.borrow().get(number as usize).copied();
            drop(answers.send_segments(client, datagram, None).await);
        }
    });

    let forth = receive(&socket, &clients, &sender);
    tokio::select! {
        ended = forth => ended,
        ended = back => ended?,
    }
}

async fn receive(
    socket: &UdpSocket,
    clients: &RefCell<Vec<SocketAddr>>,
    sender: &LinkSender,
) -> Result<()> {
    let mut numbers: HashMap<SocketAddr, u32> = HashMap::new();
    let mut batch = RecvBatch::new();
    let mut piece = Vec::new();

    loop {
        if socket.recv(&mut batch).await.is_err() {
            continue;
        }
        for (source, datagram) in batch.datagrams() {
            let next = u32::try_from(numbers.len())?;
            let number = *numbers.entry(source).or_insert_with(|| {
                clients.borrow_mut().push(source);
                next
            });
            piece.clear();
            piece.extend([0; HEADER]);
            piece.extend(datagram);
            sender.send(number, &mut piece).await?;
        }
    }
}

/// Opens the link; the other end may not be there yet.
async fn link(to: SocketAddr) -> Result<(Receiver, LinkSender)> {
    let stream = loop {
        match TcpStream::connect(to).await {
            Ok(stream) => break stream,
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    };

    stream.set_nodelay(true)?;
    let (from, back) = stream.into_split();
    Ok((Receiver::new(from), LinkSender::new(back)))
}
