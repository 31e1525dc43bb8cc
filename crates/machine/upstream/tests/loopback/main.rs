//! The crate against real servers of this machine: loopback addresses and port 0 only.
#![allow(clippy::unwrap_used)]

mod authority;
mod far;
mod health;
mod keeping;
mod links;
mod origins;
mod reuse;
mod spread;
mod tls;
mod via;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::{Event, Frame, Incoming, RequestHead};
use hermes_net::Resolver;
use hermes_proto::fields::Fields;
use hermes_upstream::{Checkout, Client, Opened, Upstream};
use http::{Method, Version};
use serde_json::Value;
use tokio_util::task::TaskTracker;

/// Longer than anything here takes: only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client, its tasks, and its upstreams.
struct Near {
    client: Client,
    tasks: TaskTracker,
    upstreams: Arc<ArcSwap<HashMap<String, Arc<Upstream>>>>,
}

impl Near {
    fn new() -> Self {
        let silent = SocketAddr::from(([127, 0, 0, 1], 9));
        let resolver = Arc::new(Resolver::with_server(silent).unwrap());
        let (tasks, upstreams) = (TaskTracker::new(), Arc::new(ArcSwap::default()));
        let client = Client::new(resolver, tasks.clone(), upstreams.clone());
        Self {
            client,
            tasks,
            upstreams,
        }
    }

    /// Makes an upstream and puts it into the directory.
    fn upstream(&self, name: &str, config: Value) -> Arc<Upstream> {
        let upstream = Upstream::build(name, &serde_json::from_value(config).unwrap()).unwrap();
        let mut all = (**self.upstreams.load()).clone();
        all.insert(name.to_owned(), upstream.clone());
        self.upstreams.store(Arc::new(all));
        upstream
    }

    async fn checkout(&self, upstream: &Arc<Upstream>) -> Checkout {
        self.client
            .checkout(upstream, upstream.timeouts())
            .await
            .unwrap()
    }

    /// One whole exchange; its content.
    async fn get(&self, upstream: &Arc<Upstream>) -> String {
        finish(open(self.checkout(upstream).await).await).await
    }
}

fn head_of() -> RequestHead {
    RequestHead {
        method: Method::GET,
        scheme: Some(http::uri::Scheme::HTTP),
        authority: Some("origin.example".parse().unwrap()),
        path: Some("/".parse().unwrap()),
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}

/// Opens a GET without content.
async fn open(checkout: Checkout) -> Opened {
    let mut opened = checkout
        .open(&head_of(), Some(0), Receiver::Proxy)
        .await
        .unwrap();
    opened.outgoing.finish(None).await.unwrap();
    opened
}

/// Waits for the response and reads its content.
async fn finish(mut opened: Opened) -> String {
    loop {
        match opened.pending.event(None).await.unwrap() {
            Event::Interim(_) => {}
            Event::Final(_, incoming) | Event::Tunnel(_, incoming) => {
                return content(incoming).await;
            }
        }
    }
}

async fn content(mut incoming: Incoming) -> String {
    let mut all = Vec::new();
    while let Some(frame) = incoming.frame().await {
        if let Frame::Data(data) = frame.unwrap() {
            all.extend(data);
        }
    }
    String::from_utf8(Bytes::from(all).to_vec()).unwrap()
}

/// A loopback port on which nothing listens.
fn dead() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}
