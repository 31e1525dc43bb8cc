//! A connection to the target from here, beside a next proxy or in its place (`tunnel.direct` of a route): the first to be open is the tunnel.
//!
//! No byte or datagram of the client leaves before one of them is, and the other one is given up then: nothing is sent twice. A socket of UDP is open as
//! soon as the address of its target is known, so that a head start is the time which the proxy has.

use std::net::SocketAddr;

use hermes_admit::next::{Direct, Next};
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Event, Kind, RequestHead};
use hermes_observe::CLIENT_CLOSED;
use hermes_packet::{Asked, PacketEnd, Sink};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::tcp_bind;
use hermes_upstream::Dialled;

use super::Unopened;
use super::bytes::ByteTunnel;
use super::terminate;
use crate::carried::Carried;
use crate::failed::Failed;
use crate::reach::datagram_path::Path;
use crate::reach::departure::depart;
use crate::reach::early_bytes::EarlyBytes;
use crate::reach::next_tunnel::{self, Open};
use crate::reach::race::{DIRECT, First, first};
use crate::reach::retry::Tries;
use crate::reach::termination::halves;
use crate::reach::{descriptor_share, dial, form, opening};

/// Descriptors of both.
const DESCRIPTORS: usize = 2;

/// The rules of an exchange's route for connections from here.
pub(super) fn of<'n>(routed: &Routed, next: &'n Next, head: &RequestHead) -> Option<&'n Direct> {
    let is_taken = match head.kind() {
        // A port that waits is where the overlay ends.
        Kind::Connect | Kind::ConnectTcp => !tcp_bind::is_asked_for(&head.fields),
        // So is a socket for any peers, and the one of a session that is asked for again.
        Kind::ConnectUdp => {
            let is_new = matches!(routed.asked, None | Some(Asked::New));
            is_new && !routed.target.is_any()
        }
        Kind::ConnectIp | Kind::Upgrade | Kind::Message => false,
    };
    next.direct().filter(|_| is_taken)
}

/// An end that was opened from here.
pub(super) enum DirectEnd {
    /// A connection.
    Bytes(Dialled),
    /// A socket of UDP.
    Datagrams(Box<Path>),
}

/// Opens the tunnel that is open first. The next proxy has a head start, or the whole way for as long as it does not fail.
pub(super) async fn race(
    tries: &Tries<'_>,
    direct: &Direct,
    arrival: &mut Arrival,
    departing: &RequestHead,
    target: &Target,
) -> Result<Open, Unopened> {
    let arrived = arrival.head().clone();
    let racing = run(tries, direct, &arrived, departing, target);
    let first = arrival.unless_gone(racing, "before the tunnel was open");
    match first.await.map_err(Unopened::Refused)? {
        First::Overlay(open) => {
            // The record names the way that was taken.
            if let Some(endpoint) = tries.tried().last() {
                tries.goes_to(endpoint);
            }
            Ok(open)
        }
        First::Direct(end) => {
            let telemetry = &tries.routed.worker.shared.telemetry;
            telemetry.retry(tries.next.name(), DIRECT);
            Err(Unopened::Direct(Box::new(end)))
        }
    }
}

async fn run(
    tries: &Tries<'_>,
    direct: &Direct,
    arrived: &RequestHead,
    departing: &RequestHead,
    target: &Target,
) -> Result<First<Open, DirectEnd>, Refusal> {
    let routed = tries.routed;
    descriptor_share::take_all(routed, DESCRIPTORS)?;
    let (_, own_target) = depart(routed, arrived.clone(), &direct.next)?;
    let own_tries = Tries::new(routed, &direct.next, arrived);
    let mut none = EarlyBytes::default();
    let overlay = next_tunnel::open(tries, departing, target, &mut none);
    let dialling = async {
        if arrived.kind() == Kind::ConnectUdp {
            let opening = opening::end(routed, arrived, &direct.next, None);
            let (path, _) = Box::pin(opening).await?;
            return Ok(DirectEnd::Datagrams(Box::new(path)));
        }
        dial(&own_tries, &own_target).await.map(DirectEnd::Bytes)
    };
    first(overlay, dialling, direct.after, allows_direct).await
}

/// Whether the outcome of the next proxy leaves the connection from here to be tried: it had no answer, or one that says that it failed. One
/// that says no is heeded.
fn allows_direct(outcome: &Result<Open, Refusal>) -> bool {
    match outcome {
        Ok(open) => match &open.answer {
            Event::Final(head, _) => head.status.is_server_error(),
            Event::Tunnel(..) | Event::Interim(_) => false,
        },
        Err(refusal) => refusal.for_ingress().status.is_server_error(),
    }
}

/// Tells the client that its tunnel, opened from here, is open.
pub(super) async fn accept(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
    end: DirectEnd,
) -> Result<Carried, Failed> {
    let opened = Opened::new(routed, arrival.head(), next, None);
    match end {
        DirectEnd::Bytes(dialled) => {
            let opened = opened.from_here(dialled.address);
            Ok(accept_bytes(routed, arrival, dialled, opened).await)
        }
        DirectEnd::Datagrams(path) => {
            let opened = opened.from_here(address(&path));
            Ok(terminate::accept_datagrams(routed, arrival, *path, opened, None).await)
        }
    }
}

/// Where the datagrams of a path go that has a socket.
fn address(path: &Path) -> Option<SocketAddr> {
    match &path.ends.sink {
        Sink::End(PacketEnd::Socket(socket, _)) => socket.remote_addr(),
        Sink::End(_) | Sink::Stream(_) => None,
    }
}

async fn accept_bytes(
    routed: &Routed,
    arrival: Arrival,
    dialled: Dialled,
    opened: Opened,
) -> Carried {
    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let fields = form::opening_fields(routed, kind);
    match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => Carried::tunnel(ByteTunnel {
            client: form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing }),
            target: halves(dialled.stream),
            guard,
            _active: dialled.active,
            learner: None,
        }),
        Ok(End::Packets(_)) => {
            let reason = "proxy_internal_error: datagrams cannot enter a TCP connection";
            Carried::Over(reason.to_owned())
        }
        Err(error) => Carried::Over(format!("{CLIENT_CLOSED}: {error}")),
    }
}
