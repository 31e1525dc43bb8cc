//! WireGuard on a host, by programs that are not ours.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually;

use crate::{Running, command};

/// What the devices of WireGuard take by default, in bytes.
const MTU: &str = "1420";

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointProgram {
    WireguardGo,
    Boringtun,
}

/// WireGuard on a host. Dropping it ends it.
pub(super) struct Endpoint {
    _process: Running,
    device: String,
    host: &'static str,
}

/// The one peer of a host.
pub(super) struct EndpointPeer<'a> {
    pub(super) public_key: &'a str,
    /// More of it, as the interface of WireGuard programs has it.
    pub(super) lines: String,
    /// What is led to it.
    pub(super) allowed: &'a [&'a str],
}

impl Endpoint {
    /// Starts it, without keys.
    pub(super) fn start(topology: &Topology, host: &'static str, program: EndpointProgram) -> Self {
        // The sockets of all namespaces are in one folder.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let device = format!("wt{}x{next}", std::process::id());
        let peers = std::env::var("HERMES_PEERS").unwrap();
        let (name, arguments): (_, &[_]) = match program {
            EndpointProgram::WireguardGo => ("wireguard-go", &["--foreground"]),
            EndpointProgram::Boringtun => (
                "boringtun-cli",
                &["--foreground", "--disable-drop-privileges"],
            ),
        };
        let process = command(topology, host, &format!("{peers}/{name}"))
            .args(arguments)
            .arg(&device)
            // wireguard-go refuses to run where the kernel could do it, unless it is asked like this.
            .env("WG_I_PREFER_BUGGY_USERSPACE_TO_POLISHED_KMOD", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self {
            _process: Running(process.unwrap()),
            device,
            host,
        }
    }

    /// Tells it its key, its port and its peer.
    pub(super) fn configure(&self, key: &Path, port: u16, peer: &EndpointPeer<'_>) {
        let EndpointPeer {
            public_key,
            lines,
            allowed,
        } = peer;
        let own = hex(&std::fs::read_to_string(key).unwrap());
        let other = hex(public_key);
        let allowed: String = allowed
            .iter()
            .map(|prefix| format!("allowed_ip={prefix}\n"))
            .collect();
        self.set(&format!(
            "private_key={own}\nlisten_port={port}\npublic_key={other}\n{lines}{allowed}"
        ));
    }

    /// Moves it to another port.
    pub(super) fn listen(&self, port: u16) {
        self.set(&format!("listen_port={port}\n"));
    }

    /// Gives its device an address, and leads packets into it.
    pub(super) fn attach(&self, topology: &Topology, address: &str, peer: &EndpointPeer<'_>) {
        let host = topology.namespace(self.host).unwrap();
        let device = &self.device;
        let own = [
            format!("ip address add {address} dev {device}"),
            format!("ip link set dev {device} mtu {MTU} up"),
        ];
        let led = peer
            .allowed
            .iter()
            .map(|prefix| format!("ip route add {prefix} dev {device}"));
        for words in own.into_iter().chain(led) {
            host.run(&words.split(' ').collect::<Vec<_>>()).unwrap();
        }
    }

    /// The cross-platform interface of WireGuard programs.
    fn set(&self, lines: &str) {
        let path = format!("/var/run/wireguard/{}.sock", self.device);
        let mut control = eventually("the control socket", || UnixStream::connect(&path).ok());
        control
            .write_all(format!("set=1\n{lines}\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer).unwrap();
        assert_eq!(answer, "errno=0\n", "{lines}");
    }
}

/// A key as that interface has it.
fn hex(key: &str) -> String {
    let bytes = BASE64.decode(key.trim()).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
