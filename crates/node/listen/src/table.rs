//! The sockets of all listeners. A new configuration is compared with the bound sockets: those that it still wants are not touched.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use hermes_admit::devices::Devices;
use hermes_admit::snapshot::Snapshot;
use hermes_config::model::{Document, HttpVersion, ListenAddress, Listener, ListenerCongestion};
use hermes_config::{Problem, child};
use hermes_net::host_capture;
use hermes_net::tun::PassedDevices;
use hermes_net::{DescriptorEntry, Watch, own_mark};
use hermes_packet::tun::WireguardPorts;
use hermes_plug::door::DoorId;
use hermes_rules::versions;
use tokio::sync::mpsc::UnboundedSender;

use super::Door;
use super::bind::{Bound, Serves, Wanted};
use super::binder::Binder;
pub use super::changes::ListenerChanges;
use super::parts::{BoundSockets, Closing, Missing, OpenPart, Part};
use super::passed::{Passed, PassedSockets, Seeker};
use super::wanted::wanted;

/// The sockets that are bound.
#[derive(Default)]
pub struct ListenerTable {
    /// Those that the service manager opened; listeners come and go over them.
    passed: PassedSockets,
    open: BTreeMap<Part, OpenPart>,
    /// Listeners that are no longer wanted, as long as their sockets are open.
    closing: Vec<Closing>,
    /// The next door's number.
    next: u64,
}

/// A listener as it is seen from outside.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ListenerView {
    /// Its name.
    pub name: String,
    /// `http`, `socks`, `tcp`, `udp`, `attach`, `capture` or `tun`.
    pub kind: &'static str,
    /// Where it is bound; of `attach`, the upstream and the name; of `tun`, the device; of `capture`, the traffic.
    pub address: String,
    /// How the beginnings of its connections are held, where they are to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// The HTTP versions that it speaks.
    pub http: Vec<u8>,
    /// The congestion control of its clients' connections; absent where that is the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<&'static str>,
    /// Whether it is for other nodes or for clients of an origin, rather than for programs that use a proxy.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub for_nodes: bool,
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
    /// Nothing is bound yet but passed sockets.
    pub fn new(passed: PassedSockets) -> Self {
        Self {
            passed,
            ..Self::default()
        }
    }

    /// Binds sockets that a document asks for and that are not bound yet. Nothing is served or closed.
    ///
    /// The name of a socket and its use may change: it stays as long as a listener wants its address.
    ///
    /// # Errors
    /// Every socket that cannot be bound; the others are closed again.
    pub fn prepare(
        &mut self,
        document: &Document,
        workers: usize,
    ) -> Result<Prepared, Vec<Problem>> {
        let listeners = document.listeners.iter();
        let wanted: Vec<(Arc<str>, Wanted)> = listeners
            .flat_map(|(name, listener)| {
                wanted(document, name, listener).map(|wanted| (name.as_str().into(), wanted))
            })
            .collect();
        let has_device = |(_, part): &(Arc<str>, Wanted)| part.at.is_own_device();
        // Before anything is bound: answers must not be led into the device.
        if wanted.iter().any(has_device)
            && let Err(error) = own_mark::begin()
        {
            tracing::warn!(%error, "cannot mark this node's sockets to bypass the TUN device");
        }
        if document.egress.keep_source
            && let Err(error) = host_capture::keep_clients()
        {
            let reason = format!("sockets cannot have addresses of clients: {error}");
            return Err(vec![Problem::new("egress.keep_source", reason)]);
        }
        // Those that no worker serves any more hold no address.
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
            let beside = self.stream_of(&prepared, name);
            let bound = self.binder().bind_parts(parts, beside, workers);
            match bound {
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
                Err(error) => {
                    let reason = format!("cannot be bound: {error}");
                    errors.push(Problem::new(child("listeners", name), reason));
                }
            }
        }

        if errors.is_empty() {
            Ok(prepared)
        } else {
            Err(errors)
        }
    }

    /// The effect of a document on the listeners, if all its sockets can be bound.
    pub fn preview(&self, document: &Document) -> ListenerChanges {
        let listeners = document.listeners.iter();
        let wanted: Vec<(Arc<str>, Wanted)> = listeners
            .flat_map(|(name, listener)| {
                wanted(document, name, listener).map(|wanted| (name.as_str().into(), wanted))
            })
            .collect();
        let kept = self.kept(&wanted);
        let mut changes = ListenerChanges::default();

        for KeptPart { name, before, .. } in &kept {
            changes.keep(name, &before.0, before.1);
        }

        let stays = |part: &Part| kept.iter().any(|kept| kept.before == *part);
        for part in self.open.keys().filter(|part| !stays(part)) {
            changes.close(&part.0, part.1);
        }

        let is_kept = |name: &Arc<str>, serves: Serves| {
            kept.iter()
                .any(|kept| kept.name == *name && kept.before.1 == serves)
        };

        for (name, part) in wanted
            .iter()
            .filter(|(name, part)| !is_kept(name, part.serves))
        {
            changes.open(name, part.serves);
        }

        changes
    }

    /// Parts without sockets, and the passed ones that they are to have: those that no listener keeps.
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
        held.extend(self.passed_by_address(document));

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

    /// The TUN devices of a node with so many workers, with those that were passed, and the ports of WireGuard.
    pub fn devices(&mut self, workers: usize) -> Devices {
        let descriptors = self.passed.descriptors().clone();
        let ports = WireguardPorts::new(self.passed.datagrams(), descriptors.clone());
        let passed = PassedDevices::new(self.passed.take_devices(), descriptors);
        Devices::new(workers, passed, ports)
    }

    /// The passed sockets that are where metrics are asked for, and ports of WireGuard.
    fn passed_by_address(&self, document: &Document) -> Vec<Passed> {
        let mut passed = match &document.admin.metrics {
            Some(ListenAddress::Ip(address)) => self.passed.metrics(*address),
            Some(ListenAddress::Unix(_)) | None => Vec::new(),
        };
        let ports = document.wireguard().into_iter();
        let ports = ports.filter_map(|(_, wireguard)| wireguard.listen.socket_address());
        passed.extend(ports.filter_map(|port| self.passed.datagrams_at(port)));
        passed
    }

    /// Sockets that the service manager opened.
    pub fn passed(&self) -> &PassedSockets {
        &self.passed
    }

    /// Names the sockets that were passed and that nothing uses.
    pub fn log_unused(&self, document: &Document) {
        let mut used = self.passed_by_address(document);
        used.extend(self.open.values().flat_map(|open| &open.passed));
        for socket in self.passed.unused(&used) {
            tracing::warn!(
                "no listener has the name or the address of a socket that was passed: {socket}"
            );
        }
    }

    fn binder(&self) -> Binder<'_> {
        Binder {
            passed: &self.passed,
            open: &self.open,
            closing: &self.closing,
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

        // By name first, so that a renamed listener cannot take a socket that another one still
        // has.
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
            changes.keep(&name, &old.0, open.wanted.serves);
            open.entries.iter().for_each(|entry| entry.rename(&name));
            self.passed.rename(&open.passed, &name);
            self.open.insert((name, old.1), open);
        }

        for ((name, serves), open) in before {
            open.drain.start();
            // The path of a socket that was passed to us belongs to the program that opened it; of one that was given away, to the successor.
            let is_given = open.entries.iter().any(DescriptorEntry::is_given);
            if open.passed.is_empty() && !is_given {
                open.bound.unlink();
            }

            let served = Arc::downgrade(&open.served);
            self.closing.push(Closing {
                wanted: open.wanted,
                passed: open.passed,
                served,
            });
            changes.close(&name, serves);
        }

        for New {
            name,
            door,
            opened:
                BoundSockets {
                    wanted,
                    bound,
                    passed,
                    entries,
                    sockets,
                },
        } in prepared.new
        {
            let Some(rules) = snapshot.listeners.get(&name) else {
                continue;
            };
            self.passed.rename(&passed, &name);
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
            changes.open(&name, wanted.serves);
            self.open.insert(
                (name, wanted.serves),
                OpenPart {
                    door,
                    wanted,
                    bound,
                    passed,
                    entries,
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

    /// How the beginnings of connections to a port are held, where they are to be.
    fn split(&self, name: &str, listener: &Listener) -> Option<String> {
        listener.tcp().filter(|tcp| tcp.split)?;
        let held = self.open.get(&(name.into(), Serves::Captured))?;
        Some(held.bound.to_string())
    }

    /// The sockets that are bound for `document`, in its order.
    pub fn views(&self, document: &Document) -> Vec<ListenerView> {
        let view = |(name, listener): (&String, &Listener)| {
            let all = [
                Serves::Streams,
                Serves::Datagrams,
                Serves::Quic,
                Serves::Attachments,
                Serves::Captured,
                Serves::Packets,
            ];

            let open = all
                .into_iter()
                .find_map(|serves| self.open.get(&(name.as_str().into(), serves)))?;
            let spoken = versions(document, listener);
            let has_quic = spoken.contains(&HttpVersion::H3);
            let by_default = has_quic.then_some(ListenerCongestion::Cubic);
            Some(ListenerView {
                name: name.clone(),
                kind: listener.kind.key(),
                address: open.bound.to_string(),
                split: self.split(name, listener),
                tls: listener.tls().is_some(),
                http: spoken.iter().copied().map(HttpVersion::number).collect(),
                congestion: listener
                    .congestion
                    .or(by_default)
                    .map(ListenerCongestion::name),
                for_nodes: listener.is_for_nodes(),
            })
        };
        document.listeners.iter().filter_map(view).collect()
    }
}
