//! Connections of clients, from their first byte.

use hermes_config::model::HostPort;
use hermes_http::{Incoming, Offered};
use hermes_net::Stream;
use hermes_plug::opening_head::connect;
use hermes_plug::{Gate, Ingress, Serving};
use hermes_proto::socks::{SocksCommand, SocksReply, SocksTarget, SocksVersion};

use crate::association::associate;
use crate::bind;
use crate::handshake::Handshake;
use crate::held::{SocksClient, dismiss, unknown};
use crate::sessions::Sessions6;
use crate::wish::Wish;

/// Serves clients that speak SOCKS.
#[derive(Debug, Default)]
pub struct Socks {
    /// Of SOCKS6, where that is served.
    sessions: Option<Sessions6>,
}

impl Socks {
    /// One that takes SOCKS6 too.
    #[must_use]
    pub fn experimental() -> Self {
        Self {
            sessions: Some(Sessions6::default()),
        }
    }
}

impl Ingress for Socks {
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_> {
        Box::pin(async move {
            // On the heap, so that a connection is no larger for having shaken hands.
            let handshake = Handshake::new(stream, self.sessions.as_ref());
            let Some(wish) = Box::pin(handshake.wish(gate)).await else {
                return;
            };
            serve(wish).await;
        })
    }
}

async fn serve(wish: Wish) {
    let Wish {
        stream,
        gate,
        request,
    } = wish;

    match request.command {
        SocksCommand::Associate => associate(stream, &gate).await,
        SocksCommand::Bind(target) => {
            gate.hand_in(bind::waiting(target, stream, request.version))
                .await;
        }
        SocksCommand::Connect(target) if target.port == 0 => {
            let reply = SocksReply::GeneralFailure.encode(request.version, unknown());
            dismiss(stream, &reply).await;
        }
        SocksCommand::Connect(SocksTarget { host, port }) => {
            let target = HostPort { host, port };
            gate.hand_in(connection(&target, stream, request.version))
                .await;
        }
    }
}

/// A connection for a target, which is answered when that is.
fn connection(target: &HostPort, stream: Stream, version: SocksVersion) -> Box<Offered> {
    let source = stream.info().clone();
    let client = Box::new(SocksClient { stream, version });
    Offered::held(connect(target), source, Incoming::Empty, client)
}
