//! An ingress whose clients share the fate of their target: a client writes a line, `host:port`, and reads `OK` once the target has
//! answered. If that fails, its connection is reset, as if it had reached the target itself.

use std::time::Duration;

use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, Replying, RequestHead, ResponseHead, h1,
};
use hermes_net::Stream;
use hermes_plug::{Gate, Ingress, Serving};
use hermes_proto::fields::Fields;
use http::uri::Authority;
use http::{Method, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// How long a client may take to say where it wants to go.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(5);

/// Bytes of a client's line: a name, and a port.
#[doc(alias = "bound")]
const LINE: usize = 256 + ":65535\n".len();

/// Takes connections that begin with a line that names the target.
pub struct Fate;

impl Ingress for Fate {
    fn connection(&self, mut stream: Stream, gate: Gate) -> Serving<'_> {
        Box::pin(async move {
            let target = tokio::time::timeout(TIME, line(&mut stream)).await;
            let Some(target) = target.ok().flatten() else {
                return stream.abort();
            };
            let source = stream.info().clone();
            let client = Box::new(Waiting { stream });
            gate.hand_in(Offered::held(
                connect(target),
                source,
                Incoming::Empty,
                client,
            ))
            .await;
        })
    }
}

/// The authority in the client's line; bytes behind it stay where they are.
async fn line(stream: &mut Stream) -> Option<Authority> {
    let mut line = Vec::new();
    while line.len() < LINE {
        match stream.read_u8().await.ok()? {
            b'\n' => return Authority::try_from(line).ok(),
            byte => line.push(byte),
        }
    }
    None
}

/// A client that has not been answered.
#[derive(Debug)]
struct Waiting {
    stream: Stream,
}

impl HeldClient for Waiting {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let Self { mut stream } = *self;
        Box::pin(async move {
            stream.write_all(b"OK\n").await?;
            let (read, write) = stream.split();
            let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
            let outgoing = Outgoing::H1(h1::BodySender::bytes(write));
            Ok((incoming, outgoing))
        })
    }

    fn respond(self: Box<Self>, _: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        self.stream.abort();
        Box::pin(std::future::ready(Ok(Outgoing::Ended)))
    }
}

fn connect(target: Authority) -> RequestHead {
    RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Some(target),
        path: None,
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}
