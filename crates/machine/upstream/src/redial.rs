//! Connections that the pool asks for: where a link fell silent, or where HTTP/3 may answer again.

use tokio::time::Instant;

use crate::connect::{self, Attempt};
use crate::pool::{Dialer, Dialling};
use crate::reached::Bounds;
use crate::upstream::Upstream;
use crate::worker::Worker;

impl Dialer for Worker {
    fn http<'a>(&'a self, upstream: &'a Upstream, index: usize, until: Instant) -> Dialling<'a> {
        let attempt = attempt(self, upstream, index, until);
        Box::pin(async move {
            let addresses = connect::dial_addresses(self, upstream, attempt.endpoint).await?;
            attempt.http(&addresses).await
        })
    }

    fn quic<'a>(&'a self, upstream: &'a Upstream, index: usize, until: Instant) -> Dialling<'a> {
        let attempt = attempt(self, upstream, index, until);
        Box::pin(async move {
            let addresses = connect::dial_addresses(self, upstream, attempt.endpoint).await?;
            attempt.quic_alone(&addresses).await
        })
    }
}

fn attempt<'a>(
    client: &'a Worker,
    upstream: &'a Upstream,
    index: usize,
    until: Instant,
) -> Attempt<'a> {
    Attempt {
        client,
        upstream,
        endpoint: &upstream.endpoints[index],
        bounds: Bounds { until, depth: 0 },
    }
}
