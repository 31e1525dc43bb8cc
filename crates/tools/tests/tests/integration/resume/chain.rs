//! Rows of proxies in which a link or a node breaks under UDP sessions.

use std::net::SocketAddr;

use hermes_tests::{Gate, Node, Pki, eventually, free, origins, udp};
use serde_json::Value;

/// Clients at once.
const CLIENTS: usize = 8;

fn end(tls: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\nroutes: [ {{ terminate: true }} ]\n\
         egress: {{ allow: [127.0.0.0/8] }}\n"
    )
}

/// A node that UDP clients enter, on its way to `target`.
fn entry(target: SocketAddr, next: &str) -> String {
    format!(
        "workers: 1\nlisteners: {{ voice: {{ udp: 127.0.0.1:0, target: \"{target}\" }} }}\nroutes: [ {{ to: next }} ]\n\
         upstreams: {{ next: {next} }}\n"
    )
}

fn upstream(pki: &Pki, address: SocketAddr, http: &str) -> String {
    format!(
        r#"{{ endpoints: ["{address}"], http: {http}, tls: {{ ca_file: {} }} }}"#,
        pki.ca().display()
    )
}

/// The clients of a node; each has a conversation.
fn clients(entry: &Node) -> Vec<udp::Client> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| udp::Client::connect(entry.address("voice")))
        .collect();
    for (number, client) in clients.iter().enumerate() {
        for word in ["before", "again"].map(|word| format!("{word} {number}")) {
            // Answers to what was asked more than once may come late.
            eventually("the answer", || {
                (client.ask(&word) == word.as_bytes()).then_some(())
            });
        }
    }
    clients
}

/// Where the sessions come from, as the target sees it.
fn sockets(target: &origins::Origin<(SocketAddr, Vec<u8>)>) -> Vec<SocketAddr> {
    let mut sockets: Vec<_> = target.seen().into_iter().map(|(from, _)| from).collect();
    sockets.sort();
    sockets.dedup();
    sockets
}

/// Every client goes on, and the target notices nothing.
fn go_on(clients: &[udp::Client], target: &origins::Origin<(SocketAddr, Vec<u8>)>) {
    let before = sockets(target);
    assert_eq!(before.len(), CLIENTS);
    for (number, client) in clients.iter().enumerate() {
        let word = format!("after {number}");
        // Answers to what was asked more than once may still come.
        eventually("the answer", || {
            (client.ask(&word) == word.as_bytes()).then_some(())
        });
    }
    assert_eq!(sockets(target), before, "the sockets are the same");
}

fn taken_over(record: &Value) -> bool {
    record["reason"]
        .as_str()
        .is_some_and(|reason| reason.contains("taken over"))
}

#[test]
fn sessions_over_http3_go_on_over_tcp_when_udp_becomes_blocked() {
    let (pki, target) = (Pki::new(), origins::udp_echo(origins::V4));
    let end = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    let gate = Gate::to(end.address("web"));
    let yaml = entry(target.address(), &upstream(&pki, gate.address(), "[3, 2]"));
    let (entry, clients) = eventually("sessions over HTTP/3", || {
        target.forget();
        let entry = Node::start("entry", &yaml);
        let clients = clients(&entry);
        let h3 = end
            .exchanges()
            .iter()
            .filter(|one| one["protocol"] == "h3")
            .count();
        (h3 == CLIENTS).then_some((entry, clients))
    });
    // Those of an entry that did not speak HTTP/3 may still wait for it.
    let earlier: Vec<_> = end
        .exchanges()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    let records = end.access().len();
    gate.let_udp(false);
    go_on(&clients, &target);
    let sessions = end.exchanges();
    let is_new = |one: &&Value| one["protocol"] == "h2" && !earlier.contains(&one["id"]);
    assert_eq!(sessions.iter().filter(is_new).count(), CLIENTS);
    assert_eq!(
        end.access()
            .iter()
            .skip(records)
            .filter(|record| taken_over(record))
            .count(),
        CLIENTS
    );
    drop(entry);
}

#[test]
fn sessions_go_on_when_the_proxy_in_the_middle_is_killed_and_comes_back() {
    let target = origins::udp_echo(origins::V4);
    let end_yaml = "
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
    ";
    let end = Node::start("end", end_yaml);
    let address = free::tcp();
    let middle = format!(
        "listeners: {{ web: {{ http: \"{address}\" }} }}\nroutes: [ {{ to: next }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
        end.address("web")
    );
    let mut middle = Node::start("middle", &middle);
    let entry = Node::start(
        "entry",
        &entry(
            target.address(),
            &format!("{{ endpoints: [\"{address}\"], http: 2 }}"),
        ),
    );
    let clients = clients(&entry);
    middle.kill();
    middle.restart();
    go_on(&clients, &target);
    let exchanges = end.exchanges();
    assert_eq!(exchanges.len(), CLIENTS);
    assert_eq!(
        end.access()
            .iter()
            .filter(|record| taken_over(record))
            .count(),
        CLIENTS
    );
    drop(clients);
}

#[test]
fn the_proxy_in_the_middle_opens_again_what_broke_behind_it() {
    let (pki, target) = (Pki::new(), origins::udp_echo(origins::V4));
    let end = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    let gate = Gate::to(end.address("web"));
    let middle = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\nupstreams: {{ next: {} }}\n",
        upstream(&pki, gate.address(), "3")
    );
    let middle = Node::start("middle", &middle);
    let next = format!("{{ endpoints: [\"{}\"], http: 2 }}", middle.address("web"));
    let entry = Node::start("entry", &entry(target.address(), &next));
    let clients = clients(&entry);
    // The link dies, and a new one, from another port, comes about.
    gate.forget_udp();
    go_on(&clients, &target);
    assert_eq!(entry.access().len(), 0, "the entry saw nothing of it");
    let sessions = middle.exchanges();
    assert_eq!(sessions.len(), CLIENTS);
}
