//! The other side: an HTTP server that is origin and proxy at once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hermes_http::server::{Handler, Options, serve};
use hermes_http::{Frame, Incoming, Kind, Offered, Outgoing, ResponseHead, h1};
use hermes_net::{Drain, Stream, StreamInfo, tls};
use hermes_proto::fields::Fields;
use http::StatusCode;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::PATIENCE;

/// A server on the loopback. Its GET answers with its own address, its CONNECT dials.
pub struct Far {
    pub address: SocketAddr,
    pub seen: Arc<Seen>,
}

/// The server's observations, and its behaviour.
#[derive(Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: AtomicUsize,
    /// Connections that are open now.
    pub open: AtomicUsize,
    /// Targets of CONNECT.
    pub targets: Mutex<Vec<String>>,
    /// Answer to CONNECT instead of a tunnel.
    pub refusal: Option<StatusCode>,
    /// Answers wait for a permit, if this is set.
    pub gate: Option<Arc<Semaphore>>,
}

impl Far {
    pub async fn start() -> Self {
        Self::with(Seen::default(), Options::default(), None).await
    }

    pub async fn with(seen: Seen, options: Options, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen) = (listener.local_addr().unwrap(), Arc::new(seen));
        let handler = Answering {
            address,
            seen: seen.clone(),
        };
        tokio::spawn(accept(listener, handler, options, tls));
        Self { address, seen }
    }

    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Waits until no connection is open.
    pub async fn deserted(&self) {
        let empty = async {
            while self.seen.open.load(Ordering::Relaxed) > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, empty).await.unwrap();
    }
}

async fn accept(
    listener: TcpListener,
    handler: Answering,
    options: Options,
    tls: Option<Arc<ServerConfig>>,
) {
    let drain = Drain::new();
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (handler, options, watch, tls) =
            (handler.clone(), options.clone(), drain.watch(), tls.clone());
        handler.seen.connections.fetch_add(1, Ordering::Relaxed);
        handler.seen.open.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(async move {
            let seen = handler.seen.clone();
            let stream = match tls {
                Some(config) => tls::accept(Stream::from(tcp), config, PATIENCE).await.ok(),
                None => Some(Stream::from(tcp)),
            };
            if let Some(stream) = stream {
                serve(stream, &options, handler, &watch).await;
            }
            seen.open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

#[derive(Clone)]
struct Answering {
    address: SocketAddr,
    seen: Arc<Seen>,
}

impl Handler for Answering {
    async fn handle(&self, offered: Box<Offered>) {
        if let Some(gate) = &self.seen.gate {
            gate.acquire().await.unwrap().forget();
        }
        if offered.kind() == Kind::Connect {
            return self.tunnel(*offered).await;
        }
        let head = ResponseHead::new(StatusCode::OK);
        let content = Bytes::from(self.address.to_string());
        let (_, _incoming, responder) = offered.message();
        let Ok(mut outgoing) = responder.respond(head, Some(content.len() as u64)).await else {
            return;
        };
        let _ = outgoing.data(content, true).await;
    }

    fn malformed(&self, status: StatusCode, _: &str, _: &StreamInfo) -> ResponseHead {
        ResponseHead::new(status)
    }
}

impl Answering {
    async fn tunnel(&self, offered: Offered) {
        let target = offered.head.authority.as_ref().unwrap().to_string();
        self.seen.targets.lock().push(target.clone());
        if let Some(status) = self.seen.refusal {
            let _ = offered
                .refuse(ResponseHead::new(status), Bytes::new())
                .await;
            return;
        }
        let tcp = tokio::net::TcpStream::connect(target).await.unwrap();
        let (read, write) = Stream::from(tcp).split();
        let (incoming, outgoing) = offered.accept(Fields::new()).await.unwrap();
        tokio::join!(
            forward(incoming, Outgoing::H1(h1::BodySender::bytes(write))),
            forward(Incoming::H1(h1::BodyReceiver::bytes(read)), outgoing),
        );
    }
}

async fn forward(mut incoming: Incoming, mut outgoing: Outgoing) {
    while let Some(Ok(Frame::Data(data))) = incoming.frame().await {
        if outgoing.data(data, false).await.is_err() {
            return;
        }
    }
    let _ = outgoing.finish(None).await;
}
