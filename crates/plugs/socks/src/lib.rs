//! SOCKS as a way into a node: the ingress of `socks` listeners.
//!
//! It is the side of the proxy in SOCKS4, SOCKS4a and SOCKS5. A connection becomes a CONNECT whose client is answered once its target has
//! answered, and each destination of an association of UDP a CONNECT-UDP; the reply to a refusal says as much of its reason as SOCKS can. A
//! password is checked as those of Basic are, before the client is told that it is right, and asked for again whenever the configuration changes.
//!
//! It is no client of SOCKS. BIND is not served, no fragments of datagrams are put together, and SOCKS with GSSAPI is not spoken.
//!
//! Specifications: RFC 1928, RFC 1929, and the memos of SOCKS4 and SOCKS4a. The messages are in [`hermes_proto::socks`].
//!
//! Begin reading in `ingress`: `handshake` finds out the wish of a client, `held` answers a connection, and `association` carries datagrams.

mod association;
mod handshake;
mod held;
mod ingress;

use hermes_config::model::SOCKS;
use hermes_plug::Plugs;

pub use ingress::Socks;

/// Adds SOCKS to the plugs of a program, under the name by which `socks` listeners find it.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    plugs.ingress(SOCKS, Socks)
}
