//! `tcp` listeners: every connection becomes a CONNECT for the configured target.

use std::io;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_http::{Offered, RequestHead};
use hermes_net::{Acceptor, Listener, Watch};
use http::uri::Authority;
use http::{HeaderMap, Method, Version};

use super::introduction;
use crate::arrival::Arrival;
use crate::pipeline;
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
        let head = rules.config.target.as_ref().and_then(connect);
        let (Some(head), true) = (head, Arc::strong_count(&open) <= rules.connections()) else {
            tracing::warn!(listener = %name, "connection refused: the limit of connections is reached");
            stream.abort();
            continue;
        };
        let (worker, open, forced) = (worker.clone(), open.clone(), watch.clone());
        watch.spawn(async move {
            let _held = (open, rules.seeing.accepted());
            let carried = async {
                if let Some(stream) = introduction::take(stream, &rules).await {
                    pipeline::run(&worker, &rules, Arrival::Offered(Offered::connection(head, stream))).await;
                }
            };
            tokio::select! {
                () = carried => {}
                () = forced.forced() => {}
            }
        });
    }
}

/// The CONNECT that a connection means.
fn connect(target: &HostPort) -> Option<RequestHead> {
    Some(RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Authority::try_from(target.to_string()).ok(),
        path: None,
        protocol: None,
        fields: HeaderMap::new(),
        version: Version::HTTP_11,
        origin_form: false,
    })
}
