//! Responses whose content breaks off: the rest is asked for, and what changed is never mixed.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use hermes_tests::raw::{End, Raw};

use super::gateway;

/// Bytes of the content.
const WHOLE: usize = 500_000;

/// What the origin does with its nth request.
#[derive(Clone, Copy)]
enum Step {
    /// Sends a 200 with this tag, of which so much.
    Whole(&'static str, usize),
    /// Sends the part that was asked for with a 206, of which so much.
    Part(&'static str, usize),
    /// Answers with this status.
    Status(u16),
}

/// The byte at this place, which differs with the tag.
fn byte(tag: &str, at: usize) -> u8 {
    (at / 251) as u8 ^ at as u8 ^ tag.as_bytes()[1]
}

fn content(tag: &str) -> Vec<u8> {
    (0..WHOLE).map(|at| byte(tag, at)).collect()
}

/// An origin that closes each connection after one answer; and what it was asked.
fn origin(steps: Vec<Step>) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = asked.clone();

    thread::spawn(move || {
        for step in steps {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") {
                lines.read_line(&mut head).unwrap();
            }
            let from = from(&head);
            heard.lock().unwrap().push(head);
            stream.write_all(&answer(step, from)).unwrap();
        }
    });
    (address, asked)
}

/// Where the range begins that was asked for.
fn from(head: &str) -> usize {
    let range = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("range: bytes=")
            .map(str::to_owned)
    });
    range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap())
}

fn answer(step: Step, from: usize) -> Vec<u8> {
    match step {
        Step::Whole(tag, some) => {
            let head = format!("HTTP/1.1 200 OK\r\nETag: {tag}\r\nContent-Length: {WHOLE}\r\n\r\n");
            [head.as_bytes(), &content(tag)[..some]].concat()
        }
        Step::Part(tag, some) => {
            let last = WHOLE - 1;
            let length = WHOLE - from;
            let head = format!(
                "HTTP/1.1 206 Partial Content\r\nETag: {tag}\r\n\
                 Content-Range: bytes {from}-{last}/{WHOLE}\r\nContent-Length: {length}\r\n\r\n"
            );
            let rest = &content(tag)[from..];
            [head.as_bytes(), &rest[..some.min(length)]].concat()
        }
        Step::Status(status) => {
            format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n").into_bytes()
        }
    }
}

const ONE: &str = "\"1\"";
const TWO: &str = "\"2\"";

const KEYS: &str = ", retry: { on: [connect-failure, reset, interrupted], attempts: 5, backoff: { base: 1ms, max: 2ms } }";

/// What the client gets, and how it ends.
fn fetch(steps: &[Step]) -> (Vec<u8>, End, Vec<String>) {
    let (address, asked) = origin(steps.to_vec());
    let node = gateway(&[address], KEYS);
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET /file HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n");
    assert_eq!(raw.head().status(), 200);
    let (content, end) = raw.rest();
    let asked = asked.lock().unwrap().clone();
    (content, end, asked)
}

#[test]
fn a_response_that_breaks_off_goes_on_where_it_was() {
    let (got, _, asked) = fetch(&[
        Step::Whole(ONE, 100_000),
        Step::Part(ONE, 150_000),
        Step::Status(503),
        Step::Part(ONE, WHOLE),
    ]);
    assert!(got == content(ONE), "{} bytes", got.len());
    assert_eq!(asked.len(), 4);
    assert!(!asked[0].contains("ange"), "{}", asked[0]);
    let second = asked[1].to_ascii_lowercase();
    assert!(
        second.contains("range: bytes=100000-\r\n") && second.contains("if-range: \"1\"\r\n"),
        "{second}"
    );
    assert!(
        asked[3]
            .to_ascii_lowercase()
            .contains("range: bytes=250000-")
    );
}

#[test]
fn an_origin_without_ranges_sends_it_all_again() {
    let (got, _, asked) = fetch(&[Step::Whole(ONE, 100_000), Step::Whole(ONE, WHOLE)]);
    assert!(got == content(ONE), "{} bytes", got.len());
    assert_eq!(asked.len(), 2);
}

#[test]
fn content_that_changed_meanwhile_is_never_mixed() {
    for changed in [
        Step::Part(TWO, WHOLE),
        Step::Whole(TWO, WHOLE),
        Step::Status(404),
    ] {
        let (got, _, asked) = fetch(&[Step::Whole(ONE, 100_000), changed]);
        assert!(got == content(ONE)[..100_000], "{} bytes", got.len());
        assert_eq!(asked.len(), 2, "and it is not asked for once more");
    }
}

#[test]
fn a_response_without_a_strong_validator_is_not_asked_for_again() {
    let (got, _, asked) = fetch(&[Step::Whole("W/\"1\"", 100_000)]);
    assert!(got == content("W/\"1\"")[..100_000]);
    assert_eq!(asked.len(), 1);
}
