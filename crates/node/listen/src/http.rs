//! `http` listeners.

use std::future::Future;
use std::sync::Arc;

use hermes_admit::entrance::{Connection, Entrance};
use hermes_admit::explain::explains;
use hermes_admit::note;
use hermes_admit::refusals::remembered::{Circumstances, Instead};
use hermes_admit::snapshot::is_challenge;
use hermes_exchange as pipeline;
use hermes_http::server::{Handler, serve as serve_http};
use hermes_http::{IdleConnection, Offered, ResponseHead, server};
use hermes_net::tls::Fault;
use hermes_net::{Drain, Stream, StreamInfo, Watch, quic, tls};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::greeting::Greeting;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::greetings::{self, LAST_HANDSHAKE};
use super::held::Held;
use super::refusals::{HandshakeEnds, HandshakeLog};

/// A connection of a client. While that says nothing, this is all there is.
pub(super) struct Client {
    entrance: Entrance,
    /// The connection while nothing is open on it.
    idle: Option<IdleConnection>,
    watch: Watch,
    /// Whether TLS, where the listener has it, is still to come.
    fresh: bool,
    /// Its counts, for as long as it is there.
    _held: Held,
}

/// Serves one connection.
pub(super) async fn connection(mut client: Box<Client>) {
    while client.spoken().await {
        let goes_on = Box::pin(client.serve()).await;
        if !goes_on {
            return;
        }
    }
}

impl Client {
    /// A connection that was accepted.
    pub(super) fn new(entrance: Entrance, stream: Stream, watch: Watch, held: Held) -> Box<Self> {
        Box::new(Self {
            entrance,
            idle: Some(IdleConnection::new(stream)),
            watch,
            fresh: true,
            _held: held,
        })
    }

    /// Waits until the client has something to say; false if it had better not be waited for.
    async fn spoken(&mut self) -> bool {
        let Some(idle) = &mut self.idle else {
            return false;
        };
        let rules = &self.entrance.rules;
        let time = if self.fresh && rules.tls.server.is_some() {
            rules.http.options.head_time
        } else {
            idle.time(&rules.http.options)
        };

        idle.spoken(time, &self.watch).await
    }

    /// Serves its requests; true once it is silent, and may ask for more.
    async fn serve(&mut self) -> bool {
        let Some(mut idle) = self.idle.take() else {
            return false;
        };
        if self.fresh {
            let Some(known) = self.meet(idle).await else {
                return false;
            };
            idle = known;
            self.fresh = false;
        }

        let options = self.entrance.rules.options_for(idle.source());
        let handler = Proxying(self.entrance.clone());
        tokio::select! {
            silent = idle.serve(&options, handler, &self.watch) => self.idle = silent,
            () = self.watch.forced() => {}
        }
        self.idle.is_some()
    }

    /// The TLS handshake before HTTP, and the client that it identifies.
    async fn meet(&mut self, idle: IdleConnection) -> Option<IdleConnection> {
        let rules = self.entrance.rules.clone();
        let mut stream = idle.into_stream();
        let ends = HandshakeEnds {
            peer: stream.info().peer,
            local: stream.info().local,
        };
        if let Some(config) = &rules.tls.server {
            let accepted = tokio::select! {
                accepted = Box::pin(tls::accept(stream, config.clone(), rules.http.options.head_time)) => accepted,
                () = self.watch.graceful_for(LAST_HANDSHAKE) => return None,
            };
            match accepted {
                Ok(accepted) => stream = accepted,
                Err(error) => {
                    HandshakeLog::of(&rules, &self.entrance.worker).tls_failed(ends, &error);
                    return None;
                }
            }
        }

        if is_challenge(stream.info()) {
            tracing::debug!(listener = %rules.name, peer = %ends.peer, "an authority looked for its challenge");
            return None;
        }
        if !rules.speaks(stream.info()) {
            let detail = "the client agreed to no HTTP version of this listener (ALPN)";
            let log = HandshakeLog::of(&rules, &self.entrance.worker);
            log.note(ends, Instead::Tls, Fault::Protocol, detail);
            return None;
        }

        // Until here the connection counted against its source: the client was not known.
        release_certified(&self.entrance, stream.info());
        (self.entrance, self.watch) = known(self.entrance.clone(), stream.info(), &self.watch);
        Some(IdleConnection::new(stream))
    }
}

/// Lets go of the source of a client that has shown a certificate.
fn release_certified(entrance: &Entrance, source: &StreamInfo) {
    if let Some(admission) = &entrance.admission
        && source
            .tls
            .as_ref()
            .is_some_and(|tls| tls.certificate.is_some())
        && entrance.believes(source)
    {
        admission.certified();
    }
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
    let options = entrance.rules.http.options.clone();
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
    let options = entrance.rules.options_for(connection.info());
    release_certified(&entrance, connection.info());
    let (entrance, own) = known(entrance, connection.info(), watch);
    tokio::select! {
        () = server::h3::serve(connection, &options, Proxying(entrance), &own) => {}
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
        self.0.rules.telemetry.malformed();
        let refusal = Refusal::new(ProxyError::HttpRequestError, reason).status(status);
        let snapshot = self.0.worker.snapshot();
        let source = Arc::new(source.clone());
        let circumstances = Circumstances {
            snapshot: &snapshot,
            listener: &self.0.rules,
            source: &source,
            exchange: None,
            instead: Instead::Request,
            head: None,
            route: None,
        };

        let id = note::refusal(&self.0.worker.shared.refusals, &circumstances, &refusal);
        let explained = explains(&snapshot, &self.0.rules, &source);
        refusal.answer(&snapshot.node.name, id, explained).0
    }
}
