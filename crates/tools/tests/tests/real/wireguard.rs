//! wireguard-go: a private network between two ends of the overlay, whose packets are as large as WireGuard makes them by default.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;

use hermes_tests::eventually::{PATIENCE, eventually};

use crate::row::{Row, Running, WIREGUARD};

/// Addresses inside of it.
pub const FAR: &str = "10.9.0.2";
const NEAR: &str = "10.9.0.1";

/// What WireGuard takes for its devices by default.
const MTU: &str = "1420";

/// Bytes that go there and back: some thousand full packets.
const BULK: usize = 1 << 20;

/// Two pairs of keys (X25519), private and public.
const KEYS: [[&str; 2]; 2] = [
    [
        "b8d05509aa20d494c6ed3828c998550d4a6fb9886a688c66a232e1fd11e32e58",
        "a6bee843822450def0a54780af9368b9ba2c426b9188770a763f47837f4f1d08",
    ],
    [
        "d0116b7102b8e38b9dccc109ee201ccb09b259b1cbf4d81b9cf473f2a5dc7a4f",
        "c6bdb87d69b8360937af2b6c63e4d57613e8b969b47dbb4cb4148408293d6d60",
    ],
];

/// Both ends. Dropping it ends them.
pub struct WireGuard {
    _ends: [Running; 2],
}

impl WireGuard {
    /// Between the client's network and the last one; `label` tells its devices from those of other tests.
    pub fn start(row: &Row, label: &str) -> Self {
        let far = end(
            row,
            "far",
            &format!("{label}b"),
            (0, FAR),
            &format!("listen_port={}\n", port()),
            "",
        );
        // The node of the client stands for the peer.
        let peer = format!("endpoint={WIREGUARD}\npersistent_keepalive_interval=25\n");
        let near = end(row, "client", &format!("{label}a"), (1, NEAR), "", &peer);
        Self { _ends: [far, near] }
    }
}

fn port() -> &'static str {
    WIREGUARD.rsplit_once(':').unwrap().1
}

/// One end, with its own keys and those of the peer, and further lines of its configuration.
fn end(
    row: &Row,
    network: &str,
    device: &str,
    (own, address): (usize, &str),
    lines: &str,
    peer: &str,
) -> Running {
    let device = format!("{device}{}", std::process::id() % 100_000);
    let program = PathBuf::from(
        std::env::var_os("HERMES_PEERS")
            .expect("HERMES_PEERS names the folder of peers: ./test real sets it"),
    )
    .join("wireguard-go");
    let namespace = row.topology.namespace(network).unwrap();
    let mut command = namespace.command(program);
    // It says that there is a kernel module, which is not what is to be tried.
    command
        .args(["--foreground", &device])
        .env("WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD", "1");
    let running = Running(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut control = eventually("its control socket", || {
        UnixStream::connect(format!("/var/run/wireguard/{device}.sock")).ok()
    });
    let (private, public) = (KEYS[own][0], KEYS[1 - own][1]);
    let said = format!(
        "set=1\nprivate_key={private}\n{lines}public_key={public}\n{peer}allowed_ip=10.9.0.0/24\n\n"
    );
    control.write_all(said.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(control).read_line(&mut answer).unwrap();
    assert_eq!(answer, "errno=0\n");
    for line in [
        format!("addr add {address}/24 dev {device}"),
        format!("link set {device} mtu {MTU} up"),
    ] {
        namespace
            .run(
                &std::iter::once("ip")
                    .chain(line.split(' '))
                    .collect::<Vec<_>>(),
            )
            .unwrap();
    }
    running
}

/// Begins to send this many pings, one `every` so often (in seconds), as its users do.
pub fn pinging(row: &Row, count: u32, every: &str) -> Child {
    let ping = std::env::var("HERMES_PING").expect("HERMES_PING names ping: ./test real sets it");
    let mut command = row.topology.namespace("client").unwrap().command(ping);
    command.args(["-n", "-c", &count.to_string(), "-i", every, "-W", "10", FAR]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// How many came back.
pub fn received(pinging: Child) -> u32 {
    let output = pinging.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let received = said
        .split(", ")
        .find_map(|part| part.strip_suffix(" received"));
    received
        .unwrap_or_else(|| panic!("{said}"))
        .parse()
        .unwrap()
}

/// Waits until a ping comes back.
pub fn reached(row: &Row) {
    eventually("the private network", || {
        (received(pinging(row, 1, "1")) == 1).then_some(())
    });
}

#[test]
fn wireguard_with_its_own_mtu_stalls_over_no_version() {
    let row = Row::start(3, 100);
    let _wireguard = WireGuard::start(&row, "wgm");
    reached(&row);
    thread::scope(|scope| {
        let listener = scope.spawn(|| {
            row.topology.namespace("far").unwrap().enter().unwrap();
            TcpListener::bind((FAR, 9000)).unwrap()
        });
        let listener = listener.join().unwrap();
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut room = vec![0; BULK];
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut room).unwrap();
            stream.write_all(&room).unwrap();
        });
        scope.spawn(|| {
            row.topology.namespace("client").unwrap().enter().unwrap();
            let mut stream = TcpStream::connect((FAR, 9000)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(&vec![7; BULK]).unwrap();
            stream.read_exact(&mut vec![0; BULK]).unwrap();
        });
    });
    let log = row.entry.log();
    assert!(
        log.contains("sent as capsules") && log.contains("datagrams.oversize"),
        "{log}"
    );
    // One session carried all of it.
    assert_eq!(row.far.exchanges().len(), 1);
}
