//! Ends, sessions and tunnels of packets: UDP, or a device, on either side of a tunnel, over any
//! carrier in between.
//!
//! Packets move in batches: those that are ready at one wake-up become one DATA frame of capsules,
//! and a frame of capsules becomes as few sends as its lengths allow. A batch is never waited for
//! to fill.
//!
//! One loop fills a batch from any [`Source`] and sends it to any [`Sink`], which borrows the
//! packets where they are. Capsules to capsules is the one special case, because unknown capsules
//! have to go on, too. How packets are written as HTTP datagrams, and how large they may be, is
//! data of the end ([`DatagramFormat`](hermes_proto::datagram::DatagramFormat)).
//!
//! - [`PacketDirection`]: begin reading here; one direction of a tunnel, between a [`Source`] and a [`Sink`].
//! - [`Sessions`]: a [`Session`] for each client of a socket, and each target that it speaks with.
//! - [`PacketEnd`]: a client of a `udp` listener ([`Session`], with its [`Queue`]), a socket towards the target, or a [`Device`] that
//!   another crate brings.
//! - [`BindSockets`]: sockets of CONNECT-UDP Bind, with many peers. [`Limits`]: how large packets may be that go on.
//! - [`DatagramChanges`]: what a route has done to the datagrams of a tunnel of UDP.
//! - [`ConnectionPins`]: which packets stay with an end that a tunnel of IP has left.
//! - [`Token`] and [`Resumable`]: sessions that outlive their path, and are handed from one tunnel
//!   to another.
//! - [`Broken`]: which [`Side`] of an exchange ended it, and how.
//!
//! The crate opens no path and decides on none, and knows neither listeners nor routes. The data
//! plane makes a tunnel of two directions and moves it.
//!
//! Specifications: RFC 9297 (datagrams and capsules), RFC 9298 (CONNECT-UDP), draft-ietf-masque-connect-udp-listen (Bind).

mod broken;
mod captured_flow;
mod changes;
mod connection_pins;
mod device;
mod direction;
mod end;
mod filling;
mod hold;
mod limit;
mod pass;
mod queue;
mod quic;
mod quic_datagrams;
mod received;
mod recovery;
mod room;
mod session;
mod session_token;
mod sessions;
mod shared;
mod sink;
mod source;
mod stop;
mod stream;
mod table;
pub mod tun;
mod udp_bind;

pub use broken::{Broken, Side};
pub use captured_flow::{CAPTURED_FLOOR, CapturedFlow};
pub use changes::{AlterDatagram, DatagramChanges, DatagramFate};
pub use connection_pins::ConnectionPins;
pub use device::{
    CapsulePackets, Device, DeviceCapsules, DeviceReader, DeviceUpkeep, PathCarries, SentPackets,
};
pub use direction::{Left, PacketDirection};
pub use end::{PacketEnd, PacketReader};
pub use hold::Hold;
pub use limit::Limits;
pub use queue::{Bounds, ChargedBounds, Queue};
pub use received::Received;
pub use recovery::Recovery;
pub use session::{Early, Session, SessionFlow};
pub use session_token::{Asked, Token};
pub use sessions::{NoRoom, SessionKey, SessionTarget, Sessions};
pub use sink::{CapsuleSink, Sink};
pub use source::{Capsules, Source};
pub use stop::Stop;
pub use table::{Claim, Destination, Handed, KEPT_FOR, Resumable, SessionEntry, Waiting};
pub use udp_bind::{BindSockets, Egress};
