//! The networks and their nodes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hermes_lab::emulator::Profile;
use hermes_lab::emulator::wire::{End, Wire};
use hermes_lab::topology::{Namespace, Plug, Topology};
use hermes_tests::{Node, Pki, program};
use serde_json::Value;

/// Where the client speaks to its node: HTTP, TCP and UDP.
pub(super) const WEB: &str = "127.0.0.1:8080";
pub(super) const TUNNEL: &str = "127.0.0.1:8081";
pub(super) const VOICE: &str = "127.0.0.1:5004";

/// Where the services of the last network are.
const ECHO: &str = "127.0.0.1:7000";

/// How long the services wait before they look whether they are still needed.
const LOOK: Duration = Duration::from_millis(100);

/// Client, proxy, proxy. Dropping it ends all of it.
pub(super) struct Row {
    pub(super) entry: Node,
    pub(super) near: Node,
    _far: Node,
    pub(super) echo: Echo,
    pub(super) topology: Topology,
    _wire: Option<Wire>,
    _pki: Pki,
}

/// What echoes TCP and UDP in the last network.
pub(super) struct Echo {
    /// Where UDP came from.
    sockets: Arc<Mutex<BTreeSet<SocketAddr>>>,
    /// How many datagrams came.
    datagrams: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Namespaces, the way from the last proxy on being a cable.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["client", "road", "near", "far"] {
        topology.add(name).unwrap();
    }
    cable(&topology, ("near", "10.0.2.1/24"), ("far", "10.0.2.2/24"));
    topology
}

fn cable(topology: &Topology, one: (&str, &str), other: (&str, &str)) {
    let plug = |(namespace, address)| Plug { namespace, address };
    topology.cable(plug(one), plug(other)).unwrap();
}

impl Row {
    /// Between the client and the first proxy is a router, `road`. The client's node speaks these versions to that proxy; further keys
    /// of its upstream may follow them.
    pub(super) fn by_router(http: &str) -> Self {
        let topology = networks();
        cable(
            &topology,
            ("client", "10.0.1.1/24"),
            ("road", "10.0.1.2/24"),
        );
        cable(&topology, ("road", "10.0.3.1/24"), ("near", "10.0.3.2/24"));
        topology.route("client", "10.0.3.0/24", "10.0.1.2").unwrap();
        topology.route("near", "10.0.0.0/16", "10.0.3.1").unwrap();
        Self::start(topology, None, http)
    }

    /// Between the client and the first proxy is a link with these faults, in both directions. The client's node speaks these versions to
    /// that proxy; further keys of its upstream may follow them.
    pub(super) fn by_wire(profile: &Profile, seed: u64, http: &str) -> Self {
        let topology = networks();
        let end = |name, device, address| End {
            namespace: topology.namespace(name).unwrap(),
            device,
            address,
            profile,
        };
        let wire = Wire::lay(
            end("client", "near", "10.0.3.1/24"),
            end("near", "client", "10.0.3.2/24"),
            seed,
        )
        .unwrap();
        Self::start(topology, Some(wire), http)
    }

    fn start(topology: Topology, wire: Option<Wire>, http: &str) -> Self {
        let pki = Pki::new();
        let tls = pki.issue(&["10.0.3.2", "10.0.2.2"]).yaml();
        let upstream = |address, http| {
            format!(
                "{{ endpoints: [\"{address}\"], http: {http}, tls: {{ ca_file: {} }} }}",
                pki.ca().display()
            )
        };
        let proxy = |address, routes, upstream| {
            format!(
                "
                listeners: {{ overlay: {{ http: {address}, public: true, tls: {{ {tls} }} }} }}
                routes: [ {routes} ]
                upstreams: {{ next: {upstream} }}
                drain: 1s
                "
            )
        };
        let end = format!("{{ endpoints: [\"{ECHO}\"] }}");
        let ends = "{ match: { target: ECHO }, terminate: next, timeouts: { udp: 900s } },
                    { match: { target: PAGE }, respond: { status: 200, body: page } }";
        let entry = format!(
            "
            listeners:
              web: {{ http: \"{WEB}\" }}
              tunnel: {{ tcp: \"{TUNNEL}\", target: \"ECHO:7\" }}
              voice: {{ udp: \"{VOICE}\", target: \"ECHO:7\" }}
            routes: [ {{ to: near, timeouts: {{ udp: 900s }} }} ]
            upstreams: {{ near: {} }}
            ",
            upstream("10.0.3.2:8443", http)
        );
        let echo = Echo::start(topology.namespace("far").unwrap());
        let start = |name, yaml: &str| Node::start_by(command(&topology, name), name, yaml);
        let far = start("far", &proxy("10.0.2.2:8443", ends, end));
        let onwards = "{ to: next, timeouts: { udp: 900s } }";
        let near = start(
            "near",
            &proxy("10.0.3.2:8443", onwards, upstream("10.0.2.2:8443", "3")),
        );
        let entry = start("client", &entry);
        Self {
            entry,
            near,
            _far: far,
            echo,
            topology,
            _wire: wire,
            _pki: pki,
        }
    }

    /// Ends the first proxy as `end` does, and starts it again.
    pub(super) fn restart_near(&mut self, end: impl FnOnce(&mut Node)) {
        end(&mut self.near);
        self.near.restart_by(command(&self.topology, "near"));
    }

    /// Runs lines of `ip` in a network.
    pub(super) fn ip(&self, namespace: &str, lines: &[&str]) {
        let namespace = self.topology.namespace(namespace).unwrap();
        for line in lines {
            namespace
                .run(
                    &std::iter::once("ip")
                        .chain(line.split(' '))
                        .collect::<Vec<_>>(),
                )
                .unwrap();
        }
    }

    /// What the client's node says of its way to the first proxy.
    pub(super) fn way(&self) -> Value {
        self.entry.status()["upstreams"][0]["endpoints"][0].clone()
    }
}

fn command(topology: &Topology, namespace: &str) -> std::process::Command {
    super::super::command(topology, namespace, program::path().to_str().unwrap())
}

impl Echo {
    fn start(namespace: &Namespace) -> Self {
        let (sockets, over): (Arc<Mutex<BTreeSet<SocketAddr>>>, _) =
            (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (udp, tcp) = thread::scope(|scope| {
            let bound = scope.spawn(|| {
                namespace.enter().unwrap();
                (
                    UdpSocket::bind(ECHO).unwrap(),
                    TcpListener::bind(ECHO).unwrap(),
                )
            });
            bound.join().unwrap()
        });
        udp.set_read_timeout(Some(LOOK)).unwrap();
        let (seen, ended) = (sockets.clone(), over.clone());
        let datagrams: Arc<AtomicU64> = Arc::default();
        let came = datagrams.clone();
        let answering = thread::spawn(move || {
            let mut room = [0; 2000];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = udp.recv_from(&mut room) else {
                    continue;
                };
                seen.lock().unwrap().insert(from);
                came.fetch_add(1, Ordering::Relaxed);
                drop(udp.send_to(&room[..length], from));
            }
        });
        let ended = over.clone();
        let streams = thread::spawn(move || {
            while let Ok((mut stream, _)) = tcp.accept() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                thread::spawn(move || {
                    let mut room = [0; 16_384];
                    while let Ok(length @ 1..) = stream.read(&mut room) {
                        if stream.write_all(&room[..length]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        // The thread that accepts ends with the process: no one connects once the namespace is gone.
        drop(streams);
        Self {
            sockets,
            datagrams,
            over,
            threads: vec![answering],
        }
    }

    /// The sockets that UDP sessions end in, as a target sees them.
    pub(super) fn sockets(&self) -> BTreeSet<SocketAddr> {
        self.sockets.lock().unwrap().clone()
    }

    /// How many datagrams came so far.
    pub(super) fn datagrams(&self) -> u64 {
        self.datagrams.load(Ordering::Relaxed)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| drop(thread.join()));
    }
}
