//! Operating system, sockets, UDP batches, TLS, DNS, workers and drain.
//!
//! This is everything below HTTP that touches the machine. A [`stream::Stream`] is one connection
//! over any transport; a [`udp::UdpSocket`] moves datagrams in batches; [`connect`] races
//! addresses; [`listen`] opens sockets that several workers can share, [`activation`] takes those
//! that a service manager opened, [`descriptor_table`] names those that another process may have,
//! [`handover`] gives them to it, [`shared_socket`] shares them with it; [`tls`] wraps streams;
//! [`quic`] opens and accepts connections over UDP; [`dns`] resolves names; [`tun`] has packets of
//! IP; [`capture`] leads the traffic of a program into one; [`network`] makes networks to try things in; [`machine`] finds out what the system allows;
//! [`worker`] starts threads; [`drain`] ends their tasks.
//!
//! The crate knows no HTTP, no routes and no configuration file. Calls of one operating system are
//! in `os`.
//!
//! Specifications: RFC 8305 (racing of addresses), RFC 8446 and RFC 5280 (TLS and certificates),
//! RFC 9000 and RFC 9221 (QUIC), RFC 6761 (`localhost`), RFC 9298 section 3.1 and 5 (the duties of
//! a UDP socket towards a target).
//!
//! Begin reading in [`drain`] and [`stream`]; [`udp`] and [`quic`] are the other half.

pub mod activation;
mod appended;
pub mod background;
mod bounded_file;
pub mod capture;
pub mod clock;
pub mod connect;
pub mod descriptor_table;
pub mod descriptors;
pub mod dns;
pub mod drain;
mod echo;
mod error_sockets;
mod expected_port;
pub mod handover;
pub mod host_capture;
pub mod listen;
mod local;
mod local_end;
pub mod machine;
pub mod machine_tag;
pub mod memory;
pub mod network;
pub mod os;
pub mod own_mark;
pub mod peer;
pub mod quic;
mod replaced_file;
pub mod shared_socket;
pub mod shares;
mod shown_chain;
pub mod splice;
pub mod split;
pub mod stream;
mod timed;
pub mod tls;
pub mod tun;
pub mod turns;
pub mod udp;
pub mod udp_batch;
mod udp_system;
pub mod wake_gated;
mod within;
pub mod worker;

pub use activation::{PassedKind, PassedSocket};
pub use appended::AppendedFile;
pub use bounded_file::read_at_most;
pub use connect::{ConnectError, ConnectErrorKind};
pub use descriptor_table::{DescriptorEntry, DescriptorTable};
pub use dns::{DnsError, DnsErrorKind, Lookup, Resolver};
pub use drain::{Drain, Watch};
pub use echo::{EchoAnswer, EchoReply, EchoSocket};
pub use error_sockets::ErrorSockets;
pub use expected_port::ExpectedPort;
pub use listen::{Acceptor, Listener};
pub use local::LocalAddresses;
pub use local_end::LocalEnd;
pub use os::LinkChanges;
pub use peer::{CertificateNames, IngressOrigin, PeerAddress, StreamInfo, TlsPeer};
pub use replaced_file::replace_file;
pub use splice::{SpliceError, Spliced, splice};
pub use split::{ReadHalf, WriteHalf, leave_tls_to_kernel};
pub use stream::{Stream, Transport};
pub use timed::{TimedDatagram, TimedSocket};
pub use turns::Asker;
pub use udp::{UdpError, UdpSocket};
pub use udp_batch::{RecvBatch, Run};
pub use within::within;
