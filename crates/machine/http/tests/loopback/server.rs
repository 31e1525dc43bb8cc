//! A server that answers exchanges by a closure.

use std::net::SocketAddr;
use std::time::Duration;

use hermes_http::server::{Handler, Options, serve};
use hermes_http::{Offered, ResponseHead};
use hermes_net::quic::Endpoint;
use hermes_net::{Drain, Stream, StreamInfo};
use http::{HeaderValue, StatusCode};
use tokio::net::TcpListener;

use crate::Version;
use crate::client::Client;
use crate::quic;
use crate::raw::Raw;

/// Short enough to pass while a test waits for it.
pub const SOON: Duration = Duration::from_millis(20);

/// A listener on the loopback, and the drain of its connections.
pub struct Server {
    pub address: SocketAddr,
    pub drain: Drain,
}

impl Server {
    pub async fn start<F, Fut>(answer: F) -> Self
    where
        F: Fn(Offered) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self::with(Options::default(), answer).await
    }

    pub async fn with<F, Fut>(options: Options, answer: F) -> Self
    where
        F: Fn(Offered) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let drain = Drain::new();
        // One port for TCP and UDP, which some other program may have one half of.
        let (listener, endpoint) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(endpoint) = quic::listen_for(options.streams, listener.local_addr().unwrap())
            {
                break (listener, endpoint);
            }
        };
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(
            listener,
            drain.clone(),
            options.clone(),
            Answer(answer.clone()),
        ));
        tokio::spawn(accept_quic(
            endpoint,
            drain.clone(),
            options,
            Answer(answer),
        ));
        Self { address, drain }
    }

    pub async fn client(&self, version: Version) -> Client {
        Client::dial(version, self.address).await
    }

    pub async fn raw(&self) -> Raw {
        Raw::dial(self.address).await
    }
}

pub async fn accept<H: Handler>(listener: TcpListener, drain: Drain, options: Options, handler: H) {
    loop {
        let (tcp, _) = listener.accept().await.unwrap();
        let (options, handler, watch) = (options.clone(), handler.clone(), drain.watch());
        drain
            .watch()
            .spawn(async move { serve(Stream::from(tcp), &options, handler, &watch).await });
    }
}

async fn accept_quic<H: Handler>(endpoint: Endpoint, drain: Drain, options: Options, handler: H) {
    while let Some(incoming) = endpoint.accept().await {
        let (options, handler, watch) = (options.clone(), handler.clone(), drain.watch());
        drain.watch().spawn(async move {
            if let Ok(connection) = incoming.accept().await {
                hermes_http::server::h3::serve(connection, &options, handler, &watch).await;
            }
        });
    }
}

/// A handler made of a closure.
#[derive(Clone)]
pub struct Answer<F>(pub F);

impl<F, Fut> Handler for Answer<F>
where
    F: Fn(Offered) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    async fn handle(&self, offered: Box<Offered>) {
        (self.0)(*offered).await;
    }

    fn malformed(&self, status: StatusCode, reason: &str, _source: &StreamInfo) -> ResponseHead {
        let mut head = ResponseHead::new(status);
        head.fields
            .insert("reason", HeaderValue::from_str(reason).unwrap());
        head
    }
}
