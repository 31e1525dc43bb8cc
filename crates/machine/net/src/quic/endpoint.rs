//! One UDP socket with its connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quinn::{EndpointConfig, TokioRuntime};
use socket2::{Domain, SockRef};

use super::cid::WorkerIds;
use super::coalescing_socket::CoalescingSocket;
use super::config::{ClientConfig, ServerOptions};
use super::congestion::Congestion;
use super::connection::{Connection, Unfinished};
use super::error::ConnectionError;
use super::handshakes::{Handshake, Handshakes, Judged};
use super::incoming::Incoming;
use super::keys::Keys;
use super::nested_path::Socket;
use super::record::Record;
use super::refusals::Refusals;
use super::send::code_of;
use super::shared::SharedPackets;
use super::transport::{KEEP_ALIVE, Sizes, transport};
use crate::descriptors::{claim, noted};
use crate::listen;
use crate::local_end::{LocalEnd, Port};
use crate::os;
use crate::own_mark::marked;
use crate::peer::canonical;
use crate::shared_socket::{DatagramSocket, Rendezvous, Siblings};

/// A UDP socket that accepts and opens connections. Clones are the same one. Its work is done on the runtime that it was made
/// on. When the last clone and the last connection are dropped, the socket is closed.
#[derive(Debug, Clone)]
pub struct Endpoint {
    quinn: quinn::Endpoint,
    serving: Arc<Serving>,
    /// ICMP errors that a client's socket hears.
    refusals: Arc<Refusals>,
    /// The packets of a server's socket that other processes have, too.
    shared: Option<Arc<SharedPackets>>,
}

/// The accepting side of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Serving {
    current: Mutex<Option<Current>>,
    handshakes: Handshakes,
    retries: AtomicUsize,
}

/// How connections are accepted now.
#[derive(Debug, Clone)]
pub(super) struct Current {
    config: Arc<quinn::ServerConfig>,
    pub(super) early_data: bool,
    streams: u32,
    retry_above: usize,
    record: Record,
}

impl Endpoint {
    /// Accepts connections on `socket` (see [`crate::listen::udp`]), which is that of worker number
    /// `worker`. Where several workers share a port, [`super::steering::steer`] makes the kernel
    /// deliver to each its own packets.
    ///
    /// # Errors
    /// When the system refuses the socket, or TLS does not suit QUIC.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn server(
        socket: impl Into<DatagramSocket>,
        worker: u8,
        options: &ServerOptions,
    ) -> io::Result<Self> {
        let DatagramSocket { socket, rendezvous } = socket.into();
        let current = Current::build(options)?;
        let ids = WorkerIds {
            worker,
            process: rendezvous.as_ref().map(Rendezvous::tag),
        };
        let ours = endpoint_config(ids, &options.keys, Sizes::OWN);

        let shared = rendezvous.map(Siblings::new).transpose()?;
        let shared = shared.map(|siblings| Arc::new(SharedPackets::new(siblings)));
        socket.set_nonblocking(true)?;
        let socket = match &shared {
            Some(shared) => CoalescingSocket::shared(socket, shared.clone())?,
            None => CoalescingSocket::new(socket, None)?,
        };

        let mut endpoint = Self::on(socket, ours, Some((*current.config).clone()))?;
        *endpoint.serving.current.lock() = Some(current);
        endpoint.shared = shared;
        Ok(endpoint)
    }

    /// Opens connections towards addresses of the family of `towards`, from a port of its own.
    ///
    /// # Errors
    /// When no socket can be had.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn client(towards: SocketAddr) -> io::Result<Self> {
        Self::client_from(towards, &LocalEnd::ANY)
    }

    /// As [`Self::client`], from this end.
    ///
    /// # Errors
    /// As there, and when nothing can be opened from it.
    ///
    /// # Panics
    /// As there.
    pub fn client_from(towards: SocketAddr, from: &LocalEnd) -> io::Result<Self> {
        let any = match towards {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };

        // Not `listen::udp`: of ports that may be shared, the system gives out those that someone has.
        let socket: UdpSocket = os::datagram_socket(Domain::for_address(any))
            .map_err(noted)
            .and_then(claim)
            .and_then(marked)?
            .into();
        let is_free = *from == LocalEnd::ANY;
        from.bind(SockRef::from(&socket), towards, Port::Now)?;
        if is_free || !has_port(&socket)? {
            SockRef::from(&socket).bind(&any.into()).map_err(noted)?;
        }
        listen::enlarge_buffers(&SockRef::from(&socket));

        // Where errors are not told, silence says the same later.
        let _ = os::report_errors(&socket, towards.is_ipv6());
        let refusals = Arc::<Refusals>::default();
        let socket = coalescing(socket, Some(refusals.clone()))?;
        let endpoint = Self::on(
            socket,
            endpoint_config(WorkerIds::CLIENT, &Keys::random(), Sizes::OWN),
            None,
        )?;

        Ok(Self {
            refusals,
            ..endpoint
        })
    }

    /// Opens a connection over another carrier of packets than a UDP socket; as [`Self::connect`].
    ///
    /// # Errors
    /// When the handshake fails, or the way ends.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect_through(
        socket: Socket,
        sizes: Sizes,
        server_name: &str,
        config: &ClientConfig,
    ) -> Result<Connection, ConnectionError> {
        let path = socket.path();
        let ours = endpoint_config(WorkerIds::CLIENT, &Keys::random(), sizes);
        let quinn = quinn::Endpoint::new_with_abstract_socket(
            ours,
            None,
            Arc::new(socket),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| ConnectionError::Other(error.to_string()))?;

        let endpoint = Self {
            quinn,
            serving: Arc::default(),
            refusals: Arc::default(),
            shared: None,
        };

        endpoint
            .connect_sized(Socket::FAR, server_name, config, sizes)
            .await
            .map(|connection| connection.nested(path))
    }

    fn on(
        socket: CoalescingSocket,
        ours: EndpointConfig,
        config: Option<quinn::ServerConfig>,
    ) -> io::Result<Self> {
        let quinn = quinn::Endpoint::new_with_abstract_socket(
            ours,
            config,
            Arc::new(socket),
            Arc::new(TokioRuntime),
        )?;
        Ok(Self {
            quinn,
            serving: Arc::default(),
            refusals: Arc::default(),
            shared: None,
        })
    }

    /// Resolves when the machine of the peer has said that nothing listens there (ICMP). For clients; a hint only.
    pub async fn refused(&self) {
        self.refusals.more_than(0).await;
    }

    /// Accepts connections to come by other rules: a new certificate, for example. Open ones are not touched.
    ///
    /// # Errors
    /// When TLS does not suit QUIC; the old rules stay.
    pub fn set_server(&self, options: &ServerOptions) -> io::Result<()> {
        let current = Current::build(options)?;
        self.quinn
            .set_server_config(Some((*current.config).clone()));
        *self.serving.current.lock() = Some(current);
        Ok(())
    }

    /// Lets [`Self::accept`], which someone must go on calling, refuse connections to come. Open ones go on. Where another process has the
    /// socket too, it is given the clients that come.
    pub fn stop_accepting(&self) {
        if let Some(shared) = &self.shared {
            shared.drain();
        }
        *self.serving.current.lock() = None;
    }

    /// The next connection that a client asks for; `None` when the endpoint is closed. While many
    /// handshakes are unfinished, only clients that proved their address come through. Dropping the
    /// future loses no connection.
    pub async fn accept(&self) -> Option<Incoming> {
        loop {
            let incoming = self.quinn.accept().await?;
            // Refused, not dropped: the client learns it in a round trip, and can go elsewhere.
            let Some(current) = self.serving.current() else {
                incoming.refuse();
                continue;
            };

            let peer = incoming.remote_address();
            let proved = incoming.remote_address_validated();
            match self
                .serving
                .handshakes
                .judge(peer, proved, current.retry_above)
            {
                Judged::Welcome(handshake) => return Some(self.incoming(incoming, handshake)),
                Judged::Refused => incoming.refuse(),
                Judged::Retry => {
                    self.serving.retries.fetch_add(1, Ordering::Relaxed);
                    // A retry is possible: its address is not validated.
                    drop(incoming.retry());
                }
            }
        }
    }

    fn incoming(&self, quinn: quinn::Incoming, handshake: Handshake) -> Incoming {
        let local = self.quinn.local_addr().ok();
        Incoming {
            quinn,
            serving: self.serving.clone(),
            local,
            handshake,
        }
    }

    /// How many clients were asked to prove their address.
    #[must_use]
    pub fn retries(&self) -> usize {
        self.serving.retries.load(Ordering::Relaxed)
    }

    /// Opens a connection; `server_name` (a host name or an IP address) is sent and must be in the
    /// certificate. The only time limit is the idle one.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn connect(
        &self,
        to: SocketAddr,
        server_name: &str,
        config: &ClientConfig,
    ) -> Result<Connection, ConnectionError> {
        self.connect_sized(to, server_name, config, Sizes::OWN)
            .await
    }

    async fn connect_sized(
        &self,
        to: SocketAddr,
        server_name: &str,
        config: &ClientConfig,
        sizes: Sizes,
    ) -> Result<Connection, ConnectionError> {
        let bare = server_name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));

        // RFC 6066 section 3: the name is sent without its trailing dot.
        let name = bare.unwrap_or(server_name).trim_end_matches('.');
        let connecting = self
            .quinn
            .connect_with(config.one(sizes), to, name)
            .map_err(|error| match error {
                quinn::ConnectError::InvalidServerName(name) => ConnectionError::bad_name(&name),
                other => ConnectionError::Other(other.to_string()),
            })?;

        let local = self.quinn.local_addr().ok();
        if !config.early_data() {
            return Ok(Connection::new(connecting.await?, local, None).told(&self.refusals));
        }

        let connection = match connecting.into_0rtt() {
            Ok((connection, accepted)) => Connection::new(
                connection,
                local,
                Some(Unfinished {
                    accepted,
                    _counted: None,
                }),
            ),
            // No ticket for this server: nothing can be sent before the handshake ends.
            Err(connecting) => Connection::new(connecting.await?, local, None),
        };

        Ok(connection.told(&self.refusals))
    }

    /// Moves to another socket; the peers learn its address (RFC 9000 section 9). For clients.
    ///
    /// # Errors
    /// When the system refuses the socket.
    pub fn rebind(&self, socket: UdpSocket) -> io::Result<()> {
        self.quinn
            .rebind_abstract(Arc::new(coalescing(socket, None)?))
    }

    /// Our own address.
    ///
    /// # Errors
    /// When the descriptor is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.quinn.local_addr().map(canonical)
    }

    /// Connections that are open, with those that are being closed.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.quinn.open_connections()
    }

    /// Closes every connection at once, and accepts no more.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.quinn.close(code_of(code), reason);
    }

    /// Resolves when no connection is open any more, and their peers know.
    pub async fn idle(&self) {
        self.quinn.wait_idle().await;
    }
}

/// Whether a socket was bound.
fn has_port(socket: &UdpSocket) -> io::Result<bool> {
    Ok(socket.local_addr()?.port() != 0)
}

fn coalescing(socket: UdpSocket, refusals: Option<Arc<Refusals>>) -> io::Result<CoalescingSocket> {
    socket.set_nonblocking(true)?;
    CoalescingSocket::new(socket, refusals)
}

fn endpoint_config(ids: WorkerIds, keys: &Keys, sizes: Sizes) -> EndpointConfig {
    let mut config = EndpointConfig::new(keys.reset());
    config.cid_generator(move || Box::new(ids));
    // 1200 to 65,527 are allowed.
    let _ = config.max_udp_payload_size(sizes.from_peer);
    config
}

impl Serving {
    /// The current way to accept a connection that was asked for before; `None` if connections are
    /// not accepted any more.
    pub(super) fn current(&self) -> Option<Current> {
        self.current.lock().clone()
    }
}

impl Current {
    /// For one connection.
    pub(super) fn one(&self) -> Arc<quinn::ServerConfig> {
        if !self.record.writes_qlog() {
            return self.config.clone();
        }
        let mut config = (*self.config).clone();
        config.transport_config(transport(
            self.record.qlog("server"),
            self.streams,
            KEEP_ALIVE,
            Sizes::OWN,
            Congestion::default(),
        ));

        Arc::new(config)
    }

    fn build(options: &ServerOptions) -> io::Result<Self> {
        let config = options
            .build()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            config: Arc::new(config),
            early_data: options.early_data,
            streams: options.streams,
            retry_above: options.retry_above,
            record: options.record.clone(),
        })
    }
}
