//! Names of the overlay for programs that know addresses only: a machine whose `/etc/resolv.conf` names its node.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, program};
use tempfile::TempDir;

use super::intercept::{PATIENCE, names_at};
use super::{Running, command, within};

/// The name server of Alice's node.
const SERVER: &str = "100.64.0.2";

/// When a question is asked again.
const AGAIN: Duration = Duration::from_secs(2);

/// Where the resolver of her machine is, and where the overlay ends.
const EDGE: &str = "
    listeners: { overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] } }
    log: { access: { file: access.json } }
    routes:
      - { match: { target: VIDEO, kind: connect, user: alice }, terminate: video }
      - { match: { target: \"*.hermes\", kind: connect-udp }, terminate: echo }
      - match: { kind: connect-ip }
        terminate: { tun: hermes1, pool: [10.7.0.0/24], routes: [10.7.0.0/24] }
    upstreams:
      video: { endpoints: [127.0.0.1:8000] }
      echo: { endpoints: [127.0.0.1:7007] }
";

/// Alice's node. `device` is said of its device, and `dns` of its names.
fn alice(device: &str, dns: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        log: {{ access: {{ file: access.json }} }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} dns: {{ {dns} }} }} }} }}
        routes:
          - {{ match: {{ target: [VIDEO, \"*.hermes\"] }}, to: edge }}
          - {{ match: {{ kind: connect-ip }}, to: edge }}
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        "
    )
}

/// A server of the files of a folder.
pub(super) fn page(topology: &Topology, namespace: &str, folder: &Path) -> Running {
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let page = command(topology, namespace, &python)
        .args(["-m", "http.server", "8000", "--bind", "127.0.0.1"])
        .arg("--directory")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(page.unwrap())
}

/// A program on Alice's machine, whose `/etc/resolv.conf` is this file.
pub(super) fn resolving(topology: &Topology, resolv_conf: &Path, program: &str) -> Command {
    let mut by = command(topology, "alice", "unshare");
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    by.args(["--mount", "sh", "-c", script]);
    by.arg(resolv_conf).arg(program);
    by
}

/// Alice's machine and that at the end of the overlay, with a page, an echo of datagrams and a resolver.
struct Machines {
    topology: Topology,
    folder: TempDir,
    _edge: Node,
    _servers: [Running; 2],
}

impl Machines {
    fn new() -> Self {
        let mut topology = Topology::new();
        for name in ["alice", "edge"] {
            topology.add(name).unwrap();
        }
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(plug("alice", "10.0.1.1/24"), plug("edge", "10.0.1.2/24"))
            .unwrap();

        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("hello"), "hello from VIDEO").unwrap();
        let page = page(&topology, "edge", folder.path());
        let echo = within(&topology, "edge", || {
            UdpSocket::bind("127.0.0.1:7007").unwrap()
        });
        thread::spawn(move || {
            let mut room = [0; 2000];
            while let Ok((length, from)) = echo.recv_from(&mut room) {
                let _ = echo.send_to(&room[..length], from);
            }
        });

        let resolver = names_at(&topology, "edge", "10.0.1.2");
        let hermes = program::path();
        let edge = command(&topology, "edge", hermes.to_str().unwrap());
        let edge = Node::start_by(edge, "edge", EDGE);
        Self {
            _edge: edge,
            _servers: [page, resolver],
            topology,
            folder,
        }
    }

    /// A file that names name servers.
    fn resolv_conf(&self, servers: &[&str]) -> PathBuf {
        let lines: Vec<String> = servers
            .iter()
            .map(|one| format!("nameserver {one}\n"))
            .collect();
        let file = self.folder.path().join("resolv.conf");
        std::fs::write(&file, lines.concat()).unwrap();
        file
    }

    /// A program on Alice's machine, whose `/etc/resolv.conf` is this file.
    fn by(&self, resolv_conf: &Path, program: &str) -> Command {
        resolving(&self.topology, resolv_conf, program)
    }

    fn start(&self, resolv_conf: &Path, yaml: &str) -> Node {
        let hermes = program::path();
        Node::start_by(
            self.by(resolv_conf, hermes.to_str().unwrap()),
            "alice",
            yaml,
        )
    }

    /// What a program says, if it succeeds.
    fn run(&self, resolv_conf: &Path, words: &[&str]) -> Option<String> {
        let done = self
            .by(resolv_conf, words[0])
            .args(&words[1..])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        done.status.success().then_some(said)
    }

    fn curl(&self, resolv_conf: &Path, url: &str) -> Option<String> {
        let curl = std::env::var("HERMES_CURL").unwrap();
        self.run(resolv_conf, &[&curl, "-sf", "-m", "10", url])
    }

    /// What the name server answers to a question that comes by TCP.
    fn asked_by_tcp(&self, question: &[u8]) -> Vec<u8> {
        let mut stream = within(&self.topology, "alice", || {
            TcpStream::connect((SERVER, 53)).unwrap()
        });
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = u16::try_from(question.len()).unwrap();
        stream
            .write_all(&[&length.to_be_bytes()[..], question].concat())
            .unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut answer).unwrap();
        answer
    }

    /// A socket of hers towards the name server.
    fn asking(&self) -> UdpSocket {
        within(&self.topology, "alice", || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.set_read_timeout(Some(AGAIN)).unwrap();
            socket.connect((SERVER, 53)).unwrap();
            socket
        })
    }
}

/// A question for the IPv4 address of a name (RFC 1035, section 4).
fn question(name: &str) -> Vec<u8> {
    let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    question
}

/// What the server answers: the code, and the last four bytes, which are the address where there is one. Questions get lost where there
/// are very many, so it is asked until it answers.
fn asked(socket: &UdpSocket, name: &str) -> (u8, Vec<u8>) {
    let question = question(name);
    eventually("an answer about a name", || {
        socket.send(&question).unwrap();
        let mut room = [0; 1500];
        let length = socket.recv(&mut room).ok()?;
        let is_about_it = room[12..length].starts_with(&question[12..]);
        is_about_it.then(|| (room[3] & 0x0f, room[length - 4..length].to_vec()))
    })
}

#[test]
fn programs_reach_names_of_the_overlay_and_ask_the_machines_resolver_for_others() {
    let machines = Machines::new();
    let conf = machines.resolv_conf(&[SERVER, "10.0.1.2"]);
    let pool = "pool: [100.64.0.0/16, \"fd64::/64\"]";
    let node = machines.start(&conf, &alice("", pool));

    // A page at the origin that the route for VIDEO names.
    let page = eventually("the page", || machines.curl(&conf, "http://VIDEO/hello"));
    assert_eq!(page, "hello from VIDEO");
    let record = node.record(|record| record["target"] == "video:80" && record["status"] == 200);
    assert_eq!(record["user"], "alice", "{record:#}");
    assert_eq!(record["kind"], "connect", "{record:#}");
    assert_eq!(record["protocol"], "ip", "{record:#}");

    // Echoes, of both families.
    for family in ["-4", "-6"] {
        let pinged = machines.run(&conf, &["ping", family, "-c", "1", "-W", "5", "VIDEO"]);
        assert!(
            pinged.is_some_and(|said| said.contains("1 received")),
            "{family}"
        );
    }

    // Datagrams to a name below a suffix, by its address.
    let asking = machines.asking();
    let (code, address) = asked(&asking, "echo.hermes");
    assert_eq!((code, &address[..2]), (0, &[100, 64][..]));
    let address = Ipv4Addr::from(<[u8; 4]>::try_from(address).unwrap());
    let datagrams = within(&machines.topology, "alice", || {
        UdpSocket::bind("0.0.0.0:0").unwrap()
    });
    datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
    datagrams.connect((address, 7007)).unwrap();
    datagrams.send(b"are you there?").unwrap();
    let mut room = [0; 100];
    let length = datagrams.recv(&mut room).unwrap();
    assert_eq!(&room[..length], b"are you there?");

    // It keeps its address, and the address has its name.
    assert_eq!(
        asked(&asking, "echo.hermes"),
        (0, address.octets().to_vec())
    );
    let name = machines
        .run(&conf, &["getent", "hosts", &address.to_string()])
        .unwrap();
    assert!(name.contains("echo.hermes"), "{name}");

    // Another name: by the resolver of the machine, over UDP and over TCP.
    let known = machines
        .run(&conf, &["getent", "ahostsv4", "video.example"])
        .unwrap();
    assert!(known.contains("192.0.2.7"), "{known}");
    for (name, ends) in [
        ("video.example", [192, 0, 2, 7]),
        ("echo.hermes", address.octets()),
    ] {
        let answer = machines.asked_by_tcp(&question(name));
        assert!(answer.ends_with(&ends), "{name}: {answer:?}");
    }
    assert_eq!(machines.run(&conf, &["getent", "hosts", "NOPE"]), None);

    // An address that no name has leads nowhere, and the name server is nothing else.
    for nowhere in ["100.64.255.254:80", "100.64.0.2:80"] {
        let refused = within(&machines.topology, "alice", || TcpStream::connect(nowhere));
        assert!(refused.is_err(), "{nowhere}");
    }
    let device = node.status()["devices"][0].clone();
    assert_eq!(device["names"]["servers"][0], SERVER, "{device:#}");
    assert_eq!(device["names"]["names"], 2, "{device:#}");
    assert_eq!(device["tunnels"], 0, "{device:#}");
    let metrics = node.ask("GET", "/metrics", "").1;
    for answer in ["answered", "forwarded"] {
        let line = format!("hermes_names_asked_total{{listener=\"vpn\",answer=\"{answer}\"}}");
        assert!(metrics.contains(&line), "{metrics}");
    }
}

#[test]
fn names_and_a_tunnel_share_a_device_and_names_change_with_the_rules() {
    let machines = Machines::new();
    // The machine asks its own resolver where the node refuses to answer.
    let conf = machines.resolv_conf(&[SERVER, "10.0.1.2"]);
    let pool = "pool: 100.64.0.0/24, others: refuse, echo: refuse";
    let yaml = alice("routes: [10.7.0.0/24],", pool);
    let node = machines.start(&conf, &yaml);
    eventually_true("the tunnel carries an echo", || {
        machines
            .run(&conf, &["ping", "-c", "1", "-W", "1", "10.7.0.1"])
            .is_some()
    });
    let page = eventually("the page", || machines.curl(&conf, "http://VIDEO/hello"));
    assert_eq!(page, "hello from VIDEO");
    assert_eq!(
        machines.run(&conf, &["ping", "-c", "1", "-W", "5", "VIDEO"]),
        None
    );
    let known = machines
        .run(&conf, &["getent", "ahostsv4", "video.example"])
        .unwrap();
    assert!(known.contains("192.0.2.7"), "{known}");

    // A route for another name is a name more; the device, and its tunnel, stay.
    let asking = machines.asking();
    assert_eq!(asked(&asking, "AUDIO").0, 5, "refused");
    let since = node.status()["devices"][0]["since"].clone();
    let (status, said) = node.reload(&yaml.replace("[VIDEO,", "[VIDEO, AUDIO,"));
    assert_eq!(status, 200, "{said}");
    assert_eq!(asked(&asking, "AUDIO").0, 0);
    assert_eq!(node.status()["devices"][0]["since"], since);
}

#[test]
fn no_answer_of_others_leads_to_names_of_the_overlay() {
    let machines = Machines::new();
    let conf = machines.resolv_conf(&[SERVER, "10.0.1.2"]);
    let node = machines.start(&conf, &alice("", "pool: 100.64.0.0/24"));
    let page = eventually("the page", || machines.curl(&conf, "http://VIDEO/hello"));
    assert_eq!(page, "hello from VIDEO");

    // 3: no such name.
    let asking = machines.asking();
    assert_eq!(asked(&asking, "rebound.example").0, 3);
    for (name, kind) in [("rebound.example", 1), ("translated.example", 28)] {
        let mut question = question(name);
        let at = question.len() - 3;
        question[at] = kind;
        let answer = machines.asked_by_tcp(&question);
        assert_eq!(answer[3] & 0x0f, 3, "{name}: {answer:?}");
        assert_eq!(answer[6..12], [0; 6], "{name}: {answer:?}");
    }

    let (code, address) = asked(&asking, "video.example");
    assert_eq!((code, address), (0, vec![192, 0, 2, 7]));
    let metrics = node.ask("GET", "/metrics", "").1;
    let line = "hermes_names_asked_total{listener=\"vpn\",answer=\"rebound\"} 3";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn a_node_that_is_the_only_name_server_of_its_machine_knows_its_own_names() {
    let machines = Machines::new();
    let conf = machines.resolv_conf(&[SERVER]);
    let _node = machines.start(&conf, &alice("", "pool: 100.64.0.0/24"));
    let page = eventually("the page", || machines.curl(&conf, "http://VIDEO/hello"));
    assert_eq!(page, "hello from VIDEO");
    assert_eq!(asked(&machines.asking(), "video.example").0, 5, "refused");
}

#[test]
fn hostile_questions_and_very_many_names_do_nothing_to_others() {
    let machines = Machines::new();
    let conf = machines.resolv_conf(&[SERVER, "10.0.1.2"]);
    let node = machines.start(&conf, &alice("", "pool: 100.64.0.0/28"));
    eventually("the page", || machines.curl(&conf, "http://VIDEO/hello"));
    let asking = machines.asking();
    let (code, video) = asked(&asking, "video");
    assert_eq!(code, 0);

    // Cut off, pointing to itself, an answer, several questions at once, and noise.
    let flood = machines.asking();
    let whole = question("video");
    for end in 0..whole.len() {
        flood.send(&whole[..end]).unwrap();
    }
    let mut looped = whole.clone();
    looped.splice(12..19, [0xc0, 12]);
    let mut answer = whole.clone();
    answer[2] |= 0x80;
    let mut many = whole.clone();
    many[4..6].fill(0xff);
    for hostile in [looped, answer, many] {
        flood.send(&hostile).unwrap();
    }
    let mut state = 7_u32;
    for _ in 0..2000 {
        let noise: Vec<u8> = (0..40)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        flood.send(&noise).unwrap();
    }

    // More names than there are addresses: those that have one keep it, and no one else gets any.
    let codes: Vec<u8> = (0..40)
        .map(|number| asked(&asking, &format!("n{number}.hermes")).0)
        .collect();
    assert_eq!(
        codes.iter().filter(|code| **code == 0).count(),
        11,
        "{codes:?}"
    );
    assert!(codes.ends_with(&[2, 2, 2]), "{codes:?}");
    assert_eq!(asked(&asking, "video"), (0, video));
    let page = machines.curl(&conf, "http://VIDEO/hello").unwrap();
    assert_eq!(page, "hello from VIDEO");
    let names = node.status()["devices"][0]["names"].clone();
    assert_eq!(names["names"], 12, "{names:#}");
    let told = node.log().matches("a larger `pool`").count();
    assert_eq!(told, 1, "{}", node.log());
}

/// The node in the middle, which is killed. It knows nothing of what outlives it.
const MIDDLE: &str = "
    listeners: { overlay: { http: 10.0.1.2:8444, public: true, insecure_trust: [10.0.1.0/24] } }
    routes: [ { to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8445], http: 2 } }
";

/// Where the overlay ends behind it.
const END: &str = "
    listeners: { overlay: { http: 10.0.1.2:8445, public: true, insecure_trust: [10.0.1.0/24] } }
    routes: [ { match: { target: VIDEO, kind: connect, user: alice }, terminate: shell } ]
    upstreams: { shell: { endpoints: [127.0.0.1:22] } }
";

/// As ssh to a name: what is said before the node in the middle is killed and after that arrives, in order, without a word of the file
/// about it; with `resume: false` the connection ends.
#[test]
fn a_connection_to_a_name_outlives_its_ingress() {
    let machines = Machines::new();
    let shell = within(&machines.topology, "edge", || {
        TcpListener::bind("127.0.0.1:22").unwrap()
    });
    thread::spawn(move || {
        while let Ok((stream, _)) = shell.accept() {
            thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    let hermes = program::path();
    let by = || command(&machines.topology, "edge", hermes.to_str().unwrap());
    let _end = Node::start_by(by(), "end", END);

    for (tunnel, survives) in [("", true), (", tunnel: { resume: false }", false)] {
        let mut ingress = Node::start_by(by(), "middle", MIDDLE);
        let conf = machines.resolv_conf(&[SERVER, "10.0.1.2"]);
        let yaml = alice("", "pool: 100.64.0.0/24")
            .replace("10.0.1.2:8443", "10.0.1.2:8444")
            .replace("to: edge }", &format!("to: edge{tunnel} }}"));
        let node = machines.start(&conf, &yaml);
        eventually_true("the device is there", || {
            machines
                .run(&conf, &["getent", "ahostsv4", "VIDEO"])
                .is_some()
        });
        let (_, address) = asked(&machines.asking(), "VIDEO");
        let address = Ipv4Addr::from(<[u8; 4]>::try_from(address).unwrap());
        let mut ssh = within(&machines.topology, "alice", || {
            TcpStream::connect((address, 22)).unwrap()
        });
        ssh.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut room = [0; 6];
        ssh.write_all(b"before").unwrap();
        ssh.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"before");

        ingress.kill();
        ingress.restart_by(by());
        drop(ssh.write_all(b"after!"));
        let came = ssh.read_exact(&mut room);
        assert_eq!(
            came.is_ok() && &room == b"after!",
            survives,
            "{tunnel}: {came:?}"
        );
        drop(ssh);
        let record =
            node.record(|record| record["target"] == "video:22" && record["event"] == "end");
        assert_eq!(record["resumed"].as_u64().is_some(), survives, "{record:#}");
    }
}
