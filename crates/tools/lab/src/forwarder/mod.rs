//! The null pair: forwarders with the sockets and wake-ups of a pair of proxies, and no HTTP.
//!
//! Whatever a proxy adds to this is the price of understanding and deciding. A link that carries many exchanges, as
//! HTTP/2 does, is a TCP connection with frames: eight bytes before each piece.

mod frame;
mod join;
mod plain;
mod split;

use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;

use anyhow::{Context, Result};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// Bytes of the socket buffers for datagrams.
const UDP_BUFFER: usize = 4 << 20;

/// Options of the hidden command.
#[derive(Debug, clap::Args)]
pub struct ForwarderArguments {
    /// `MODE=LISTEN=TO`.
    #[arg(required = true)]
    ways: Vec<ForwarderAddresses>,
}

/// The way of forwarding connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Each gets a new connection.
    Plain,
    /// Each gets an idle connection of an earlier one.
    Kept,
    /// All go over one link.
    Join,
    /// The link's other end: each gets a new connection.
    Split,
    /// The link's other end: each gets an idle connection of an earlier one.
    SplitKept,
    /// Datagrams of all clients go over one link.
    JoinUdp,
    /// The link's other end: each client gets a socket.
    SplitUdp,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = clap::ValueEnum::to_possible_value(self);
        f.write_str(
            value
                .as_ref()
                .map_or("", clap::builder::PossibleValue::get_name),
        )
    }
}

/// From where to where, and how.
#[derive(Debug, Clone, Copy)]
struct ForwarderAddresses {
    mode: Mode,
    listen: SocketAddr,
    to: SocketAddr,
}

impl FromStr for ForwarderAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('=');
        let mut next = || parts.next().ok_or("expected MODE=LISTEN=TO");
        let mode = clap::ValueEnum::from_str(next()?, false)?;
        let mut address = || next()?.parse().map_err(|error| format!("{error}"));

        Ok(Self {
            mode,
            listen: address()?,
            to: address()?,
        })
    }
}

/// Forwards until the process is ended.
///
/// # Errors
/// When an address cannot be had.
pub fn serve(arguments: &ForwarderArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        let ways = arguments
            .ways
            .iter()
            .map(|way| tokio::task::spawn_local(forward(*way)));
        for way in ways.collect::<Vec<_>>() {
            way.await??;
        }

        Ok(())
    })
}

async fn forward(way: ForwarderAddresses) -> Result<()> {
    let ForwarderAddresses { mode, listen, to } = way;
    match mode {
        Mode::JoinUdp => return join::datagrams(udp_socket(listen)?, to).await,
        Mode::Join => return join::connections(tcp_listener(listen)?, to).await,
        _ => {}
    }

    let listener = tcp_listener(listen)?;
    let idle = Rc::new(plain::Idle::new(
        to,
        matches!(mode, Mode::Kept | Mode::SplitKept),
    ));

    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        stream.set_nodelay(true)?;
        let idle = Rc::clone(&idle);
        // A connection that breaks ends its clients' exchanges, and those notice.
        tokio::task::spawn_local(async move { drop(serve_one(mode, stream, idle, to).await) });
    }
}

async fn serve_one(
    mode: Mode,
    stream: TcpStream,
    idle: Rc<plain::Idle>,
    to: SocketAddr,
) -> Result<()> {
    match mode {
        Mode::Split | Mode::SplitKept => split::connections(stream, idle).await,
        Mode::SplitUdp => split::datagrams(stream, to).await,
        _ => plain::forward(stream, &idle).await,
    }
}

fn tcp_listener(address: SocketAddr) -> Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket
        .bind(&address.into())
        .with_context(|| address.to_string())?;
    socket.listen(BACKLOG)?;

    Ok(TcpListener::from_std(socket.into())?)
}

fn udp_socket(address: SocketAddr) -> Result<hermes_net::UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(UDP_BUFFER)?;
    socket.set_send_buffer_size(UDP_BUFFER)?;
    socket
        .bind(&address.into())
        .with_context(|| address.to_string())?;
    Ok(hermes_net::UdpSocket::bound(socket.into())?)
}
