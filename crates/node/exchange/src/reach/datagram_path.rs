//! The ways of a tunnel of datagrams: the two directions of a side, and the path to the target.

use std::sync::Arc;
use std::time::Duration;

use hermes_http::h3::GroupCounts;
use hermes_http::{Incoming, Kind, Outgoing};
use hermes_net::UdpSocket;
use hermes_observe::{GroupRecoveryView, RecoverySource, RecoveryView};
use hermes_packet::{
    ChargedBounds, PacketEnd, PacketReader, Received, Recovery, Session, Sink, Source,
};
use hermes_plug::arrival::End;
use hermes_proto::datagram::DatagramFormat;
use hermes_rules::session::Silence;
use hermes_upstream::Active;

use crate::pump::END_TIME;
use crate::reach::recovery::RecoveredSide;
use crate::reach::session_token::Resumption;
use crate::reach::transforms::Changes;

/// How long the end of a tunnel that has to make room may take to be sent.
#[doc(alias = "bound")]
const PART_TIME: Duration = Duration::from_secs(1);

/// Two directions that lead to one side.
pub(crate) struct Ends {
    pub(crate) source: Source,
    pub(crate) sink: Sink,
    /// Recovery of the datagrams that are lost between here and there, if both agreed on it.
    pub(crate) recovery: Option<Arc<Recovery>>,
    /// Counts of the groups in which its datagrams leave, if they do.
    pub(crate) groups: Option<GroupedDatagrams>,
}

/// Groups of datagrams, for records and views.
#[derive(Debug, Clone)]
pub(crate) struct GroupedDatagrams(GroupCounts);

impl RecoverySource for GroupedDatagrams {
    fn view(&self) -> RecoveryView {
        let tally = self.0.tally();
        RecoveryView::Groups(GroupRecoveryView {
            groups: tally.groups,
            given_up: tally.given_up,
            alone: tally.alone,
            dropped: tally.dropped,
            came_in_groups: tally.came,
        })
    }
}

/// A path to the target.
pub(crate) struct Path {
    pub(crate) ends: Ends,
    pub(crate) active: Active,
    /// Silence after which the tunnel ends, where it has UDP on a side.
    pub(crate) silence: Silence,
    /// The means by which the session goes on when a path breaks.
    pub(crate) resumption: Resumption,
    /// Whether the next hop understands [`datagram_limit`](hermes_proto::datagram_limit).
    pub(crate) listens: bool,
    /// The transforms of its datagrams, where its route asks for any.
    pub(crate) changes: Option<Box<Changes>>,
}

impl Ends {
    /// Of a pair of streams of UDP packets.
    pub(crate) fn streams(incoming: Incoming, outgoing: Outgoing) -> Self {
        Self::carrying(DatagramFormat::UDP, incoming, outgoing)
    }

    /// Of a pair of streams of packets of a tunnel of this kind.
    pub(crate) fn of_kind(kind: Kind, incoming: Incoming, outgoing: Outgoing) -> Self {
        let format = match kind {
            Kind::ConnectIp => DatagramFormat::IP,
            _ => DatagramFormat::UDP,
        };
        Self::carrying(format, incoming, outgoing)
    }

    /// Of a pair of streams of packets of a tunnel of this kind, whose losses are mended where both ends agreed on it.
    pub(crate) fn of_side(
        kind: Kind,
        side: Option<RecoveredSide>,
        incoming: Incoming,
        outgoing: Outgoing,
    ) -> Self {
        match side {
            Some(RecoveredSide::Groups { within, charge }) => {
                let datagrams = outgoing.datagrams();
                let counts = datagrams.map(|datagrams| datagrams.group(within, charge));
                Self {
                    groups: counts.map(GroupedDatagrams),
                    ..Self::of_kind(kind, incoming, outgoing)
                }
            }
            Some(RecoveredSide::Frames { recovery, format }) => Self {
                recovery: Some(recovery),
                ..Self::carrying(format, incoming, outgoing)
            },
            Some(RecoveredSide::Between) => {
                if let Some(datagrams) = outgoing.datagrams() {
                    datagrams.note_recovered();
                }
                Self::of_kind(kind, incoming, outgoing)
            }
            None => Self::of_kind(kind, incoming, outgoing),
        }
    }

    fn carrying(format: DatagramFormat, incoming: Incoming, outgoing: Outgoing) -> Self {
        Self {
            source: Source::stream(incoming, format),
            sink: Sink::stream(outgoing, format),
            recovery: None,
            groups: None,
        }
    }

    /// The client's, in a tunnel of this kind.
    pub(crate) fn of_client(kind: Kind, end: End, side: Option<RecoveredSide>) -> Self {
        match end {
            End::Stream(incoming, outgoing) => Self::of_side(kind, side, incoming, outgoing),
            End::Packets(end) => Self::end(end),
        }
    }

    /// Of an end that this node has itself.
    pub(crate) fn end(end: PacketEnd) -> Self {
        Self {
            source: Source::end(&end),
            sink: Sink::End(end),
            recovery: None,
            groups: None,
        }
    }

    /// Of a UDP socket that was taken over, with the datagrams that came to it meanwhile.
    pub(crate) fn resumed(
        socket: Arc<UdpSocket>,
        received: Received,
        bounds: ChargedBounds,
    ) -> Self {
        let sink = Sink::End(PacketEnd::Socket(socket.clone(), bounds));
        Self {
            source: Source::End(PacketReader::Socket(socket, received)),
            sink,
            recovery: None,
            groups: None,
        }
    }

    /// The recovery that its exchange tells of.
    pub(crate) fn told(&self) -> Option<Arc<dyn RecoverySource>> {
        if let Some(recovery) = &self.recovery {
            return Some(recovery.clone());
        }
        let groups = self.groups.clone()?;
        Some(Arc::new(groups))
    }

    /// Ends our direction and waits for the end of the other: a stream that is dropped half open looks broken to its peer. RFC
    /// 9298, 3: a stream ends where the socket does. A peer that does not read is not waited for.
    pub(crate) async fn farewell(&mut self) {
        let _ = tokio::time::timeout(END_TIME, async {
            if self.sink.finish().await.is_ok() {
                self.source.drain().await;
            }
        })
        .await;
    }

    /// The client of a `udp` listener, if it leads to one.
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        match &self.sink {
            Sink::End(PacketEnd::Session(session)) => Some(session.clone()),
            _ => None,
        }
    }

    /// Ends our direction, and waits for nothing: others need the room.
    pub(crate) async fn part(&mut self) {
        let _ = tokio::time::timeout(PART_TIME, self.sink.finish()).await;
    }
}
