//! The transforms of a tunnel's bytes: those of its route, and those that undo the transforms of the peer it comes from.

use std::time::Instant;

use hermes_admit::next::Next;
use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::routed::Routed;
use hermes_http::h1::client::Receiver;
use hermes_http::{Duplex, Kind, RequestHead};
use hermes_net::memory::{Charge, Purpose};
use hermes_observe::{Counters, FunctionCount, FunctionCounts};
use hermes_packet::Broken;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Altering, Detour, Payload, Transform, TunnelSubject};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{functions_field, transform};
use http::StatusCode;

use super::bytes::{self, ByteTunnel};
use crate::beyond::Beyond;
use crate::carried::{Carried, Carry, TunnelEnd};
use crate::pump;
use crate::reach::transforms::{BEFORE, in_time, no_memory, subject};
use crate::tunnel::segment_maker::SegmentMaker;
use crate::tunnel::segments::{self, CarriedSegment, SegmentEnd, SegmentFlags};

/// The transforms of one tunnel's bytes.
pub(crate) struct Bridges {
    /// Undo the transforms of the peer that the tunnel comes from.
    inwards: Vec<Inwards>,
    /// Those of the route.
    outwards: Vec<Outwards>,
    counts: FunctionCounts,
    /// Those of other nodes, and for them.
    beyond: Beyond,
}

/// A tunnel of bytes that are changed on their way.
struct BridgedTunnel {
    bytes: ByteTunnel,
    bridges: Box<Bridges>,
}

/// Carries a tunnel of bytes, with its transforms if it has any.
pub(crate) fn tunnel(bytes: ByteTunnel, bridges: Option<Box<Bridges>>) -> Carried {
    match bridges {
        Some(bridges) => Carried::tunnel(BridgedTunnel { bytes, bridges }),
        None => Carried::tunnel(bytes),
    }
}

impl Carry for BridgedTunnel {
    fn guard(&self) -> &TunnelGuard {
        self.bytes.guard()
    }

    fn carry(mut self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin(async move {
            let Self { bytes, bridges } = &mut *self;
            bytes::end(bridges.carry(bytes, routed.exchange.counters()).await)
        })
    }
}

/// A transform of the peer.
struct Inwards {
    name: String,
    altering: Altering,
    _charge: Charge,
}

impl Inwards {
    /// Undoes the transforms that the peer has asked for, as far as this node has them.
    fn all(routed: &Routed, next: &Next, asked: Vec<String>) -> Vec<Self> {
        let account = routed.account();
        let one = |name: String| {
            let transform = next.through.known.find(&name).ok()?;
            let _charge = account
                .charge(Purpose::Transforms, transform.memory())
                .ok()?;
            let altering = transform.undo()?;
            Some(Self {
                name,
                altering,
                _charge,
            })
        };
        asked.into_iter().filter_map(one).collect()
    }
}

/// A function of the route.
struct Outwards {
    /// Its place in [`FunctionCounts`].
    at: usize,
    work: FunctionWork,
    /// The name by which the next proxy is to undo it; `None` if it need not.
    peer_name: Option<String>,
    _charge: Option<Charge>,
}

/// The work of a function on bytes.
enum FunctionWork {
    /// It changes them here.
    Altering(Altering),
    /// They go through something outside.
    Detour(Box<Detour>),
}

/// The functions of the route that have begun.
#[derive(Default)]
struct BegunFunctions {
    outwards: Vec<Outwards>,
    counts: Vec<FunctionCount>,
}

impl BegunFunctions {
    /// Those of a tunnel that arrives.
    async fn of_arrival(
        routed: &Routed,
        arrival: &mut Arrival,
        next: &Next,
        beyond: &Beyond,
    ) -> Result<Self, Refusal> {
        let head = arrival.head().clone();
        let beginning = in_time(next, Self::all(routed, &head, next, beyond));
        arrival.unless_gone(beginning, BEFORE).await
    }

    /// Begins with the functions of the route, one after the other.
    async fn all(
        routed: &Routed,
        head: &RequestHead,
        next: &Next,
        beyond: &Beyond,
    ) -> Result<Self, Refusal> {
        let is_proxy = next.receiver() == Receiver::Proxy;
        let target = routed.target.canonical();
        let subject = subject(routed, head, &target, Payload::Bytes);
        let mut begun = Self::default();

        for (name, transform) in beyond.here().chain(&next.through.own) {
            if transform.needs_peer() && !is_proxy {
                continue;
            }
            let since = Instant::now();
            let outwards =
                Outwards::begin(begun.counts.len(), routed, &subject, name, &**transform).await?;
            begun.counts.push(FunctionCount::new(name, since.elapsed()));
            begun.outwards.extend(outwards);
        }

        Ok(begun)
    }
}

impl Outwards {
    /// Begins with one; `None` where it leaves the bytes as they are.
    async fn begin(
        at: usize,
        routed: &Routed,
        subject: &TunnelSubject<'_>,
        name: &str,
        transform: &dyn Transform,
    ) -> Result<Option<Self>, Refusal> {
        if let Some(detouring) = transform.detour(subject) {
            let detour = detouring.await?;
            return Ok(detour.map(|detour| Self {
                at,
                work: FunctionWork::Detour(Box::new(detour)),
                peer_name: None,
                _charge: None,
            }));
        }

        let needs_peer = transform.needs_peer();
        let peer_name = needs_peer.then(|| transform.peer_name().unwrap_or(name).to_owned());
        let account = routed.account();
        let charge = account.charge(Purpose::Transforms, transform.memory());
        // Asked whether there is memory or not: it may refuse the tunnel.
        let Some(altering) = transform.begin(subject).await? else {
            return Ok(None);
        };
        match charge {
            Ok(charge) => Ok(Some(Self {
                at,
                work: FunctionWork::Altering(altering),
                peer_name,
                _charge: Some(charge),
            })),
            // The next proxy hears of no change then.
            Err(_) if needs_peer => Ok(None),
            Err(overdrawn) => Err(no_memory(name, &overdrawn)),
        }
    }
}

impl Bridges {
    /// Those of a tunnel of bytes that arrives, and takes this way; none where nothing changes its bytes. What a peer has asked for
    /// is taken out of the fields. Where the memory of a transform that the next proxy would undo is more than its user or source may have,
    /// the bytes stay as they are.
    ///
    /// # Errors
    /// The peer names a transform twice, or a transform of the route refuses the tunnel, does not begin, or has no memory and no peer.
    pub(crate) async fn of(
        routed: &Routed,
        arrival: &mut Arrival,
        next: &Next,
    ) -> Result<Option<Box<Self>>, Refusal> {
        let asked = transform::take(&mut arrival.head_mut().fields).map_err(|error| {
            Refusal::new(ProxyError::HttpRequestError, error.to_string())
                .status(StatusCode::BAD_REQUEST)
        })?;
        let is_plain = asked.is_empty() && next.through.own.is_empty();
        let is_asked = arrival.head().fields.contains_key(functions_field::FIELD);
        if is_plain && !is_asked || !carries_bytes(arrival.kind()) {
            return Ok(None);
        }

        let beyond = Beyond::of(routed, arrival.head_mut(), next, Payload::Bytes)?;

        let inwards = Inwards::all(routed, next, asked);
        let BegunFunctions { outwards, counts } = match is_plain && !is_asked {
            true => BegunFunctions::default(),
            // On the heap: most tunnels have no transform, and each would have room for its beginning.
            false => Box::pin(BegunFunctions::of_arrival(routed, arrival, next, &beyond)).await?,
        };
        let counts: FunctionCounts = counts.into();
        if !counts.is_empty() {
            routed.exchange.functions(counts.clone());
        }
        let bridges = Self {
            inwards,
            outwards,
            counts,
            beyond,
        };

        Ok((!bridges.is_idle()).then(|| Box::new(bridges)))
    }

    fn is_idle(&self) -> bool {
        self.inwards.is_empty() && self.outwards.is_empty() && self.beyond.is_idle()
    }

    /// Asks the next proxy to undo the transforms that only it can undo.
    pub(crate) fn ask(bridges: Option<&Self>, head: &mut RequestHead) {
        let Some(bridges) = bridges else { return };
        let asked = bridges.outwards.iter();
        let names = asked.filter_map(|own| own.peer_name.as_deref());
        transform::write(names, &mut head.fields);
        bridges.beyond.ask(head);
    }

    /// Whether nodes further on have done the functions that they were asked for.
    ///
    /// # Errors
    /// One has not: nothing may pass.
    pub(crate) fn are_done(bridges: Option<&mut Self>, fields: &mut Fields) -> Result<(), Refusal> {
        match bridges {
            Some(bridges) => bridges.beyond.confirmed(fields),
            None => Ok(()),
        }
    }

    /// Keeps the transforms that the next proxy has confirmed, or need not know of; `None` if there are none.
    pub(crate) fn confirmed(mut self: Box<Self>, by: &[String]) -> Option<Box<Self>> {
        let is_undone =
            |own: &Outwards| own.peer_name.as_ref().is_none_or(|name| by.contains(name));
        self.outwards.retain(is_undone);
        (!self.is_idle()).then_some(self)
    }

    /// Names in the answer to a peer the transforms that are undone here.
    pub(crate) fn confirm(&self, fields: &mut Fields) {
        self.beyond.confirm(fields);
        transform::write(self.inwards.iter().map(|own| own.name.as_str()), fields);
    }

    /// The detours of the tunnel.
    fn detours(&self) -> usize {
        let is_detour = |own: &&Outwards| matches!(own.work, FunctionWork::Detour(_));
        self.outwards.iter().filter(is_detour).count()
    }

    /// The parts of the tunnel. From the client, the transforms of its peer are undone first, then the functions of the route follow, in
    /// its order; from the target, the reverse.
    fn segments<'a>(
        &'a mut self,
        ends: TunnelEnds<'a>,
        flags: &'a [SegmentFlags],
        counters: &'a Counters,
    ) -> Vec<CarriedSegment<'a>> {
        let mut route = SegmentMaker::new(ends.client, flags, counters);
        for undone in &mut self.inwards {
            route.stage(&undone.name, &mut undone.altering, None);
        }
        for own in &mut self.outwards {
            let count = &self.counts[own.at];
            match &mut own.work {
                FunctionWork::Altering(altering) => {
                    route.stage(&count.name, altering, Some(count));
                }
                FunctionWork::Detour(detour) => route.detour(detour, count),
            }
        }
        route.end(ends.target)
    }

    /// Carries the tunnel: as [`pump::tunnel`] does, with other bytes.
    ///
    /// # Errors
    /// A side broke, bytes could not be changed, or the rules changed.
    pub(crate) async fn carry(
        &mut self,
        bytes: &mut ByteTunnel,
        counters: &Counters,
    ) -> Result<(), Broken> {
        let ByteTunnel {
            client,
            target,
            guard,
            ..
        } = bytes;
        let flags: Vec<_> = std::iter::repeat_with(SegmentFlags::default)
            .take(self.detours() + 1)
            .collect();
        let carried = {
            let ends = TunnelEnds {
                client: end(client),
                target: end(target),
            };
            let segments = self.segments(ends, &flags, counters);
            tokio::select! {
                carried = segments::all(segments) => carried,
                reason = guard.ended() => Err(Broken::policy(&reason)),
            }
        };

        let outwards = self.outwards.iter_mut();
        let detours = outwards.filter_map(|own| match &mut own.work {
            FunctionWork::Detour(detour) => Some(&mut **detour),
            FunctionWork::Altering(_) => None,
        });
        let detours = detours.flat_map(|Detour { near, far, .. }| [near, far]);
        match &carried {
            Err(broken) => {
                for streams in [client, target].into_iter().chain(detours) {
                    streams.outgoing.reset(broken.reset);
                }
            }
            Ok(()) => {
                // A stream that is dropped half open would look broken to its peer.
                tokio::join!(pump::part(client), pump::part(target));
            }
        }

        carried
    }
}

/// The ends of a tunnel.
struct TunnelEnds<'a> {
    client: SegmentEnd<'a>,
    target: SegmentEnd<'a>,
}

fn end(streams: &mut Duplex) -> SegmentEnd<'_> {
    SegmentEnd {
        incoming: &mut streams.incoming,
        outgoing: &mut streams.outgoing,
    }
}

/// Tunnels whose bytes can be changed.
pub(crate) fn carries_bytes(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::Upgrade)
}
