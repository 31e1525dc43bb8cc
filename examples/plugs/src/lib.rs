//! How to extend a node: small plugs, each of which a test runs in a node of this process.
//!
//! - [`broker`]: a [`Handler`](hermes_plug::Handler) that opens one exchange of its own and answers many clients with it.
//! - [`detour`]: a handler that takes tunnels, and opens others for them.
//! - [`echo`]: a [`Connector`](hermes_plug::Connector) to a service that is no socket.
//! - [`fate`]: an [`Ingress`](hermes_plug::Ingress) whose clients are answered when their target is, or reset when it fails.
//! - [`socks`]: an ingress of another protocol, which knows its users, hands in datagrams, and tells why something was refused.
//! - [`zones`]: a [`Filter`](hermes_plug::Filter) that sets a field on which routes look, and denies.
//! - [`greeter`]: a handler that is a [`Plug`](hermes_plug::Plug), too: it has settings for the node, and work beside the exchanges.
//! - [`only`]: a transform that has settings where a route names it, and refuses tunnels by their target.
//! - [`capitals`]: a [`Transform`](hermes_plug::Transform) that needs no peer.
//! - [`stamps`]: a transform of datagrams, which drops some and ends tunnels over others.
//! - [`files`]: a [`Store`](hermes_plug::Store) of files.
//! - [`mailbox`]: a handler whose clients find what others left in a store.
//! - [`memo`]: a handler that stands between requests and their next hop.
//! - [`queues`]: a [`Device`](hermes_packet::Device), an end of packets that is two queues, as a TUN device would be one.
//!
//! A program that has them starts its node with `Plugs::new().handler("relay", Broker::new(..))` and lets a route say
//! `handle: relay`; `tests/spikes/node.rs` shows all of it.
//!
//! Begin reading in `hermes_plug`, which says what each trait has to do.

pub mod broker;
pub mod capitals;
pub mod detour;
pub mod echo;
pub mod fate;
pub mod files;
pub mod greeter;
pub mod mailbox;
pub mod memo;
pub mod only;
pub mod queues;
pub mod socks;
pub mod stamps;
pub mod zones;
