//! A neighbour in custody with code of its own: it keeps to the protocol between neighbours, and gives messages as no node writes them.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_custody::engine::Opening;
use hermes_custody::{Engine, ExchangeKey, NeighbourId, PrivateKey, PublicKey, Reading};
use hermes_proto::binary_http::{BinaryHttpDecoder, BinaryPiece};
use hermes_proto::custody::ErrCode;
use hermes_proto::varint;
use hermes_tests::{Node, curl, free, origins, program};

/// How long an answer may take: far longer than on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Heads that are never whole, and their bytes: more than three quarters of what a node holds for readers, as it counts them.
const HEADS: u32 = 160;
const HEAD: usize = 200_000;

/// A neighbour, and its socket.
struct Neighbour {
    engine: Engine,
    socket: UdpSocket,
    node: NeighbourId,
    begun: u32,
}

impl Neighbour {
    /// Begins an exchange with these bytes as its request, or the beginning of it.
    fn ask(&mut self, message: &[u8], is_whole: bool) -> ExchangeKey {
        self.begun += 1;
        let mut exchange = [0; 16];
        exchange[..4].copy_from_slice(&self.begun.to_be_bytes());
        let key = ExchangeKey {
            neighbour: self.node,
            exchange,
        };
        let opening = Opening {
            keep: PATIENCE,
            repeatable: true,
            parent: None,
        };
        assert!(self.engine.open(key, opening, Instant::now()));
        self.engine.write(key, Bytes::copy_from_slice(message));
        if is_whole {
            self.engine.finish(key);
        }
        key
    }

    /// Sends and hears for a moment.
    fn turn(&mut self) {
        let mut buffer = [0; 2048];
        let mut is_idle = true;
        while let Some((to, datagram)) = self.engine.poll_transmit(Instant::now()) {
            self.socket.send_to(&datagram, to).unwrap();
            is_idle = false;
        }
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            let datagram = Bytes::copy_from_slice(&buffer[..length]);
            self.engine.handle_datagram(&datagram, from, Instant::now());
            is_idle = false;
        }
        while self.engine.poll_event().is_some() {}
        self.engine.handle_timeout(Instant::now());
        if is_idle {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The status that answers an exchange, or why none does.
    fn status(&mut self, key: ExchangeKey) -> Result<u16, ErrCode> {
        let mut decoder = BinaryHttpDecoder::response();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            self.turn();
            match self.engine.read(key, 1 << 16) {
                Reading::Bytes(bytes) => decoder.push(&bytes),
                Reading::Broken(code) => return Err(code),
                Reading::End | Reading::Waiting => {}
            }
            if let Some(BinaryPiece::Response(head)) = decoder.next().unwrap() {
                self.engine.close(key, Instant::now());
                return Ok(head.status.as_u16());
            }
        }
        panic!("no answer");
    }
}

/// A node with this policy, and a neighbour of it; both reach the origins of this machine.
fn neighbours(policy: &str) -> (Node, Neighbour) {
    let own = PrivateKey::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let said = program::command()
        .arg("custody-key")
        .arg(folder.path().join("key"))
        .output()
        .unwrap();
    let node_key: PublicKey = String::from_utf8(said.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();

    let at: SocketAddr = free::udp();
    let yaml = format!(
        "workers: 1\n\
         defaults: {{ custody: {{ key_file: key, neighbours: {{ mallory: {{ key: \"{}\" }} }} }} }}\n\
         listeners: {{ hops: {{ udp: \"{at}\", ingress: custody }}, web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n{policy}\n\
         routes: [ {{ terminate: true }} ]\n",
        own.public()
    );
    let node = Node::start_in(folder, "node", &yaml, &[]);

    let mut engine = Engine::new(own, 7, Instant::now());
    let id = engine.add_neighbour(node_key, Some(at), Instant::now());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let neighbour = Neighbour {
        engine,
        socket,
        node: id,
        begun: 0,
    };
    (node, neighbour)
}

fn put(text: &str, output: &mut Vec<u8>) {
    let mut length = bytes::BytesMut::new();
    varint::encode(text.len() as u64, &mut length);
    output.extend_from_slice(&length);
    output.extend_from_slice(text.as_bytes());
}

/// The head of a GET, without its end.
fn beginning(authority: &str, path: &str) -> Vec<u8> {
    let mut message = vec![2];
    for text in ["GET", "http", authority, path] {
        put(text, &mut message);
    }
    message
}

/// A GET with these fields.
fn get(authority: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut message = beginning(authority, path);
    for (name, value) in fields {
        put(name, &mut message);
        put(value, &mut message);
    }
    message.extend([0, 0, 0]);
    message
}

#[test]
fn no_neighbour_passes_a_rule_by_the_way_it_writes_a_path() {
    let origin = origins::http();
    let at = origin.address().to_string();
    let policy = "policy: { default: allow, rules: [ { match: { path: [/status/201, /status/201/*] }, deny: true } ] }";
    let (_node, mut neighbour) = neighbours(policy);

    let key = neighbour.ask(&get(&at, "/status/202", &[]), true);
    assert_eq!(neighbour.status(key), Ok(202));
    for path in [
        "/status/201",
        "/a/../status/201",
        "/./status/201",
        "/status/./201",
        "/a/%2e%2e/status/201",
        "/status/a/.%2E/201",
        "/status\\201",
        "/status/a/..\\201",
        "/status/a/..%5c201",
        "/status%2F201",
        "/status/a/..%2f201",
        "status/201",
        "*",
    ] {
        let key = neighbour.ask(&get(&at, path, &[]), true);
        let answer = neighbour.status(key);
        let is_refused = matches!(answer, Err(ErrCode::Refused) | Ok(400 | 403));
        assert!(is_refused, "{path}: {answer:?}");
    }
    let came = origin.seen();
    assert!(came.iter().all(|request| request.uri == "/status/202"));
}

#[test]
fn a_request_with_two_lengths_is_refused() {
    let origin = origins::http();
    let at = origin.address().to_string();
    let (_node, mut neighbour) = neighbours("");
    for fields in [
        &[("content-length", "0"), ("content-length", "5")][..],
        &[("content-length", "+5")],
        &[("content-length", "18446744073709551616")],
    ] {
        let key = neighbour.ask(&get(&at, "/status/202", fields), true);
        assert_eq!(neighbour.status(key), Err(ErrCode::Refused), "{fields:?}");
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn fields_without_end_are_refused_and_cost_others_nothing() {
    let origin = origins::http();
    let at = origin.address().to_string();
    let (node, mut neighbour) = neighbours("");
    let mut message = beginning(&at, "/hang");
    message.extend(b"\x01a\x00".repeat(60_000));
    let keys: Vec<_> = (0..20).map(|_| neighbour.ask(&message, false)).collect();
    for key in keys {
        assert_eq!(neighbour.status(key), Err(ErrCode::Refused));
    }
    let answer = curl(&["-x", &node.url("web"), &format!("http://{at}/status/202")]);
    assert_eq!(answer.status, 202);
}

#[test]
fn heads_that_are_never_whole_take_the_share_of_their_neighbour() {
    let origin = origins::http();
    let at = origin.address().to_string();
    let (node, mut neighbour) = neighbours("");
    let mut message = beginning(&at, "/hang");
    put("a", &mut message);
    let mut length = bytes::BytesMut::new();
    varint::encode(HEAD as u64, &mut length);
    message.extend_from_slice(&length);
    message.resize(HEAD, b'x');
    let keys: Vec<_> = (0..HEADS).map(|_| neighbour.ask(&message, false)).collect();

    let until = Instant::now() + PATIENCE;
    let is_refused = |neighbour: &mut Neighbour, key: &ExchangeKey| {
        neighbour.engine.read(*key, 1) == Reading::Broken(ErrCode::Refused)
    };
    while !keys.iter().any(|key| is_refused(&mut neighbour, key)) {
        assert!(
            Instant::now() < until,
            "the node takes all that is said to it"
        );
        (0..100).for_each(|_| neighbour.turn());
    }

    // Others are served, and usual heads of the same neighbour are.
    let answer = curl(&["-x", &node.url("web"), &format!("http://{at}/status/202")]);
    assert_eq!(answer.status, 202);
    let key = neighbour.ask(&get(&at, "/status/202", &[]), true);
    assert_eq!(neighbour.status(key), Ok(202));
    for key in keys {
        neighbour.engine.close(key, Instant::now());
    }
}
