//! A node in little, for tests of associations.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_http::RefusalReason;
use hermes_net::{PeerAddress, Stream, StreamInfo};
use hermes_packet::PacketEnd;
use hermes_plug::arrival::Arrival;
use hermes_plug::{CheckingPassword, Gate, Serving, ShownPassword, Takes};
use tokio::io::DuplexStream;

/// Takes tunnels that last for long, or refuses them.
#[derive(Default)]
pub(super) struct Node {
    pub(super) refusal: Option<RefusalReason>,
}

impl Node {
    pub(super) fn gate(self) -> Gate {
        Gate::new(Arc::new(self))
    }
}

impl Takes for Node {
    fn target(&self) -> Option<&hermes_config::model::HostPort> {
        None
    }

    fn take(&self, arrival: Arrival) -> Serving<'_> {
        Box::pin(async move {
            if let (Some(refusal), Arrival::Packets(packets)) = (&self.refusal, &arrival)
                && let PacketEnd::Session(session) = &packets.end
            {
                session.refuse(refusal.clone());
                return;
            }
            tokio::time::sleep(Duration::from_secs(1000)).await;
            drop(arrival);
        })
    }

    fn of_user(&self, _: &str) -> Arc<dyn Takes> {
        Arc::new(Self::default())
    }

    fn requires_password(&self) -> Option<bool> {
        None
    }

    fn of_password<'a>(&'a self, _: ShownPassword<'a>) -> CheckingPassword<'a> {
        Box::pin(std::future::ready(None))
    }
}

/// A client's connection, and its end of it.
pub(super) fn connection() -> (Stream, DuplexStream) {
    let (near, far) = tokio::io::duplex(1000);
    let local = SocketAddr::from(([127, 0, 0, 1], 1));
    let info = StreamInfo {
        peer: PeerAddress::Ip(local),
        local: Some(local),
        tls: None,
        origin: None,
    };
    (Stream::other(Box::new(near), info), far)
}
