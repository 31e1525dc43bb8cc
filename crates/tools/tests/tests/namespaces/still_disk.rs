//! A file system that stands still, as NFS does whose server is gone, below everything that a node reads and writes: its log, records,
//! decisions, secrets, leases, spool, users. Traffic goes on, and the node ends when it is told to.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, Pki, curl, free, origins, program};
use rustix::process::Signal;

use crate::still_folder::StillFolder;

/// Rounds of traffic while nothing is written.
const ROUNDS: usize = 20;

/// A node on such a disk, and one before it. What is still goes on before they end.
struct Overlay {
    disk: StillFolder,
    far: Node,
    near: Node,
}

impl Overlay {
    fn start(origin: SocketAddr) -> Self {
        let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
        let disk = StillFolder::new(&[("users", &users)]);
        let pki = Pki::new();
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let keys = folders.each_ref().map(|folder| key(folder.path()));
        let at = free::udp();
        let [first, second] = folders;
        let command = disk.mounted(&second.path().join("disk"));
        let yaml = far(&pki, origin, at, &keys[0]);
        let far = Node::start_in_by(second, command, "far", &yaml);

        let yaml = format!(
            "
            defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: \"{}\", address: \"{at}\" }} }} }} }}
            listeners: {{ kept: {{ http: 127.0.0.1:0 }}, quic: {{ http: 127.0.0.1:0 }} }}
            routes:
              - {{ match: {{ listener: kept }}, to: far, retry: {{ custody: true }} }}
              - {{ to: fast }}
            upstreams:
              far: {{ endpoints: [\"127.0.0.1:9\"] }}
              fast: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }}
            ",
            keys[1],
            far.address("secure"),
            pki.ca().display()
        );
        let near = Node::start_in(first, "near", &yaml, &[]);
        Self { disk, far, near }
    }

    /// A request by each way: as it is, with a password, over HTTP/3 and in custody.
    fn speak(&self) {
        let web = self.far.url("web");
        let with_password = self.far.url("users");
        let quic = self.near.url("quic");
        let kept = self.near.url("kept");
        for (name, proxy) in [("web", &web), ("quic", &quic), ("kept", &kept)] {
            let answer = curl(&["-x", proxy, "http://site/"]);
            assert_eq!(answer.status, 200, "{name}: {answer:?}");
        }
        let answer = curl(&[
            "-x",
            &with_password,
            "--proxy-user",
            "alice:secret",
            "http://site/",
        ]);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// A file of the disk, as the node sees it.
    fn file(&self, name: &str) -> String {
        let folder = self.far.folder().join("disk").join(name);
        let seen = format!("/proc/{}/root{}", self.far.pid(), folder.display());
        fs::read_to_string(seen).unwrap()
    }
}

fn key(folder: &Path) -> String {
    let said = program::run(&["custody-key", folder.join("key").to_str().unwrap()]);
    said.stdout.trim().to_owned()
}

/// One worker, so that nothing else could take its turns.
fn far(pki: &Pki, origin: SocketAddr, at: SocketAddr, near: &str) -> String {
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    format!(
        "
        workers: 1
        defaults: {{ custody: {{ key_file: key, spool: {{ folder: disk/spool }}, neighbours: {{ near: {{ key: \"{near}\" }} }} }} }}
        log:
          level: trace
          file: disk/log
          access: {{ file: disk/access.json }}
          decisions: {{ file: disk/decisions.json }}
        debug: {{ qlog: disk/qlog, tls_secrets: disk/secrets }}
        listeners:
          in: {{ udp: \"{at}\", ingress: custody }}
          web: {{ http: 127.0.0.1:0 }}
          users: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: disk/users }} }} }}
          secure: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], tls: {{ {tls} }} }}
        policy: {{ default: allow }}
        routes:
          - {{ match: {{ kind: connect-ip }}, terminate: {{ intercept: true, pool: 10.7.0.0/24, leases_file: disk/leases }} }}
          - {{ terminate: \"{origin}\" }}
        "
    )
}

#[test]
fn a_file_system_that_stands_still_stops_neither_traffic_nor_the_end_of_the_node() {
    let origin = origins::http();
    let mut overlay = Overlay::start(origin.address());
    overlay.speak();
    for name in ["log", "access.json", "decisions.json", "secrets"] {
        eventually_true(name, || !overlay.file(name).is_empty());
    }

    overlay.disk.stand_still();
    let answered = overlay.disk.answered();
    for _ in 0..ROUNDS {
        overlay.speak();
    }
    // A reload reads the users' file: it waits, and nothing else does.
    overlay.far.signal(Signal::HUP);
    for _ in 0..ROUNDS {
        overlay.speak();
    }
    assert_eq!(overlay.far.ask("GET", "/healthz", "").0, 200);
    assert_eq!(overlay.far.status()["config"]["revision"], 1);
    // One more may have been under way when it began to stand still.
    assert!(
        overlay.disk.answered() <= answered + 1,
        "it did not stand still"
    );

    // What waited is written once it goes on, and the reload comes to its end.
    overlay.disk.go_on();
    eventually_true("records are written", || {
        let records = overlay.file("access.json");
        let ends = records.lines().filter(|line| line.contains("\"end\""));
        ends.count() > 2 * ROUNDS
    });
    eventually_true("the reload ends", || overlay.file("log").contains("reload"));
    overlay.speak();

    overlay.disk.stand_still();
    overlay.speak();
    assert!(overlay.far.stop().success());
}
