//! A client's network, a proxy in the middle, and a last network with services, each a namespace of its own.

use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::{Node, Pki, program};

/// What the client's node listens at: a call, questions, WireGuard.
pub const VOICE: &str = "127.0.0.1:5004";
pub const DNS: &str = "127.0.0.1:5353";
pub const WIREGUARD: &str = "127.0.0.1:51820";
/// A call again, of another node that reaches the proxy in the middle through one more proxy beside it.
pub const VOICE_BEHIND: &str = "127.0.0.1:5005";
const BESIDE: &str = "127.0.0.1:8443";

/// A client of the echo that says this first, and then a number of datagrams, gets them one after the other, [`EVERY`] so often.
pub const STREAM: &[u8] = b"stream";
/// Between two datagrams.
pub const EVERY: Duration = Duration::from_millis(20);

/// And a page, which is asked for again for as long as a proxy may be away, if no attempt takes all of that time.
pub const PAGE: &str = "127.0.0.1:8080";

/// Where the services of the last network are; that of WireGuard is where the client's node listens, too.
const ECHO: &str = "127.0.0.1:7000";
const NAMES: &str = "127.0.0.1:5300";

/// The only name that there is, and its address.
pub const NAME: [&str; 2] = ["video", "test"];
pub const ADDRESS: [u8; 4] = [192, 0, 2, 7];

/// The networks and their nodes. Dropping it ends all of it.
pub struct Row {
    pub entry: Node,
    pub near: Node,
    pub far: Node,
    pub topology: Topology,
    http: u8,
    _services: Services,
    pki: Pki,
}

/// An echo, and a name server.
struct Services {
    _names: Running,
    over: Arc<AtomicBool>,
    echo: Option<JoinHandle<()>>,
}

/// A program; dropping it ends the program.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Row {
    /// The nodes speak this version of HTTP; a user has this many UDP sessions at the last.
    pub fn start(http: u8, sessions: usize) -> Self {
        let mut topology = Topology::new();
        for name in ["client", "near", "far"] {
            topology.add(name).unwrap();
        }
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(plug("client", "10.0.1.1/24"), plug("near", "10.0.1.2/24"))
            .unwrap();
        topology
            .cable(plug("near", "10.0.2.1/24"), plug("far", "10.0.2.2/24"))
            .unwrap();
        let services = Services::start(&topology);
        let pki = Pki::new();
        let tls = pki.issue(&["10.0.1.2", "10.0.2.2"]).yaml();
        let upstream = |address| {
            format!(
                "{{ endpoints: [\"{address}\"], http: {http}, tls: {{ ca_file: {} }} }}",
                pki.ca().display()
            )
        };
        let proxy = |address, routes, upstreams| {
            format!(
                "
                listeners:
                  overlay:
                    http: {address}
                    public: true
                    insecure_trust: [10.0.0.0/16]
                    tls: {{ {tls} }}
                    limits: {{ sessions_per_user: {sessions} }}
                routes: [ {routes} ]
                upstreams: {{ {upstreams} }}
                "
            )
        };
        let ends = "{ match: { target: ECHO }, terminate: echo }, { match: { target: DNS }, terminate: names },
                    { match: { target: WG }, terminate: wireguard },
                    { match: { path: /page }, respond: { status: 200, body: page } }";
        let services_of = format!(
            "echo: {{ endpoints: [\"{ECHO}\"] }}, names: {{ endpoints: [\"{NAMES}\"] }}, \
             wireguard: {{ endpoints: [\"{WIREGUARD}\"] }}"
        );
        let entry = format!(
            "
            identity: {{ user: alice }}
            listeners:
              voice: {{ udp: \"{VOICE}\", target: \"ECHO:7\" }}
              dns: {{ udp: \"{DNS}\", target: \"DNS:53\" }}
              wireguard: {{ udp: \"{WIREGUARD}\", target: \"WG:51820\" }}
              page: {{ http: \"{PAGE}\" }}
            routes:
              - match: {{ listener: page }}
                to: near
                timeouts: {{ header: 8s }}
                retry: {{ attempts: 10, backoff: {{ base: 2s, max: 2s }}, budget: {{ min: 100 per second }} }}
              - {{ to: near }}
            upstreams: {{ near: {} }}
            ",
            upstream("10.0.1.2:8443")
        );
        let start =
            |namespace, yaml: &str| Node::start_by(command(&topology, namespace), namespace, yaml);
        let far = start("far", &proxy("10.0.2.2:8443", ends, services_of));
        let onwards = format!("far: {}", upstream("10.0.2.2:8443"));
        let near = start("near", &proxy("10.0.1.2:8443", "{ to: far }", onwards));
        Self {
            entry: start("client", &entry),
            near,
            far,
            topology,
            http,
            _services: services,
            pki,
        }
    }

    /// A node with a call, and the proxy through which it reaches the one in the middle.
    pub fn behind(&self) -> [Node; 2] {
        let start =
            |name, yaml: &str| Node::start_by(command(&self.topology, "client"), name, yaml);
        let upstream = |address| {
            let (http, ca) = (self.http, self.pki.ca().display().to_string());
            format!("{{ endpoints: [\"{address}\"], http: {http}, tls: {{ ca_file: {ca} }} }}")
        };
        let beside = format!(
            "
            listeners:
              overlay: {{ http: \"{BESIDE}\", insecure_trust: [127.0.0.0/8], tls: {{ {} }} }}
            routes: [ {{ to: near }} ]
            upstreams: {{ near: {} }}
            ",
            self.pki.issue(&["127.0.0.1"]).yaml(),
            upstream("10.0.1.2:8443")
        );
        let beside = start("beside", &beside);
        let behind = format!(
            "
            identity: {{ user: alice }}
            listeners: {{ voice: {{ udp: \"{VOICE_BEHIND}\", target: \"ECHO:7\" }} }}
            routes: [ {{ to: beside }} ]
            upstreams: {{ beside: {} }}
            ",
            upstream(BESIDE)
        );
        [start("behind", &behind), beside]
    }

    /// Kills the node in the middle, and starts it again after a time.
    pub fn restart_near(&mut self, after: &str) {
        self.near.kill();
        wait(after);
        self.start_near();
    }

    /// Starts it again after it was killed.
    pub fn start_near(&mut self) {
        self.near.restart_by(command(&self.topology, "near"));
    }

    /// Runs `work` in the client's network, beside the test.
    pub fn in_client<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let (entered, waits) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let topology = &self.topology;
            // Threads share nothing of a network with the one that started them, so each enters for itself.
            scope.spawn(move || {
                topology.namespace("client").unwrap().enter().unwrap();
                entered.send(thread::spawn(work)).unwrap();
            });
        });
        waits.recv().unwrap()
    }
}

/// Sends numbered datagrams.
fn stream(socket: &UdpSocket, count: u32, to: SocketAddr) {
    let began = Instant::now();
    for number in 0..count {
        drop(socket.send_to(&[&number.to_be_bytes()[..], &[7; 196]].concat(), to));
        thread::sleep((EVERY * (number + 1)).saturating_sub(began.elapsed()));
    }
}

fn command(topology: &Topology, namespace: &str) -> Command {
    topology
        .namespace(namespace)
        .unwrap()
        .command(program::path())
}

/// Lets some seconds pass.
pub fn wait(seconds: &str) {
    Command::new("sleep")
        .arg(seconds)
        .stdin(Stdio::null())
        .status()
        .unwrap();
}

impl Services {
    fn start(topology: &Topology) -> Self {
        let far = topology.namespace("far").unwrap();
        let server = std::env::var("HERMES_DNSMASQ")
            .expect("HERMES_DNSMASQ names dnsmasq: ./test real sets it");
        let port = NAMES.rsplit_once(':').unwrap().1;
        let name = format!(
            "--address=/{}/{}",
            NAME.join("."),
            ADDRESS.map(|byte| byte.to_string()).join(".")
        );
        let names = far
            .command(server)
            .args([
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                "--pid-file=",
            ])
            .args([
                "--listen-address=127.0.0.1",
                "--bind-interfaces",
                "--user=root",
                &name,
                "--port",
                port,
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let echo = thread::scope(|scope| {
            let bound = scope.spawn(|| {
                far.enter().unwrap();
                UdpSocket::bind(ECHO).unwrap()
            });
            bound.join().unwrap()
        });
        echo.set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let echo = thread::spawn(move || {
            let mut room = [0; 2000];
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = echo.recv_from(&mut room) else {
                    continue;
                };
                if let Some(count) = room[..length].strip_prefix(STREAM) {
                    let (echo, count) = (
                        echo.try_clone().unwrap(),
                        u32::from_be_bytes(count.try_into().unwrap()),
                    );
                    thread::spawn(move || stream(&echo, count, from));
                    continue;
                }
                drop(echo.send_to(&room[..length], from));
            }
        });
        Self {
            _names: Running(names.unwrap()),
            over,
            echo: Some(echo),
        }
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.echo
            .take()
            .into_iter()
            .for_each(|echo| drop(echo.join()));
    }
}
