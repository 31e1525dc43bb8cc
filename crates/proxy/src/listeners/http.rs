//! `http` listeners.

use std::future::Future;
use std::sync::Arc;

use hermes_http::server::{Handler, Options, serve as serve_http};
use hermes_http::{Offered, ResponseHead, h3};
use hermes_net::tls::Fault;
use hermes_net::{Drain, Stream, StreamInfo, Watch, quic, tls};
use hermes_proto::greeting::Greeting;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::greetings;
use super::refusals::{self, Over};
use crate::arrival::Arrival;
use crate::entrance::{Connection, Entrance};
use crate::explain::explains;
use crate::pipeline;
use crate::refusal::Refusal;

/// Serves one connection.
pub(super) async fn connection(entrance: Entrance, stream: Stream, watch: &Watch) {
    let rules = &entrance.rules;
    let peer = stream.info().peer;
    let stream = match &rules.tls {
        None => stream,
        Some(config) => {
            match Box::pin(tls::accept(stream, config.clone(), rules.options.head_time)).await {
                Ok(stream) => stream,
                Err(error) => return refusals::of_tls(rules, peer, &error),
            }
        }
    };
    if !rules.speaks(stream.info()) {
        let detail = "the client agreed to no HTTP version of this listener (ALPN)";
        return refusals::note(rules, peer, Over::Tcp, Fault::Protocol, detail);
    }
    let options = admit_peer(&entrance, stream.info());
    let (entrance, own) = known(entrance, stream.info(), watch);
    tokio::select! {
        () = serve_http(stream, &options, Proxying(entrance), &own) => {}
        () = watch.forced() => {}
    }
}

/// Lets go of the source of a client that has shown a certificate; the bounds of the connection.
fn admit_peer(entrance: &Entrance, source: &StreamInfo) -> Options {
    if let Some(admission) = &entrance.admission
        && source
            .tls
            .as_ref()
            .is_some_and(|tls| tls.certificate.is_some())
        && entrance.believes(source)
    {
        admission.certified();
    }
    entrance.rules.options_for(source)
}

/// Where a connection of a client enters. One whose client showed a certificate can be ended alone.
fn known(entrance: Entrance, info: &StreamInfo, watch: &Watch) -> (Entrance, Watch) {
    let shown = info.tls.as_ref().is_some_and(|tls| tls.chain.is_some());
    let ending = shown.then(|| watch.child());
    let own = ending.as_ref().map_or_else(|| watch.clone(), Drain::watch);
    let connection = Connection {
        ending,
        ..Connection::default()
    };
    (
        Entrance {
            connection: Some(Arc::new(connection)),
            ..entrance
        },
        own,
    )
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
pub(super) async fn quic_connection(
    entrance: Entrance,
    connection: quic::Connection,
    watch: &Watch,
) {
    let options = admit_peer(&entrance, connection.info());
    let (entrance, own) = known(entrance, connection.info(), watch);
    tokio::select! {
        () = h3::server::serve(connection, &options, Proxying(entrance), &own) => {}
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

    fn greeted(&self, greeting: Greeting, source: &StreamInfo) {
        greetings::note(&self.0.rules.name, greeting, source);
    }

    fn malformed(&self, status: StatusCode, reason: &str, source: &StreamInfo) -> ResponseHead {
        tracing::debug!(listener = %self.0.rules.name, peer = %source.peer, reason, "malformed request");
        self.0.rules.seeing.malformed();
        let refusal = Refusal::new(ProxyError::HttpRequestError, reason).status(status);
        let snapshot = self.0.worker.snapshot();
        refusal
            .answer(&snapshot.node, explains(&snapshot, &self.0.rules, source))
            .0
    }
}
