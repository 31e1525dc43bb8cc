//! A connector to a service that is no socket: whatever a tunnel brings comes back.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_http::{Kind, pipe};
use hermes_packet::{Device, DeviceCapsules, PacketEnd, SentPackets};
use hermes_plug::arrival::End;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Connecting, Connector, TunnelRequest};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::proxy_status::ProxyError;
use parking_lot::Mutex;

/// Datagrams that wait to be taken back; further ones are dropped.
#[doc(alias = "bound")]
const WAITING: usize = 64;

/// Sends back bytes and datagrams, at the target `ECHO`, also the bytes behind an upgrade; and IP packets, wherever they go.
pub struct Echo;

impl Connector for Echo {
    fn takes(&self, kind: Kind) -> bool {
        kind != Kind::Message
    }

    fn connect(&self, request: TunnelRequest) -> Connecting<'_> {
        let is_ip = request.head.kind() == Kind::ConnectIp;
        let is_known = is_ip || request.target.host().eq_ignore_ascii_case("ECHO");
        let opened = match (is_known, request.carries_packets()) {
            (false, _) => {
                let details = format!("nothing is at {}", request.target);
                Err(Refusal::new(ProxyError::DestinationNotFound, details))
            }
            (true, true) => {
                let format = match is_ip {
                    true => DatagramFormat::IP,
                    false => DatagramFormat::UDP,
                };
                let device = Arc::new(Mirror {
                    format,
                    state: Mutex::default(),
                });
                Ok(End::Packets(PacketEnd::Device(device, request.bounds)))
            }
            // What is written at one end of a pipe is read at the other.
            (true, false) => {
                let (outgoing, incoming) = pipe(None);
                Ok(End::Stream(incoming, outgoing))
            }
        };
        Box::pin(std::future::ready(opened))
    }
}

/// An end of packets that sends back what it is sent.
struct Mirror {
    format: DatagramFormat,
    state: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    datagrams: VecDeque<Bytes>,
    reader: Option<Waker>,
}

impl Device for Mirror {
    fn format(&self) -> DatagramFormat {
        self.format
    }

    fn layout(&self) -> Layout {
        Layout::UDP
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
        _: &mut DeviceCapsules,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        while let Some(datagram) = state.datagrams.front() {
            if batch.push(datagram).is_err() {
                break;
            }
            state.datagrams.pop_front();
        }
        if !batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_send(
        &self,
        _: &mut Context<'_>,
        batch: &Batch,
        sent: &mut SentPackets,
    ) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        for datagram in batch.iter().skip(sent.taken) {
            sent.taken += 1;
            if state.datagrams.len() == WAITING {
                sent.full += 1;
            } else {
                state.datagrams.push_back(Bytes::copy_from_slice(datagram));
            }
        }
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(()))
    }
}
