//! Subscribers and publishers that cost as much as they can: the node stays small, and someone else's messages come as before.

mod certified;
mod long;
mod rendezvous;
mod storm;

use std::net::{IpAddr, SocketAddr};

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};

use crate::standing::MIB;

/// The most that any of these may cost, in bytes: what waits for one owner, buffers of connections, and room for the allocator.
const COST: usize = 96 * MIB;

/// A relay whose attacker comes from one address, and its bystanders from another. It waits shorter than by default for those who are gone.
fn relay() -> Node {
    Node::start(
        "relay",
        r"
        listeners: { web: { http: 127.0.0.1:0, gateway: true } }
        routes: [ { match: { path: /c/* }, handle: { relay: { grace: 1s } } } ]
        ",
    )
}

fn attacker(node: &Node) -> Raw {
    let from = SocketAddr::new(IpAddr::from([127, 0, 0, 66]), 0);
    Raw::connect_from(from, node.address("web"))
}

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: relay\r\n{fields}\r\n")
}

fn post(path: &str, fields: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: relay\r\nContent-Length: {length}\r\n{fields}\r\n{content}"
    )
}

/// A connection that is made anew when the node closes it.
struct Asking<'a> {
    node: &'a Node,
    raw: Raw,
}

impl<'a> Asking<'a> {
    fn new(node: &'a Node) -> Self {
        let raw = attacker(node);
        Self { node, raw }
    }

    fn status(&mut self, request: impl AsRef<[u8]>) -> u16 {
        self.raw.send(request);
        let (head, _) = self.raw.response();
        if head.field("connection").as_deref() == Some("close") {
            self.raw = attacker(self.node);
        }
        head.status()
    }
}

/// Two who have a channel of their own, of whom one listens.
struct Bystanders {
    url: String,
    reader: Raw,
    sent: u32,
}

impl Bystanders {
    fn begin(node: &Node) -> Self {
        let mut reader = Raw::connect(node.address("web"));
        reader.send(get("/c/bystanders", "Accept: application/x-ndjson\r\n"));
        assert!(reader.head().line.contains("200"));
        Self {
            url: format!("http://{}/c/bystanders", node.address("web")),
            reader,
            sent: 0,
        }
    }

    /// A message between them is counted, and arrives.
    fn are_served(&mut self) {
        self.sent += 1;
        let message = format!("message-{}-", self.sent);
        let answer = curl(&["-H", "Host: relay", "-d", &message, &self.url]);
        assert_eq!(answer.text(), "receivers: 1\n", "{answer:?}");
        let has_come = |read: &[u8]| String::from_utf8_lossy(read).contains(&message);
        let read = self.reader.until(has_come);
        assert!(has_come(&read), "their stream has ended");
    }
}

/// Runs an attack beside bystanders, and holds the node to what it may cost.
fn beside(attack: impl FnOnce(&Node, &mut Bystanders)) {
    beside_and_leave(0, attack);
}

/// The same, where so many bytes may be remembered for a while.
fn beside_and_leave(left: u64, attack: impl FnOnce(&Node, &mut Bystanders)) {
    let node = relay();
    let mut bystanders = Bystanders::begin(&node);
    bystanders.are_served();
    let before = node.peak();
    attack(&node, &mut bystanders);
    bystanders.are_served();
    let cost = node.peak().saturating_sub(before);
    assert!(cost < COST, "{cost} bytes");
    eventually_true("nothing of it is left", || {
        let status = node.status();
        let relay = &status["plugs"]["relay"];
        relay["waiting_bytes"].as_u64() <= Some(left) && relay["channels"].as_u64() <= Some(1)
    });
    bystanders.are_served();
}

#[test]
fn readers_that_stand_still_cost_the_share_of_their_owner() {
    beside(|node, bystanders| {
        let readers: Vec<_> = (0..200)
            .map(|_| {
                let mut reader = attacker(node);
                reader.send(get("/c/slow", "Accept: text/plain\r\n"));
                assert!(reader.head().line.contains("200"));
                reader
            })
            .collect();
        let message = "x".repeat(1000 * 1000);
        let mut publisher = attacker(node);
        for _ in 0..60 {
            publisher.send(post("/c/slow", "", &message));
            let (head, _) = publisher.response();
            assert!(
                head.line.contains(" 200 ") || head.line.contains(" 503 "),
                "{head:?}"
            );
        }
        bystanders.are_served();
        drop(readers);
    });
}

#[test]
fn a_user_of_twenty_thousand_subscriptions_has_a_thousand() {
    beside(|node, bystanders| {
        let mut taken = 0;
        let mut refused = 0;
        let mut open = Vec::new();
        // Each by a connection of its own while they are taken; the rest by one, which is refused again and again.
        while refused == 0 {
            let mut one = attacker(node);
            one.send(get(&format!("/c/{}", open.len()), "Accept: text/plain\r\n"));
            let head = one.head();
            match head.line.contains(" 200 ") {
                true => taken += 1,
                false => refused += 1,
            }
            open.push(one);
            assert!(open.len() < 2000, "no bound is met");
        }
        assert!(taken <= 1000, "{taken}");
        let mut again = attacker(node);
        for asked in 0..20_000 - taken {
            again.send(get(&format!("/c/more{asked}"), ""));
            let (head, _) = again.response();
            assert!(head.line.contains(" 429 "), "{head:?}");
        }
        bystanders.are_served();
        drop(open);
    });
}

#[test]
fn a_message_without_end_is_cut_at_the_longest_one() {
    beside(|node, bystanders| {
        let mut endless: Vec<_> = (0..32)
            .map(|_| {
                let mut publisher = attacker(node);
                publisher.send(
                    "POST /c/endless HTTP/1.1\r\nHost: relay\r\nTransfer-Encoding: chunked\r\n\r\n",
                );
                publisher
            })
            .collect();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        for round in 0..40 {
            for publisher in &mut endless {
                publisher.send_if_open(&chunk);
            }
            if round == 8 {
                bystanders.are_served();
            }
        }
        for publisher in &mut endless {
            let line = publisher.head().line;
            assert!(
                [" 413 ", " 503 "]
                    .iter()
                    .any(|status| line.contains(status)),
                "{line}"
            );
        }
    });
}

#[test]
fn tiny_messages_and_topics_by_the_ten_thousand_wait_in_bounded_room() {
    beside(|node, bystanders| {
        let mut reader = attacker(node);
        reader.send(get("/c/tiny", "Accept: application/x-ndjson\r\n"));
        assert!(reader.head().line.contains("200"));
        // One stream of ADUs of no content: each costs the attacker a few bytes. Every other one has a topic of its own.
        let mut content = Vec::new();
        for number in 0..100_000_u32 {
            // Type and length of the capsule, a sequence of 0, flags, and a topic of four bytes.
            content.extend([0xad, 0x7c, 0x51, 0xc0]);
            if number % 2 == 0 {
                content.extend([2, 0, 0]);
            } else {
                content.extend([7, 0, 2, 4]);
                content.extend(number.to_be_bytes());
            }
        }
        let mut publisher = attacker(node);
        let head = format!(
            "POST /c/tiny HTTP/1.1\r\nHost: relay\r\nContent-Type: application/hermes-adu\r\nContent-Length: {}\r\n\r\n",
            content.len()
        );
        publisher.send(head);
        publisher.send(&content);
        let (head, _) = publisher.response();
        assert!(head.line.contains(" 200 "), "{head:?}");
        bystanders.are_served();
        drop(reader);
    });
}

#[test]
fn fields_of_the_relay_that_are_huge_are_refused() {
    beside(|node, bystanders| {
        let many = (0..500).map(|number| format!("m{number}=1"));
        let many = many.collect::<Vec<_>>().join(", ");
        let long = "x".repeat(8000);
        let fields = [
            format!("Hermes-Subscribe: {many}, timeout=x\r\n"),
            format!("Hermes-Subscribe: from=\"{long}\"\r\n"),
            "Hermes-Subscribe: timeout=999999999999999\r\n".to_owned(),
            format!("Hermes-Move: hold=999999999999999, at=\"00000001.1\", grant=\"{long}\"\r\n"),
            format!("Last-Event-ID: {long}.{long}\r\n"),
            format!("Accept: {}\r\n", "text/event-stream;q=0, ".repeat(300)),
        ];
        let mut one = attacker(node);
        for round in 0..200 {
            for field in &fields {
                let request = match field.starts_with("Hermes-Move") {
                    true => post("/c/huge", field, ""),
                    false => get("/c/huge", &format!("{field}Prefer: wait=0\r\n")),
                };
                one.send(request);
                let (head, _) = one.response();
                let status = head.line.split(' ').nth(1).unwrap_or_default();
                assert!(
                    matches!(status, "400" | "403" | "406" | "422" | "431" | "204"),
                    "{head:?} {field}"
                );
                if head.field("connection").as_deref() == Some("close") {
                    one = attacker(node);
                }
            }
            if round == 100 {
                bystanders.are_served();
            }
        }
        let topic = format!("Hermes-Publish: topic=\"{}\"\r\n", "t".repeat(300));
        one.send(post("/c/huge", &topic, "hi"));
        assert!(one.head().line.contains(" 400 "));
    });
}
