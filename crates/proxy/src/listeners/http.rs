//! `http` listeners.

use std::future::Future;
use std::io;
use std::sync::Arc;

use hermes_http::server::{Handler, serve as serve_http};
use hermes_http::{Offered, ResponseHead};
use hermes_net::{Acceptor, Listener, Stream, StreamInfo, Watch, tls};
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;

use super::introduction;
use crate::arrival::Arrival;
use crate::explain::explains;
use crate::pipeline;
use crate::refusal::Refusal;
use crate::snapshot::ListenerRules;
use crate::worker::Worker;

/// Accepts connections until told to stop.
pub(super) async fn serve(worker: &Arc<Worker>, name: &Arc<str>, listener: Listener, watch: &Watch) -> io::Result<()> {
    let acceptor = Acceptor::new(listener)?;
    let open = Arc::new(());
    loop {
        let stream = tokio::select! {
            stream = acceptor.accept() => stream,
            () = watch.graceful() => return Ok(()),
        };
        let Some(rules) = worker.snapshot().listeners.get(name).cloned() else { return Ok(()) };
        if Arc::strong_count(&open) > rules.connections() {
            tracing::warn!(listener = %name, "connection refused: the limit of connections is reached");
            stream.abort();
            continue;
        }
        let (worker, open, tasks) = (worker.clone(), open.clone(), watch.clone());
        let watch = watch.clone();
        tasks.spawn(async move {
            let _open = open;
            connection(worker, rules, stream, &watch).await;
        });
    }
}

async fn connection(worker: Arc<Worker>, rules: Arc<ListenerRules>, stream: Stream, watch: &Watch) {
    let _accepted = rules.seeing.accepted();
    let Some(stream) = introduction::take(stream, &rules).await else { return };
    let stream = match &rules.tls {
        None => stream,
        Some(config) => match tls::accept(stream, config.clone(), rules.options.head_time).await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(listener = %rules.name, %error, "TLS failed");
                return;
            }
        },
    };
    let options = rules.options.clone();
    tokio::select! {
        () = serve_http(stream, &options, Proxying { worker, rules }, watch) => {}
        () = watch.forced() => {}
    }
}

/// Puts every exchange of a connection through the pipeline.
#[derive(Clone)]
struct Proxying {
    worker: Arc<Worker>,
    rules: Arc<ListenerRules>,
}

impl Handler for Proxying {
    fn handle(&self, offered: Offered) -> impl Future<Output = ()> + Send {
        pipeline::run(&self.worker, &self.rules, Arrival::Offered(offered))
    }

    fn malformed(&self, status: StatusCode, reason: &str, source: &StreamInfo) -> ResponseHead {
        tracing::debug!(listener = %self.rules.name, peer = %source.peer, reason, "malformed request");
        self.rules.seeing.malformed();
        let refusal = Refusal::new(ProxyError::HttpRequestError, reason).status(status);
        let snapshot = self.worker.snapshot();
        refusal.answer(&snapshot.node, explains(&snapshot, &self.rules, source)).0
    }
}
