//! What waits for someone is charged to him: one owner takes his share of a node's memory, is told so, and others keep theirs.

use hermes_tests::attacks::broadcast_replies::{REPLY, broadcasts};
use hermes_tests::attacks::refusals::refuse;
use hermes_tests::attacks::replay_windows::{flooding, tunnels};
use hermes_tests::attacks::waiting_datagrams::send_from;
use std::net::Ipv4Addr;

use bytes::Bytes;
use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins, udp};

use crate::sources::connect_from;
use crate::standing::{MIB, settled};

/// What one owner may have where it is alone: a quarter of `memory.total`.
const SHARE: usize = 32 * MIB;

/// Memory that a node may take for an owner with all that he may have, buffers of the exchanges included.
const COST: usize = 100 * MIB;

/// A source of its own.
const BYSTANDER: &str = "127.0.0.2";

fn charged(node: &Node, purpose: &str) -> usize {
    let bytes = &node.status()["memory"]["charged_for"][purpose];
    usize::try_from(bytes.as_u64().unwrap()).unwrap()
}

fn refused(node: &Node, purpose: &str) -> u64 {
    node.status()["memory"]["refused_for"][purpose]
        .as_u64()
        .unwrap()
}

/// That charges to this owner were refused, and that the log, `status` and the metrics say so.
fn is_told(node: &Node, purpose: &str, owner: &str) {
    assert!(refused(node, purpose) > 0, "{:#}", node.status());
    let words = format!("memory for {purpose}: {owner} holds");
    eventually_true(&words, || node.log().contains(&words));
    let status = node.status();
    assert_eq!(status["memory"]["owners"][0]["owner"], owner, "{status:#}");

    let metric = format!("hermes_memory_charges_refused_total{{purpose=\"{purpose}\"}}");
    let metrics = node.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&metric));
    let count: f64 = line
        .unwrap_or_else(|| panic!("{metrics}"))
        .trim()
        .parse()
        .unwrap();
    assert!(count > 0.0, "{metrics}");
}

/// Bytes that are kept of each request, and requests: five times what their source may have.
const KEPT: usize = 256 * 1024;
const PUTS: usize = 600;
const STREAMS: usize = 60;

#[test]
fn contents_kept_for_retries_take_the_share_of_their_source_and_pass_all_the_same() {
    let origin = origins::tcp_sink();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ per_source: 10000 }} }} }}
            routes: [ {{ terminate: video, retry: {{ attempts: 3, keep_bytes: 512KiB }}, timeouts: {{ header: 5m }} }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let before = node.peak();
    let put =
        format!("PUT http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\nContent-Length: {KEPT}\r\n\r\n");
    let content = Bytes::from(vec![b'x'; KEPT]);
    let begin = |mut raw: Raw| {
        raw.send(&put);
        raw.send(&content);
        raw
    };

    let address = node.address("web");
    let mut clients: Vec<Raw> = Vec::new();
    for _ in 0..PUTS {
        clients.push(begin(Raw::connect(address)));
    }
    let client = Client::connect(address);
    let mut uploads = Vec::new();
    for _ in 0..STREAMS {
        let mut upload = client.upload("http://VIDEO/");
        upload.offer(content.clone());
        uploads.push(upload);
    }

    let passed = |wanted: usize| {
        let live = node.exchanges();
        let whole = |exchange: &&serde_json::Value| exchange["client_to_target"] == KEPT;
        live.iter().filter(whole).count() == wanted
    };
    eventually_true("all contents have passed", || passed(PUTS + STREAMS));
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());
    let kept = charged(&node, "replays");
    assert!((SHARE / 2..=SHARE + MIB).contains(&kept), "{kept}");
    is_told(&node, "replays", "source 127.0.0.1");

    // Another's content is kept, and can be sent again.
    let other = begin(connect_from(BYSTANDER, address));
    eventually_true("the other's, too", || passed(PUTS + STREAMS + 1));
    let owners = node.status()["memory"]["owners"].clone();
    assert_eq!(owners[1]["owner"], format!("source {BYSTANDER}"));
    assert!(owners[1]["charged_bytes"].as_u64().unwrap() >= KEPT as u64);

    drop((clients, uploads, client, other));
    eventually_true("all is given back", || charged(&node, "replays") == 0);
}

#[test]
fn replay_windows_of_a_stranger_take_its_share_and_others_get_sessions() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let before = node.peak();
    let target = flooding().to_string();
    let tunnels = tunnels(node.address("web"), &target);
    eventually_true("its windows are full", || {
        charged(&node, "sessions") > SHARE / 8 * 5
    });
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());

    // Nor is more kept when it is gone.
    drop(tunnels);
    let kept = charged(&node, "sessions");
    assert!(kept <= SHARE + MIB, "{kept}");
    let mut other = connect_from(BYSTANDER, node.address("web"));
    other.send(format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nHermes-Resume: ?1\r\n\r\n"
    ));
    let head = other.head();
    assert!(head.field("hermes-resume").is_some(), "{head:?}");
}

/// Broadcasts to four servers whose replies no one reads.
const BROADCASTS: usize = 40;

#[test]
fn replies_of_broadcasts_take_the_share_of_their_user_and_others_get_theirs() {
    let shards: Vec<_> = (0..4).map(|_| origins::http()).collect();
    let endpoints: Vec<String> = shards
        .iter()
        .map(|shard| format!("\"{}\"", shard.address()))
        .collect();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, user: alice, accepts: [x-hermes-broadcast] }}
              other: {{ http: 127.0.0.1:0, user: bob, accepts: [x-hermes-broadcast] }}
            routes: [ {{ terminate: shards, broadcast: {{ users: [alice, bob], reply: all, time: 5m }} }} ]
            upstreams: {{ shards: {{ endpoints: [{}] }} }}
            "#,
            endpoints.join(", ")
        ),
    );
    let before = node.peak();
    let clients = broadcasts(node.address("web"), BROADCASTS);
    eventually_true("its share is used up", || refused(&node, "collected") > 0);
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());
    is_told(&node, "collected", "user alice");

    let url = format!("http://SHARDS/bytes/{REPLY}");
    let answer = curl(&[
        "-x",
        &node.url("other"),
        "-H",
        "x-hermes-broadcast: true",
        &url,
    ]);
    let replies = answer.text().matches("X-Hermes-Status: 200").count();
    assert_eq!((answer.status, replies), (200, 4));
    assert!(answer.body.len() > 4 * REPLY);

    drop(clients);
    eventually_true("all is given back", || charged(&node, "collected") == 0);
}

/// Forged addresses, and bytes that each sends, in datagrams of 8 KiB.
const SOURCES: u8 = 60;
const PORTS: usize = 8;
const DATAGRAMS: usize = 19;

#[test]
fn datagrams_that_wait_for_tunnels_take_the_share_of_their_listener() {
    let silent = origins::tcp_silent();
    let answering = origins::udp_echo([127, 0, 0, 1].into());
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              voice: {{ udp: 127.0.0.1:0, target: "VIDEO:1", limits: {{ per_source: 10000, connections: 10000 }}, datagrams: {{ hold_time: 60s }} }}
              other: {{ udp: 127.0.0.1:0, target: "{}" }}
            routes: [ {{ match: {{ listener: other }}, terminate: true }}, {{ to: silent }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            upstreams: {{ silent: {{ endpoints: ["{}"], http: 2 }} }}
            "#,
            answering.address(),
            silent.address()
        ),
    );
    let before = node.peak();
    for source in 1..=SOURCES {
        for _ in 0..PORTS {
            let source = Ipv4Addr::new(127, 0, 1, source);
            let sent = send_from(source, node.address("voice"), DATAGRAMS, 8 * 1024);
            assert_eq!(sent, DATAGRAMS as u64);
        }
    }

    let cost = settled(&node).saturating_sub(before);
    assert!(cost < COST, "{cost} bytes: {:#}", node.status());
    let waiting = charged(&node, "datagrams");
    assert!((SHARE / 2..=SHARE + MIB).contains(&waiting), "{waiting}");
    eventually("what had to go is counted", || {
        let metrics = node.metrics();
        let name = "hermes_datagrams_dropped_total{reason=\"queue_full\"}";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name))?;
        (line.trim().parse::<f64>().unwrap() > 0.0).then_some(())
    });

    // Others at another listener lose nothing.
    let call = udp::Client::connect(node.address("other"));
    for number in 0..20 {
        let words = format!("hello {number}");
        assert_eq!(call.ask(&words), words.as_bytes());
    }
}

/// Requests that are refused, with as many bytes of fields as a head may have.
const REFUSALS: usize = 700;

#[test]
fn refusals_that_are_remembered_do_not_keep_the_heads_that_were_refused() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { match: { target: ELSEWHERE }, respond: { status: 204 } } ]
        "#,
    );
    let refuse = |path: &str| refuse(node.address("web"), path, REFUSALS / 20);

    // What one such exchange takes by itself is there before.
    refuse("");
    let before = settled(&node);
    (1..20).for_each(|number| refuse(&number.to_string()));
    let cost = settled(&node).saturating_sub(before);
    assert!(cost < 12 * MIB, "{cost} bytes");
}

#[test]
fn refusals_of_one_source_push_out_none_of_another() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { match: { target: ELSEWHERE }, respond: { status: 204 } } ]
        "#,
    );
    let proxy = node.url("web");
    let answer = curl(&["-x", &proxy, "--interface", BYSTANDER, "http://VIDEO/asked"]);
    assert_eq!(answer.status, 404, "{answer:?}");
    let said = answer.field("proxy-status").unwrap();
    let (_, name) = said.rsplit_once("; refusal=").unwrap();

    // More than are remembered in all.
    refuse(node.address("web"), "", REFUSALS);
    let known = |name: &str| node.try_ask("GET", &format!("/why/{name}"), "");
    let (status, account) = known(name).unwrap();
    assert_eq!(status, 200, "{account}");
    assert!(account.contains("asked"), "{account}");
}
