//! Where the overlay ends for IP packets: CONNECT-IP (RFC 9484) at a TUN device, or in this process.

mod denied_flows;
mod echoes;
mod followed_flows;
mod gate;
pub(crate) mod opened_flows;
mod session;

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use hermes_admit::devices::described;
use hermes_admit::next::Next;
use hermes_admit::outliving::DeviceTunnel;
use hermes_admit::reevaluate::{Opened, TunnelGuard, enter};
use hermes_admit::routed::Routed;
use hermes_config::model::{PacketTermination, Terminate};
use hermes_http::{Kind, RequestHead};
use hermes_ip::offload::agreement;
use hermes_ip::{PacketScope, PoolError};
use hermes_net::memory::{Memory, Owner};
use hermes_net::{Asker, PeerAddress};
use hermes_packet::tun::{
    DEVICE_FIELD, DeviceClient, DevicePart, FlowStack, TunTunnel, TunnelOwner, carry,
};
use hermes_packet::{Broken, Side};
use hermes_packet::{SessionEntry, Token};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use hermes_proto::ip_template::IpTarget;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::session_field::SessionValue;
use hermes_upstream::FailureKind;
use http::{HeaderValue, StatusCode};

use super::carried::{Carried, Carry, TunnelEnd};
use super::reach::asker;
use crate::failed::Failed;
use crate::reach::datagram_path::Ends;

/// A tunnel that ends at a device, and is still to be carried.
pub(crate) struct PacketTunnel {
    pub(crate) client: Ends,
    pub(crate) tunnel: Arc<TunTunnel>,
    pub(crate) guard: TunnelGuard,
    listens: bool,
    /// The session by which it outlives its path, where the client asked for one.
    pub(crate) session: Option<SessionEntry<DeviceTunnel>>,
}

/// A tunnel of a device, new or taken over.
struct Begun {
    tunnel: Arc<TunTunnel>,
    session: Option<SessionEntry<DeviceTunnel>>,
}

/// Where the route ends packets, if it does.
pub(crate) fn end(routed: &Routed) -> Option<PacketTermination<'_>> {
    let terminate = routed.route.config.terminate.as_ref();
    terminate.and_then(Terminate::packets)
}

/// Gives a tunnel its addresses, and accepts it.
pub(crate) async fn open(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
) -> Result<Carried, Failed> {
    let owner = owner(routed, arrival.head());
    let Begun { tunnel, session } = match begin(routed, next, &owner).await {
        Ok(begun) => begun,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let mut fields = Fields::from_iter([(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"))]);
    if let Some(session) = &session {
        session.token().write(&mut fields);
    }
    datagram_limit::answer(&arrival.head().fields, &mut fields);
    let listens = datagram_limit::is_understood(&arrival.head().fields);
    let opened = Opened::new(routed, arrival.head(), next, None);
    let guard = enter(routed, opened, false);
    gate::set(&tunnel, routed, &routed.snapshot);
    tunnel.offered(agreement::offered(&arrival.head().fields));

    Ok(match arrival.accept(fields).await {
        Ok(client) => Carried::tunnel(PacketTunnel {
            client: Ends::of_client(Kind::ConnectIp, client, None),
            tunnel,
            guard,
            listens,
            session,
        }),
        Err(error) => Carried::Over(format!("client_closed: {error}")),
    })
}

/// A target that takes no tunnels of packets.
pub(crate) fn only_packets() -> Refusal {
    let details = "this route takes the packets of CONNECT-IP, and nothing else";
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::NOT_IMPLEMENTED)
}

/// No server takes IP packets as they are.
fn not_carried() -> Refusal {
    let details = "CONNECT-IP goes on to a proxy (`to`), or ends at a device (`terminate: { tun, .. }`) or in this process \
                   (`terminate: { intercept: true, .. }`), but this route ends where no packets are taken";
    Refusal::new(ProxyError::HttpUpgradeFailed, details).status(StatusCode::NOT_IMPLEMENTED)
}

/// The tunnel of the session that is asked for, if that is here, or else a new one.
async fn begin(routed: &Routed, next: &Next, owner: &TunnelOwner) -> Result<Begun, Refusal> {
    let end = end(routed).ok_or_else(not_carried)?;
    let whose = session::whose(routed, next, end);
    let (tunnel, token, times) = match session::take_over(routed, &whose).await {
        Some((token, taken)) => (taken.tunnel, Some(token), taken.times),
        None => (
            Arc::new(new(routed, next, end, owner).await?),
            Token::random(),
            0,
        ),
    };

    let sessions = &routed.worker.shared.outliving.packets;
    let session = token.filter(|_| routed.asked.is_some());
    let entry = session.map(|token| sessions.enter(token, whose, times));
    Ok(Begun {
        tunnel,
        session: entry.map(|entry| entry.owned_by(&routed.owner())),
    })
}

/// A new tunnel, with addresses of its own.
async fn new(
    routed: &Routed,
    next: &Next,
    end: PacketTermination<'_>,
    owner: &TunnelOwner,
) -> Result<TunTunnel, Refusal> {
    let scope = scope(routed, next).await?;
    let hub = routed.worker.shared.devices.hub(end);
    // One that was deleted is made again in a moment.
    let hub = hub.and_then(|hub| match hub.is_closed() {
        true => Err(format!("{}: it is gone", described(end))),
        false => Ok(hub),
    });
    let hub = hub.map_err(|reason| {
        Refusal::new(ProxyError::DestinationUnavailable, reason)
            .status(StatusCode::SERVICE_UNAVAILABLE)
    })?;

    let opened = TunTunnel::open(&hub, owner, scope);
    if let Ok(Some(stack)) = opened.as_ref().map(TunTunnel::stack) {
        let owner = Owner::of(routed.user.as_deref(), &routed.source.peer);
        stack.set_account(Memory::node().owner(owner));
        let asker = Asker::user_or_source(routed.user.as_deref(), &routed.source.peer);
        stack.set_turns(routed.worker.shared.shares.users.packets.clone(), asker);
    }
    opened.map_err(|error| match error {
        PoolError::Exhausted { .. }
        | PoolError::Share { .. }
        | PoolError::Reserved { .. }
        | PoolError::Full => Refusal::new(ProxyError::ConnectionLimitReached, error.to_string())
            .status(StatusCode::SERVICE_UNAVAILABLE),
        PoolError::Range { .. } => {
            Refusal::new(ProxyError::ProxyConfigurationError, error.to_string())
        }
    })
}

/// Whose the addresses are: the user, or where there is none the address that the tunnel comes from; and of which of its tunnels, where its
/// device says that it has several.
fn owner(routed: &Routed, head: &RequestHead) -> TunnelOwner {
    let identity = identity(routed.user.as_deref(), &routed.source.peer);
    let part = head.fields.get(DEVICE_FIELD);
    let part = part.and_then(|value| DevicePart::parse(value.to_str().ok()?));
    TunnelOwner { identity, part }
}

/// The name of a user, or an address behind `@`. A user whose own name begins so is written with two: no one can choose the name of another's
/// address.
fn identity(user: Option<&str>, peer: &PeerAddress) -> String {
    match (user, peer) {
        (Some(user), _) if user.starts_with('@') => format!("@{user}"),
        (Some(user), _) => user.to_owned(),
        (None, PeerAddress::Ip(address)) => format!("@{}", address.ip().to_canonical()),
        (None, peer) => format!("@{peer}"),
    }
}

/// The packets that the request is for. A name stands for its addresses of this moment (RFC 9484, section 4.6), of which the tunnel is told
/// as its routes; which of them lead anywhere, the device's routes say.
async fn scope(routed: &Routed, next: &Next) -> Result<PacketScope, Refusal> {
    let Target::Ip(packets) = &routed.target else {
        return Err(not_carried());
    };
    let resolved = match &packets.scope.target {
        IpTarget::Name(name) => resolve(routed, next, name).await?,
        IpTarget::Any | IpTarget::Prefix { .. } => Vec::new(),
    };

    PacketScope::of(&packets.scope, &resolved).map_err(|error| {
        Refusal::new(ProxyError::HttpRequestError, error.to_string())
            .status(StatusCode::BAD_REQUEST)
    })
}

async fn resolve(routed: &Routed, next: &Next, name: &str) -> Result<Vec<IpAddr>, Refusal> {
    let client = &routed.worker.client;
    let found = client.addresses(name, asker(routed), &next.timeouts).await;
    found.map_err(|failure| {
        let refusal = Refusal::new(failure.proxy_error(), failure.reason.clone());
        // A name that no one here knows is the client's mistake, as it is where no route knows it.
        match failure.kind {
            FailureKind::Dotless => refusal.status(StatusCode::NOT_FOUND),
            _ => refusal,
        }
    })
}

/// Has the packets of a tunnel meet the rules in force, whenever these change.
async fn renew_policy(tunnel: &TunTunnel, routed: &Routed) -> Infallible {
    let mut revision = routed.worker.shared.snapshot.subscribe();
    let mut current = routed.snapshot.revision;
    loop {
        // It may have changed before this tunnel was opened.
        let snapshot = routed.worker.snapshot();
        if snapshot.revision != current {
            current = snapshot.revision;
            gate::set(tunnel, routed, &snapshot);
        }
        if revision.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Carry for PacketTunnel {
    fn guard(&self) -> &TunnelGuard {
        &self.guard
    }

    fn stack(&self) -> Option<&Arc<FlowStack>> {
        self.tunnel.stack()
    }

    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin((*self).run(routed))
    }
}

impl PacketTunnel {
    /// Carries it to its end; returns the reason for which it ended.
    async fn run(self, routed: &Routed) -> String {
        let client = self.client.sink.clone();
        let reason = self.carry_on(routed).await;
        client.ended(&reason);
        reason
    }

    async fn carry_on(mut self, routed: &Routed) -> String {
        let client = DeviceClient {
            source: &mut self.client.source,
            sink: &self.client.sink,
            listens: self.listens,
        };
        let carried = carry(&routed.exchange, self.tunnel.clone(), client);
        let ended = tokio::select! {
            ended = carried => ended,
            reason = self.guard.ended() => Err(Broken::policy(&reason)),
            // The claimant's client is the same: its tunnel, with addresses and flows, goes on there.
            claim = session::claimed(&mut self.session) => return self.hand_over(claim, routed).await,
            never = renew_policy(&self.tunnel, routed) => match never {},
        };

        match ended {
            Err(broken) if broken.side == Side::Client && broken.is_of_the_path() => {
                self.client.sink.reset(broken.reset);
                Box::pin(self.wait(broken, routed)).await
            }
            Ok(reason) => {
                self.client.farewell().await;
                reason.to_owned()
            }
            Err(broken) => {
                self.client.sink.reset(broken.reset);
                broken.reason()
            }
        }
    }
}
