//! SOCKS as a way into a node: the ingress of `socks` listeners.
//!
//! It is the side of the proxy in SOCKS4, SOCKS4a and SOCKS5. A connection becomes a CONNECT whose client is answered once its target has
//! answered, and each destination of an association of UDP a CONNECT-UDP; the reply to a refusal says as much of its reason as SOCKS can. A
//! password is checked as those of Basic are, before the client is told that it is right, and asked for again whenever the configuration changes.
//!
//! Listeners that are `experimental` take SOCKS6 too: passwords in the request, sessions, idempotence tokens, bytes for the target right behind it, and associations whose datagrams share the port of the listener.
//!
//! BIND is a CONNECT that waits for its target where the overlay ends (`Hermes-Listen`).
//!
//! It is no client of SOCKS, which `hermes_upstream` is. No fragments of datagrams are put together, and SOCKS with GSSAPI is not spoken.
//!
//! Specifications: RFC 1928, RFC 1929, draft-olteanu-intarea-socks-6-11, and the memos of SOCKS4 and SOCKS4a. The messages are in
//! [`hermes_proto::socks`] and [`hermes_proto::socks6`].
//!
//! Begin reading in `ingress`: `wish` finds out the wish of a client, `six` with `sessions` that of one of SOCKS6, `held` answers a connection, `bind` one that waits for its target, and `association` carries datagrams, those of SOCKS6 in `association::six`.

mod association;
mod bind;
mod handshake;
mod held;
mod ingress;
mod sessions;
mod six;
mod wish;

use hermes_config::model::{SOCKS, SOCKS_EXPERIMENTAL};
use hermes_plug::Plugs;

pub use ingress::Socks;

/// Adds SOCKS to the plugs of a program, under the names by which `socks` listeners find it.
#[must_use]
pub fn register(plugs: Plugs) -> Plugs {
    plugs
        .ingress(SOCKS, Socks::default())
        .ingress(SOCKS_EXPERIMENTAL, Socks::experimental())
}
