//! Where metrics are served over TCP, which a reload may change.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use hermes_config::Problems;
use hermes_config::model::{Document, ListenAddress};
use hermes_listen::PassedSockets;
use hermes_net::{DescriptorEntry, Drain, Watch};
use hermes_observe::Telemetry;
use hermes_observe::admin;
use tokio::runtime::Handle;

use crate::check::one;

/// The endpoint of metrics.
pub(crate) struct Metrics {
    telemetry: Arc<Telemetry>,
    watch: Watch,
    /// Where administration lives.
    runtime: Handle,
    served: Option<Served>,
}

struct Served {
    wanted: SocketAddr,
    bound: Option<SocketAddr>,
    drain: Drain,
    /// The socket in the table of descriptors for a successor.
    _entry: DescriptorEntry,
}

/// The change of the endpoint.
pub(crate) enum Endpoint {
    /// Nothing.
    Same,
    /// There is to be none.
    None,
    /// Another one, which is bound.
    New(BoundEndpoint),
}

/// A socket for metrics.
pub(crate) struct BoundEndpoint {
    wanted: SocketAddr,
    listener: TcpListener,
    entry: DescriptorEntry,
}

impl Metrics {
    /// No endpoint yet. Call it inside the runtime that will serve it.
    pub(crate) fn new(telemetry: Arc<Telemetry>, watch: Watch) -> Self {
        Self {
            telemetry,
            watch,
            runtime: Handle::current(),
            served: None,
        }
    }

    /// Binds the address of the document, if that is not served already; a socket that was passed for it is bound.
    ///
    /// # Errors
    /// It cannot be bound.
    pub(crate) fn prepare(
        &self,
        document: &Document,
        passed: &PassedSockets,
    ) -> Result<Endpoint, Problems> {
        let wanted = match &document.admin.metrics {
            Some(ListenAddress::Ip(address)) => *address,
            Some(ListenAddress::Unix(_)) | None => return Ok(Endpoint::None),
        };

        if self
            .served
            .as_ref()
            .is_some_and(|served| served.wanted == wanted)
        {
            return Ok(Endpoint::Same);
        }

        let (listener, entry) = passed
            .metrics_socket(wanted)
            .map_err(|error| one("admin.metrics", &error))?;

        Ok(Endpoint::New(BoundEndpoint {
            wanted,
            listener,
            entry,
        }))
    }

    /// Where metrics will be served once `endpoint` is applied.
    pub(crate) fn address(&self, endpoint: &Endpoint) -> Option<SocketAddr> {
        match endpoint {
            Endpoint::Same => self.served.as_ref()?.bound,
            Endpoint::None => None,
            Endpoint::New(bound) => bound.listener.local_addr().ok(),
        }
    }

    /// Serves there, and nowhere else.
    pub(crate) fn apply(&mut self, endpoint: Endpoint) {
        if matches!(endpoint, Endpoint::Same) {
            return;
        }
        if let Some(served) = self.served.take() {
            served.drain.start();
        }

        if let Endpoint::New(endpoint) = endpoint {
            let bound = endpoint.listener.local_addr().ok();
            let drain = self.watch.child();
            // A reload runs on a blocking thread; the socket belongs to the run time of administration.
            let _runtime = self.runtime.enter();
            drain.watch().spawn(admin::serve_metrics(
                endpoint.listener,
                self.telemetry.clone(),
                drain.watch(),
            ));
            self.served = Some(Served {
                wanted: endpoint.wanted,
                bound,
                drain,
                _entry: endpoint.entry,
            });
        }
    }
}
