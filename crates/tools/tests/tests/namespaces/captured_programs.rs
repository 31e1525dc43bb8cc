//! Programs that many know, captured: they find what they find without a node.

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually;
use serde_json::Value;

use super::captured::{EDGE, Place, alice, said};
use super::intercept::{SERVER, names, web};
use super::packets::{networks, start};
use super::transparent::network;
use super::{Running, command};

/// A scan of whole connections, of ports of which one is open.
const SCAN: &str = "nmap -sT -Pn -n -p 7998-8003 -oG -";

/// The ports of a scan, without the times.
fn ports(said: &str) -> String {
    let found = said
        .lines()
        .find_map(|line| line.split_once("Ports: "))
        .unwrap_or_else(|| panic!("{said}"));
    found.1.to_owned()
}

/// A server of iperf3, and the arguments of its clients: bytes over TCP, a second of datagrams over UDP.
fn measures(topology: &Topology) -> Running {
    let mut server = command(topology, "server", "iperf3");
    let server = server.arg("-s").stdout(Stdio::null()).spawn();
    Running(server.unwrap())
}

const BYTES: &str = "iperf3 -n 4M -c";
const DATAGRAMS: &str = "iperf3 -u -b 5M -t 1 -c";

/// Whether a report says that all came: it has a line of the receiver.
fn is_whole(said: &str) -> bool {
    said.contains("receiver") && !said.contains("error")
}

#[test]
fn a_scan_and_measurements_of_a_program_without_rights_are_those_without_a_node() {
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let _measures = measures(&topology);
    let _edge = start(&topology, "edge", EDGE);
    let _node = start(&topology, "alice", &alice(&place));
    let run = |line: &str| {
        let line = format!("{line} {SERVER}");
        said(&place.run(&topology, &line.split(' ').collect::<Vec<_>>()))
    };

    let direct = topology.namespace("edge").unwrap();
    let scan = format!("{SCAN} {SERVER}");
    let scan: Vec<&str> = scan.split(' ').collect();
    let direct = eventually("the server", || {
        let found = ports(&direct.run(&scan).unwrap());
        found.contains("8000/open").then_some(found)
    });
    assert!(direct.contains("8001/closed"), "{direct}");
    eventually("the same", || (ports(&run(SCAN)) == direct).then_some(()));
    for line in [BYTES, DATAGRAMS] {
        let said = run(line);
        assert!(is_whole(&said), "{said}");
    }
}

#[test]
fn measurements_through_a_router_that_captures_are_whole() {
    let topology = network::networks();
    let _measures = measures(&topology);
    for capture in ["interfaces: client", "interfaces: client, split: true"] {
        let node = network::node(&topology, capture);
        for server in network::SERVERS {
            for line in [BYTES, DATAGRAMS] {
                let said = eventually("a server that listens", || {
                    let client = topology.namespace("client").unwrap();
                    let line = format!("{line} {server}");
                    client.run(&line.split(' ').collect::<Vec<_>>()).ok()
                });
                assert!(is_whole(&said), "{capture}: {said}");
            }
        }
        node.record(|record| record["target"] == "[fd02::2]:5201");
        // Sessions of datagrams go on for a while.
        let is_session = |exchange: &Value| exchange["kind"] == "connect-udp";
        assert!(node.exchanges().iter().any(is_session));
    }
}

/// What a static program of Go prints: a page by a name of the overlay, and the error of a port that no one serves.
const GO: &str = r#"
package main

import (
    "fmt"
    "io"
    "net"
    "strings"
)

func main() {
    stream, err := net.Dial("tcp", "video.hermes:8000")
    if err != nil {
        fmt.Println(err)
        return
    }
    fmt.Fprint(stream, "GET /hello HTTP/1.0\r\n\r\n")
    answer, _ := io.ReadAll(stream)
    page := string(answer)
    fmt.Println(page[strings.LastIndex(page, "\n")+1:])
    _, err = net.Dial("tcp", "10.0.2.2:8001")
    fmt.Println(err)
}
"#;

/// Builds a program that the C library has no part in.
fn static_program(folder: &Path) -> String {
    let source = folder.join("program.go");
    std::fs::write(&source, GO).unwrap();
    let program = folder.join("program");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &source])
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    program.to_str().unwrap().to_owned()
}

/// A server of SSH at the end of the network, and the key of its client, who is user 1000.
fn sshd(topology: &Topology, folder: &Path) -> Running {
    for key in ["host", "user"] {
        let file = folder.join(key);
        let words = ["-q", "-t", "ed25519", "-N", "", "-f"];
        let made = Command::new("ssh-keygen").args(words).arg(&file).status();
        assert!(made.unwrap().success());
    }
    chown(folder.join("user"), Some(1000), Some(1000)).unwrap();
    let at = folder.display();
    let lines = format!(
        "ListenAddress {SERVER}:22\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/user.pub\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
    );
    std::fs::write(folder.join("sshd_config"), lines).unwrap();
    // Where it gives up its rights; a package makes it when the service starts, which it does not here.
    let _ = std::fs::create_dir_all("/run/sshd");
    let mut server = command(topology, "server", "/usr/sbin/sshd");
    let server = server
        .args(["-D", "-e", "-f"])
        .arg(folder.join("sshd_config"));
    let log = std::fs::File::create(folder.join("sshd.log")).unwrap();
    Running(server.stderr(log).spawn().unwrap())
}

/// A folder of user 1000.
fn own_folder(folder: &Path) -> String {
    let own = folder.join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(1000), Some(1000)).unwrap();
    own.to_str().unwrap().to_owned()
}

#[test]
fn dig_ssh_a_static_program_and_a_browser_reach_their_servers_without_rights() {
    let topology = networks();
    let place = Place::new();
    place.know_users();
    let folder = place.folder.path();
    let _web = web(&topology, folder);
    let _names = names(&topology);
    let _ssh = sshd(&topology, folder);
    let _edge = start(&topology, "edge", EDGE);
    let _node = start(&topology, "alice", &alice(&place));
    let program = static_program(folder);
    let own = own_folder(folder);
    std::fs::write(folder.join("page.html"), "<p>a page from the other side").unwrap();
    let run = |line: &str| said(&place.run(&topology, &line.split(' ').collect::<Vec<_>>()));

    // By UDP and by TCP.
    for way in ["+notcp", "+tcp"] {
        let dig = format!("dig +short +tries=1 +time=10 {way} @{SERVER} video.example");
        eventually(way, || (run(&dig) == "192.0.2.7").then_some(()));
    }

    let found = run(&program);
    let (page, error) = found.split_once('\n').unwrap_or((&found, ""));
    assert_eq!(page, "hello from the other side");
    assert!(error.contains("connection refused"), "{error}");

    let key = folder.join("user");
    let ssh = format!(
        "ssh -F none -T -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@{SERVER} printenv SSH_CONNECTION",
        key.display()
    );
    let login = run(&ssh);
    // The address of the last node: the client's is known to the first one alone.
    assert!(login.starts_with("10.0.2.1 "), "{login}");

    let chromium = std::env::var("HERMES_CHROMIUM_HEADLESS_SHELL");
    let chromium = chromium.unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    let page = run(&format!(
        "{chromium} --no-sandbox --disable-gpu --timeout=60000 --user-data-dir={own} --dump-dom http://video.hermes:8000/page.html"
    ));
    assert!(page.contains("a page from the other side"), "{page}");
}

#[test]
fn a_small_link_behind_the_last_node_carries_connections_of_captured_programs() {
    let topology = networks();
    let place = Place::new();
    let folder = place.folder.path();
    std::fs::write(folder.join("large"), vec![b'l'; 1_000_000]).unwrap();
    let _web = web(&topology, folder);
    let _edge = start(&topology, "edge", EDGE);
    let _node = start(&topology, "alice", &alice(&place));
    // The programs' own packets are larger, and may not be cut.
    for (namespace, device) in [("edge", "server"), ("server", "edge")] {
        let network = topology.namespace(namespace).unwrap();
        let set = ["ip", "link", "set", "dev", device, "mtu", "600"];
        network.run(&set).unwrap();
    }

    let url = format!("http://{SERVER}:8000/large");
    let words = [
        "curl",
        "-s",
        "-m",
        "20",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        &url,
    ];
    eventually("the whole file", || {
        (said(&place.run(&topology, &words)) == "1000000").then_some(())
    });
}
