//! The transforms of a tunnel's bytes: those of its route, and those that undo the transforms of the peer it comes from.

use std::sync::atomic::AtomicU64;

use hermes_admit::next::Next;
use hermes_admit::reevaluate::TunnelGuard;
use hermes_admit::routed::Routed;
use hermes_http::h1::client::Receiver;
use hermes_http::{Incoming, Kind, RequestHead};
use hermes_net::memory::{Charge, Purpose};
use hermes_observe::Counters;
use hermes_packet::{Broken, Side};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::{Altering, Payload};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::transform;
use http::StatusCode;

use super::bytes::{self, ByteTunnel};
use crate::carried::{Carried, Carry, TunnelEnd};
use crate::pump;
use crate::pump::{Direction, Source, pump};
use crate::reach::transforms::{BEFORE, in_time, no_memory, subject};
use crate::transformed::TransformedSource;

/// The transforms of one tunnel's bytes.
pub(crate) struct Bridges {
    /// Undo the transforms of the peer that the tunnel comes from.
    inwards: Vec<Inwards>,
    /// Those of the route.
    outwards: Vec<Outwards>,
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

/// A transform that the route asks for.
struct Outwards {
    name: String,
    altering: Altering,
    needs_peer: bool,
    _charge: Charge,
}

impl Outwards {
    /// Those of a tunnel that arrives.
    async fn begun(
        routed: &Routed,
        arrival: &mut Arrival,
        next: &Next,
    ) -> Result<Vec<Self>, Refusal> {
        let head = arrival.head().clone();
        let beginning = in_time(next, Self::all(routed, &head, next));
        arrival.unless_gone(beginning, BEFORE).await
    }

    /// Begins with the transforms of the route, one after the other.
    async fn all(routed: &Routed, head: &RequestHead, next: &Next) -> Result<Vec<Self>, Refusal> {
        let account = routed.account();
        let is_proxy = next.receiver() == Receiver::Proxy;
        let target = routed.target.canonical();
        let subject = subject(routed, head, &target, Payload::Bytes);
        let mut outwards = Vec::with_capacity(next.through.own.len());

        for (name, transform) in &next.through.own {
            let needs_peer = transform.needs_peer();
            if needs_peer && !is_proxy {
                continue;
            }
            let charge = account.charge(Purpose::Transforms, transform.memory());
            // Asked whether there is memory or not: it may refuse the tunnel.
            let Some(altering) = transform.begin(&subject).await? else {
                continue;
            };
            match charge {
                Ok(_charge) => outwards.push(Self {
                    name: name.clone(),
                    altering,
                    needs_peer,
                    _charge,
                }),
                // The next proxy hears of no change then.
                Err(_) if needs_peer => {}
                Err(overdrawn) => return Err(no_memory(name, &overdrawn)),
            }
        }

        Ok(outwards)
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
        if asked.is_empty() && next.through.own.is_empty() || !carries_bytes(arrival.kind()) {
            return Ok(None);
        }

        let inwards = Inwards::all(routed, next, asked);
        let outwards = match next.through.own.is_empty() {
            true => Vec::new(),
            // On the heap: most tunnels have no transform, and each would have room for its beginning.
            false => Box::pin(Outwards::begun(routed, arrival, next)).await?,
        };
        let bridges = Self { inwards, outwards };

        Ok((!bridges.is_idle()).then(|| Box::new(bridges)))
    }

    fn is_idle(&self) -> bool {
        self.inwards.is_empty() && self.outwards.is_empty()
    }

    /// Asks the next proxy to undo the transforms that only it can undo.
    pub(crate) fn ask(bridges: Option<&Self>, head: &mut RequestHead) {
        let Some(bridges) = bridges else { return };
        let asked = bridges.outwards.iter().filter(|own| own.needs_peer);
        transform::write(asked.map(|own| own.name.as_str()), &mut head.fields);
    }

    /// Keeps the transforms that the next proxy has confirmed, or need not know of; `None` if there are none.
    pub(crate) fn confirmed(mut self: Box<Self>, by: &[String]) -> Option<Box<Self>> {
        self.outwards
            .retain(|own| !own.needs_peer || by.contains(&own.name));
        (!self.is_idle()).then_some(self)
    }

    /// Names in the answer to a peer the transforms that are undone here.
    pub(crate) fn confirm(&self, fields: &mut Fields) {
        transform::write(self.inwards.iter().map(|own| own.name.as_str()), fields);
    }

    /// The sources of both directions. From the client, the transforms of its peer are undone first, then those of the route are done,
    /// in its order; from the target, the reverse.
    fn sources<'a>(
        &'a mut self,
        client: &'a mut Incoming,
        target: &'a mut Incoming,
    ) -> (DynSource<'a>, DynSource<'a>) {
        let mut client_stages = Vec::new();
        let mut target_stages = Vec::new();
        for undone in &mut self.inwards {
            client_stages.push((&*undone.name, &mut undone.altering.to_target));
            target_stages.push((&*undone.name, &mut undone.altering.to_client));
        }
        for own in &mut self.outwards {
            client_stages.push((&*own.name, &mut own.altering.to_target));
            target_stages.push((&*own.name, &mut own.altering.to_client));
        }

        let mut to_target: DynSource<'a> = Box::new(client);
        for (name, alter) in client_stages {
            to_target = Box::new(TransformedSource::new(to_target, name, &mut **alter));
        }

        let mut to_client: DynSource<'a> = Box::new(target);
        for (name, alter) in target_stages.into_iter().rev() {
            to_client = Box::new(TransformedSource::new(to_client, name, &mut **alter));
        }

        (to_target, to_client)
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
        let carried = {
            let (mut to_target, mut to_client) =
                self.sources(&mut client.incoming, &mut target.incoming);
            let upwards = direction(Side::Client, &counters.client_to_target);
            let downwards = direction(Side::Target, &counters.target_to_client);
            let both = async {
                tokio::try_join!(
                    pump(&mut to_target, &mut target.outgoing, upwards),
                    pump(&mut to_client, &mut client.outgoing, downwards),
                )
            };
            tokio::select! {
                carried = both => carried.map(|_| ()),
                reason = guard.ended() => Err(Broken::policy(&reason)),
            }
        };

        match &carried {
            Err(broken) => {
                client.outgoing.reset(broken.reset);
                target.outgoing.reset(broken.reset);
            }
            Ok(()) => {
                // A stream that is dropped half open would look broken to its peer.
                tokio::join!(pump::part(client), pump::part(target));
            }
        }

        carried
    }
}

/// The source of a direction, through any number of stages.
type DynSource<'a> = Box<dyn Source + Send + 'a>;

/// The direction that comes from a side of a tunnel.
fn direction(from: Side, moved: &AtomicU64) -> Direction<'_> {
    Direction {
        from,
        moved,
        rules: None,
    }
}

/// Tunnels whose bytes can be changed.
pub(crate) fn carries_bytes(kind: Kind) -> bool {
    matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::Upgrade)
}
