//! A policy in Rego about the flows of a tunnel: once each, and anew when it changes.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::{edge, networks, start};
use super::within;

const ALICE: &str = "
    identity: { user: alice }
    listeners: { vpn: { tun: { name: hermes0, addresses: [10.7.0.77/24], routes: [10.0.2.0/24] } } }
    routes: [ { match: { kind: connect-ip }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

const POLICY: &str = "
package overlay

decision := {\"allow\": true} if input.protocol == \"icmp\"

decision := {\"allow\": true} if {
    input.user == \"alice\"
    input.groups[_] == \"staff\"
    input.opened_by == \"client\"
    input.port in data.ports
}

decision := {\"allow\": false, \"reason\": \"not this port\"} if {
    input.protocol != \"icmp\"
    not input.port in data.ports
}
";

fn document(folder: &Path) -> String {
    let files = format!(
        "[{}, {}]",
        folder.join("policy.rego").display(),
        folder.join("data.json").display()
    );
    format!(
        "{}groups: {{ staff: [alice] }}
        log: {{ access: {{ file: access.json }}, decisions: {{ file: decisions.json, sample: 0% }} }}
        policy:
          default: allow
          packets:
            default: allow
            rules: [ {{ name: no-telnet, protocol: tcp, port: 23, deny: true }} ]
            rego: {{ files: {files}, query: data.overlay.decision }}
        ",
        edge("")
    )
}

/// What the policy has said so far, by outcome.
fn decided(edge: &Node, outcome: &str) -> u64 {
    let metrics = edge.metrics();
    let lines = metrics.lines().filter(|line| {
        line.starts_with("hermes_filter_decisions_total")
            && line.contains("policy.packets.rego")
            && line.contains(&format!("\"{outcome}\""))
    });
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

fn connects(topology: &Topology, port: u16) -> std::io::Result<TcpStream> {
    let to = std::net::SocketAddr::from(([10, 0, 2, 2], port));
    within(topology, "alice", || {
        TcpStream::connect_timeout(&to, Duration::from_secs(60))
    })
}

#[test]
fn a_flow_is_one_question_and_what_the_policy_denies_is_told_by_its_name() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), POLICY).unwrap();
    fs::write(folder.path().join("data.json"), "{\"ports\": [5000, 23]}").unwrap();
    let edge = start(&topology, "edge", &document(folder.path()));
    let _alice = start(&topology, "alice", ALICE);
    let network = topology.namespace("alice").unwrap();
    eventually_true("an echo", || {
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"])
            .is_ok()
    });

    // A connection of many packets.
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:5000").unwrap()
    });
    let before = decided(&edge, "allowed");
    let mut client = connects(&topology, 5000).unwrap();
    let mut server = listening.accept().unwrap().0;
    for _ in 0..50 {
        client.write_all(&[7; 1000]).unwrap();
        server.read_exact(&mut [0; 1000]).unwrap();
        server.write_all(&[8; 1000]).unwrap();
        client.read_exact(&mut [0; 1000]).unwrap();
    }
    assert_eq!(decided(&edge, "allowed"), before + 1);

    // What it denies, however many packets there are of it.
    let socket = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:4000").unwrap()
    });
    let denied = decided(&edge, "denied");
    for _ in 0..5 {
        // The sender is told of what was denied before.
        let _ = socket.send_to(b"?", "10.0.2.2:9");
    }
    connects(&topology, 8080).unwrap_err();
    assert_eq!(decided(&edge, "denied"), denied + 2);
    let refusal = eventually("a line in the log", || {
        let log = edge.log();
        let line = log
            .lines()
            .find(|line| line.contains("10.7.0.77:4000 to 10.0.2.2:9;"))?;
        let name = line.split("refusal=").nth(1)?;
        Some(name.split_whitespace().next()?.trim_matches('"').to_owned())
    });
    let (status, account) = edge.ask("GET", &format!("/why/{refusal}"), "");
    assert_eq!(status, 200, "{account}");
    assert!(account.contains("policy.packets.rego"), "{account}");
    assert!(account.contains("not this port"), "{account}");

    // What a rule denies it is not asked about, and what no one asks about it does not deny.
    let asked = decided(&edge, "denied") + decided(&edge, "allowed");
    connects(&topology, 23).unwrap_err();
    assert_eq!(decided(&edge, "denied") + decided(&edge, "allowed"), asked);

    // The same of what is only supposed.
    let supposed = |port: u16| {
        let question = format!(
            "{{\"words\": [\"PACKET\", \"tcp\", \"10.0.2.2:{port}\"], \"user\": \"alice\", \"source\": \"10.7.0.77\"}}"
        );
        edge.ask("POST", "/why", &question).1
    };
    assert!(
        supposed(8080).contains("not this port"),
        "{}",
        supposed(8080)
    );
    let allowed = supposed(5000);
    assert!(allowed.contains("\"allowed\":true"), "{allowed}");
    assert!(allowed.contains("policy.packets.rego"), "{allowed}");

    // Other data: the flow that is open is judged anew.
    fs::write(folder.path().join("data.json"), "{\"ports\": [8080]}").unwrap();
    assert_eq!(edge.reload(&document(folder.path())).0, 200);
    eventually_true("the flow is denied", || {
        let _ = client.write_all(b"x");
        edge.log().contains("to 10.0.2.2:5000; denied")
    });
}

#[test]
fn what_cannot_be_decided_does_not_pass_and_what_takes_long_is_no_policy() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    // Neither true nor false: nothing follows from it.
    fs::write(
        folder.path().join("policy.rego"),
        "package overlay\ndecision := 7\n",
    )
    .unwrap();
    fs::write(folder.path().join("data.json"), "{}").unwrap();
    let edge = start(&topology, "edge", &document(folder.path()));
    let _alice = start(&topology, "alice", ALICE);
    let network = topology.namespace("alice").unwrap();
    eventually_true("a decision", || {
        assert!(
            network
                .run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"])
                .is_err()
        );
        decided(&edge, "failed_closed") > 0
    });

    // Functions may do anything: what was in force stays.
    let slow = "package overlay\nf(x) := x + 1\ndecision if f(1) == 2\n";
    fs::write(folder.path().join("policy.rego"), slow).unwrap();
    let (status, said) = edge.reload(&document(folder.path()));
    assert_eq!(status, 422, "{said}");
    assert!(said.to_string().contains("may take long"), "{said}");
}
