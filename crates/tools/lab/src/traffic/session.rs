//! One client's connection, tunnel or socket, and the exchanges on it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::http::{Buffer, CONNECT, REQUEST};
use super::{Entry, Kind};
use crate::origin::{ECHO, tls_name};

/// An exchange that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(10);
/// A datagram that is not answered by then is lost.
const UDP_LIMIT: Duration = Duration::from_secs(2);
/// Bytes that are sent and come back, except over HTTP. The first byte tells the origin its task.
const MESSAGE: usize = 64;

/// The last part of the addresses that clients come from.
const SOURCES: std::ops::RangeInclusive<u8> = 1..=16;

/// The state that all sessions share.
#[derive(Clone)]
pub struct Client {
    tls: TlsConnector,
    name: ServerName<'static>,
}

/// The open session of one client.
pub enum Session {
    /// A connection that carries requests.
    Http(TcpStream, Buffer),
    /// TLS with the origin.
    Tls(Box<TlsStream<TcpStream>>),
    /// Bytes.
    Tcp(TcpStream),
    /// Datagrams.
    Udp(UdpSocket),
}

impl Client {
    /// With this side of TLS.
    ///
    /// # Errors
    /// Never in practice: the origin's name is a constant.
    pub fn new(tls: Arc<ClientConfig>) -> Result<Self> {
        Ok(Self {
            tls: TlsConnector::from(tls),
            name: tls_name()?,
        })
    }

    /// A new client and one exchange.
    ///
    /// # Errors
    /// As [`Self::open`] and [`Session::exchange`].
    pub async fn once(&self, entry: &Entry) -> Result<()> {
        self.open(entry).await?.exchange().await
    }

    /// A new client: connection, tunnel and TLS, as far as the kind has them.
    ///
    /// # Errors
    /// When the place cannot be reached or refuses, or after 10 s.
    pub async fn open(&self, entry: &Entry) -> Result<Session> {
        timeout(LIMIT, self.open_anyhow_long(entry))
            .await
            .context("not open after 10 s")?
    }

    /// A tunnel to the origin, and nothing in it.
    ///
    /// # Errors
    /// When the proxy cannot be reached or refuses, or after 10 s.
    pub async fn tunnel(&self, entry: &Entry) -> Result<TcpStream> {
        let open = async {
            let mut stream = connect(entry.address).await?;
            Buffer::default().exchange(&mut stream, CONNECT).await?;
            Ok(stream)
        };
        timeout(LIMIT, open).await.context("not open after 10 s")?
    }

    async fn open_anyhow_long(&self, entry: &Entry) -> Result<Session> {
        if entry.kind == Kind::Udp {
            let loopback = entry.address.ip().is_loopback();
            let from = if loopback {
                Ipv4Addr::LOCALHOST
            } else {
                Ipv4Addr::UNSPECIFIED
            };

            let socket = UdpSocket::bind((from, 0)).await?;
            socket.connect(entry.address).await?;
            return Ok(Session::Udp(socket));
        }

        let mut stream = connect(entry.address).await?;
        Ok(match entry.kind {
            Kind::Http => Session::Http(stream, Buffer::default()),
            Kind::Tcp | Kind::Udp => Session::Tcp(stream),
            Kind::Connect => {
                if entry.asks {
                    Buffer::default().exchange(&mut stream, CONNECT).await?;
                }
                Session::Tls(Box::new(self.tls.connect(self.name.clone(), stream).await?))
            }
        })
    }
}

impl Session {
    /// Sends something small and waits for the answer.
    ///
    /// # Errors
    /// When it fails or takes too long.
    pub async fn exchange(&mut self) -> Result<()> {
        let limit = if matches!(self, Self::Udp(_)) {
            UDP_LIMIT
        } else {
            LIMIT
        };
        timeout(limit, self.exchange_however_long())
            .await
            .context("no answer in time")?
    }

    async fn exchange_however_long(&mut self) -> Result<()> {
        match self {
            Self::Http(stream, buffer) => buffer.exchange(stream, REQUEST).await,
            Self::Tls(stream) => echo(stream.as_mut()).await,
            Self::Tcp(stream) => echo(stream).await,
            Self::Udp(socket) => {
                let mut answer = [0; MESSAGE + 1];
                socket.send(&[ECHO; MESSAGE]).await?;
                let length = socket.recv(&mut answer).await?;
                ensure!(
                    answer[..length] == [ECHO; MESSAGE],
                    "another datagram came back"
                );

                Ok(())
            }
        }
    }
}

/// Over loopback from one of several addresses, each of which has its own ports: those of ended connections stay taken for a minute.
async fn connect(to: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if to.ip().is_loopback() {
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::new(127, 1, 0, fastrand::u8(SOURCES)), 0).into())?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<()> {
    let mut answer = [0; MESSAGE];
    stream.write_all(&[ECHO; MESSAGE]).await?;
    stream.flush().await?;
    stream.read_exact(&mut answer).await?;
    ensure!(answer == [ECHO; MESSAGE], "other bytes came back");
    Ok(())
}
