//! `tcp` listeners: every connection becomes a CONNECT for the configured target.

use hermes_config::model::HostPort;
use hermes_http::{Offered, RequestHead};
use hermes_net::{Stream, Watch};
use http::uri::Authority;
use http::{HeaderMap, Method, Version};

use crate::arrival::Arrival;
use crate::entrance::Entrance;
use crate::pipeline;

/// Carries one connection.
pub(super) async fn connection(entrance: &Entrance, stream: Stream, watch: &Watch) {
    let Some(head) = entrance.rules.config.target.as_ref().and_then(connect) else {
        return stream.abort();
    };
    tokio::select! {
        () = pipeline::run(entrance, Arrival::Offered(Offered::connection(head, stream))) => {}
        () = watch.forced() => {}
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
