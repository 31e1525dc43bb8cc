//! Tunnels of bulk have connections of their own, and those that are small share one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use hermes_tests::{Node, origins};
use serde_json::Value;

use crate::tunnels::overlay::{Overlay, forwarder};
use crate::tunnels::pipe::{Pipe, WAYS};

/// More than what counts as bulk.
const BULK: usize = 17 << 20;

/// Sends bulk on each connection.
fn flood() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = stream.write_all(&vec![7; BULK]);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

/// How the tunnels to this target came to the last node, the first of them first.
fn came(overlay: &Overlay, target: SocketAddr) -> Vec<String> {
    let of_target = |record: &Value| record["target"] == target.to_string();
    let records = overlay.end().access();
    let tunnels = records.iter().filter(|record| of_target(record));
    tunnels
        .map(|record| record["protocol"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_target_of_bulk_gets_connections_of_its_own_and_others_share() {
    let mut overlay = Overlay::start(&[]);
    let end = overlay.address();
    overlay.enter_by(forwarder("entry", end, "[2, 1]"));
    let flood = flood();
    let echo = origins::tcp_echo();

    for way in WAYS {
        for _ in 0..2 {
            let mut pipe = Pipe::to(way, overlay.address(), flood);
            pipe.finish();
            assert_eq!(pipe.rest().0.len(), BULK);
            overlay.idle();

            let mut pipe = Pipe::to(way, overlay.address(), echo.address());
            pipe.send("small");
            pipe.finish();
            assert_eq!(pipe.rest().0, b"small");
            overlay.idle();
        }
    }

    assert_eq!(came(&overlay, flood), ["h2", "h1", "h1", "h1"]);
    // Nothing was known of it when its route had moved nothing but bulk.
    assert_eq!(came(&overlay, echo.address()), ["h1", "h2", "h2", "h2"]);
}

#[test]
fn where_http_2_alone_is_spoken_bulk_shares_too() {
    let overlay = Overlay::start(&[2]);
    let flood = flood();
    for _ in 0..2 {
        let mut pipe = Pipe::to(WAYS[0], overlay.address(), flood);
        pipe.finish();
        assert_eq!(pipe.rest().0.len(), BULK);
        overlay.idle();
    }
    assert_eq!(came(&overlay, flood), ["h2", "h2"]);
}

#[test]
fn bulk_that_would_take_the_last_connections_shares() {
    let mut overlay = Overlay::start(&[]);
    let end = overlay.address();
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0 }}
        routes:
          - {{ to: next }}
        upstreams:
          next: {{ endpoints: ["{end}"], http: [2, 1], limits: {{ connections: 3 }} }}
        workers: 1
        "#
    );
    overlay.enter_by(Node::start("entry", &yaml));

    let flood = flood();
    let mut open = Pipe::to(WAYS[0], overlay.address(), flood);
    open.finish();
    open.rest();
    overlay.idle();

    let alone = Pipe::to(WAYS[0], overlay.address(), flood);
    let mut shares = Pipe::to(WAYS[0], overlay.address(), flood);
    shares.finish();
    assert_eq!(shares.rest().0.len(), BULK);
    drop(alone);
    overlay.idle();

    let mut how = came(&overlay, flood);
    how.sort();
    assert_eq!(how, ["h1", "h2", "h2"]);
}
