//! Ends, sessions and tunnels of datagrams: UDP on either side of a tunnel, whatever carries it in between.
//!
//! Datagrams move in batches: what is ready at one wake-up becomes one DATA frame of capsules, and a frame of capsules becomes
//! as few sends as its lengths allow. Nothing waits for a batch to fill.
//!
//! - [`Lane`]: begin reading here; one direction of a tunnel, between a UDP end and a stream of capsules or QUIC datagrams.
//! - [`UdpEnd`]: a client of a `udp` listener ([`Session`], with its [`Queue`]), or a socket towards the target.
//! - [`Bound`]: sockets of CONNECT-UDP Bind, with many peers. [`Limits`]: how large datagrams may be that go on.
//! - [`Token`] and [`Resumable`]: sessions that outlive the path to them, and are handed from one tunnel to another.
//! - [`Broken`]: which [`Side`] of an exchange ended it, and how.
//!
//! What it is not: it opens no path and decides on none, and it knows neither listeners nor routes. The data plane makes a tunnel of
//! two directions and moves it.
//!
//! Specifications: RFC 9297 (datagrams and capsules), RFC 9298 (CONNECT-UDP), draft-ietf-masque-connect-udp-listen (Bind).

mod beside;
mod bound;
mod broken;
mod end;
mod lane;
mod limit;
mod queue;
mod quic;
mod received;
mod resume;
mod room;
mod session;
mod shared;
mod sink;
mod stop;
mod stream;
mod table;

pub use bound::{Bound, Egress};
pub use broken::{Broken, Side};
pub use end::{UdpEnd, UdpReader};
pub use lane::{Lane, Left, Origin};
pub use limit::Limits;
pub use queue::{Bounds, Queue};
pub use received::Received;
pub use resume::{Asked, Token};
pub use session::{Early, Session};
pub use sink::Sink;
pub use stop::Stop;
pub use table::{Claim, Destination, Handed, KEPT_FOR, Resumable, Seat};
