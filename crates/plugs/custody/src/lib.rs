//! Custody: messages that pass from neighbour to neighbour where the network between them comes and goes.
//!
//! What it is: a protocol over UDP by which a node pulls objects from the next, byte range by byte range, and keeps bytes that
//! have arrived until the node after it has it. A hop goes on where it was, after any outage, without a handshake, and passes
//! bytes on as they come. The wire format is in [`hermes_proto::custody`].
//!
//! What it is not: a transport for everything. It carries requests and their responses; the machines do not know HTTP.
//! It depends on no connection that gives up, and on no route from end to end that is up at any one time.
//!
//! The machines take datagrams and the time, and give datagrams and events: [`engine`] is all neighbours of a node, `neighbour`
//! one of them, [`receiver`] the side that asks, [`sender`] the side that answers, [`window`] how much may be on its way,
//! [`spool`] the bytes of one object, [`disk`] the files that outlive the process, [`noise`] the keys.
//!
//! # Decisions
//!
//! - **Keys** come by a Noise handshake in the datagrams, of one round trip, and not from the exporter of a TLS or QUIC connection between the
//!   neighbours: where custody is needed such a connection is not up for long enough, and one way to have keys is half as much to get wrong.
//! - **Bytes arrive when they are in their file**: a thread appends them, and only then are they acknowledged, read, passed on or acted on. So
//!   the machine never waits for the disk, and loses nothing that it has acknowledged.
//! - **No `fsync`**: a record in its file outlives the process, and processes are what usually dies; a disk that had to confirm each record would set the pace.
//!   Records that a failure of power cuts off are found by the checked sums, and count as never arrived.
//!
//! In a node, `plug` registers it, [`node`] drives the machines over a socket; `handler` is the side of the client, which a route with
//! `retry: { custody: true }` leads to; `ingress` is the side of the target, a `udp` listener with `ingress: custody`.
//!
//! # Not here yet
//!
//! - A node that begins with custody, or takes another key, has to be started again.
//!
//! Begin reading in [`receiver`], which makes it fast.

mod asked;
mod company;
mod cookie;
pub mod disk;
pub mod engine;
mod epoch;
mod handler;
mod ingress;
mod link_watcher;
mod message;
mod neighbour;
pub mod node;
pub mod noise;
mod owner;
mod plug;
mod progress;
mod ranges;
pub mod receiver;
mod resume;
pub mod room;
pub mod sender;
mod settings;
mod signs;
pub mod spool;
mod stamps;
mod watch;
pub mod window;

pub use disk::Disk;
pub use engine::{Engine, Event, ExchangeKey, NeighbourId, Reading};
pub use hermes_noise::{PrivateKey, PublicKey};
pub use node::Custody;
pub use plug::register;
pub use settings::{NamedNeighbour, Settings};
