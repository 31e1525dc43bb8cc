//! The sockets of all listeners. A new configuration is compared with what is bound: what it leaves as it was is not touched.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hermes_config::model::{Document, ListenAddress, Listener};
use hermes_net::listen::{self, Carries};
use hermes_net::{Drain, Watch};
use tokio::sync::mpsc::UnboundedSender;

use super::{Door, DoorId, Socket};
use crate::snapshot::Snapshot;

/// Mode of a Unix socket that clients connect to: its owner's only.
const UNIX_MODE: u32 = 0o600;

/// The sockets that are bound.
#[derive(Default)]
pub struct ListenerTable {
    open: BTreeMap<Arc<str>, Open>,
    /// What is no longer wanted, while its sockets are there still.
    closing: Vec<(Wanted, Weak<()>)>,
    /// The next door's number.
    next: u64,
}

/// One listener's sockets.
struct Open {
    door: DoorId,
    wanted: Wanted,
    bound: Bound,
    drain: Drain,
    /// Held by whoever serves the sockets.
    served: Arc<()>,
}

/// What is to be bound. Whether a stream socket serves `http` or `tcp` is not the socket's business: that may change under it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    carries: Carries,
    address: ListenAddress,
}

impl Wanted {
    /// Whether the address says which socket it is: port 0 is another one each time.
    fn is_definite(&self) -> bool {
        !matches!(&self.address, ListenAddress::Ip(address) if address.port() == 0)
    }

    /// Whether both want the same port, on the same address or on one that holds the other.
    fn overlaps(&self, other: &Self) -> bool {
        self.carries == other.carries && self.address.overlaps(&other.address)
    }
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
    /// Listeners that have another name now and the same sockets, as `old -> new`. They are among `kept` too.
    pub renamed: Vec<String>,
}

/// Sockets that are bound and not yet served.
pub struct Prepared {
    new: Vec<New>,
    kept: Vec<Kept>,
}

/// A listener whose sockets were bound for this change.
struct New {
    name: Arc<str>,
    open: (DoorId, Wanted, Bound),
    sockets: Vec<Socket>,
}

/// A listener whose sockets stay.
struct Kept {
    name: Arc<str>,
    before: Arc<str>,
    door: DoorId,
}

impl Prepared {
    /// Which listener is behind which door.
    pub fn doors(&self) -> HashMap<DoorId, Arc<str>> {
        let kept = self.kept.iter().map(|kept| (kept.door, kept.name.clone()));
        kept.chain(self.new.iter().map(|new| (new.open.0, new.name.clone()))).collect()
    }
}

impl ListenerTable {
    /// Binds what a document asks for and is not bound yet. Nothing is served or closed.
    ///
    /// What a socket is called and what it serves may change under it: it stays as long as somebody wants its address.
    ///
    /// # Errors
    /// Everything that cannot be bound; what could be is closed again.
    pub fn prepare(&mut self, document: &Document, workers: usize) -> Result<Prepared, Vec<BindError>> {
        let wanted: Vec<(Arc<str>, Wanted)> = document
            .listeners
            .iter()
            .filter_map(|(name, listener)| Some((name.as_str().into(), wanted(listener)?)))
            .collect();
        self.closing.retain(|(_, served)| served.strong_count() > 0);
        let mut prepared = Prepared { new: Vec::new(), kept: self.kept(&wanted) };
        let mut errors = Vec::new();
        for (name, wanted) in wanted {
            if prepared.kept.iter().any(|kept| kept.name == name) {
                continue;
            }
            // A port that moves from one of our sockets to another is shared until the old one lets go.
            let mut bound = self.open.values().map(|open| &open.wanted).chain(self.closing.iter().map(|(old, _)| old));
            let ours = bound.any(|old| old.overlaps(&wanted));
            match bind(&wanted, workers, ours) {
                Ok((bound, sockets)) => {
                    self.next += 1;
                    prepared.new.push(New { name, open: (DoorId(self.next), wanted, bound), sockets });
                }
                Err(error) => errors.push(BindError { name: name.to_string(), reason: error.to_string() }),
            }
        }
        if errors.is_empty() { Ok(prepared) } else { Err(errors) }
    }

    /// Whose sockets stay: first by name and address, then by address alone.
    fn kept(&self, wanted: &[(Arc<str>, Wanted)]) -> Vec<Kept> {
        let same =
            |(name, wanted): &&(Arc<str>, Wanted)| self.open.get(name).is_some_and(|open| open.wanted == *wanted);
        let kept = |before: &Arc<str>, name: &Arc<str>, open: &Open| Kept {
            name: name.clone(),
            before: before.clone(),
            door: open.door,
        };
        let (as_they_were, others): (Vec<_>, Vec<_>) = wanted.iter().partition(same);
        let mut all: Vec<Kept> =
            as_they_were.iter().filter_map(|(name, _)| Some(kept(name, name, self.open.get(name)?))).collect();
        for (name, wanted) in others.iter().filter(|(_, wanted)| wanted.is_definite()) {
            let unclaimed = |door: DoorId, all: &[Kept]| all.iter().all(|kept| kept.door != door);
            let found = self.open.iter().find(|(_, open)| open.wanted == *wanted && unclaimed(open.door, &all));
            all.extend(found.map(|(before, open)| kept(before, name, open)));
        }
        all
    }

    /// The IP addresses that are bound, those of `prepared` included.
    pub fn addresses(&self, prepared: &Prepared) -> Vec<SocketAddr> {
        let kept = prepared.kept.iter().filter_map(|kept| self.open.get(&kept.before)).map(|open| &open.bound);
        let all = kept.chain(prepared.new.iter().map(|new| &new.open.2));
        all.filter_map(|bound| if let Bound::Ip(address) = bound { Some(*address) } else { None }).collect()
    }

    /// Hands new sockets to the workers and lets those go that are no longer wanted.
    pub fn apply(
        &mut self,
        prepared: Prepared,
        snapshot: &Snapshot,
        doors: &[UnboundedSender<Door>],
        watch: &Watch,
    ) -> Changes {
        let mut changes = Changes::default();
        let mut before = std::mem::take(&mut self.open);
        for Kept { name, before: old, .. } in prepared.kept {
            let Some(open) = before.remove(&old) else { continue };
            changes.kept.push(name.to_string());
            if old != name {
                changes.renamed.push(format!("{old} -> {name}"));
            }
            self.open.insert(name, open);
        }
        for (name, open) in before {
            open.drain.start();
            open.bound.unlink();
            self.closing.push((open.wanted, Arc::downgrade(&open.served)));
            changes.closed.push(name.to_string());
        }
        for New { name, open: (door, wanted, bound), sockets } in prepared.new {
            let Some(rules) = snapshot.listeners.get(&name) else { continue };
            let (drain, served) = (watch.child(), Arc::new(()));
            for (socket, worker) in sockets.into_iter().zip(doors) {
                // A worker that is gone means that the process is stopping.
                let _ = worker.send(Door {
                    id: door,
                    socket,
                    watch: drain.watch(),
                    rules: rules.clone(),
                    served: served.clone(),
                });
            }
            changes.opened.push(name.to_string());
            self.open.insert(name, Open { door, wanted, bound, drain, served });
        }
        changes
    }

    /// What is bound for `document`, in its order.
    pub fn views(&self, document: &Document) -> Vec<ListenerView> {
        let view = |(name, listener): (&String, &Listener)| {
            let open = self.open.get(name.as_str())?;
            let kind = match (&listener.http, open.wanted.carries) {
                (Some(_), _) => "http",
                (None, Carries::Tcp) => "tcp",
                (None, Carries::Udp) => "udp",
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
    let kinds = [(Carries::Tcp, &listener.http), (Carries::Tcp, &listener.tcp), (Carries::Udp, &listener.udp)];
    let mut given =
        kinds.into_iter().filter_map(|(carries, address)| Some(Wanted { carries, address: address.clone()? }));
    given.next()
}

/// One socket a worker: TCP and UDP share a port by `SO_REUSEPORT`, a Unix socket is one for all.
fn bind(wanted: &Wanted, workers: usize, ours: bool) -> std::io::Result<(Bound, Vec<Socket>)> {
    match &wanted.address {
        ListenAddress::Unix(path) => {
            let first = hermes_net::Listener::from(listen::unix(path, UNIX_MODE)?);
            let shares = (0..workers).map(|_| first.try_clone().map(Socket::Stream));
            Ok((Bound::Unix(path.clone()), shares.collect::<Result<_, _>>()?))
        }
        ListenAddress::Ip(address) => {
            if !ours {
                listen::check_free(*address, wanted.carries)?;
            }
            let first = bind_ip(*address, wanted.carries)?;
            // Port 0 is chosen once, for all workers.
            let bound = first.address().unwrap_or(*address);
            let rest = (1..workers).map(|_| bind_ip(bound, wanted.carries));
            let all: Result<Vec<Socket>, _> = std::iter::once(Ok(first)).chain(rest).collect();
            Ok((Bound::Ip(bound), all?))
        }
    }
}

fn bind_ip(address: SocketAddr, carries: Carries) -> std::io::Result<Socket> {
    match carries {
        Carries::Udp => listen::udp(address).map(Socket::Udp),
        Carries::Tcp => listen::tcp(address).map(|listener| Socket::Stream(listener.into())),
    }
}

impl Bound {
    /// Takes a Unix socket's file away: nobody answers there any more.
    fn unlink(&self) {
        if let Self::Unix(path) = self
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::debug!(path = %path.display(), %error, "the file of a closed socket stays");
        }
    }
}
