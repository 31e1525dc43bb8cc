//! One endpoint of an upstream that the caller names, for exchanges that go to each of them.

use std::sync::Arc;

use hermes_net::clock;
use tokio::time::timeout_at;

use crate::checkout::{self, Checkout};
use crate::endpoint::Active;
use crate::endpoint_attempts::EndpointAttempt;
use crate::failure::{ConnectFailure, FailureKind};
use crate::{Client, Timeouts, Upstream};

impl Upstream {
    /// How many endpoints it has; they are counted from 0.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// Why the endpoint of this number is not to be used now; `None` if it may.
    pub fn unfit(&self, index: usize) -> Option<String> {
        self.endpoints.get(index)?.unfit_because(clock::now())
    }
}

impl Client {
    /// A connection for one exchange with exactly this endpoint of `upstream`, regardless of its
    /// readiness.
    ///
    /// # Errors
    /// There is no such endpoint, no room under the limits of the upstream, or it was not reached within `timeouts.connect`.
    pub async fn checkout_endpoint(
        &self,
        upstream: &Arc<Upstream>,
        index: usize,
        timeouts: &Timeouts,
    ) -> Result<Checkout, ConnectFailure> {
        let Some(endpoint) = upstream.endpoints.get(index).cloned() else {
            return Err(ConnectFailure::new(
                FailureKind::NoEndpoint,
                upstream.name(),
                "no endpoint to try",
            ));
        };

        let until = clock::now() + timeouts.connect;
        let room = upstream.limits.exchange(until, upstream.name()).await?;
        let active = Active::on(&endpoint).in_rooms(Some(room), None);

        let attempt = EndpointAttempt {
            index,
            active,
            endpoint: endpoint.clone(),
            until,
        };

        let attempt = timeout_at(
            until,
            checkout::endpoint(&self.worker, upstream, attempt, 0, None),
        )
        .await;

        attempt
            .unwrap_or_else(|_| Err(ConnectFailure::timeout(&*endpoint.text)))
            .inspect_err(|failure| endpoint.failed(failure))
    }
}
