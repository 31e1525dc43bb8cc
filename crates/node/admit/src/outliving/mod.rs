//! Tunnels that outlive the path to them, until another exchange goes on with them.

mod policy;
mod secret;
mod shared_end;
mod windows;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_http::{Duplex, Kind, RequestHead};
use hermes_packet::Resumable;
use hermes_packet::tun::TunTunnel;
use hermes_proto::resumable::{FIELD, Grant, Ticket};
use hermes_upstream::Active;

pub use policy::ResumePolicy;
use secret::Secret;
pub use secret::ticket;
pub use shared_end::{SharedEnd, ToPath};
pub use windows::WindowShare;

/// Bytes of a replay window, where the configuration says nothing.
#[doc(alias("bound", "resume.window"))]
pub const WINDOW: usize = 4 * 1024 * 1024;

/// How long a tunnel without a path is kept, where the configuration says nothing.
#[doc(alias("bound", "resume.keep_for"))]
pub const KEEP_FOR: Duration = Duration::from_secs(600);

/// The sessions of all workers that outlive their paths.
pub struct Outliving {
    /// UDP sessions that end here.
    pub datagrams: Arc<Resumable>,
    /// Tunnels of bytes that end here.
    pub bytes: Arc<Resumable<Box<FarEnd>>>,
    /// Tunnels of IP packets that end at a device here.
    pub packets: Arc<Resumable<DeviceTunnel>>,
    /// Nothing where the system has no random numbers: then no session is granted.
    secret: Option<Secret>,
}

/// The far end of a tunnel of bytes, as it goes from one exchange to the next.
pub struct FarEnd {
    /// The state that outlives its paths.
    pub shared: SharedEnd,
    /// The connection to the target.
    pub target: Duplex,
    /// Where that leads.
    pub endpoint: Arc<str>,
    /// Its address, where that is known.
    pub address: Option<SocketAddr>,
    /// How often the tunnel was resumed.
    pub times: u32,
    /// Counts it at its endpoint.
    pub _active: Active,
}

/// A tunnel of a device, with its addresses, as it goes from one exchange to the next.
pub struct DeviceTunnel {
    /// The tunnel of the device.
    pub tunnel: Arc<TunTunnel>,
    /// How often it was resumed.
    pub times: u32,
}

impl Default for Outliving {
    fn default() -> Self {
        Self {
            datagrams: Arc::default(),
            bytes: Arc::default(),
            packets: Arc::default(),
            secret: Secret::random(),
        }
    }
}

impl Outliving {
    /// A new session for a tunnel of bytes.
    pub fn grant(&self) -> Option<Grant> {
        self.secret.as_ref()?.grant()
    }

    /// Whether a session of this process may be resumed with the ticket.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn check(&self, ticket: &Ticket) -> Result<(), &'static str> {
        match &self.secret {
            Some(secret) => secret.check(ticket),
            None => Err("the node keeps no sessions"),
        }
    }
}

/// Whether a request goes on with a tunnel of bytes, which counts twice until its old path has ended.
pub fn is_resumed(head: &RequestHead) -> bool {
    matches!(head.kind(), Kind::Connect | Kind::ConnectTcp)
        && head
            .fields
            .get(FIELD)
            .is_some_and(|value| value.as_bytes() != b"?1")
}
