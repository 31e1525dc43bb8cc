//! Every payload, three versions in and three versions out, forwarded and terminated.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};
use serde_json::Value;

use crate::http3::overlay::{Grid, VERSIONS};

/// The access record at `node` of the exchange of this kind that ended last for the target with this port.
fn protocol(node: &Node, kind: &str, port: u16) -> String {
    let mine = |record: &Value| {
        let target = record["target"].as_str().unwrap_or_default();
        record["kind"] == kind && record["event"] == "end" && target.contains(&format!(":{port}"))
    };
    node.record(mine)["protocol"].as_str().unwrap().to_owned()
}

/// Both nodes behind the entry were spoken to in the versions that were meant.
fn assert_versions(grid: &Grid, kind: &str, port: u16, first: u8, second: u8) {
    assert_eq!(
        protocol(grid.middle(second), kind, port),
        format!("h{first}")
    );
    assert_eq!(protocol(&grid.end, kind, port), format!("h{second}"));
}

fn each(mut check: impl FnMut(&Grid, u8, u8)) {
    let grid = Grid::start();
    for first in VERSIONS {
        for second in VERSIONS {
            check(&grid, first, second);
        }
    }
}

#[test]
fn messages_pass_with_content_trailers_and_interim_responses() {
    each(|grid, first, second| {
        let proxy = format!("http://{}", grid.address(first, second));
        let origin = origins::http();
        let url = |path: &str| format!("http://{}{path}", origin.address());
        let sent = curl(&[
            "-x",
            &proxy,
            "-H",
            "Priority: u=1, i",
            "-d",
            "content",
            &url("/a?b=c"),
        ]);
        assert_eq!(
            (sent.exit, sent.status),
            (0, 200),
            "{first} to {second}: {sent:?}"
        );
        assert_eq!(
            (&sent.json()["body"], origin.last().uri.as_str()),
            (&"content".into(), "/a?b=c")
        );
        assert_eq!(
            origin.last().field("priority").as_deref(),
            Some("u=1, i"),
            "{first} to {second}"
        );
        let large = curl(&["-x", &proxy, &url("/bytes/3000000")]);
        assert_eq!(
            (large.exit, large.body.len()),
            (0, 3_000_000),
            "{first} to {second}"
        );
        assert_versions(grid, "http", origin.port(), first, second);

        let hints = origins::scripted(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
             Priority: u=5\r\n\r\n5\r\nbody\n\r\n0\r\nx-checksum: 42\r\n\r\n",
        );
        let mut raw = Raw::connect(grid.address(first, second));
        let authority = hints.address();
        raw.send(format!(
            "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\nTE: trailers\r\n\r\n"
        ));
        assert_eq!(raw.head().status(), 103, "{first} to {second}");
        let text = raw.until(|bytes| {
            bytes.ends_with(b"\r\n\r\n") && bytes.windows(5).any(|five| five == b"\r\n0\r\n")
        });
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = ["200 OK", "priority: u=5\r\n", "x-checksum: 42"];
        assert!(
            lines.iter().all(|line| text.contains(line)),
            "{first} to {second}: {text}"
        );
    });
}

#[test]
fn connect_carries_bytes_both_ways_and_half_closes() {
    each(|grid, first, second| {
        let origin = origins::tcp_speaks_first();
        let mut raw = Raw::tunnel(
            grid.address(first, second),
            &origin.address().to_string(),
            "",
        )
        .unwrap();
        let payload: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        let mut writer = raw.other();
        let sending = payload.clone();
        let sender = std::thread::spawn(move || {
            writer.send(&sending);
            writer.finish();
        });
        assert_eq!(
            raw.exactly(origins::GREETING.len()),
            origins::GREETING.as_bytes(),
            "{first} to {second}"
        );
        assert!(raw.exactly(payload.len()) == payload, "{first} to {second}");
        sender.join().unwrap();
        // It says how much it heard, after the end of that.
        assert_eq!(
            raw.rest().0,
            origins::farewell(payload.len()).into_bytes(),
            "{first} to {second}"
        );
        assert_versions(grid, "connect", origin.port(), first, second);
    });
}

#[test]
fn connect_udp_carries_datagrams() {
    each(|grid, first, second| {
        let origin = origins::udp_echo(origins::V4);
        let mut tunnel =
            UdpTunnel::h1(grid.address(first, second), "127.0.0.1", origin.port(), "").unwrap();
        for length in [0, 1, 1200, 17] {
            let payload = vec![7; length];
            tunnel.send(&payload);
            assert_eq!(tunnel.receive(), payload, "{first} to {second}");
        }
        // What QUIC does not carry is lost there, and the tunnel goes on.
        tunnel.send(vec![1; 9000]);
        tunnel.send("after");
        let large_passes = first != 3 && second != 3;
        if large_passes {
            assert_eq!(tunnel.receive().len(), 9000);
        }
        assert_eq!(tunnel.receive(), b"after", "{first} to {second}");
        drop(tunnel);
        assert_versions(grid, "connect-udp", origin.port(), first, second);
        let dropping = if first == 3 {
            Some(&grid.entry)
        } else {
            (second == 3).then(|| grid.middle(second))
        };
        if let Some(node) = dropping {
            let port = format!(":{}", origin.port());
            let record = node.record(|record| {
                record["target"]
                    .as_str()
                    .is_some_and(|target| target.contains(&port))
            });
            assert_eq!(
                record["datagrams"]["dropped"], 1,
                "{first} to {second}: {record:#}"
            );
        }
    });
}

#[test]
fn websocket_passes() {
    each(|grid, first, second| {
        let origin = origins::tcp_upgrades();
        let authority = origin.address();
        let mut raw = Raw::connect(grid.address(first, second));
        raw.send(format!(
            "GET http://{authority}/chat HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ));
        let head = raw.head();
        assert_eq!(head.status(), 101, "{first} to {second}: {head:?}");
        assert_eq!(
            head.field("sec-websocket-accept").as_deref(),
            Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{first} to {second}"
        );
        raw.send("frame");
        assert_eq!(raw.exactly(5), b"frame", "{first} to {second}");
        drop(raw);
        assert_versions(grid, "upgrade", origin.port(), first, second);
    });
}
