//! `http` listeners.

use std::future::Future;

use hermes_http::server::{Handler, serve as serve_http};
use hermes_http::{Offered, ResponseHead, h3};
use hermes_net::{Stream, StreamInfo, Watch, quic, tls};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::Entrance;
use crate::arrival::Arrival;
use crate::explain::explains;
use crate::pipeline;
use crate::refusal::Refusal;

/// Serves one connection.
pub(super) async fn connection(entrance: Entrance, stream: Stream, watch: &Watch) {
    let rules = &entrance.rules;
    let stream = match &rules.tls {
        None => stream,
        Some(config) => match Box::pin(tls::accept(stream, config.clone(), rules.options.head_time)).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(listener = %rules.name, %error, "TLS failed");
                return;
            }
        },
    };
    if !rules.speaks(stream.info()) {
        tracing::debug!(listener = %rules.name, "the client agreed to no HTTP version of this listener");
        return;
    }
    let options = rules.options.clone();
    tokio::select! {
        () = serve_http(stream, &options, Proxying(entrance), watch) => {}
        () = watch.forced() => {}
    }
}

/// Serves an attachment: a connection that this node opened, and on which it is the server.
pub(super) async fn attachment(entrance: Entrance, stream: Stream, watch: &Watch) {
    let options = entrance.rules.options.clone();
    tokio::select! {
        () = serve_http(stream, &options, Proxying(entrance), watch) => {}
        () = watch.forced() => {}
    }
}

/// Serves one connection of HTTP/3.
pub(super) async fn quic_connection(entrance: Entrance, connection: quic::Connection, watch: &Watch) {
    let options = entrance.rules.options.clone();
    tokio::select! {
        () = h3::server::serve(connection, &options, Proxying(entrance), watch) => {}
        () = watch.forced() => {}
    }
}

/// Puts every exchange of a connection through the pipeline.
#[derive(Clone)]
struct Proxying(Entrance);

impl Handler for Proxying {
    fn handle(&self, offered: Box<Offered>) -> impl Future<Output = ()> + Send {
        pipeline::run(&self.0, Arrival::Offered(offered))
    }

    fn too_early(&self, offered: Box<Offered>) -> impl Future<Output = ()> + Send {
        pipeline::refuse_early(&self.0, Arrival::Offered(offered))
    }

    fn malformed(&self, status: StatusCode, reason: &str, source: &StreamInfo) -> ResponseHead {
        tracing::debug!(listener = %self.0.rules.name, peer = %source.peer, reason, "malformed request");
        self.0.rules.seeing.malformed();
        let refusal = Refusal::new(ProxyError::HttpRequestError, reason).status(status);
        let snapshot = self.0.worker.snapshot();
        refusal.answer(&snapshot.node, explains(&snapshot, &self.0.rules, source)).0
    }
}
