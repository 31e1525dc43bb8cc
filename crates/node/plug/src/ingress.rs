//! An ingress: makes exchanges of connections that do not speak HTTP.

use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_net::shared_socket::DatagramSocket;
use hermes_net::{Stream, StreamInfo, Watch};

use crate::arrival::Arrival;
use crate::settings::Settings;

/// Turns the connections of a `tcp` listener with `ingress: NAME` into exchanges, or the datagrams of a `udp` listener. A `tcp` listener has
/// one built in: without the key, each connection becomes a CONNECT for its `target`.
///
/// - **Gets** each connection after it was accepted, and introduced by a PROXY header where the listener asks for one; and a [`Gate`].
/// - **Must** find out the client's wish, and [hand in](Gate::hand_in) an exchange that says
///   so, such as a CONNECT. To make the client wait for the target, it hands in a
///   [held](hermes_http::Offered::held) exchange: the client is answered only after the target has answered, and
///   [`HeldClient`](hermes_http::HeldClient) learns how that ended, and why it was refused. From then on the node's loops
///   carry the bytes: a connection that is handed over as it is can be spliced. Datagrams are handed in as
///   [packets](crate::arrival::PacketArrival), one tunnel for each client and destination.
/// - **Time**: it must bound how long a client may take to state its wish. The connection ends when its future does, or is dropped,
///   which happens when the node ends.
/// - **Errors**: a failed exchange is refused to its holder, recorded, and over when `hand_in`
///   returns. Anything that is not an exchange yet leaves no record.
/// - **Charged**: the connection counts against the listener's `limits`; the exchange against those of its user. Sessions of UDP that it
///   keeps it must bound itself.
/// - **User**: one who shows a password that the listener's `auth` asks for, it hands in [through a gate of
///   it](Gate::of_password); one whom it has found out by itself, by a password of its own or the owner of a socket, it hands in [through a gate of this
///   user](Gate::of_user). Otherwise the listener's `user` says whose the traffic is.
/// - **Runs** on the worker that accepted the connection, many at once on one thread: it must not block. It is shared by all workers.
pub trait Ingress: Send + Sync {
    /// Serves one connection, to its end.
    fn connection(&self, stream: Stream, gate: Gate) -> Serving<'_>;

    /// The settings that it takes, as `ingress: { NAME: {..} }`. Default: none.
    fn settings(&self) -> Option<Settings<dyn Ingress>> {
        None
    }

    /// Whether it serves `udp` listeners, too.
    fn takes_datagrams(&self) -> bool {
        false
    }

    /// Serves the socket of a `udp` listener, alone, until the listener is to end and nothing goes on there; at the latest it is
    /// dropped. Where the socket was passed to the process, others may have it too: it says where they are met.
    fn datagrams(&self, socket: DatagramSocket, gate: Gate, watch: Watch) -> Serving<'_> {
        drop((socket, gate, watch));
        Box::pin(std::future::ready(()))
    }
}

/// A connection that is served, or an exchange that is carried.
pub type Serving<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A user and a password that a client shows, in the bytes that it sent.
#[derive(Clone, Copy)]
pub struct ShownPassword<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
    /// Its connection.
    pub source: &'a StreamInfo,
}

/// A password that is being checked.
pub type CheckingPassword<'a> = Pin<Box<dyn Future<Output = Option<Arc<dyn Takes>>> + Send + 'a>>;

/// Where an ingress hands in exchanges.
#[derive(Clone)]
pub struct Gate(Arc<dyn Takes>);

/// Takes exchanges in.
pub trait Takes: Send + Sync {
    /// The target that the listener gives its exchanges.
    fn target(&self) -> Option<&HostPort>;

    /// Carries one to its end.
    fn take(&self, arrival: Arrival) -> Serving<'_>;

    /// The same for exchanges of this user.
    fn of_user(&self, user: &str) -> Arc<dyn Takes>;

    /// Whether the listener requires a password; `None` where it asks for none.
    fn requires_password(&self) -> Option<bool>;

    /// The same for exchanges of one who shows a user and a password; `None` if they are refused.
    fn of_password<'a>(&'a self, shown: ShownPassword<'a>) -> CheckingPassword<'a>;
}

impl Gate {
    /// Hands exchanges to this taker.
    pub fn new(takes: Arc<dyn Takes>) -> Self {
        Self(takes)
    }

    /// The listener's `target`, where it has one.
    pub fn target(&self) -> Option<&HostPort> {
        self.0.target()
    }

    /// The gate for a client of whom the ingress has found out that it is this user. The proof is the ingress's word: it counts where the
    /// listener asks for no other credentials, now and whenever the configuration changes.
    #[must_use]
    pub fn of_user(&self, user: &str) -> Self {
        Self(self.0.of_user(user))
    }

    /// Whether the listener's `auth` requires a password of its clients; `Some(false)` where they may show one, `None` where it asks for
    /// none.
    pub fn requires_password(&self) -> Option<bool> {
        self.0.requires_password()
    }

    /// The gate for a client that shows a user and a password, where the listener asks for them. They are checked as those of Basic are, in
    /// turns of its source and user and with pauses after wrong ones, which may take seconds; and they are asked for again whenever the
    /// configuration changes. `None` if they are wrong, or too many others are being checked.
    pub async fn of_password(&self, shown: ShownPassword<'_>) -> Option<Self> {
        self.0.of_password(shown).await.map(Self)
    }

    /// Takes an exchange through the pipeline, to its end. Whatever happens, it is answered once and recorded once.
    pub fn hand_in(&self, arrival: impl Into<Arrival>) -> Serving<'_> {
        self.0.take(arrival.into())
    }
}
