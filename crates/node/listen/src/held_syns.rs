//! Connections whose beginning (SYN) is held until their target has answered: a client sees no answer that the target did not give.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_config::model::HostPort;
use hermes_exchange as pipeline;
use hermes_http::{
    Cause, HeldClient, Incoming, Offered, Outgoing, RefusalReason, Replying, Reset, ResponseHead,
    StreamError, h1,
};
use hermes_net::host_capture::{
    CaptureInForce, HELD_SYNS, HeldQueue, PacketQueueReader, QueuedSyn, SynEnds, SynFate,
};
use hermes_net::{PeerAddress, Stream, StreamInfo, Watch};
use hermes_plug::arrival::Arrival;
use hermes_plug::opening_head::connect;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::held::{Held, admit};

/// How long a client whose beginning was let go may take to be accepted: one that has given up meanwhile answers with a reset, and never is.
#[doc(alias = "bound")]
const ACCEPT_TIME: Duration = Duration::from_secs(10);

/// Bytes of one read of held packets.
const ROOM: usize = 32 * 1024;

/// The held connections of a listener, of all its workers.
#[derive(Default)]
pub(crate) struct HeldSyns(Mutex<HashMap<SynEnds, oneshot::Sender<AcceptedStream>>>);

/// A connection that was held, and is accepted now.
struct AcceptedStream {
    stream: Stream,
    held: Held,
}

impl HeldSyns {
    /// Gives an accepted connection to the exchange that waits for it; returns one that none waits for.
    pub(crate) fn hand_over(&self, stream: Stream, held: Held) -> Option<Stream> {
        let info = stream.info();
        let ends = SynEnds {
            client: info.peer.socket()?,
            server: info.local?,
        };
        let Some(waiting) = self.0.lock().remove(&ends) else {
            return Some(stream);
        };
        // An exchange that has ended meanwhile closes it.
        drop(waiting.send(AcceptedStream { stream, held }));
        None
    }

    /// Waits for a connection; `None` if one with these ends is held, or no more can be.
    fn enter(&self, ends: SynEnds) -> Result<oneshot::Receiver<AcceptedStream>, Unheld> {
        let mut waiting = self.0.lock();
        if waiting.contains_key(&ends) {
            return Err(Unheld::Known);
        }
        if waiting.len() >= HELD_SYNS {
            return Err(Unheld::Full);
        }
        let (sender, receiver) = oneshot::channel();
        waiting.insert(ends, sender);
        Ok(receiver)
    }
}

/// Why a beginning is not held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unheld {
    /// It was sent before, and is held.
    Known,
    /// Too many are held.
    Full,
}

/// A worker that holds beginnings of connections.
pub(crate) struct HoldingWorker {
    queue: Arc<WorkerQueue>,
    holds: Arc<HeldSyns>,
}

/// The queue of a worker, and its rules.
struct WorkerQueue {
    reader: PacketQueueReader,
    worker: u8,
    rules: Arc<CaptureInForce>,
}

impl WorkerQueue {
    fn decide(&self, packet: u32, fate: SynFate) {
        let verdict = self.rules.verdict(fate);
        if let Err(error) = self.reader.decide(packet, verdict) {
            tracing::debug!(%error, "a held beginning of a connection is lost; its client tries again");
        }
    }
}

impl HoldingWorker {
    pub(crate) fn new(
        held: HeldQueue,
        rules: Arc<CaptureInForce>,
        holds: Arc<HeldSyns>,
    ) -> io::Result<Self> {
        let HeldQueue { queue, worker } = held;
        let queue = WorkerQueue {
            reader: queue.reader()?,
            worker,
            rules,
        };
        Ok(Self {
            queue: Arc::new(queue),
            holds,
        })
    }

    /// Opens an exchange for each beginning, until told to stop.
    pub(crate) async fn serve(self, mut entrance: Entrance, watch: &Watch) -> io::Result<()> {
        let mut room = vec![0; ROOM];
        let mut arrived = Vec::new();
        loop {
            tokio::select! {
                read = self.queue.reader.read(&mut room, |syn| arrived.push(syn)) => read?,
                () = watch.graceful() => return Ok(()),
            }
            entrance.renew();
            for syn in arrived.drain(..) {
                self.hold(&entrance, syn, watch);
            }
        }
    }

    fn hold(&self, entrance: &Entrance, syn: QueuedSyn, watch: &Watch) {
        let taken = SynFate::Taken(self.queue.worker);
        // What begins no connection as TCP does is left to the kernel.
        let Some(ends) = syn.ends else {
            return self.queue.decide(syn.packet, taken);
        };
        let waiting = match self.holds.enter(ends) {
            Ok(waiting) => waiting,
            Err(Unheld::Known) => return self.queue.decide(syn.packet, SynFate::Silence),
            Err(Unheld::Full) => return self.queue.decide(syn.packet, taken),
        };
        let mut held = Box::new(HeldSyn {
            packet: Some(syn.packet),
            ends,
            queue: self.queue.clone(),
            holds: self.holds.clone(),
            waiting,
            permits: Arc::default(),
        });

        let mut inside = entrance.clone();
        let peer = PeerAddress::Ip(ends.client);
        if !admit(&mut inside, peer) {
            return held.answer(SynFate::Refused);
        }
        let permits = held.permits.clone();
        let target = inside.rules.config.target().cloned();
        let offered = held.offer(peer, target);
        let own = watch.clone();
        watch.spawn(async move {
            tokio::select! {
                () = pipeline::run(&inside, Arrival::from(offered)) => {}
                () = own.forced() => {}
            }
            drop(permits);
        });
    }
}

/// A beginning that is held. If it is dropped, its client gets no answer.
struct HeldSyn {
    /// The number of its packet, until its fate is known.
    packet: Option<u32>,
    ends: SynEnds,
    queue: Arc<WorkerQueue>,
    holds: Arc<HeldSyns>,
    waiting: oneshot::Receiver<AcceptedStream>,
    /// The permits of its connection, kept as long as its exchange lasts.
    permits: Arc<Mutex<Option<Held>>>,
}

impl fmt::Debug for HeldSyn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldSyn")
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

impl HeldSyn {
    /// The exchange for the target of its listener, or else for the address that the client connects to.
    fn offer(self: Box<Self>, peer: PeerAddress, target: Option<HostPort>) -> Box<Offered> {
        let server = self.ends.server;
        let target = target.unwrap_or_else(|| HostPort {
            host: server.ip().to_string(),
            port: server.port(),
        });
        let source = Arc::new(StreamInfo {
            peer,
            local: Some(server),
            tls: None,
            origin: None,
        });
        Offered::held(connect(&target), source, Incoming::Empty, self)
    }

    fn answer(&mut self, fate: SynFate) {
        if let Some(packet) = self.packet.take() {
            self.queue.decide(packet, fate);
        }
    }

    fn refused(&mut self, fate: SynFate) -> Replying<Outgoing> {
        self.answer(fate);
        Box::pin(async { Ok(Outgoing::Ended) })
    }
}

impl Drop for HeldSyn {
    fn drop(&mut self) {
        self.holds.0.lock().remove(&self.ends);
        if let Some(packet) = self.packet.take() {
            self.queue.decide(packet, SynFate::Silence);
        }
    }
}

impl HeldClient for HeldSyn {
    fn accept(mut self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        if let Some(packet) = self.packet.take() {
            let fate = SynFate::Taken(self.queue.worker);
            self.queue.decide(packet, fate);
        }
        Box::pin(async move {
            let accepted = timeout(ACCEPT_TIME, &mut self.waiting).await;
            let Ok(Ok(AcceptedStream { stream, held })) = accepted else {
                return Err(StreamError::new(Cause::Reset(Reset::Cancel)));
            };
            *self.permits.lock() = Some(held);
            let (read, write) = stream.split();
            let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
            let outgoing = Outgoing::H1(h1::BodySender::bytes(write));
            Ok((incoming, outgoing))
        })
    }

    fn respond(mut self: Box<Self>, head: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        self.refused(of_status(head.status))
    }

    fn refuse(
        mut self: Box<Self>,
        reason: RefusalReason,
        _: ResponseHead,
        _: Option<u64>,
    ) -> Replying<Outgoing> {
        self.refused(fate(&reason))
    }
}

/// The answer that a client would have got from the network itself.
fn fate(reason: &RefusalReason) -> SynFate {
    match reason.error {
        ProxyError::ConnectionTimeout | ProxyError::DnsTimeout => SynFate::Silence,
        ProxyError::DestinationIpUnroutable => SynFate::NoRoute,
        ProxyError::DestinationNotFound
        | ProxyError::DestinationUnavailable
        | ProxyError::DnsError => SynFate::NoHost,
        ProxyError::DestinationIpProhibited | ProxyError::HttpRequestDenied => SynFate::Prohibited,
        ProxyError::ConnectionRefused => SynFate::Refused,
        _ => of_status(reason.status),
    }
}

fn of_status(status: StatusCode) -> SynFate {
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED => SynFate::Prohibited,
        StatusCode::NOT_FOUND => SynFate::NoHost,
        StatusCode::GATEWAY_TIMEOUT => SynFate::Silence,
        _ => SynFate::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> SynEnds {
        SynEnds {
            client: ([10, 0, 1, 2], port).into(),
            server: ([10, 0, 2, 2], 80).into(),
        }
    }

    #[test]
    fn a_beginning_that_is_sent_again_is_not_held_twice() {
        let holds = HeldSyns::default();
        let _waiting = holds.enter(ends(1)).unwrap();
        assert_eq!(holds.enter(ends(1)).err(), Some(Unheld::Known));
        assert!(holds.enter(ends(2)).is_ok());
    }

    #[test]
    fn no_more_are_held_than_the_bound() {
        let holds = HeldSyns::default();
        let most = u16::try_from(HELD_SYNS).unwrap();
        let _waiting: Vec<_> = (0..most)
            .map(|port| holds.enter(ends(port)).unwrap())
            .collect();
        assert_eq!(holds.enter(ends(most)).err(), Some(Unheld::Full));
        assert_eq!(holds.enter(ends(1)).err(), Some(Unheld::Known));
    }

    #[test]
    fn a_client_gets_the_answer_that_the_network_would_have_given() {
        for (error, expected) in [
            (ProxyError::ConnectionRefused, SynFate::Refused),
            (ProxyError::ConnectionTimeout, SynFate::Silence),
            (ProxyError::DestinationIpUnroutable, SynFate::NoRoute),
            (ProxyError::DestinationIpProhibited, SynFate::Prohibited),
            (ProxyError::DestinationUnavailable, SynFate::NoHost),
        ] {
            let reason = RefusalReason {
                status: error.status(),
                error,
                details: String::new(),
            };
            assert_eq!(fate(&reason), expected, "{error:?}");
        }
    }
}
