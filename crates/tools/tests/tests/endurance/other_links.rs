//! Links of the other kinds, as `links.rs` has those of HTTP: an attachment, custody, a tunnel of IP and one of WireGuard, all in user space.
//! What is on them stays, idle and busy, over reloads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Node, free, origins, program};

use crate::links::{AT_ONCE, LongCarried, PERIODS, carry_on, stays_flat, talk};
use crate::other_program;

/// The kinds, and whether each carries datagrams: those of custody take another way.
const KINDS: [(&str, bool); 4] = [
    ("attached", true),
    ("kept", false),
    ("ip", true),
    ("wireguard", true),
];

/// What both ends have to know of each other.
struct Known {
    /// Where the near node is attached to, and the far one is asked for a tunnel of IP.
    overlays: [SocketAddr; 2],
    custody: SocketAddr,
    custody_keys: [String; 2],
    wireguard: [SocketAddr; 2],
    wireguard_keys: [String; 2],
}

impl Known {
    fn new(folders: [&Path; 2]) -> Self {
        let key = |command: &'static str, file: &'static str| {
            folders.map(|folder| {
                let said = program::run(&[command, folder.join(file).to_str().unwrap()]);
                said.stdout.trim().to_owned()
            })
        };
        Self {
            overlays: [free::tcp(), free::tcp()],
            custody: free::udp(),
            custody_keys: key("custody-key", "custody.key"),
            wireguard: [free::udp(), free::udp()],
            wireguard_keys: key("wireguard-key", "wireguard.key"),
        }
    }

    /// Where the links end: whatever comes for port 1 is for a database, for port 2 for a call.
    fn far(&self, db: SocketAddr, voice: SocketAddr) -> String {
        let [near, far] = self.overlays;
        let wireguard = self.device(1, "10.9.0.7/32");
        format!(
            "
            identity: {{ user: far }}
            defaults: {{ custody: {{ key_file: custody.key, neighbours: {{ near: {{ key: \"{}\" }} }} }} }}
            listeners:
              reach: {{ attach: core }}
              in: {{ udp: \"{}\", ingress: custody }}
              overlay: {{ http: \"{far}\", insecure_trust: [127.0.0.0/8] }}
              phone: {{ user: alice, tun: {{ name: phone, addresses: [10.9.0.7/24], wireguard: {wireguard} }} }}
            routes:
              - {{ match: {{ kind: connect-ip, listener: phone }}, terminate: {{ intercept: true, pool: 10.9.0.0/24, routes: [10.8.0.0/16] }} }}
              - {{ match: {{ kind: connect-ip }}, terminate: {{ intercept: true, pool: 10.7.0.0/24, routes: [10.8.0.0/16] }} }}
              - {{ match: {{ port: 1 }}, terminate: \"{db}\" }}
              - {{ match: {{ port: 2 }}, terminate: \"{voice}\", timeouts: {{ udp: 2h }} }}
            upstreams: {{ core: {{ endpoints: [\"{near}\"], http: 2 }} }}
            ",
            self.custody_keys[0], self.custody,
        )
    }

    /// Where they begin: a listener for tunnels and one for datagrams over each.
    fn near(&self) -> String {
        let [near, far] = self.overlays;
        let wireguard = self.device(0, "10.8.0.0/16");
        let mut listeners = String::new();
        for (kind, has_datagrams) in KINDS {
            let host = match kind {
                "attached" | "kept" => "FAR",
                _ => "10.8.0.2",
            };
            listeners += &format!("  db-{kind}: {{ tcp: 127.0.0.1:0, target: \"{host}:1\" }}\n");
            if has_datagrams {
                listeners +=
                    &format!("  voice-{kind}: {{ udp: 127.0.0.1:0, target: \"{host}:2\" }}\n");
            }
        }
        format!(
            "defaults: {{ custody: {{ key_file: custody.key, neighbours: {{ kept: {{ key: \"{}\", address: \"{}\" }} }} }} }}
identity: {{ user: alice }}
listeners:
  overlay: {{ http: \"{near}\", insecure_trust: [127.0.0.0/8] }}
  ip: {{ tun: {{ name: ip, stack: true }} }}
  wireguard: {{ tun: {{ name: wg, stack: true, addresses: [10.9.0.7/24] }} }}
{listeners}routes:
  - {{ match: {{ protocol: ptth }}, attach: true }}
  - {{ match: {{ kind: connect-ip, listener: ip }}, to: far }}
  - {{ match: {{ kind: connect-ip, listener: wireguard }}, terminate: {{ tun: out, pool: 10.9.0.0/24, routes: [10.8.0.0/16], wireguard: {wireguard} }} }}
  - {{ match: {{ kind: [connect, connect-udp], listener: [db-ip, voice-ip] }}, terminate: {{ ip: ip }}, timeouts: {{ udp: 2h }} }}
  - {{ match: {{ kind: [connect, connect-udp], listener: [db-wireguard, voice-wireguard] }}, terminate: {{ ip: wireguard }}, timeouts: {{ udp: 2h }} }}
  - {{ match: {{ listener: db-kept }}, to: kept, retry: {{ custody: true }} }}
  - {{ to: users, timeouts: {{ udp: 2h }} }}
upstreams:
  users: {{ attached: \"{{target.host}}\" }}
  kept: {{ endpoints: [\"127.0.0.1:9\"] }}
  far: {{ endpoints: [\"{far}\"], http: 2{PERIODS} }}
",
            self.custody_keys[1], self.custody,
        )
    }

    /// One end of WireGuard, whose peer may send from `allowed`.
    fn device(&self, own: usize, allowed: &str) -> String {
        let other = 1 - own;
        format!(
            "{{ listen: \"{}\", private_key_file: wireguard.key, peer: {{ public_key: \"{}\", endpoint: \"{}\", allowed: [{allowed}], keepalive: 1s }} }}",
            self.wireguard[own], self.wireguard_keys[other], self.wireguard[other]
        )
    }
}

/// What one link carries for as long as it takes.
struct Carried {
    kind: &'static str,
    db: SocketAddr,
    busy: Raw,
    idle: Raw,
    /// A busy and an idle conversation.
    voices: Option<[Client; 2]>,
}

impl Carried {
    fn open(node: &Node, (kind, has_datagrams): (&'static str, bool)) -> Self {
        let db = node.address(&format!("db-{kind}"));
        eventually_true(kind, || is_answered(db).unwrap_or(false));
        let voices = has_datagrams.then(|| {
            let voice = node.address(&format!("voice-{kind}"));
            [Client::connect(voice), Client::connect(voice)]
        });
        let mut carried = Self {
            kind,
            db,
            busy: Raw::connect(db),
            idle: Raw::connect(db),
            voices,
        };
        carried.speak("begin");
        // Sessions of a single question are ended soon: these are conversations.
        for word in ["begin", "go on", "wait"] {
            carried.idle_speaks(word);
        }
        carried
    }
}

impl LongCarried for Carried {
    fn speak(&mut self, word: &str) {
        talk(&mut self.busy, self.kind, word);
        if let Some([busy, _]) = &mut self.voices {
            hears(busy, self.kind, word);
        }
    }

    fn idle_speaks(&mut self, word: &str) {
        talk(&mut self.idle, self.kind, word);
        if let Some([_, idle]) = &mut self.voices {
            hears(idle, self.kind, word);
        }
    }

    fn ask(&self) {
        let mut raw = Raw::connect(self.db);
        talk(&mut raw, self.kind, "short");
    }
}

fn hears(client: &mut Client, kind: &str, word: &str) {
    client.send(word);
    assert_eq!(client.receive(), word.as_bytes(), "{kind}");
}

/// Whether a tunnel is there already.
fn is_answered(db: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(db)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"?")?;
    Ok(stream.read(&mut [0; 1])? == 1)
}

#[test]
fn links_of_the_other_kinds_stay_with_all_that_is_on_them() {
    let db = origins::tcp_echo();
    let voice = origins::udp_echo(origins::V4);
    let [near_folder, far_folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let known = Known::new([near_folder.path(), far_folder.path()]);
    let far = known.far(db.address(), voice.address());
    let far = Node::start_in_by(far_folder, other_program(), "far", &far);
    let yaml = known.near();
    let near = Node::start_in(near_folder, "near", &yaml, &AT_ONCE);
    let mut carried = KINDS.map(|kind| Carried::open(&near, kind));

    let (long, held) = carry_on(&mut carried, [&near, &far], &yaml);

    // All of it is what was opened first.
    let exchanges = near.exchanges();
    for (kind, has_datagrams) in KINDS {
        for (listener, is_there) in [
            (format!("db-{kind}"), true),
            (format!("voice-{kind}"), has_datagrams),
        ] {
            let old = exchanges.iter().filter(|exchange| {
                let age = u128::from(exchange["age_ms"].as_u64().unwrap());
                exchange["listener"] == *listener && age >= long.as_millis()
            });
            assert_eq!(
                old.count(),
                2 * usize::from(is_there),
                "{listener}: {exchanges:#?}"
            );
        }
    }
    stays_flat(&held);
}
