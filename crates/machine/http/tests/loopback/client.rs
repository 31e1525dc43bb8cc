//! A client over either version.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use hermes_http::client::{self, QuicLink, TcpLink};
use hermes_http::h1::{self, client::Receiver};
use hermes_http::{Event, Incoming, Outgoing, Pending, RequestHead, ResponseHead, StreamError};
use hermes_net::Stream;
use hermes_net::quic::Endpoint;
use http::HeaderValue;
use http::header::CONTENT_LENGTH;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

use crate::Version;
use crate::content::Content;
use crate::quic;

/// Opens exchanges at one address: on kept connections over HTTP/1.1, on one link over HTTP/2.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    /// HTTP/2 or HTTP/3, where that is the version.
    pub link: Option<AnyLink>,
    kept: Arc<Mutex<Vec<h1::Connection>>>,
    dialled: Arc<AtomicUsize>,
}

/// A link of either version.
#[derive(Clone)]
pub enum AnyLink {
    H2(TcpLink),
    /// With the endpoint, which must live as long.
    H3 {
        link: QuicLink,
        _endpoint: Endpoint,
    },
}

impl AnyLink {
    pub fn is_alive(&self) -> bool {
        match self {
            Self::H2(link) => link.is_alive(),
            Self::H3 { link, .. } => link.is_alive(),
        }
    }

    pub async fn open(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(Outgoing, Pending), StreamError> {
        match self {
            Self::H2(link) => link.open(head, length).await,
            Self::H3 { link, .. } => link.open(head, length).await,
        }
    }
}

/// A response that arrived whole.
#[derive(Debug)]
pub struct Answered {
    pub head: ResponseHead,
    pub content: Content,
}

impl Client {
    pub async fn dial(version: Version, address: SocketAddr) -> Self {
        let link = match version {
            Version::H1 => None,
            Version::H2 => Some(AnyLink::H2(
                link(TcpStream::connect(address).await.unwrap()).await,
            )),
            Version::H3 => Some(link_h3(address).await),
        };
        Self {
            address,
            link,
            kept: Arc::default(),
            dialled: Arc::default(),
        }
    }

    /// How many connections this client opened.
    pub fn dialled(&self) -> usize {
        self.dialled.load(Ordering::Relaxed) + usize::from(self.link.is_some())
    }

    /// A connection that came home.
    pub fn kept(&self) -> Option<h1::Connection> {
        self.kept.lock().pop()
    }

    pub async fn open(
        &self,
        head: &RequestHead,
        length: Option<u64>,
    ) -> Result<(Outgoing, Pending), StreamError> {
        if let Some(link) = &self.link {
            return link.open(head, length).await;
        }
        let kept = self.kept.clone();
        let home = Arc::new(move |connection| kept.lock().push(connection));
        client::h1::open(
            self.connection().await,
            head,
            length,
            Receiver::Proxy,
            Some(home),
        )
    }

    async fn connection(&self) -> h1::Connection {
        if let Some(mut kept) = self.kept()
            && kept.is_usable()
        {
            return kept;
        }
        self.dialled.fetch_add(1, Ordering::Relaxed);
        h1::Connection::new(
            TcpStream::connect(self.address).await.unwrap().into(),
            BytesMut::new(),
        )
    }

    /// Sends a whole message and receives the whole response.
    pub async fn exchange(
        &self,
        mut head: RequestHead,
        content: &Content,
    ) -> Result<Answered, StreamError> {
        if let Some(length) = content.length.filter(|length| *length > 0) {
            head.fields
                .insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let (mut outgoing, mut pending) = self.open(&head, content.length).await?;
        content.send(&mut outgoing).await?;
        let (head, mut incoming) = last(&mut pending).await?;
        Ok(Answered {
            head,
            content: Content::receive(&mut incoming).await?,
        })
    }

    /// Opens a tunnel that must be accepted.
    pub async fn tunnel(&self, head: &RequestHead) -> (ResponseHead, Incoming, Outgoing) {
        let (mut outgoing, mut pending) = self.open(head, None).await.unwrap();
        outgoing.flush().await.unwrap();
        let Event::Tunnel(head, incoming) = pending.event(Some(&mut outgoing)).await.unwrap()
        else {
            panic!("the tunnel was refused")
        };
        (head, incoming, outgoing)
    }
}

/// The final response, behind any interim ones.
pub async fn last(pending: &mut Pending) -> Result<(ResponseHead, Incoming), StreamError> {
    loop {
        match pending.event(None).await? {
            Event::Interim(_) => {}
            Event::Final(head, incoming) => return Ok((head, incoming)),
            Event::Tunnel(..) => panic!("a tunnel was accepted that no one asked for"),
        }
    }
}

/// HTTP/2 over a connection.
pub async fn link(tcp: TcpStream) -> TcpLink {
    TcpLink::connect(Stream::from(tcp), None, &TaskTracker::new())
        .await
        .unwrap()
}

/// HTTP/3 over a connection of its own.
pub async fn link_h3(address: SocketAddr) -> AnyLink {
    let (connection, endpoint) = quic::connect(address).await;
    let link = QuicLink::connect(connection, &TaskTracker::new()).unwrap();
    AnyLink::H3 {
        link,
        _endpoint: endpoint,
    }
}

/// Opens an exchange over HTTP/1.1 on one connection; where the connection goes afterwards is told, if it does.
pub fn open_h1(
    stream: impl Into<Stream>,
    head: &RequestHead,
    length: Option<u64>,
    receiver: Receiver,
) -> (
    Outgoing,
    Pending,
    tokio::sync::oneshot::Receiver<h1::Connection>,
) {
    let (home, returned) = tokio::sync::oneshot::channel();
    let connection = h1::Connection::new(stream.into(), BytesMut::new());
    let home = Mutex::new(Some(home));
    let home = Arc::new(move |connection| {
        let home = home.lock().take();
        drop(home.map(|home| home.send(connection)));
    });
    let (outgoing, pending) =
        client::h1::open(connection, head, length, receiver, Some(home)).unwrap();
    (outgoing, pending, returned)
}
