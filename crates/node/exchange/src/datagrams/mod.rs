//! A tunnel of datagrams, which can move from one path to another without losing any.
//!
//! The new path is opened while the old one carries on. Then both directions stop between two datagrams, those of the client take
//! the new path, and answers on the old one are taken for a while ([`DrainingPaths`]).

mod directions;
mod draining_paths;
mod path_epoch;
pub(crate) mod resume;
mod stalled;
pub(crate) mod udp_bind;

use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::routed::Routed;
use hermes_http::{Kind, Reset};
use hermes_ip::offload::{SuperCapsule, agreement};
use hermes_observe::Exchange;
use hermes_packet::{Broken, Side};
use hermes_packet::{ChargedBounds, Claim, ConnectionPins, Limits, Stop};
use hermes_plug::arrival::End;
use hermes_proto::datagram_limit;
use hermes_rules::session::Silence;
use tokio::time::timeout;

use crate::carried::{Carry, TunnelEnd};
use crate::datagrams::directions::Directions;
use crate::datagrams::draining_paths::{DrainingPaths, SWITCH_TIME};
use crate::datagrams::path_epoch::{EVICTED, EpochEnd, Moving, PathEpoch};
use crate::datagrams::resume::Again;
use crate::reach::datagram_path::{Ends, Path};
use crate::reach::departure;
use crate::reach::recovery::RecoveredSide;
use crate::reach::session_token::Resumption;
use crate::reach::transforms::Changes;

/// A tunnel of datagrams that is open on both sides.
pub(crate) struct DatagramTunnel {
    pub(crate) client: End,
    pub(crate) path: Path,
    pub(crate) guard: TunnelGuard,
    /// Recovery of the datagrams that are lost on the way to the client and from there, where both ends agreed on it.
    pub(crate) side: Option<RecoveredSide>,
}

impl Carry for DatagramTunnel {
    fn guard(&self) -> &TunnelGuard {
        &self.guard
    }

    fn change_datagrams(&mut self, changes: Box<Changes>) {
        self.path.changes = Some(changes);
    }

    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin(carry(routed, self))
    }
}

/// Carries a tunnel to its end; returns the reason for which it ended.
async fn carry(routed: &Routed, opened: Box<DatagramTunnel>) -> String {
    let (mut tunnel, mut guard) = Tunnel::new(routed, opened);
    loop {
        let epoch = tunnel.epoch(&mut guard).await;
        tunnel.exchange.moved(matches!(epoch, EpochEnd::Move(_)));

        // On the heap, like all that is done between two rounds: every idle tunnel would have room for it.
        let next = Box::pin(tunnel.follow(epoch, &mut guard, routed)).await;
        match next {
            AfterEpoch::Next => {}
            AfterEpoch::Wait(broken) => return Box::pin(tunnel.wait(broken, &mut guard)).await,
            AfterEpoch::HandOver(claim) => return tunnel.hand_over(claim),
            AfterEpoch::End(ended) => return Box::pin(tunnel.end(ended)).await,
        }
    }
}

/// The next step after an epoch.
enum AfterEpoch {
    /// Another one.
    Next,
    /// The side of its client broke, which only the client can open again.
    Wait(Broken),
    /// Another tunnel takes its session over.
    HandOver(Claim),
    /// Its sides are to be ended.
    End(Result<&'static str, Broken>),
}

/// A tunnel that is carried.
pub(crate) struct Tunnel {
    pub(crate) exchange: Arc<Exchange>,
    pub(crate) client: Ends,
    pub(crate) path: Path,
    /// Bounds on datagrams that wait.
    bounds: ChargedBounds,
    left: DrainingPaths,
    /// Which packets still go along those that were left, where the tunnel is one of IP.
    pins: Option<Arc<ConnectionPins>>,
    limits: Limits,
    pub(crate) again: Again,
    /// Whether the client asked for a session, and can open it again.
    asked: bool,
}

impl Tunnel {
    /// Unpacks the ends, and frees the box that brought them.
    fn new(routed: &Routed, opened: Box<DatagramTunnel>) -> (Self, TunnelGuard) {
        let DatagramTunnel {
            client,
            path,
            guard,
            side,
        } = *opened;
        let head = guard.state().head();
        let mut client = Ends::of_client(head.kind(), client, side);
        let bounds = routed.datagram_bounds();
        client.source.set_bounds(bounds.clone());
        let mut limits = Limits::new(departure::floor(routed, &head));
        limits.lead(
            Side::Client,
            &client.sink,
            datagram_limit::is_understood(&head.fields),
        );
        let exchange = routed.exchange.clone();
        let asked = routed.asked.is_some();
        let left = DrainingPaths::default();
        let again = Again::default();

        (
            Self {
                exchange,
                client,
                path,
                bounds,
                left,
                pins: None,
                limits,
                again,
                asked,
            },
            guard,
        )
    }

    /// Carries until the end, or until another path is open and nothing is in between.
    async fn epoch(&mut self, guard: &mut TunnelGuard) -> EpochEnd {
        self.limits
            .lead(Side::Target, &self.path.ends.sink, self.path.listens);
        self.path.ends.source.set_bounds(self.bounds.clone());
        let silence = self.silence();
        for session in [self.client.session(), self.path.ends.session()]
            .into_iter()
            .flatten()
        {
            session.outlast(silence.longest());
        }

        self.recover();
        let alone = self.left.is_empty();
        let stop = Stop::default();
        let client = self.client.sink.clone();
        let mut epoch = PathEpoch {
            exchange: &self.exchange,
            session: self.client.session(),
            has_udp: self.has_udp(),
            silence: &silence,
            stop: &stop,
            client: &client,
            resumption: &mut self.path.resumption,
            guard,
            moving: Moving::default(),
        };

        let directions = Directions {
            exchange: &self.exchange,
            client: &mut self.client,
            path: &mut self.path.ends,
            changes: self.path.changes.as_deref_mut(),
            stop: &stop,
            alone,
            limits: &self.limits,
            pins: self.pins.as_deref(),
        };
        let both = pin!(directions.carry());
        epoch.run(both).await
    }

    /// Acts on the end of an epoch.
    async fn follow(
        &mut self,
        epoch: EpochEnd,
        guard: &mut TunnelGuard,
        routed: &Routed,
    ) -> AfterEpoch {
        match epoch {
            EpochEnd::Over(Err(broken)) if broken.is_of_the_path() => match broken.side {
                Side::Client => return AfterEpoch::Wait(broken),
                Side::Target => {
                    if let Err(broken) = self.open_again(broken, guard).await {
                        return AfterEpoch::End(Err(broken));
                    }
                    self.take_back_super_packets(guard).await;
                    self.show_move(routed);
                }
            },
            EpochEnd::Over(ended) => return AfterEpoch::End(ended),
            EpochEnd::Claimed(claim) => return AfterEpoch::HandOver(claim),
            EpochEnd::Move(new) => {
                let (path, opened) = *new;
                let kind = guard.state().head().kind();
                self.switch(path, kind).await;
                self.take_back_super_packets(guard).await;
                let revision = guard.state().snapshot().revision;
                self.exchange
                    .moved_for(format!("the rules changed (revision {revision})"));
                self.show_move(routed);
                guard.moved(opened);
            }
        }
        AfterEpoch::Next
    }

    /// Has lost datagrams recovered, where the other end of a side takes part.
    fn recover(&mut self) {
        let client = &self.client.recovery;
        let path = &self.path.ends.recovery;
        self.exchange
            .recovery(self.path.ends.told().or_else(|| self.client.told()));
        if client.is_some() || path.is_some() {
            let changes = self.path.changes.get_or_insert_default();
            changes.to_target.recover(client.as_ref(), path.as_ref());
            changes.to_client.recover(path.as_ref(), client.as_ref());
        }
    }

    /// How long it may be silent. A client with a CONNECT-UDP stream says that it is done by ending that (RFC 9298, 3.1), and all nodes
    /// behind it let go then. A UDP client says nothing, so the node that it sends to takes it to be done when it has its answer.
    fn silence(&self) -> Silence {
        match self.client.session() {
            Some(_) => self.path.silence,
            None => Silence::of_any(self.path.silence.conversation),
        }
    }

    /// Leaves the path for a new one.
    async fn switch(&mut self, new: Path, kind: Kind) {
        self.left.room().await;
        let mut old = std::mem::replace(&mut self.path, new);
        let stays = self.path.resumption.is_of_session(&old.resumption);
        // The session goes on along the new path.
        old.resumption = Resumption::Nothing;

        // It did not stop in time: its next bytes are within a capsule, and so would be bytes that are sent there. Transforms
        // have begun anew with the other path.
        let has_changes = old.changes.is_some() || self.path.changes.is_some();
        if has_changes || !old.ends.source.is_between() || !old.ends.sink.is_between() {
            old.ends.sink.reset(Reset::Cancel);
            return;
        }

        let client = self.client.sink.clone();
        let exchange = self.exchange.clone();
        let floor = self.limits.floor();
        if kind != Kind::ConnectIp || stays {
            return self.left.add(old, client, exchange, floor);
        }

        // Another end: connections of TCP stay where they were opened.
        let pins = self.pins.get_or_insert_default().clone();
        self.left.keep(old, client, exchange, floor, pins);
    }

    /// The end that the tunnel has left took super-packets. Another end has to say so itself.
    fn take_back_super_packets(&self, guard: &TunnelGuard) -> impl Future<Output = ()> + use<> {
        let head = guard.state().head();
        let is_offered =
            head.kind() == Kind::ConnectIp && agreement::offered(&head.fields).is_some();
        let told = is_offered.then(|| self.client.sink.clone());

        async move {
            let Some(client) = told else {
                return;
            };
            let mut none = BytesMut::new();
            SuperCapsule::TakesNone.encode(&mut none);
            // A client that does not read is noticed where it is sent packets.
            let _ = timeout(SWITCH_TIME, client.say(none.freeze())).await;
        }
    }

    /// Has the device of a listener show that it took another path.
    fn show_move(&self, routed: &Routed) {
        let devices = &routed.worker.shared.devices;
        let entrance = &routed.entrance;
        let tunnel = entrance.tunnel.as_deref();
        devices.has_moved(&entrance.rules.name, tunnel, self.exchange.moved_path());
    }

    /// Whether UDP is on a side, so that silence ends it. A device and streams alone have no time-out.
    fn has_udp(&self) -> bool {
        self.client.source.is_udp() || self.path.ends.source.is_udp()
    }

    /// Whether an end of this node is on a side. Streams alone end in each direction for itself.
    fn has_own_end(&self) -> bool {
        self.client.source.is_end() || self.path.ends.source.is_end()
    }

    pub(crate) async fn end(mut self, ended: Result<&'static str, Broken>) -> String {
        let has_own_end = self.has_own_end();
        // Datagrams that the client sends from now on begin another session.
        if let Some(session) = self.client.session() {
            // So does a query that has just met the end of an evicted tunnel.
            let made_room = matches!(ended, Ok("done" | EVICTED));
            if made_room && self.exchange.counters().traffic().asks_anew() {
                self.client.source.keep();
            }
            session.leave();
        }

        self.client.sink.settle(&self.exchange);
        self.left.end();
        let client = &mut self.client;
        let path = &mut self.path.ends;

        let reason = match ended {
            Ok(EVICTED) => {
                tokio::join!(client.part(), path.part());
                EVICTED.to_owned()
            }
            Ok(reason) if has_own_end => {
                tokio::join!(client.farewell(), path.farewell());
                reason.to_owned()
            }
            Ok(reason) => reason.to_owned(),
            Err(broken) => {
                client.sink.reset(broken.reset);
                // A session that no one will take over is not to wait for that.
                let goes_on = self.asked && broken.side == Side::Client && broken.is_of_the_path();
                match self.path.resumption {
                    Resumption::Beyond(_) if !goes_on => path.farewell().await,
                    _ => path.sink.reset(broken.reset),
                }

                broken.reason()
            }
        };

        self.left.ended().await;
        client.sink.ended(&reason);
        reason
    }
}
