//! PROXY headers that are bent and cut off, over the wire.

use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

/// What a header of version 2 begins with.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// Bent headers of each kind.
const ROUNDS: usize = 250;

/// A sequence that is the same each time (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    /// Bends a header: bytes are changed, left out, doubled, or the end is cut off.
    fn bend(&mut self, header: &[u8]) -> Vec<u8> {
        let mut bent = header.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bent.len());
            match self.below(5) {
                0 => bent[at] = u8::try_from(self.below(256)).unwrap(),
                1 => bent[at] ^= 1 << self.below(8),
                2 => drop(bent.remove(at)),
                3 => bent.insert(at, bent[at]),
                _ => bent.truncate(at.max(1)),
            }
            if bent.is_empty() {
                bent.push(b'P');
            }
        }
        bent
    }
}

/// Whether a client with this header is served.
fn is_served(node: &Node, header: &[u8]) -> bool {
    let mut raw = Raw::connect(node.address("web"));
    raw.send_if_open(header);
    raw.send_if_open(REQUEST);
    raw.finish();
    raw.rest().0.starts_with(b"HTTP/1.1 204 ")
}

#[test]
fn bent_headers_harm_no_one() {
    let node = Node::start(
        "edge",
        r#"
        workers: 1
        listeners:
          web:
            http: 127.0.0.1:0
            gateway: true
            proxy_protocol: accept
            proxy_protocol_from: [127.0.0.0/8]
            limits: { head_time: 300ms }
        routes: [ { respond: { status: 204 } } ]
        "#,
    );
    let text = b"PROXY TCP4 203.0.113.9 192.0.2.1 4660 80\r\n".to_vec();
    let four = [
        BINARY,
        &[
            0x21, 0x11, 0, 12, 203, 0, 113, 9, 192, 0, 2, 1, 0x12, 0x34, 0, 80,
        ],
    ]
    .concat();
    let six = [
        BINARY,
        &[0x21, 0x21, 0, 36],
        &[0x20; 32],
        &[0x12, 0x34, 0, 80],
    ]
    .concat();
    let tlv = [
        BINARY,
        &[
            0x21, 0x11, 0, 16, 203, 0, 113, 9, 192, 0, 2, 1, 0x12, 0x34, 0, 80, 4, 0, 1, 0,
        ],
    ]
    .concat();
    let good = [&text, &four, &six, &tlv];
    assert!(good.iter().all(|header| is_served(&node, header)));

    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut held = Vec::new();
    for header in good {
        for round in 0..ROUNDS {
            let bent = random.bend(header);
            if round % 50 == 0 {
                // Some say nothing more, and are not waited for.
                let mut silent = Raw::connect(node.address("web"));
                silent.send_if_open(&bent[..bent.len().min(11)]);
                held.push(silent);
            }
            // It may be a header still, of another client.
            is_served(&node, &bent);
        }
    }
    for mut silent in held {
        silent.rest();
    }
    assert!(
        good.iter().all(|header| is_served(&node, header)),
        "the next clients are served"
    );
    let malformed = "hermes_malformed_requests_total{listener=\"web\"} ";
    eventually_true("they are counted", || {
        let metrics = node.metrics();
        let count = metrics
            .lines()
            .find_map(|line| line.strip_prefix(malformed)?.parse::<usize>().ok());
        count.is_some_and(|count| count > 2 * ROUNDS)
    });
    assert!(!node.log().contains("panicked"), "{}", node.log());
}
