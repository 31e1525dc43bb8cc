//! The sockets of all listeners. A new configuration is compared with what is bound: what it leaves as it was is not touched.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hermes_config::model::{Attach, Document, HttpVersion, ListenAddress, Listener};
use hermes_net::{Drain, Watch};
use hermes_rules::versions;
use tokio::sync::mpsc::UnboundedSender;

use super::bind::{At, Bound, Serves, Wanted, bind};
use super::{Door, DoorId, Socket};
use crate::snapshot::Snapshot;

/// Attachments that a listener keeps where the configuration says nothing: so that one worker, or one endpoint, may fail.
const ATTACHMENTS: u8 = 2;

/// Times that a free port is looked for which nobody uses for UDP either.
const PORT_TRIES: usize = 16;

/// The sockets that are bound.
#[derive(Default)]
pub struct ListenerTable {
    open: BTreeMap<Part, Open>,
    /// What is no longer wanted, while its sockets are there still.
    closing: Vec<(Wanted, Weak<()>)>,
    /// The next door's number.
    next: u64,
}

/// What a listener has sockets for: one thing, or with HTTP/3 two.
type Part = (Arc<str>, Serves);

/// The sockets of one part.
struct Open {
    door: DoorId,
    wanted: Wanted,
    bound: Bound,
    drain: Drain,
    /// Held by whoever serves the sockets.
    served: Arc<()>,
}

/// A listener as it is seen from outside.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ListenerView {
    /// Its name.
    pub name: String,
    /// `http`, `tcp`, `udp` or `attach`.
    pub kind: &'static str,
    /// Where it is bound; of `attach`, the upstream and the name.
    pub address: String,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The HTTP versions that it speaks.
    pub http: Vec<u8>,
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

/// A part whose sockets were bound for this change.
struct New {
    name: Arc<str>,
    open: (DoorId, Wanted, Bound),
    sockets: Vec<Socket>,
}

/// A part whose sockets stay.
struct Kept {
    name: Arc<str>,
    before: Part,
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
        let listeners = document.listeners.iter();
        let wanted: Vec<(Arc<str>, Wanted)> = listeners
            .flat_map(|(name, listener)| wanted(document, listener).map(|wanted| (name.as_str().into(), wanted)))
            .collect();
        self.closing.retain(|(_, served)| served.strong_count() > 0);
        let mut prepared = Prepared { new: Vec::new(), kept: self.kept(&wanted) };
        let mut errors = Vec::new();
        for parts in wanted.chunk_by(|(one, _), (other, _)| one == other) {
            let is_kept = |part: &Wanted| {
                prepared.kept.iter().any(|kept| kept.name == parts[0].0 && kept.before.1 == part.serves)
            };
            let missing: Vec<&Wanted> = parts.iter().map(|(_, part)| part).filter(|part| !is_kept(part)).collect();
            match self.bind_parts(&missing, self.stream_of(&prepared, &parts[0].0), workers) {
                Ok(bound) => {
                    for (wanted, bound, sockets) in bound {
                        self.next += 1;
                        let open = (DoorId(self.next), wanted, bound);
                        prepared.new.push(New { name: parts[0].0.clone(), open, sockets });
                    }
                }
                Err(error) => errors.push(BindError { name: parts[0].0.to_string(), reason: error.to_string() }),
            }
        }
        if errors.is_empty() { Ok(prepared) } else { Err(errors) }
    }

    /// Where the stream part of a listener stays.
    fn stream_of(&self, prepared: &Prepared, name: &Arc<str>) -> Option<SocketAddr> {
        let kept = prepared.kept.iter().find(|kept| kept.name == *name && kept.before.1 == Serves::Streams)?;
        self.open.get(&kept.before)?.bound.address()
    }

    /// Binds the parts of one listener that are missing. HTTP/3 has the port of the stream part, which is at `beside`, or among
    /// those that are missing.
    fn bind_parts(
        &self,
        missing: &[&Wanted],
        beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<(Wanted, Bound, Vec<Socket>)>> {
        let chosen = missing.len() > 1 && !missing[0].is_definite();
        let mut tries = if chosen { PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.bind_once(missing, beside, workers) {
                // The system chose a port that somebody uses for UDP.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                done => return done,
            }
        }
    }

    fn bind_once(
        &self,
        missing: &[&Wanted],
        mut beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<(Wanted, Bound, Vec<Socket>)>> {
        let mut done = Vec::new();
        for wanted in missing {
            let at = match beside {
                Some(address) if wanted.serves == Serves::Quic => &At::Address(ListenAddress::Ip(address)),
                _ => &wanted.at,
            };
            // A port that moves from one of our sockets to another is shared until the old one lets go.
            let open = self.open.values().map(|open| &open.wanted);
            let bound = open.chain(self.closing.iter().map(|(old, _)| old));
            let ours: Vec<&Wanted> = bound.filter(|old| old.overlaps(wanted)).collect();
            // Not so with QUIC: the kernel would go on choosing among all of them by connection IDs.
            if ours.iter().any(|old| old.serves == Serves::Quic || wanted.serves == Serves::Quic) {
                let reason = "the port still serves UDP or HTTP/3 from before: reload again when that has ended";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, reason));
            }
            let (bound, sockets) = bind(wanted.serves, at, workers, !ours.is_empty())?;
            beside = beside.or(bound.address());
            done.push(((*wanted).clone(), bound, sockets));
        }
        Ok(done)
    }

    /// Whose sockets stay: first by name and address, then by address alone.
    fn kept(&self, wanted: &[(Arc<str>, Wanted)]) -> Vec<Kept> {
        let open_of = |(name, wanted): &(Arc<str>, Wanted)| {
            let part = (name.clone(), wanted.serves);
            self.open.get_key_value(&part).filter(|(_, open)| open.wanted == *wanted)
        };
        let kept = |before: &Part, name: &Arc<str>, open: &Open| Kept {
            name: name.clone(),
            before: before.clone(),
            door: open.door,
        };
        let (as_they_were, others): (Vec<_>, Vec<_>) = wanted.iter().partition(|part| open_of(part).is_some());
        let mut all: Vec<Kept> = as_they_were
            .iter()
            .filter_map(|part| open_of(part).map(|(before, open)| kept(before, &part.0, open)))
            .collect();
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
        all.filter_map(Bound::address).collect()
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
            add(&mut changes.kept, &name, open.wanted.serves);
            if old.0 != name {
                add(&mut changes.renamed, &format!("{} -> {name}", old.0), open.wanted.serves);
            }
            self.open.insert((name, old.1), open);
        }
        for ((name, serves), open) in before {
            open.drain.start();
            open.bound.unlink();
            self.closing.push((open.wanted, Arc::downgrade(&open.served)));
            add(&mut changes.closed, &name, serves);
        }
        for New { name, open: (door, wanted, bound), sockets } in prepared.new {
            let Some(rules) = snapshot.listeners.get(&name) else { continue };
            let (drain, served) = (watch.child(), Arc::new(()));
            for (share, (socket, worker)) in (0..).zip(sockets.into_iter().zip(doors)) {
                // A worker that is gone means that the process is stopping.
                let _ = worker.send(Door {
                    id: door,
                    socket,
                    share,
                    watch: drain.watch(),
                    rules: rules.clone(),
                    served: served.clone(),
                });
            }
            add(&mut changes.opened, &name, wanted.serves);
            self.open.insert((name, wanted.serves), Open { door, wanted, bound, drain, served });
        }
        changes
    }

    /// What is bound for `document`, in its order.
    pub fn views(&self, document: &Document) -> Vec<ListenerView> {
        let view = |(name, listener): (&String, &Listener)| {
            let all = [Serves::Streams, Serves::Datagrams, Serves::Quic, Serves::Attachments];
            let open = all.into_iter().find_map(|serves| self.open.get(&(name.as_str().into(), serves)))?;
            let kind = match (&listener.http, open.wanted.serves) {
                (Some(_), _) => "http",
                (None, Serves::Attachments) => "attach",
                (None, Serves::Streams) => "tcp",
                (None, Serves::Datagrams | Serves::Quic) => "udp",
            };
            Some(ListenerView {
                name: name.clone(),
                kind,
                address: open.bound.to_string(),
                tls: listener.tls.is_some(),
                http: versions(document, listener).into_iter().map(HttpVersion::number).collect(),
            })
        };
        document.listeners.iter().filter_map(view).collect()
    }
}

/// Notes a change of one part. What happens to HTTP/3 together with the rest of its listener need not be said twice.
fn add(changes: &mut Vec<String>, what: &str, serves: Serves) {
    if serves != Serves::Quic {
        changes.push(what.to_owned());
    } else if !changes.iter().any(|known| known == what) {
        changes.push(format!("{what} (HTTP/3)"));
    }
}

/// The name under which a listener attaches.
pub(super) fn attached_as<'a>(document: &'a Document, attach: &'a Attach) -> Option<&'a str> {
    attach.name().or(document.identity.as_ref().map(|identity| identity.user.as_str()))
}

/// What a listener asks for: the stream part first.
fn wanted(document: &Document, listener: &Listener) -> impl Iterator<Item = Wanted> + use<> {
    let http = versions(document, listener);
    let streams = listener.http.clone().filter(|_| http != [HttpVersion::H3]);
    let quic = listener.http.clone().filter(|_| http.contains(&HttpVersion::H3));
    let streams = streams.or_else(|| listener.tcp.clone());
    let attach = listener.attach.as_ref().map(|attach| At::Upstream {
        upstream: attach.upstream().to_owned(),
        name: attached_as(document, attach).unwrap_or_default().to_owned(),
        connections: attach.connections().unwrap_or(ATTACHMENTS),
    });
    let address = |address: Option<ListenAddress>| address.map(At::Address);
    let parts = [
        (Serves::Streams, address(streams)),
        (Serves::Datagrams, address(listener.udp.clone())),
        (Serves::Quic, address(quic)),
        (Serves::Attachments, attach),
    ];
    parts.into_iter().filter_map(|(serves, at)| Some(Wanted { serves, at: at? }))
}
