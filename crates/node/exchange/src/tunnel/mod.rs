//! A tunnel through the next proxy, or an upgraded connection to an origin.

pub(crate) mod bridges;
pub(crate) mod bytes;
mod direct;
pub(crate) mod early_answer;
pub(crate) mod listening;
pub(crate) mod outlive;
mod segment_maker;
pub(crate) mod segments;
pub(crate) mod terminate;

use std::sync::Arc;

use hermes_admit::explain;
use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_http::h1::client::Receiver;
use hermes_http::{Duplex, Event, Incoming, Kind, RequestHead, ResponseHead, StreamError};
use hermes_observe::CLIENT_CLOSED;
use hermes_packet::Asked;
use hermes_packet::Side;
use hermes_packet::{Early, PacketDirection};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::{datagram_limit, transform, udp_bind};
use hermes_rules::session::Silence;
use hermes_upstream::{Active, Upstream};
use http::{StatusCode, Version};

use super::carried::Carried;
use super::pump::{self, Direction};
use crate::beyond::Beyond;
use crate::datagrams::DatagramTunnel;
use crate::failed::Failed;
use crate::reach;
use crate::reach::bulk;
use crate::reach::datagram_path::{Ends, Path};
use crate::reach::departure;
use crate::reach::departure::depart;
use crate::reach::early_bytes::EarlyBytes;
use crate::reach::form;
use crate::reach::next_tunnel::{self, Open, passed_on};
use crate::reach::recovery::{OfferedRecovery, RecoveredSide};
use crate::reach::retry::Tries;
use crate::reach::session_token::Resumption;
use crate::tunnel::bridges::Bridges;
use crate::tunnel::bytes::ByteTunnel;
use crate::tunnel::direct::DirectEnd;
use crate::tunnel::outlive::near;
use crate::tunnel::outlive::near::{AskedSession, Granted, NearTunnel};

/// Opens the tunnel through the next hop; `beyond` is of its datagrams.
pub(crate) async fn forward(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
    beyond: Option<&mut Beyond>,
) -> Result<Carried, Failed> {
    let bridges = match Bridges::of(routed, &mut arrival, next).await {
        Ok(bridges) => bridges,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };
    let mut functions = TunnelFunctions { bridges, beyond };
    let AskedFor {
        opened,
        form,
        session,
        recovery,
    } = match ask(routed, &mut arrival, next, &mut functions).await {
        Ok(asked) => asked,
        // Boxed: few tunnels end here.
        Err(unopened) => return Box::pin(unopened.end(routed, arrival, next)).await,
    };

    let Open {
        outgoing,
        answer,
        active,
        silence,
        early,
    } = opened;

    match answer {
        Event::Tunnel(mut head, incoming) => {
            if let Err(refusal) = functions.are_done(&mut head.fields) {
                return Err(Failed::untouched(arrival, refusal));
            }
            let granted = session.and_then(|asked| asked.granted(&mut head.fields));
            arrived(routed, &arrival, early);
            let opened = Opened::new(routed, arrival.head(), next, None);
            let side = OfferedRecovery::settled(recovery, &mut head.fields);
            let client_side = RecoveredSide::of_client(routed, arrival.head(), &head.fields);

            let accepted = Accepted {
                head,
                target: Duplex { incoming, outgoing },
                form,
                active,
                silence,
                opened,
                granted,
                functions,
                side,
                client_side,
                learner: bulk::learner(next, form).cloned(),
            };
            Ok(accept(routed, arrival, accepted).await)
        }
        Event::Final(head, _) if let Some(refusal) = departure::unaccepted(routed, next, &head) => {
            Err(Failed::untouched(arrival, refusal))
        }
        Event::Final(head, incoming) => {
            Box::pin(pass_refusal(routed, next, arrival, head, incoming))
                .await
                .map(Carried::Over)
        }
        Event::Interim(_) => unreachable!("interim responses are passed over while opening"),
    }
}

/// Bytes of the client that leave before its tunnel is open. Where a transform changes bytes none do: they would leave unchanged.
fn first_bytes<'a>(
    tries: &Tries<'_>,
    arrival: &'a mut Arrival,
    departing: &RequestHead,
    bridges: Option<&Bridges>,
) -> EarlyBytes<'a> {
    match bridges {
        Some(_) => EarlyBytes::default(),
        None => EarlyBytes::of(tries, arrival, departing),
    }
}

/// The datagrams that left with the request have arrived with it.
fn arrived(routed: &Routed, arrival: &Arrival, early: Option<Early>) {
    if let (Some(session), Some(early)) = (arrival.session(), early) {
        session.arrived(&early);
        PacketDirection::count(&routed.exchange, Side::Client, early.count, early.bytes);
    }
}

/// The functions of a tunnel: of its bytes, or of other nodes for its datagrams.
struct TunnelFunctions<'a> {
    bridges: Option<Box<Bridges>>,
    beyond: Option<&'a mut Beyond>,
}

impl TunnelFunctions<'_> {
    /// Asks the next hop, and nodes behind it.
    fn ask(&self, head: &mut RequestHead) {
        Bridges::ask(self.bridges.as_deref(), head);
        if let Some(beyond) = &self.beyond {
            beyond.ask(head);
        }
    }

    /// Whether nodes further on have done the functions that they were asked for.
    fn are_done(&mut self, fields: &mut Fields) -> Result<(), Refusal> {
        match &mut self.beyond {
            Some(beyond) => beyond.confirmed(fields),
            None => Bridges::are_done(self.bridges.as_deref_mut(), fields),
        }
    }

    /// Whether a node before this one has asked for functions of its datagrams.
    fn are_of_others(&self) -> bool {
        let mut beyond = self.beyond.iter();
        beyond.any(|beyond| beyond.is_of_others())
    }

    /// Tells the nodes before of what is done.
    fn confirm(&self, fields: &mut Fields) {
        if let Some(bridges) = &self.bridges {
            bridges.confirm(fields);
        }
        if let Some(beyond) = &self.beyond {
            beyond.confirm(fields);
        }
    }
}

/// A tunnel that the next hop was asked for, and answered.
struct AskedFor {
    opened: Open,
    /// How it left.
    form: Kind,
    /// A session was asked for.
    session: Option<Box<AskedSession>>,
    /// Recovery of datagrams was offered.
    recovery: Option<OfferedRecovery>,
}

/// Why there is no tunnel.
enum Unopened {
    /// The client is gone.
    Gone(StreamError),
    Refused(Refusal),
    /// The target was reached from here.
    Direct(Box<DirectEnd>),
}

impl Unopened {
    /// The fate of the exchange.
    async fn end(self, routed: &Routed, arrival: Arrival, next: &Next) -> Result<Carried, Failed> {
        match self {
            Self::Gone(gone) => Ok(Carried::Over(format!("{CLIENT_CLOSED}: {gone}"))),
            Self::Refused(refusal) => Err(Failed::untouched(arrival, refusal)),
            Self::Direct(end) => direct::accept(routed, arrival, next, *end).await,
        }
    }
}

/// Asks the next hop for the tunnel, and for a session by which it outlives its path.
async fn ask(
    routed: &Routed,
    arrival: &mut Arrival,
    next: &Next,
    functions: &mut TunnelFunctions<'_>,
) -> Result<AskedFor, Unopened> {
    let departing = depart(routed, arrival.head().clone(), next);
    let (mut head, target) = departing.map_err(Unopened::Refused)?;
    functions.ask(&mut head);
    let recovery = OfferedRecovery::ask(routed, &mut head).map_err(Unopened::Refused)?;

    if head.kind().carries_packets() && next.receiver() == Receiver::Proxy {
        departure::ask(routed, routed.asked.unwrap_or(Asked::New), &mut head);
    }
    // A tunnel whose bytes are changed on their way has no session.
    let outlives = match &functions.bridges {
        Some(_) => None,
        None => near::ask(routed, next, &mut head),
    };

    // Transforms see every datagram, and lost ones are to be recovered: none leaves with the request.
    let has_transforms =
        !next.through.own.is_empty() || functions.beyond.is_some() || recovery.is_some();
    // Functions that a node before has asked for would be passed by, and datagrams that leave with a request may go out twice.
    let direct = match &functions.bridges {
        None if !has_transforms => direct::of(routed, next, arrival.head()),
        _ => None,
    };
    let leaves_early = !has_transforms && direct.is_none();
    let session = arrival.session().filter(|_| leaves_early).cloned();
    let tries = Tries::new(routed, next, arrival.head()).early(session.as_ref());
    let opened = if let Some(direct) = direct {
        Box::pin(direct::race(&tries, direct, arrival, &head, &target)).await
    } else if arrival.is_held() {
        let mut none = EarlyBytes::default();
        let opening = next_tunnel::open(&tries, &head, &target, &mut none);
        let opened = Box::pin(arrival.unless_gone(opening, "before the tunnel was open")).await;
        opened.map_err(Unopened::Refused)
    } else {
        let first = if outlives.is_some() {
            // Whether they have to be within capsules is not known before the answer.
            EarlyBytes::default()
        } else {
            first_bytes(&tries, arrival, &head, functions.bridges.as_deref())
        };
        open_with(&tries, &head, &target, first).await
    };
    Ok(AskedFor {
        opened: opened?,
        form: head.kind(),
        session: outlives,
        recovery,
    })
}

/// Opens a tunnel with the first bytes of its client.
async fn open_with(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
    mut first: EarlyBytes<'_>,
) -> Result<Open, Unopened> {
    let opened = next_tunnel::open(tries, head, target, &mut first).await;

    // Before the answer is looked at: no one is left to hear it.
    if let Some(gone) = first.gone.take() {
        return Err(Unopened::Gone(gone));
    }
    let counters = tries.routed.exchange.counters();
    counters.from_client(first.moved());
    opened.map_err(Unopened::Refused)
}

/// A tunnel that the next hop has opened, and that the client is still to be told of.
struct Accepted<'a> {
    /// The next hop's response.
    head: ResponseHead,
    target: Duplex,
    /// How the request left.
    form: Kind,
    active: Active,
    /// Silence after which a tunnel of datagrams ends.
    silence: Silence,
    opened: Opened,
    /// The session that the far end has granted.
    granted: Option<Box<Granted>>,
    functions: TunnelFunctions<'a>,
    /// Recovery of its datagrams, if the far end takes part.
    side: Option<RecoveredSide>,
    /// Groups of its datagrams on the hop to the client.
    client_side: Option<RecoveredSide>,
    /// Learns from its size.
    learner: Option<Arc<Upstream>>,
}

/// Tells the client that the tunnel is open.
async fn accept(routed: &Routed, arrival: Arrival, accepted: Accepted<'_>) -> Carried {
    let Accepted {
        mut head,
        target,
        form,
        active,
        silence,
        opened,
        granted,
        mut functions,
        side,
        client_side,
        learner,
    } = accepted;

    let kind = arrival.kind();
    // A peer that names a transform twice confirms none.
    let undone = transform::take(&mut head.fields).unwrap_or_default();
    let bridges = functions.bridges.take();
    functions.bridges = bridges.and_then(|bridges| bridges.confirmed(&undone));
    let resumption = Resumption::beyond(&mut head.fields);
    let listens = datagram_limit::is_understood(&head.fields);
    let fields = opening_fields(routed, &arrival, head.fields, &resumption, &functions);

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());

    // Another path would not know the contexts of this one, and a node before has signed its request for functions for this one alone.
    let is_bound = udp_bind::is_asked_for(&fields) || functions.are_of_others();
    let movable = granted.is_some() || kind.carries_packets() && !is_bound;
    let guard = enter(routed, opened, movable);
    let client = match arrival.accept(fields).await {
        Ok(client) => client,
        Err(error) => return Carried::Over(format!("client_closed: {error}")),
    };

    match client {
        End::Stream(incoming, outgoing) if !kind.carries_packets() => {
            // Transforms change the bytes, not the capsules around them.
            let is_own = functions.bridges.is_some() || granted.is_some();
            let plain = is_own.then_some(Kind::Connect);
            let client = Duplex { incoming, outgoing };
            let client = form::bytes(kind, plain.unwrap_or(form), client);
            let target = form::bytes(form, plain.unwrap_or(kind), target);
            if let Some(granted) = granted {
                let tunnel = NearTunnel::new(*granted, client, target, guard, active);
                return Carried::tunnel(tunnel);
            }
            let tunnel = ByteTunnel {
                client,
                target,
                guard,
                _active: active,
                learner,
            };

            bridges::tunnel(tunnel, functions.bridges)
        }
        client => {
            let path = Path {
                ends: Ends::of_side(kind, side, target.incoming, target.outgoing),
                active,
                silence,
                resumption,
                listens,
                changes: None,
            };
            Carried::tunnel(DatagramTunnel {
                client,
                path,
                guard,
                side: client_side,
            })
        }
    }
}

/// The fields of the response that opens the tunnel for the client.
fn opening_fields(
    routed: &Routed,
    arrival: &Arrival,
    answered: Fields,
    resumption: &Resumption,
    functions: &TunnelFunctions<'_>,
) -> Fields {
    let kind = arrival.kind();
    let mut fields = passed_on(answered);
    form::announce(kind, &mut fields);
    functions.confirm(&mut fields);

    if kind.carries_packets() {
        if routed.asked.is_some() {
            resumption.tell(&mut fields);
        }
        datagram_limit::answer(&arrival.head().fields, &mut fields);
    }

    fields
}

/// Passes the next hop's refusal on, with its status, fields and content, so that the client learns the true reason.
async fn pass_refusal(
    routed: &Routed,
    next: &Next,
    arrival: Arrival,
    head: ResponseHead,
    mut incoming: Incoming,
) -> Result<String, Failed> {
    let refusal = next_tunnel::refused(routed, next, &head);
    let reason = refusal.reason();
    let Arrival::Offered(offered) = arrival else {
        return Err(Failed::untouched(arrival, refusal));
    };

    let mut head = ResponseHead {
        fields: passed_on(head.fields),
        ..head
    };

    // RFC 9110, 7.8: an origin may ignore an upgrade. Anywhere else a success would say that the tunnel is open.
    let ignored = offered.kind() == Kind::Upgrade && offered.head.version <= Version::HTTP_11;
    departure::keep_own_challenge(&mut head);
    if explain::hide(routed, &mut head) {
        incoming = Incoming::Empty;
    }

    if head.status.is_success() && !ignored {
        // RFC 9220, 3: the origin does not know the protocol that an extended CONNECT asks for.
        let unknown = offered.kind() == Kind::Upgrade;
        head.status = if unknown {
            StatusCode::NOT_IMPLEMENTED
        } else {
            StatusCode::BAD_GATEWAY
        };
    }

    routed.exchange.status(head.status.as_u16());
    let (_, _content, responder) = offered.message();
    let length = incoming.length();
    let responding = responder.respond_refusal(refusal.for_ingress(), head, length);

    if let Ok(mut outgoing) = responding.await {
        let counters = routed.exchange.counters();
        let from = Side::Target;
        let moved = &counters.target_to_client;

        let passed = pump::pump(
            &mut incoming,
            &mut outgoing,
            Direction {
                from,
                moved,
                rules: None,
            },
        );

        // The client may not care for the rest of a refusal.
        tokio::select! {
            _ = passed => {}
            () = pump::silence(counters, reach::REFUSAL_IDLE) => {}
        }
    }

    Ok(reason)
}
