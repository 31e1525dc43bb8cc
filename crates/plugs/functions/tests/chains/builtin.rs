//! The functions that are built in.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

use super::node::{Node, bytes, echo, echo_datagrams, mistakes};

/// A node whose only route ends here, through these functions.
fn ends_here(functions: &str, through: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         functions: {{ {functions} }}\n\
         routes: [{{ terminate: true, through: [{through}] }}]\n"
    )
}

#[tokio::test]
async fn only_allowed_ports_pass_as_tunnels_and_as_requests() {
    let target = echo().await;
    let other = echo().await;
    let functions = format!("allow-ports: {{ allow: {{ ports: [{}] }} }}", target.port());
    let node = Node::start("a", &ends_here(&functions, "allow-ports"));

    let (mut open, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    open.write_all(b"hello").await.unwrap();
    assert_eq!(bytes(&mut open, 5).await, b"hello");
    let (_, refused) = node.tunnel(other).await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    let request = format!("GET http://{other}/ HTTP/1.1\r\nHost: {other}\r\n\r\n");
    let (_, refused) = node.ask(&request).await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    node.end().await;
}

#[tokio::test]
async fn an_open_tunnel_keeps_its_functions_and_new_ones_have_the_new() {
    let target = echo().await;
    let open_to = |port: u16| format!("f: {{ allow: {{ ports: [{port}] }} }}");
    let node = Node::start("a", &ends_here(&open_to(target.port()), "f"));
    let (mut before, _) = node.tunnel(target).await;

    node.apply(&ends_here(&open_to(1), "f"));
    before.write_all(b"still").await.unwrap();
    assert_eq!(bytes(&mut before, 5).await, b"still");
    let (_, refused) = node.tunnel(target).await;
    assert!(refused.starts_with("HTTP/1.1 403"), "{refused}");

    // Consent is a matter of the policy: withdrawn, it ends what is open.
    let forbidden = format!(
        "{}policy: {{ default: deny }}\n",
        ends_here(&open_to(target.port()), "f")
    );
    node.apply(&forbidden);
    assert_eq!(bytes(&mut before, 1).await, b"");
    node.end().await;
}

#[tokio::test]
async fn a_flow_that_is_not_what_it_claims_reaches_no_target() {
    let target = echo().await;
    let node = Node::start("a", &ends_here("s: { sniff: { is: [ssh, tls] } }", "s"));
    let (mut ssh, _) = node.tunnel(target).await;
    for byte in b"SSH-2.0-test\r\n" {
        ssh.write_all(&[*byte]).await.unwrap();
        ssh.flush().await.unwrap();
    }
    assert_eq!(bytes(&mut ssh, 14).await, b"SSH-2.0-test\r\n");

    let (mut other, _) = node.tunnel(target).await;
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(bytes(&mut other, 1).await, b"", "echoed by the target");
    node.end().await;
}

#[tokio::test]
async fn the_rate_of_a_user_holds_for_all_tunnels_together() {
    const BYTES: usize = 100 * 1024;
    let target = echo().await;
    let limit = "slow: { limit: { per_second: 200KiB, burst: 16KiB, shared_by: user } }";
    let node = Node::start("a", &ends_here(limit, "slow"));
    let began = Instant::now();
    let one = async {
        let (mut tunnel, _) = node.tunnel(target).await;
        tunnel.write_all(&vec![7; BYTES]).await.unwrap();
        assert_eq!(bytes(&mut tunnel, BYTES).await.len(), BYTES);
    };
    let other = async {
        let (mut tunnel, _) = node.tunnel(target).await;
        tunnel.write_all(&vec![7; BYTES]).await.unwrap();
        assert_eq!(bytes(&mut tunnel, BYTES).await.len(), BYTES);
    };
    tokio::join!(one, other);
    // A lower bound, however fast the machine is: 200 KiB at 200 KiB in a second, less the burst, and less a piece of each tunnel, which is
    // paid for after it has passed.
    assert!(began.elapsed().as_millis() >= 700, "{:?}", began.elapsed());
    node.end().await;
}

#[tokio::test]
async fn a_tap_records_bytes_and_datagrams_within_its_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let target = echo().await;
    let tap = format!(
        "t: {{ tap: {{ folder: {}, size: 64KiB, files: 3 }} }}",
        folder.path().display()
    );
    let node = Node::start("a", &ends_here(&tap, "t"));
    let (mut tunnel, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // At once, so that many pieces wait for the disk together.
    const BYTES: usize = 2 * 1024 * 1024;
    let (mut read, mut write) = tunnel.split();
    let sent = vec![b'x'; BYTES];
    let mut got = vec![0; BYTES];
    let (written, received) = tokio::join!(write.write_all(&sent), read.read_exact(&mut got));
    written.unwrap();
    received.unwrap();
    drop(tunnel);
    node.end().await;

    let mut sizes = Vec::new();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        sizes.push(entry.unwrap().metadata().unwrap().len());
    }
    assert!((1..=3).contains(&sizes.len()), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 64 * 1024), "{sizes:?}");
}

#[tokio::test]
async fn a_tap_that_cannot_write_lets_flows_pass() {
    let target = echo().await;
    let tap = "t: { tap: { folder: /nowhere/at/all } }";
    let node = Node::start("a", &ends_here(tap, "t"));
    let (mut tunnel, _) = node.tunnel(target).await;
    tunnel.write_all(b"hello").await.unwrap();
    assert_eq!(bytes(&mut tunnel, 5).await, b"hello");
    node.end().await;
}

#[tokio::test]
async fn datagrams_that_are_no_queries_end_their_session() {
    let target = echo_datagrams().await;
    let yaml = format!(
        "listeners: {{ u: {{ udp: 127.0.0.1:0, target: \"{target}\" }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         functions: {{ names: {{ sniff: {{ is: [dns] }} }} }}\n\
         routes: [{{ terminate: true, through: [names] }}]\n"
    );
    let node = Node::start("a", &yaml);
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01";
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(node.address()).await.unwrap();
    client.send(query).await.unwrap();
    let mut answer = [0; 64];
    assert_eq!(client.recv(&mut answer).await.unwrap(), query.len());

    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    other.connect(node.address()).await.unwrap();
    other.send(b"no query at all").await.unwrap();
    // A query once that session is over begins one of its own; the other bytes never come back.
    let answered = async {
        loop {
            other.send(query).await.unwrap();
            let received =
                tokio::time::timeout(Duration::from_millis(200), other.recv(&mut answer));
            if let Ok(length) = received.await {
                return length.unwrap();
            }
        }
    };
    let length = tokio::time::timeout(Duration::from_secs(20), answered).await;
    assert_eq!(&answer[..length.unwrap()], query);
    node.end().await;
}

#[test]
fn mistakes_in_functions_are_those_of_the_document() {
    let found = mistakes(&ends_here(
        "f: { allow: {} }, g: { limit: { per_second: 1B } }",
        "f, g, h",
    ));
    assert_eq!(
        found,
        [
            "functions.f.allow: it lets nothing through",
            "functions.g.limit.per_second: so slow a tunnel would look dead",
            "routes[0].through[2]: there is no transform `h`",
        ]
    );
}
