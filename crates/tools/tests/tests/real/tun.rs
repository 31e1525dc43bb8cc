//! Programs that know nothing of the overlay, through the device of a user's machine: curl, ssh, a browser and iperf3.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::eventually;
use hermes_tests::{Node, Pki, chromium, program};
use serde_json::Value;
use tempfile::TempDir;

use crate::row::Running;

/// The server, in a network that only the last node knows.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);

const WEB: u16 = 8000;
const SSH: u16 = 2222;
const IPERF: u16 = 5201;

/// Bytes of a file: some thousand packets.
const FILE: usize = 8 << 20;

/// Alice - near - edge - server, and the nodes of the first three.
struct Overlay {
    topology: Topology,
    _nodes: [Node; 3],
}

impl Overlay {
    /// The nodes speak this version of HTTP.
    fn start(http: u8) -> Self {
        let mut topology = Topology::new();
        let names = ["alice", "near", "edge", "server"];
        for name in names {
            topology.add(name).unwrap();
        }
        for (number, pair) in (1..).zip(names.windows(2)) {
            let [one, other] = [1, 2].map(|host| format!("10.0.{number}.{host}/24"));
            let plug = |namespace, address| Plug { namespace, address };
            let cabled = topology.cable(plug(pair[0], &one), plug(pair[1], &other));
            cabled.unwrap();
        }
        topology.route("server", "10.7.0.0/24", "10.0.3.1").unwrap();

        let pki = Pki::new();
        let tls = pki.issue(&["10.0.1.2", "10.0.2.2"]).yaml();
        let listener = |address: &str| {
            format!(
                "listeners: {{ overlay: {{ http: {address}, public: true, insecure_trust: [10.0.0.0/16], tls: {{ {tls} }} }} }}"
            )
        };
        let next = |address: &str| {
            let ca = pki.ca().display().to_string();
            format!(
                "upstreams: {{ next: {{ endpoints: [\"{address}\"], http: {http}, tls: {{ ca_file: {ca} }} }} }}"
            )
        };
        let edge = format!(
            "
            {}
            routes: [ {{ match: {{ kind: connect-ip }}, terminate: {{ tun: hermes1, pool: 10.7.0.0/24, routes: [10.0.3.0/24] }} }} ]
            ",
            listener("10.0.2.2:8443")
        );
        let near = format!(
            "
            {}
            routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
            {}
            ",
            listener("10.0.1.2:8443"),
            next("10.0.2.2:8443")
        );
        let alice = format!(
            "
            identity: {{ user: alice }}
            listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.0.3.0/24] }} }} }}
            routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]
            {}
            ",
            next("10.0.1.2:8443")
        );
        let hermes = program::path();
        let start = |name: &str, yaml: &str| {
            let network = topology.namespace(name).unwrap();
            Node::start_by(network.command(&hermes), name, yaml)
        };
        let nodes = [
            start("edge", &edge),
            start("near", &near),
            start("alice", &alice),
        ];
        let overlay = Self {
            topology,
            _nodes: nodes,
        };
        let server = SERVER.to_string();
        eventually("an echo", || {
            overlay.run("alice", &["ping", "-c", "1", "-W", "1", &server])
        });
        overlay
    }

    /// A command in one of the networks.
    fn command(&self, namespace: &str, program: &str) -> Command {
        let network = self.topology.namespace(namespace).unwrap();
        network.command(tool(program))
    }

    /// What a command says that succeeds.
    fn run(&self, namespace: &str, words: &[&str]) -> Option<String> {
        let output = self
            .command(namespace, words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(said)
    }

    /// Starts a program at the server, and waits until it listens.
    fn serve(&self, mut command: Command, port: u16) -> Running {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let running = Running(quiet.stderr(Stdio::null()).spawn().unwrap());
        let listens =
            || TcpStream::connect_timeout(&(SERVER, port).into(), Duration::from_secs(1)).ok();
        eventually("the program listens", || {
            std::thread::scope(|scope| {
                let tried = scope.spawn(|| {
                    self.topology.namespace("server").unwrap().enter().unwrap();
                    listens()
                });
                tried.join().unwrap()
            })
        });
        running
    }

    fn web(&self, folder: &Path) -> Running {
        let mut server = self.command("server", "python");
        server.args(["-m", "http.server", &WEB.to_string(), "--directory"]);
        server.arg(folder);
        self.serve(server, WEB)
    }
}

/// The program that the environment names, or one of this name.
fn tool(name: &str) -> String {
    let variable = format!("HERMES_{}", name.to_uppercase());
    std::env::var(variable).unwrap_or_else(|_| name.to_owned())
}

fn pattern() -> Vec<u8> {
    (0..FILE).map(|at| (at % 251) as u8).collect()
}

#[test]
fn curl_and_a_browser_load_what_is_behind_the_overlay() {
    for http in [2, 3] {
        let overlay = Overlay::start(http);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), pattern()).unwrap();
        let page = "<p id=said>nothing</p><script>fetch('word').then(a => a.text()).then(word => said.textContent = word)</script>";
        fs::write(folder.path().join("page.html"), page).unwrap();
        fs::write(folder.path().join("word"), "hello from the other side").unwrap();
        let _web = overlay.web(folder.path());

        let got = folder.path().join("got");
        let url = |path: &str| format!("http://{SERVER}:{WEB}/{path}");
        let ask = [
            "curl",
            "-sf",
            "-m",
            "60",
            "-o",
            got.to_str().unwrap(),
            &url("file"),
        ];
        overlay.run("alice", &ask).unwrap();
        assert!(fs::read(&got).unwrap() == pattern(), "HTTP/{http}");

        let network = overlay.topology.namespace("alice").unwrap();
        let document = chromium::load_by(network.command(chromium::path()), &url("page.html"));
        assert!(document.contains("hello from the other side"), "{document}");
    }
}

/// A server of ssh that lets in whom the test has made a key for.
fn sshd(overlay: &Overlay, folder: &TempDir) -> Running {
    let at = folder.path().display();
    for key in ["host", "user"] {
        let file = format!("{at}/{key}");
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &file])
            .status();
        assert!(made.unwrap().success());
    }
    let configuration = format!(
        "Port {SSH}\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/user.pub\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    );
    let file = folder.path().join("sshd_config");
    fs::write(&file, configuration).unwrap();
    // Where it gives up its rights; a package makes it when the service starts, which it does not here.
    fs::create_dir_all("/run/sshd").unwrap();
    let mut command = overlay.command("server", "sshd");
    command.args(["-D", "-e", "-f"]).arg(&file);
    overlay.serve(command, SSH)
}

#[test]
fn ssh_copies_there_and_back() {
    let overlay = Overlay::start(3);
    let folder = tempfile::tempdir().unwrap();
    let _sshd = sshd(&overlay, &folder);
    let key = folder.path().join("user");
    let mut session = overlay
        .command("alice", "ssh")
        .args(["-F", "none", "-T", "-i", key.to_str().unwrap()])
        .args(["-o", "StrictHostKeyChecking=no"])
        .args(["-o", "UserKnownHostsFile=/dev/null"])
        .args(["-p", &SSH.to_string(), &SERVER.to_string(), "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = session.stdin.take().unwrap();
    let sent = std::thread::spawn(move || says.write_all(&pattern()).unwrap());
    let heard = session.wait_with_output().unwrap();
    sent.join().unwrap();
    assert!(heard.status.success());
    assert!(heard.stdout == pattern(), "{} bytes", heard.stdout.len());
}

/// What iperf3 measures in two seconds, with these options.
///
/// Its server serves one test at a time: it takes a connection that only looks whether it listens for a test as well, and while it makes its
/// socket anew after each one, the next client is refused. So each test has a server of its own, and no one else connects to it.
fn iperf3(overlay: &Overlay, options: &[&str]) -> Value {
    let mut server = overlay.command("server", "iperf3");
    server.args(["-s", "-1", "-p", &IPERF.to_string()]);
    let quiet = server.stdin(Stdio::null()).stdout(Stdio::null());
    let _server = Running(quiet.stderr(Stdio::null()).spawn().unwrap());
    eventually("iperf3 listens", || {
        let port = format!("sport = :{IPERF}");
        let listening = overlay.run("server", &["ss", "-Hltn", &port])?;
        (!listening.trim().is_empty()).then_some(())
    });

    let at = SERVER.to_string();
    let ask = ["-c", &at, "-t", "2", "-J"];
    let output = overlay
        .command("alice", "iperf3")
        .args([&ask[..], options].concat())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // It reports its own errors as JSON.
    assert!(output.status.success(), "{options:?}: {said}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn iperf3_measures_both_ways_and_udp() {
    for http in [2, 3] {
        let overlay = Overlay::start(http);
        for way in [&[][..], &["-R"], &["-P", "4"]] {
            let measured = iperf3(&overlay, way);
            let bytes = measured["end"]["sum_received"]["bytes"].as_u64().unwrap();
            eprintln!("HTTP/{http} {way:?}: {} kB", bytes / 1000);
            assert!(bytes > 0, "{way:?}: {measured:#}");
        }
        let measured = iperf3(&overlay, &["-u", "-b", "4M", "-l", "1200"]);
        let sum = &measured["end"]["sum"];
        let count = |name: &str| sum[name].as_u64().unwrap();
        eprintln!(
            "HTTP/{http} UDP: {} of {} lost",
            count("lost_packets"),
            count("packets")
        );
        assert!(count("lost_packets") * 2 < count("packets"), "{sum:#}");
    }
}
