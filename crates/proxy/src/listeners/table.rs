//! The sockets of all listeners. A new configuration is compared with what is bound: what it leaves as it was is not touched.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use hermes_config::model::{Document, HttpVersion, ListenAddress, Listener};
use hermes_net::{Drain, Watch};
use hermes_rules::versions;
use tokio::sync::mpsc::UnboundedSender;

use super::bind::{At, Bound, Serves, Wanted, bind};
use super::passed::{Passed, PassedSockets, Seeker};
use super::wanted::wanted;
use super::{Door, Socket};
use crate::door::DoorId;
use crate::snapshot::Snapshot;

/// Attempts to find a port that is free for both TCP and UDP.
#[doc(alias = "bound")]
const PORT_TRIES: usize = 16;

/// The sockets that are bound.
#[derive(Default)]
pub struct ListenerTable {
    /// Those that the service manager opened; listeners come and go over them.
    passed: PassedSockets,
    open: BTreeMap<Part, OpenPart>,
    /// What is no longer wanted, while its sockets are there still.
    closing: Vec<Closing>,
    /// The next door's number.
    next: u64,
}

/// What a listener has sockets for: one thing, or with HTTP/3 two.
type Part = (Arc<str>, Serves);

/// The sockets of one part.
struct OpenPart {
    door: DoorId,
    wanted: Wanted,
    bound: Bound,
    /// The sockets were not bound here, but passed.
    passed: Vec<Passed>,
    drain: Drain,
    /// Held by the servers of the sockets.
    served: Arc<()>,
}

/// Sockets that are about to close.
struct Closing {
    wanted: Wanted,
    passed: Vec<Passed>,
    served: Weak<()>,
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
pub struct ListenerChanges {
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
    kept: Vec<KeptPart>,
}

/// A part whose sockets were bound for this change.
struct New {
    name: Arc<str>,
    door: DoorId,
    opened: BoundSockets,
}

/// The sockets of one part, which are bound.
struct BoundSockets {
    wanted: Wanted,
    bound: Bound,
    passed: Vec<Passed>,
    sockets: Vec<Socket>,
}

/// A part of a listener that has no sockets yet.
struct Missing<'a> {
    name: &'a Arc<str>,
    listener: &'a Listener,
    wanted: &'a Wanted,
    /// The passed sockets that it is to have; else it binds its own.
    passed: Vec<Passed>,
}

/// A part whose sockets stay.
struct KeptPart {
    name: Arc<str>,
    before: Part,
    door: DoorId,
}

impl Prepared {
    /// Which listener is behind which door.
    pub fn doors(&self) -> HashMap<DoorId, Arc<str>> {
        let kept = self.kept.iter().map(|kept| (kept.door, kept.name.clone()));
        kept.chain(self.new.iter().map(|new| (new.door, new.name.clone())))
            .collect()
    }
}

impl ListenerTable {
    /// Nothing is bound yet, but what was passed.
    pub fn new(passed: PassedSockets) -> Self {
        Self {
            passed,
            ..Self::default()
        }
    }

    /// Binds what a document asks for and is not bound yet. Nothing is served or closed.
    ///
    /// What a socket is called and what it serves may change under it: it stays as long as someone wants its address.
    ///
    /// # Errors
    /// Everything that cannot be bound; what could be is closed again.
    pub fn prepare(
        &mut self,
        document: &Document,
        workers: usize,
    ) -> Result<Prepared, Vec<BindError>> {
        let listeners = document.listeners.iter();
        let wanted: Vec<(Arc<str>, Wanted)> = listeners
            .flat_map(|(name, listener)| {
                wanted(document, listener).map(|wanted| (name.as_str().into(), wanted))
            })
            .collect();
        self.closing
            .retain(|closing| closing.served.strong_count() > 0);
        let mut prepared = Prepared {
            new: Vec::new(),
            kept: self.kept(&wanted),
        };
        let missing = self.missing(document, &prepared.kept, &wanted);
        let mut errors = Vec::new();
        for parts in missing.chunk_by(|one, other| one.name == other.name) {
            let name = parts[0].name;
            match self.bind_parts(parts, self.stream_of(&prepared, name), workers) {
                Ok(bound) => {
                    for opened in bound {
                        self.next += 1;
                        prepared.new.push(New {
                            name: name.clone(),
                            door: DoorId(self.next),
                            opened,
                        });
                    }
                }
                Err(error) => errors.push(BindError {
                    name: name.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
        if errors.is_empty() {
            Ok(prepared)
        } else {
            Err(errors)
        }
    }

    /// What applying a document would do to the listeners, if all that it asks for can be bound.
    pub fn preview(&self, document: &Document) -> ListenerChanges {
        let listeners = document.listeners.iter();
        let wanted: Vec<(Arc<str>, Wanted)> = listeners
            .flat_map(|(name, listener)| {
                wanted(document, listener).map(|wanted| (name.as_str().into(), wanted))
            })
            .collect();
        let kept = self.kept(&wanted);
        let mut changes = ListenerChanges::default();
        for KeptPart { name, before, .. } in &kept {
            add(&mut changes.kept, name, before.1);
            if before.0 != *name {
                let renamed = format!("{} -> {name}", before.0);
                add(&mut changes.renamed, &renamed, before.1);
            }
        }
        let stays = |part: &Part| kept.iter().any(|kept| kept.before == *part);
        for part in self.open.keys().filter(|part| !stays(part)) {
            add(&mut changes.closed, &part.0, part.1);
        }
        let is_kept = |name: &Arc<str>, serves: Serves| {
            kept.iter()
                .any(|kept| kept.name == *name && kept.before.1 == serves)
        };
        for (name, part) in wanted
            .iter()
            .filter(|(name, part)| !is_kept(name, part.serves))
        {
            add(&mut changes.opened, name, part.serves);
        }
        changes
    }

    /// What has no sockets yet, and the passed ones that it is to have: those that no listener keeps.
    fn missing<'a>(
        &self,
        document: &'a Document,
        kept: &[KeptPart],
        wanted: &'a [(Arc<str>, Wanted)],
    ) -> Vec<Missing<'a>> {
        let is_kept = |name: &Arc<str>, part: &Wanted| {
            kept.iter()
                .any(|kept| kept.name == *name && kept.before.1 == part.serves)
        };
        let missing: Vec<_> = wanted
            .iter()
            .filter(|(name, part)| !is_kept(name, part))
            .collect();

        let kept = kept.iter().filter_map(|kept| self.open.get(&kept.before));
        let mut held: Vec<Passed> = kept.flat_map(|open| open.passed.iter().copied()).collect();
        held.extend(self.passed_for_metrics(document));

        let seekers: Vec<_> = missing
            .iter()
            .map(|(name, wanted)| Seeker { name, wanted })
            .collect();
        let assigned = self.passed.assign(&seekers, &held);
        let with_listener =
            missing
                .into_iter()
                .zip(assigned)
                .filter_map(|((name, wanted), passed)| {
                    let listener = document.listeners.get(&**name)?;
                    Some(Missing {
                        name,
                        listener,
                        wanted,
                        passed,
                    })
                });
        with_listener.collect()
    }

    /// The passed sockets that are where metrics are asked for.
    fn passed_for_metrics(&self, document: &Document) -> Vec<Passed> {
        match &document.admin.metrics {
            Some(ListenAddress::Ip(address)) => self.passed.at(*address),
            Some(ListenAddress::Unix(_)) | None => Vec::new(),
        }
    }

    /// Sockets that the service manager opened.
    pub(crate) fn passed(&self) -> &PassedSockets {
        &self.passed
    }

    /// Names the sockets that were passed and that nothing uses.
    pub(crate) fn log_unused(&self, document: &Document) {
        let mut used = self.passed_for_metrics(document);
        used.extend(self.open.values().flat_map(|open| &open.passed));
        for socket in self.passed.unused(&used) {
            tracing::warn!(
                "no listener has the name or the address of a socket that was passed: {socket}"
            );
        }
    }

    /// Where the stream part of a listener stays.
    fn stream_of(&self, prepared: &Prepared, name: &Arc<str>) -> Option<SocketAddr> {
        let kept = prepared
            .kept
            .iter()
            .find(|kept| kept.name == *name && kept.before.1 == Serves::Streams)?;
        self.open.get(&kept.before)?.bound.address()
    }

    /// Binds the parts of one listener that are missing. HTTP/3 has the port of the stream part, which is at `beside`, or among
    /// those that are missing.
    fn bind_parts(
        &self,
        missing: &[Missing<'_>],
        beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<BoundSockets>> {
        let chosen = missing.len() > 1 && !missing[0].wanted.is_definite();
        let mut tries = if chosen { PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.bind_once(missing, beside, workers) {
                // The system chose a port that someone uses for UDP.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
                done => return done,
            }
        }
    }

    fn bind_once(
        &self,
        missing: &[Missing<'_>],
        mut beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<Vec<BoundSockets>> {
        let mut done = Vec::new();
        for part in missing {
            let (bound, sockets) = match part.passed.as_slice() {
                [] => self.bind_own(part.wanted, beside, workers)?,
                passed => {
                    self.check_passed(part, beside)?;
                    self.passed
                        .open(part.listener, part.wanted, passed, workers)?
                }
            };
            beside = beside.or(bound.address());
            done.push(BoundSockets {
                wanted: part.wanted.clone(),
                bound,
                passed: part.passed.clone(),
                sockets,
            });
        }
        Ok(done)
    }

    fn bind_own(
        &self,
        wanted: &Wanted,
        beside: Option<SocketAddr>,
        workers: usize,
    ) -> io::Result<(Bound, Vec<Socket>)> {
        let at = match beside {
            Some(address) if wanted.serves == Serves::Quic => {
                &At::Address(ListenAddress::Ip(address))
            }
            _ => &wanted.at,
        };
        // A port that moves from one of our sockets to another is shared until the old one lets go.
        let open = self.open.values().map(|open| (&open.wanted, &open.passed));
        let bound = open.chain(self.closing.iter().map(|old| (&old.wanted, &old.passed)));
        let bound_here = bound
            .filter(|(_, passed)| passed.is_empty())
            .map(|(old, _)| old);
        let ours: Vec<&Wanted> = bound_here.filter(|old| old.overlaps(wanted)).collect();
        // Not so with QUIC: the kernel would go on choosing among all of them by connection IDs.
        if ours
            .iter()
            .any(|old| old.serves == Serves::Quic || wanted.serves == Serves::Quic)
        {
            return Err(still_served());
        }
        bind(wanted.serves, at, workers, !ours.is_empty())
    }

    /// Whether passed sockets can be had now, for HTTP/3 beside the stream part.
    fn check_passed(&self, part: &Missing<'_>, beside: Option<SocketAddr>) -> io::Result<()> {
        let shares = |passed: &[Passed]| passed.iter().any(|number| part.passed.contains(number));
        let before = self.open.values().any(|open| shares(&open.passed));
        let before = before || self.closing.iter().any(|old| shares(&old.passed));
        // Datagrams for the part that had the socket would reach the one that has it now. A connection stays where it was accepted.
        if before && part.wanted.serves != Serves::Streams {
            return Err(still_served());
        }

        let port = |number: &Passed| self.passed.port(*number);
        match (beside, part.passed.first().and_then(port)) {
            (Some(streams), Some(port))
                if part.wanted.serves == Serves::Quic && streams.port() != port =>
            {
                let reason = format!(
                    "the UDP socket that was passed has port {port}, and HTTP/3 needs that of {streams}"
                );
                Err(io::Error::new(io::ErrorKind::InvalidInput, reason))
            }
            _ => Ok(()),
        }
    }

    /// Whose sockets stay: first by name and address, then by address alone.
    fn kept(&self, wanted: &[(Arc<str>, Wanted)]) -> Vec<KeptPart> {
        let open_of = |(name, wanted): &(Arc<str>, Wanted)| {
            let part = (name.clone(), wanted.serves);
            self.open
                .get_key_value(&part)
                .filter(|(_, open)| open.wanted == *wanted)
        };
        let kept = |before: &Part, name: &Arc<str>, open: &OpenPart| KeptPart {
            name: name.clone(),
            before: before.clone(),
            door: open.door,
        };
        let (as_they_were, others): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|part| open_of(part).is_some());
        let mut all: Vec<KeptPart> = as_they_were
            .iter()
            .filter_map(|part| open_of(part).map(|(before, open)| kept(before, &part.0, open)))
            .collect();
        for (name, wanted) in others.iter().filter(|(_, wanted)| wanted.is_definite()) {
            let unclaimed =
                |door: DoorId, all: &[KeptPart]| all.iter().all(|kept| kept.door != door);
            let found = self
                .open
                .iter()
                .find(|(_, open)| open.wanted == *wanted && unclaimed(open.door, &all));
            all.extend(found.map(|(before, open)| kept(before, name, open)));
        }
        all
    }

    /// The IP addresses that are bound, those of `prepared` included.
    pub fn addresses(&self, prepared: &Prepared) -> Vec<SocketAddr> {
        let kept = prepared
            .kept
            .iter()
            .filter_map(|kept| self.open.get(&kept.before))
            .map(|open| &open.bound);
        let all = kept.chain(prepared.new.iter().map(|new| &new.opened.bound));
        all.filter_map(Bound::address).collect()
    }

    /// Hands new sockets to the workers and lets those go that are no longer wanted.
    pub fn apply(
        &mut self,
        prepared: Prepared,
        snapshot: &Snapshot,
        doors: &[UnboundedSender<Door>],
        watch: &Watch,
    ) -> ListenerChanges {
        let mut changes = ListenerChanges::default();
        let mut before = std::mem::take(&mut self.open);
        for KeptPart {
            name, before: old, ..
        } in prepared.kept
        {
            let Some(open) = before.remove(&old) else {
                continue;
            };
            add(&mut changes.kept, &name, open.wanted.serves);
            if old.0 != name {
                add(
                    &mut changes.renamed,
                    &format!("{} -> {name}", old.0),
                    open.wanted.serves,
                );
            }
            self.open.insert((name, old.1), open);
        }
        for ((name, serves), open) in before {
            open.drain.start();
            if open.passed.is_empty() {
                open.bound.unlink();
            }
            let served = Arc::downgrade(&open.served);
            self.closing.push(Closing {
                wanted: open.wanted,
                passed: open.passed,
                served,
            });
            add(&mut changes.closed, &name, serves);
        }
        for New {
            name,
            door,
            opened:
                BoundSockets {
                    wanted,
                    bound,
                    passed,
                    sockets,
                },
        } in prepared.new
        {
            let Some(rules) = snapshot.listeners.get(&name) else {
                continue;
            };
            self.log_taken(&name, &passed);
            let drain = watch.child();
            let served = Arc::new(());
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
            self.open.insert(
                (name, wanted.serves),
                OpenPart {
                    door,
                    wanted,
                    bound,
                    passed,
                    drain,
                    served,
                },
            );
        }
        changes
    }

    fn log_taken(&self, listener: &str, passed: &[Passed]) {
        for socket in passed
            .iter()
            .filter_map(|number| self.passed.socket(*number))
        {
            tracing::info!(listener, "takes a socket that was passed: {socket}");
        }
    }

    /// What is bound for `document`, in its order.
    pub fn views(&self, document: &Document) -> Vec<ListenerView> {
        let view = |(name, listener): (&String, &Listener)| {
            let all = [
                Serves::Streams,
                Serves::Datagrams,
                Serves::Quic,
                Serves::Attachments,
            ];
            let open = all
                .into_iter()
                .find_map(|serves| self.open.get(&(name.as_str().into(), serves)))?;
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
                http: versions(document, listener)
                    .into_iter()
                    .map(HttpVersion::number)
                    .collect(),
            })
        };
        document.listeners.iter().filter_map(view).collect()
    }
}

fn still_served() -> io::Error {
    let reason =
        "the port still serves UDP or HTTP/3 from before: reload again when that has ended";
    io::Error::new(io::ErrorKind::ResourceBusy, reason)
}

/// Notes a change of one part. What happens to HTTP/3 together with the rest of its listener need not be said twice.
fn add(changes: &mut Vec<String>, what: &str, serves: Serves) {
    if serves != Serves::Quic {
        changes.push(what.to_owned());
    } else if !changes.iter().any(|known| known == what) {
        changes.push(format!("{what} (HTTP/3)"));
    }
}
