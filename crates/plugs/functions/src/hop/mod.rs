//! A hop: a process or container outside through which the bytes of a tunnel go, and from which they come back.
//!
//! The process is a proxy as there are many, by CONNECT or SOCKS5. It is asked for a connection to an address of this node that is open for
//! this tunnel alone: bytes of the client go to the proxy, and come back by the connection that it opens. Whatever it does with
//! bytes on their way is the function. Half-close, back-pressure and resets are those of two connections.
//!
//! The way back is believed by its address: it is open from the request until the first connection, and only to the host of the process. A
//! local user who wins that race takes the place of the function; where such users are hostile, function and node belong into a
//! network namespace of their own.

mod handshake;
mod way_back;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_config::Problem;
use hermes_config::model::{EndpointAddress, OneOrMany};
use hermes_http::{Duplex, Incoming, Outgoing, h1};
use hermes_net::Stream;
use hermes_plug::refusal::Refusal;
use hermes_plug::{
    Admitting, Beginning, BeginningDatagrams, Detour, Detouring, Payload, Settings, Transform,
    TunnelSubject,
};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::need::Need;
use crate::outside::OutsideStream;
use crate::room::{Room, RoomOwner};
use handshake::Speak;
use way_back::WayBack;

/// Tunnels of one function at once, where its settings do not say.
#[doc(alias = "bound")]
const TUNNELS: u16 = 256;

/// The settings of `hop`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HopSettings {
    /// Where the process listens: `host:port`, `unix:/path`, or a list of instances.
    to: OneOrMany<EndpointAddress>,
    /// How it is asked. Default: `connect`.
    #[serde(default)]
    speak: Speak,
    /// The address of this machine by which it comes back. Default: a loopback address.
    #[serde(default)]
    back: Option<IpAddr>,
    /// The address from which it comes back, if that is another than the one where it listens.
    #[serde(default)]
    from: Option<IpAddr>,
    /// Which tunnels share an instance. Default: `all`.
    #[serde(default)]
    instance_of: InstanceOf,
    /// `all`: tunnels that it does not take are refused. `best`: they pass without it. Default: `all`.
    #[serde(default)]
    need: Need,
    /// Tunnels at once, half of them of one user; further ones are refused. Default: 256.
    #[serde(default)]
    tunnels: Option<u16>,
}

/// Which tunnels share an instance.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum InstanceOf {
    /// All tunnels share all instances, which take turns.
    #[default]
    All,
    /// Those of one user, or of one source address without a user.
    User,
}

/// Leads tunnels of bytes through a process outside. Named alone it knows none, and lets no tunnel begin.
#[derive(Default)]
pub struct Hop(Option<Arc<HopProcess>>);

/// The process.
struct HopProcess {
    instances: Vec<EndpointAddress>,
    speak: Speak,
    back: IpAddr,
    from: Option<IpAddr>,
    instance_of: InstanceOf,
    need: Need,
    room: Arc<Room>,
    turn: AtomicUsize,
}

impl Hop {
    fn make(settings: HopSettings) -> Result<Arc<dyn Transform>, Vec<Problem>> {
        let instances: Vec<_> = settings.to.iter().cloned().collect();
        if instances.is_empty() {
            let problem = Problem::new("to", "no process is named");
            return Err(vec![problem.remedy("write `host:port` or `unix:/path`")]);
        }
        let tunnels = settings.tunnels.unwrap_or(TUNNELS);
        Ok(Arc::new(Self(Some(Arc::new(HopProcess {
            instances,
            speak: settings.speak,
            back: settings.back.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            from: settings.from,
            instance_of: settings.instance_of,
            need: settings.need,
            room: Room::new(tunnels),
            turn: AtomicUsize::new(0),
        })))))
    }

    async fn open(&self, tunnel: &TunnelSubject<'_>) -> Result<Option<Detour>, Refusal> {
        let Some(process) = &self.0 else {
            let details = "`hop` has no process: write `{ hop: { to: 127.0.0.1:1080 } }`";
            return Err(Refusal::new(ProxyError::ProxyConfigurationError, details));
        };
        if way_back::is_open(tunnel.target) {
            let details = "the function sends its own tunnel back to this listener";
            return Err(Refusal::new(ProxyError::ProxyLoopDetected, details));
        }
        match process.lead(tunnel).await {
            Err(refusal) if process.need == Need::Best => {
                tracing::debug!(reason = refusal.reason(), "a tunnel passes without `hop`");
                Ok(None)
            }
            led => led.map(Some),
        }
    }
}

impl HopProcess {
    /// The instance of a tunnel, on which it stays.
    fn instance(&self, tunnel: &TunnelSubject<'_>) -> &EndpointAddress {
        let number = match self.instance_of {
            InstanceOf::All => self.turn.fetch_add(1, Ordering::Relaxed),
            InstanceOf::User => {
                let mut hasher = DefaultHasher::new();
                match tunnel.user {
                    Some(user) => user.hash(&mut hasher),
                    None => tunnel.source.peer.ip().hash(&mut hasher),
                }
                usize::try_from(hasher.finish() >> 33).unwrap_or(0)
            }
        };
        &self.instances[number % self.instances.len()]
    }

    async fn lead(&self, tunnel: &TunnelSubject<'_>) -> Result<Detour, Refusal> {
        let owner = RoomOwner::of(tunnel.user, tunnel.source.peer.ip());
        let held = self.room.take(owner)?;
        let way_back = WayBack::open(self.back).map_err(|error| {
            let details = format!("no way back from the function at {}: {error}", self.back);
            Refusal::new(ProxyError::ProxyInternalError, details)
        })?;

        // Once: the connection stays there, whatever becomes of the others.
        let instance = self.instance(tunnel);
        let (near, expected) = connect(instance).await?;
        let asking = handshake::ask(near, self.speak, way_back.address(), tunnel.target);
        let returning = way_back.accept(self.from.or(expected));
        // A proxy answers when it has connected, so neither comes certainly first.
        let (near, far) = tokio::try_join!(asking, returning)
            .map_err(|failed| failed.refusal(&instance.to_string()))?;

        Ok(Detour {
            near: duplex(near),
            far: duplex(far),
            held: Box::new(held),
        })
    }
}

/// Connects to an instance; gives its address, where it has one.
async fn connect(instance: &EndpointAddress) -> Result<(Stream, Option<IpAddr>), Refusal> {
    let connected = OutsideStream::connect(instance).await;
    let connected = connected.map(|outside| {
        let peer = outside.peer();
        (Stream::from(outside), peer)
    });
    connected.map_err(|error| {
        let details = format!("the function at {instance}: {error}");
        Refusal::new(ProxyError::ConnectionRefused, details)
    })
}

fn duplex(stream: Stream) -> Duplex {
    let (read, write) = stream.split();
    Duplex {
        incoming: Incoming::H1(h1::BodyReceiver::bytes(read)),
        outgoing: Outgoing::H1(h1::BodySender::bytes(write)),
    }
}

impl Transform for Hop {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let begun = match tunnel.payload {
            Payload::Packets => Err(only_bytes("tunnels of IP packets")),
            Payload::Bytes | Payload::Datagrams | Payload::Message => Ok(None),
        };
        Box::pin(std::future::ready(begun))
    }

    fn begin_datagrams<'a>(&'a self, _: &'a TunnelSubject<'a>) -> BeginningDatagrams<'a> {
        Box::pin(std::future::ready(Err(only_bytes("datagrams"))))
    }

    fn admit<'a>(&'a self, _: &'a TunnelSubject<'a>) -> Admitting<'a> {
        Box::pin(std::future::ready(Err(only_bytes("requests"))))
    }

    fn detour<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Option<Detouring<'a>> {
        Some(Box::pin(self.open(tunnel)))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        Some(Settings::<dyn Transform>::new(Self::make))
    }

    fn memory(&self) -> usize {
        0
    }
}

/// Nothing passes by a function that it was to pass through.
fn only_bytes(other: &str) -> Refusal {
    let details = format!("`hop` takes tunnels of bytes, no {other}");
    Refusal::new(ProxyError::ProxyConfigurationError, details)
}
