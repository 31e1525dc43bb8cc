//! The server at the far end: HTTP, TLS, TCP and UDP, each on a port of its own, in one process.

mod bytes;
mod datagrams;
mod web;

pub use datagrams::received;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::pki::{ORIGIN, Pki};
use crate::process::Process;
use crate::topology::Namespace;

/// First byte of a connection, TLS session or datagram that is to come back as it is.
pub const ECHO: u8 = b'e';
/// First byte of a connection that asks for bytes without end.
pub const SOURCE: u8 = b's';
/// First byte of a connection over which each further eight bytes, a number in network order, ask for so many bytes.
pub const SIZED: u8 = b'n';
/// First byte of a connection whose further bytes are only counted: once it ends, how many came is answered, in eight bytes.
pub const SINK: u8 = b'k';
/// First byte of a datagram that is only counted, under the four bytes that follow.
pub const COUNT: u8 = b'c';
/// First byte of a datagram that asks how many came under the four bytes that follow.
pub const QUERY: u8 = b'q';

/// Connections that wait to be accepted: more than the largest burst.
const BACKLOG: i32 = 4096;
/// Bytes of the socket buffers for datagrams.
const UDP_BUFFER: usize = 4 << 20;
/// How long the origin may take to start.
const START_LIMIT: Duration = Duration::from_secs(10);
/// The file with the addresses.
const FILE: &str = "origin.json";

/// Options of the hidden command.
#[derive(Debug, clap::Args)]
pub struct OriginArguments {
    /// Folder with certificates; the addresses are written there.
    #[arg(long)]
    folder: PathBuf,
    /// Where it listens.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Time between two connections that it accepts at a port.
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration)]
    every: Duration,
}

/// Where the origin listens.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Addresses {
    /// Answers requests.
    pub http: SocketAddr,
    /// TLS; echoes.
    pub tls: SocketAddr,
    /// Echoes, sends as many bytes as are asked for or without end, or counts.
    pub tcp: SocketAddr,
    /// Echoes, or counts.
    pub udp: SocketAddr,
}

/// The name that the origin's certificate has.
///
/// # Errors
/// Never: the name is a constant.
pub fn tls_name() -> Result<ServerName<'static>> {
    Ok(ServerName::try_from(ORIGIN)?)
}

/// Starts the origin as a process of its own and waits until it listens.
///
/// # Errors
/// When it does not start.
pub fn start(folder: &Path) -> Result<(Process, Addresses)> {
    start_in(None, Ipv4Addr::LOCALHOST.into(), folder)
}

/// The same, which accepts a connection at each port only once in this time.
///
/// # Errors
/// When it does not start.
pub fn start_slow(folder: &Path, every: Duration) -> Result<(Process, Addresses)> {
    launch(None, Ipv4Addr::LOCALHOST.into(), folder, every)
}

/// The same in a network namespace, at an address there.
///
/// # Errors
/// When it does not start.
pub fn start_in(
    namespace: Option<&Namespace>,
    address: IpAddr,
    folder: &Path,
) -> Result<(Process, Addresses)> {
    launch(namespace, address, folder, Duration::ZERO)
}

fn launch(
    namespace: Option<&Namespace>,
    address: IpAddr,
    folder: &Path,
    every: Duration,
) -> Result<(Process, Addresses)> {
    let program = std::env::current_exe()?;
    let file = folder.join(FILE);
    let address = address.to_string();
    let every = humantime::format_duration(every).to_string();

    let words = [
        "origin".as_ref(),
        "--address".as_ref(),
        address.as_ref(),
        "--every".as_ref(),
        every.as_ref(),
        "--folder".as_ref(),
        folder.as_os_str(),
    ];

    let mut process = Process::start_in(namespace, "origin", folder, &program, &words)?;
    let step = Duration::from_millis(5);
    for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
        process.check()?;
        if let Ok(text) = fs::read_to_string(&file) {
            return Ok((process, serde_json::from_str(&text)?));
        }
        std::thread::sleep(step);
    }

    anyhow::bail!("the origin does not start:\n{}", process.log())
}

/// Serves until the process is ended.
///
/// # Errors
/// When a port cannot be had.
pub fn serve(arguments: &OriginArguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve_all(arguments))
}

async fn serve_all(arguments: &OriginArguments) -> Result<()> {
    let OriginArguments {
        folder,
        address,
        every,
    } = arguments;
    let address = *address;
    let every = *every;
    let tls = TlsAcceptor::from(Pki::open(folder).server()?);
    let web = listen(address)?;
    let secure = listen(address)?;
    let plain = listen(address)?;
    let udp = udp_socket(address)?;

    let addresses = Addresses {
        http: web.local_addr()?,
        tls: secure.local_addr()?,
        tcp: plain.local_addr()?,
        udp: udp.local_addr()?,
    };

    let written = folder.join("origin.json.new");
    fs::write(&written, serde_json::to_string(&addresses)?)?;
    fs::rename(&written, folder.join(FILE))?;
    tokio::try_join!(
        accept(web, every, web::answer),
        accept(plain, every, bytes::serve),
        accept(secure, every, move |stream| {
            let tls = tls.clone();
            async move { bytes::serve(tls.accept(stream).await?).await }
        }),
        datagrams::serve(udp),
    )?;

    Ok(())
}

/// Serves each connection in a task, one more `every` so often; they end with the process.
async fn accept<F: Future<Output = Result<()>> + 'static>(
    listener: TcpListener,
    every: Duration,
    serve: impl Fn(TcpStream) -> F,
) -> Result<()> {
    let tasks = tokio::task::LocalSet::new();
    tasks
        .run_until(async {
            loop {
                let (stream, _) = listener.accept().await.context("accept")?;
                stream.set_nodelay(true)?;

                // The last to close resets: no port of the first to close waits for late segments, so that thousands
                // of new connections a second do not use up all ports.
                stream.set_zero_linger()?;
                // A client that goes away in the middle is its own business.
                let serving = serve(stream);
                tokio::task::spawn_local(async move { drop(serving.await) });
                if !every.is_zero() {
                    slowly(every).await;
                }
            }
        })
        .await
}

/// Waits on this thread, as timers are not as fine, while other tasks go on.
async fn slowly(every: Duration) {
    let end = std::time::Instant::now() + every;
    while std::time::Instant::now() < end {
        tokio::task::yield_now().await;
    }
}

fn listen(address: IpAddr) -> Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into())?)
}

fn udp_socket(address: IpAddr) -> Result<hermes_net::UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(UDP_BUFFER)?;
    socket.set_send_buffer_size(UDP_BUFFER)?;
    socket.bind(&SocketAddr::from((address, 0)).into())?;
    Ok(hermes_net::UdpSocket::bound(socket.into())?)
}
