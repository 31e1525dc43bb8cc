//! The sockets of all listeners. A new configuration is compared with what is bound: what it leaves as it was is not touched.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hermes_config::model::{Document, ListenAddress, Listener};
use hermes_net::listen::{self, Carries};
use hermes_net::{Drain, Watch};
use tokio::sync::mpsc::UnboundedSender;

use super::{Door, Socket};

/// Mode of a Unix socket that clients connect to: its owner's only.
const UNIX_MODE: u32 = 0o600;

/// The sockets that are bound.
#[derive(Default)]
pub struct ListenerTable {
    open: BTreeMap<Arc<str>, Open>,
}

/// One listener's sockets.
struct Open {
    wanted: Wanted,
    bound: Bound,
    drain: Drain,
}

/// What is to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    kind: Kind,
    address: ListenAddress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http,
    Tcp,
    Udp,
}

/// Where a listener is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bound {
    Ip(SocketAddr),
    Unix(std::path::PathBuf),
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A listener as it is seen from outside.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ListenerView {
    /// Its name.
    pub name: String,
    /// `http`, `tcp` or `udp`.
    pub kind: &'static str,
    /// Where it is bound.
    pub address: String,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// A listener that cannot be bound.
#[derive(Debug)]
pub struct BindError {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What a change of configuration did to the listeners.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub struct Changes {
    /// Listeners that were opened.
    pub opened: Vec<String>,
    /// Listeners that accept nothing more; what they accepted goes on.
    pub closed: Vec<String>,
    /// Listeners whose sockets were not touched.
    pub kept: Vec<String>,
}

/// Sockets that are bound and not yet served.
pub struct Prepared {
    new: Vec<(Arc<str>, Wanted, Bound, Vec<Socket>)>,
    kept: Vec<Arc<str>>,
}

impl ListenerTable {
    /// Binds what a document asks for and is not bound yet. Nothing is served or closed.
    ///
    /// # Errors
    /// Everything that cannot be bound; what could be is closed again.
    pub fn prepare(&self, document: &Document, workers: usize) -> Result<Prepared, Vec<BindError>> {
        let mut prepared = Prepared { new: Vec::new(), kept: Vec::new() };
        let mut errors = Vec::new();
        for (name, listener) in &document.listeners {
            let Some(wanted) = wanted(listener) else { continue };
            let key: Arc<str> = name.as_str().into();
            if self.open.get(&key).is_some_and(|open| open.wanted == wanted) {
                prepared.kept.push(key);
                continue;
            }
            // A port that moves from one of our listeners to another is shared until the old one lets go.
            let ours = self.open.values().any(|open| open.wanted.address == wanted.address);
            match bind(&wanted, workers, ours) {
                Ok((bound, sockets)) => prepared.new.push((key, wanted, bound, sockets)),
                Err(error) => errors.push(BindError { name: name.clone(), reason: error.to_string() }),
            }
        }
        if errors.is_empty() { Ok(prepared) } else { Err(errors) }
    }

    /// The IP addresses that are bound, those of `prepared` included.
    pub fn addresses(&self, prepared: &Prepared) -> Vec<SocketAddr> {
        let kept = prepared.kept.iter().filter_map(|name| self.open.get(name)).map(|open| &open.bound);
        let all = kept.chain(prepared.new.iter().map(|(_, _, bound, _)| bound));
        all.filter_map(|bound| if let Bound::Ip(address) = bound { Some(*address) } else { None }).collect()
    }

    /// Hands new sockets to the workers and lets those go that are no longer wanted.
    pub fn apply(&mut self, prepared: Prepared, doors: &[UnboundedSender<Door>], watch: &Watch) -> Changes {
        let mut changes = Changes::default();
        let stays = |name: &Arc<str>| prepared.kept.contains(name);
        let gone: Vec<Arc<str>> = self.open.keys().filter(|name| !stays(name)).cloned().collect();
        for name in gone {
            if let Some(open) = self.open.remove(&name) {
                open.drain.start();
                changes.closed.push(name.to_string());
            }
        }
        changes.kept = prepared.kept.iter().map(ToString::to_string).collect();
        for (name, wanted, bound, sockets) in prepared.new {
            let drain = watch.child();
            for (socket, worker) in sockets.into_iter().zip(doors) {
                // A worker that is gone means that the process is stopping.
                let _ = worker.send(Door { name: name.clone(), socket, watch: drain.watch() });
            }
            changes.opened.push(name.to_string());
            self.open.insert(name, Open { wanted, bound, drain });
        }
        changes
    }

    /// What is bound for `document`, in its order.
    pub fn views(&self, document: &Document) -> Vec<ListenerView> {
        let view = |(name, listener): (&String, &Listener)| {
            let open = self.open.get(name.as_str())?;
            let kind = match open.wanted.kind {
                Kind::Http => "http",
                Kind::Tcp => "tcp",
                Kind::Udp => "udp",
            };
            Some(ListenerView {
                name: name.clone(),
                kind,
                address: open.bound.to_string(),
                tls: listener.tls.is_some(),
            })
        };
        document.listeners.iter().filter_map(view).collect()
    }
}

fn wanted(listener: &Listener) -> Option<Wanted> {
    let kinds = [(Kind::Http, &listener.http), (Kind::Tcp, &listener.tcp), (Kind::Udp, &listener.udp)];
    let mut given = kinds.into_iter().filter_map(|(kind, address)| Some(Wanted { kind, address: address.clone()? }));
    given.next()
}

/// One socket a worker: TCP and UDP share a port by `SO_REUSEPORT`, a Unix socket is one for all.
fn bind(wanted: &Wanted, workers: usize, ours: bool) -> std::io::Result<(Bound, Vec<Socket>)> {
    match (&wanted.address, wanted.kind) {
        (ListenAddress::Unix(path), kind) => {
            let first = hermes_net::Listener::from(listen::unix(path, UNIX_MODE)?);
            let shares = (0..workers).map(|_| first.try_clone().map(|listener| stream_socket(kind, listener)));
            Ok((Bound::Unix(path.clone()), shares.collect::<Result<_, _>>()?))
        }
        (ListenAddress::Ip(address), kind) => {
            if !ours {
                listen::check_free(*address, if kind == Kind::Udp { Carries::Udp } else { Carries::Tcp })?;
            }
            let first = bind_ip(*address, kind)?;
            // Port 0 is chosen once, for all workers.
            let bound = first.address().unwrap_or(*address);
            let rest = (1..workers).map(|_| bind_ip(bound, kind));
            let all: Result<Vec<Socket>, _> = std::iter::once(Ok(first)).chain(rest).collect();
            Ok((Bound::Ip(bound), all?))
        }
    }
}

fn bind_ip(address: SocketAddr, kind: Kind) -> std::io::Result<Socket> {
    match kind {
        Kind::Udp => listen::udp(address).map(Socket::Udp),
        kind => listen::tcp(address).map(|listener| stream_socket(kind, listener.into())),
    }
}

fn stream_socket(kind: Kind, listener: hermes_net::Listener) -> Socket {
    match kind {
        Kind::Http => Socket::Http(listener),
        Kind::Tcp | Kind::Udp => Socket::Tcp(listener),
    }
}
