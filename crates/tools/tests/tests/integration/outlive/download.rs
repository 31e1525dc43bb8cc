//! A download by requests, not by a tunnel, while every proxy on its way is started again once.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, free};

/// Bytes of the content.
const WHOLE: usize = 5_000_000;

fn byte(at: usize) -> u8 {
    (at.wrapping_mul(0x9e37_79b9) >> 24) as u8
}

/// An origin that knows ranges, and sends as fast as it is read.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            // A client that goes in the middle is what this is about.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if lines.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }

        let head = head.to_ascii_lowercase();
        let range = head
            .lines()
            .find_map(|line| line.strip_prefix("range: bytes="));
        let from = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
        let status = match range {
            Some(_) => format!(
                "206 Partial Content\r\nContent-Range: bytes {from}-{}/{WHOLE}",
                WHOLE - 1
            ),
            None => "200 OK".to_owned(),
        };
        let length = WHOLE - from;
        stream.write_all(
            format!("HTTP/1.1 {status}\r\nETag: \"one\"\r\nContent-Length: {length}\r\n\r\n")
                .as_bytes(),
        )?;
        let content: Vec<u8> = (from..WHOLE).map(byte).collect();
        stream.write_all(&content)?;
    }
}

fn node(name: &str, address: SocketAddr, next: SocketAddr, http: u8, keys: &str) -> Node {
    Node::start(
        name,
        &format!(
            "listeners: {{ web: {{ http: \"{address}\", gateway: true }} }}\nroutes: [ {{ to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{next}\"], http: {http} {keys} }} }}\n"
        ),
    )
}

fn download(http: u8) {
    let addresses: [SocketAddr; 3] = std::array::from_fn(|_| free::tcp());
    let end = Node::start(
        "end",
        &format!(
            "listeners: {{ web: {{ http: \"{}\", gateway: true }} }}\n\
             routes: [ {{ terminate: \"{}\" }} ]\n",
            addresses[2],
            origin()
        ),
    );
    let second = node("second", addresses[1], addresses[2], http, "");
    let first = node("first", addresses[0], addresses[1], http, "");
    let keys =
        ", retry: { keep_for: 10m, on: [gateway-error, interrupted], backoff: { max: 50ms } }";
    let entry = node("entry", free::tcp(), addresses[0], http, keys);

    let mut raw = Raw::connect(entry.address("web"));
    raw.send("GET /file HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n");
    let head = raw.head();
    assert_eq!(head.status(), 200);
    assert_eq!(head.field("content-length").unwrap(), WHOLE.to_string());

    // What is not read here fills the windows of all of them, so that each dies in the middle.
    let mut got = raw.exactly(300_000);
    let mut hops = [first, second, end];
    for hop in &mut hops {
        hop.kill();
        hop.restart();
        got.extend(raw.exactly(700_000));
    }
    got.extend(raw.rest().0);
    assert_eq!(got.len(), WHOLE);
    let wrong = got
        .iter()
        .enumerate()
        .find(|(at, found)| byte(*at) != **found);
    assert_eq!(wrong, None);
}

#[test]
fn a_download_over_http_1_goes_on_while_every_proxy_is_started_again() {
    download(1);
}

#[test]
fn a_download_over_http_2_goes_on_while_every_proxy_is_started_again() {
    download(2);
}
