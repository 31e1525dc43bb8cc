//! Connections of clients, from their first byte.

use hermes_config::model::HostPort;
use hermes_http::{Incoming, Offered};
use hermes_net::Stream;
use hermes_plug::opening_head::connect;
use hermes_plug::{Gate, Ingress, Serving};
use hermes_proto::multipath;
use hermes_proto::socks::{SocksCommand, SocksReply, SocksTarget, SocksVersion};

use crate::association::associate;
use crate::association::six::{self, DatagramPorts};
use crate::bind;
use crate::handshake::Handshake;
use crate::held::{SocksClient, dismiss, unknown};
use crate::sessions::Sessions6;
use crate::wish::Wish;

/// Serves clients that speak SOCKS.
#[derive(Debug, Default)]
pub struct Socks {
    /// SOCKS6, where that is served.
    six: Option<Socks6>,
}

/// SOCKS6 of one program.
#[derive(Debug, Default)]
struct Socks6 {
    sessions: Sessions6,
    ports: DatagramPorts,
}

impl Socks {
    /// One that takes SOCKS6 too.
    #[must_use]
    pub fn experimental() -> Self {
        Self {
            six: Some(Socks6::default()),
        }
    }

    fn sessions(&self) -> Option<&Sessions6> {
        self.six.as_ref().map(|six| &six.sessions)
    }
}

impl Ingress for Socks {
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_> {
        Box::pin(async move {
            // On the heap, so that a connection is no larger for having shaken hands.
            let handshake = Handshake::new(stream, self.sessions());
            let Some(wish) = Box::pin(handshake.wish(gate)).await else {
                return;
            };
            serve(wish, self.six.as_ref()).await;
        })
    }
}

async fn serve(wish: Wish, six: Option<&Socks6>) {
    let Wish {
        stream,
        gate,
        request,
        stack,
    } = wish;

    match request.command {
        SocksCommand::Associate => match six.filter(|_| request.version == SocksVersion::V6) {
            Some(six) => six::associate(stream, &gate, &six.ports, stack.udp_errors).await,
            None => associate(stream, &gate).await,
        },
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
            let client = SocksClient {
                stream,
                version: request.version,
                fast_open: stack.fast_open,
                multipath: stack.multipath,
            };
            gate.hand_in(connection(&target, client)).await;
        }
    }
}

/// A connection for a target, which is answered when that is.
fn connection(target: &HostPort, client: SocksClient) -> Box<Offered> {
    let source = client.stream.info().clone();
    let mut head = connect(target);
    if client.multipath == Some(true) {
        head.fields.insert(multipath::FIELD, multipath::value(true));
    }
    Offered::held(head, source, Incoming::Empty, Box::new(client))
}
