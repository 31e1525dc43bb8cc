//! What happens to a tunnel when the proxies that it goes through die, or the rules lead elsewhere.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins};

use super::row::{END, Forms, Row, entry, talk};

/// Bytes that a transfer moves at least.
const TRANSFER: u64 = 5_000_000;

/// Bytes of a piece of it.
const PIECE: usize = 10_000;

/// The byte at this place of a transfer.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn piece(from: u64) -> Vec<u8> {
    (from..from + PIECE as u64).map(byte).collect()
}

/// A generator of Knuth's, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn converse(forms: Forms) {
    let target = origins::tcp_echo();
    let mut row = Row::start(target.address(), forms);
    let mut raw = row.connect();
    talk(&mut raw, "before");

    for which in [0, 1, 0] {
        row.middles[which].kill();
        raw.send("while it was dead, ");
        row.middles[which].restart();
        let heard = raw.exactly("while it was dead, ".len());
        assert_eq!(heard, b"while it was dead, ");
        talk(&mut raw, &format!("after {which} died"));
    }

    assert_eq!(target.connections(), 1, "the target has seen nothing of it");
    let live = row.entry.exchanges();
    assert!(live[0]["resumed"].as_u64() >= Some(3), "{live:?}");

    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
    let record = row
        .entry
        .record(|record| record["resumed"].as_u64() >= Some(3));
    assert_eq!(record["reason"], "done");
    let record = row.end.record(|record| record["reason"] == "done");
    assert!(record["resumed"].as_u64() >= Some(3), "{record}");
}

#[test]
fn a_long_tunnel_over_http_1_goes_on_whichever_proxy_in_the_middle_dies() {
    converse(Forms::http(1));
}

#[test]
fn a_long_tunnel_over_http_2_goes_on_whichever_proxy_in_the_middle_dies() {
    converse(Forms::http(2));
}

#[test]
fn a_tunnel_goes_on_whose_form_changes_on_its_way() {
    converse(Forms {
        http: 2,
        entry: "form: connect-tcp",
        middle: "tunnel: connect,",
    });
    converse(Forms {
        http: 1,
        entry: "form: connect-tcp",
        middle: "",
    });
}

/// Proxies that die below one transfer; `HERMES_PATH_KILLS` asks for another number.
const KILLS: usize = 6;

/// Kills proxies in the middle while bytes go to and fro, after as many as chance says.
fn transfer(http: u8) {
    let asked = std::env::var("HERMES_PATH_KILLS").ok();
    let kills = asked.map_or(KILLS, |kills| kills.parse().unwrap());

    let target = origins::tcp_echo();
    let mut row = Row::start(target.address(), Forms::http(http));
    let mut raw = row.connect();
    let mut reader = raw.other();

    let received = AtomicU64::new(0);
    let killed = AtomicBool::new(false);
    let mut random = Random(17 + u64::from(http));

    scope(|threads| {
        threads.spawn(|| {
            let mut sent = 0;
            while sent < TRANSFER || !killed.load(Ordering::Relaxed) {
                raw.send(piece(sent));
                sent += PIECE as u64;
            }
            raw.finish();
        });

        let all = threads.spawn(|| {
            let mut at = 0;
            loop {
                let bytes = reader.until(|unread| !unread.is_empty());
                let is_right = (at..).zip(&bytes).all(|(at, found)| byte(at) == *found);
                assert!(is_right, "a wrong byte after {at}");
                at += bytes.len() as u64;
                received.store(at, Ordering::Relaxed);
                if bytes.is_empty() {
                    return at;
                }
            }
        });

        for _ in 0..kills {
            let after = received.load(Ordering::Relaxed) + random.below(400_000);
            eventually_true("the transfer goes on", || {
                received.load(Ordering::Relaxed) >= after
            });
            let which = random.below(2) as usize;
            row.middles[which].kill();
            row.middles[which].restart();
        }
        killed.store(true, Ordering::Relaxed);
        let all = all.join().unwrap();
        assert!(all >= TRANSFER && all.is_multiple_of(PIECE as u64), "{all}");
    });

    assert_eq!(target.connections(), 1);
}

#[test]
fn no_byte_is_wrong_when_proxies_die_at_random_moments_over_http_1() {
    transfer(1);
}

#[test]
fn no_byte_is_wrong_when_proxies_die_at_random_moments_over_http_2() {
    transfer(2);
}

#[test]
fn a_tunnel_whose_far_end_was_started_again_is_reset_with_the_reason() {
    let target = origins::tcp_echo();
    let mut row = Row::start(target.address(), Forms::http(2));
    let mut raw = row.connect();
    talk(&mut raw, "before");

    row.end.kill();
    row.end.restart();
    assert_eq!(raw.rest().1, End::Reset);
    let record = row.entry.record(|record| record["reason"].is_string());
    let reason = record["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("target_reset:") && reason.contains("another process"),
        "{reason}"
    );
}

#[test]
fn a_target_that_resets_while_there_is_no_path_is_heard_of_later() {
    let target = origins::tcp_resets();
    let mut row = Row::start(target.address(), Forms::http(2));
    let mut raw = row.connect();
    assert_eq!(raw.exactly(4), b"half");

    row.middles[0].kill();
    target.release();
    row.middles[0].restart();
    assert_eq!(raw.rest().1, End::Reset);
    row.entry.record(|record| {
        let reason = record["reason"].as_str().unwrap();
        reason.starts_with("target_reset")
    });
}

#[test]
fn a_client_that_leaves_is_told_to_the_target() {
    let target = origins::tcp_echo();
    let row = Row::start(target.address(), Forms::http(2));
    let mut raw = row.connect();
    talk(&mut raw, "before");
    raw.reset();

    let reason = |record: &serde_json::Value| record["reason"].as_str().unwrap().to_owned();
    row.entry
        .record(|record| reason(record).starts_with("client_reset"));
    row.end
        .record(|record| reason(record).starts_with("client_reset"));
}

#[test]
fn a_tunnel_moves_where_the_rules_lead_and_its_target_sees_nothing() {
    let target = origins::tcp_echo();
    let row = Row::start(target.address(), Forms::http(2));
    let mut raw = row.connect();
    talk(&mut raw, "before");

    let other = row.end.address("web");
    let yaml = entry(target.address(), other, Forms::http(1), "true");
    let (_, answer) = row.entry.reload(&yaml);
    assert_eq!(answer["tunnels"]["moved"], 1, "{answer}");

    eventually_true("the middle is left", || {
        row.middles[0].exchanges().is_empty()
    });
    talk(&mut raw, "after");
    assert_eq!(target.connections(), 1);
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
}

#[test]
fn a_far_end_that_does_not_know_how_carries_an_ordinary_tunnel() {
    let target = origins::tcp_echo();
    let real = Node::start(
        "real",
        &format!("listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n{END}"),
    );
    let between = Node::start(
        "between",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             routes: [ {{ remove: [hermes-resume], to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\n",
            real.address("web")
        ),
    );
    let entry = Node::start(
        "entry",
        &entry(
            target.address(),
            between.address("web"),
            Forms::http(1),
            "true",
        ),
    );

    let mut raw = Raw::connect(entry.address("db"));
    talk(&mut raw, "plain");
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
}

/// A node that answers its clients before their tunnels are open.
fn early(target: std::net::SocketAddr) -> Node {
    Node::start(
        "early",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             routes: [ {{ match: {{ target: NOWHERE }}, tunnel: {{ answer: early }}, terminate: \"127.0.0.1:1\" }}, \
             {{ tunnel: {{ answer: early }}, terminate: \"{target}\" }} ]\n"
        ),
    )
}

#[test]
fn a_client_that_is_answered_early_has_its_tunnel() {
    let target = origins::tcp_echo();
    let node = early(target.address());
    let mut raw = Raw::tunnel(node.address("web"), "SOMEWHERE:1", "").unwrap();
    talk(&mut raw, "hello");
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
}

#[test]
fn a_failure_after_an_early_answer_is_a_reset_with_a_reason() {
    let target = origins::tcp_echo();
    let node = early(target.address());
    let mut raw = Raw::tunnel(node.address("web"), "NOWHERE:1", "").unwrap();
    assert_eq!(raw.rest().1, End::Reset);
    let record = node.record(|_| true);
    assert_eq!(record["status"], 200, "{record}");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.starts_with("connection_refused"), "{reason}");
}
