//! Functions that nodes ask each other for.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::hops::letters;
use super::node::{Node, bytes, echo, echo_datagrams, head, mistakes};

/// A folder with a key for each pair of nodes.
fn keys() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, digit) in [("ab", "a"), ("ac", "c")] {
        let file = folder.path().join(name);
        std::fs::write(&file, digit.repeat(64)).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&file, private).unwrap();
    }
    folder
}

/// `a`, which asks nodes behind `next` for functions.
fn asks(keys: &Path, next: SocketAddr, functions: &str, through: &str) -> String {
    let keys = keys.display();
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         upstreams: {{ next: {{ endpoints: [\"{next}\"] }} }}\n\
         plugs: {{ functions: {{ keys: {{ b: {keys}/ab, c: {keys}/ac }} }} }}\n\
         functions: {{ {functions} }}\n\
         routes: [{{ to: next, through: [{through}] }}]\n"
    )
}

/// A node that `a` may ask, with this key and this way on.
fn asked(keys: &Path, key: &str, functions: &str, route: &str) -> String {
    let keys = keys.display();
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         plugs: {{ functions: {{ keys: {{ a: {keys}/{key} }} }} }}\n\
         functions: {{ {functions} }}\n{route}\n"
    )
}

/// Changes of bytes whose order can be seen in the outcome.
fn changed(byte: u8, by: u8) -> u8 {
    byte.wrapping_mul(3).wrapping_add(by)
}

/// A process that bytes are led through, which changes each.
pub(super) async fn changing_process(change: fn(&u8) -> u8) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, change));
        }
    });
    address
}

/// The function of this name that leads bytes there.
async fn changing(name: &str, change: fn(&u8) -> u8) -> String {
    let address = changing_process(change).await;
    format!("{name}: {{ hop: {{ to: \"{address}\" }} }}")
}

async fn serve(mut client: TcpStream, change: fn(&u8) -> u8) -> Option<()> {
    let request = head(&mut client).await;
    let target = request.strip_prefix("CONNECT ")?.split(' ').next()?;
    let mut back = TcpStream::connect(target).await.ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_target, mut to_target) = back.split();
    let upwards = letters(&mut from_client, &mut to_target, change);
    let downwards = letters(&mut from_target, &mut to_client, change);
    tokio::join!(upwards, downwards);
    Some(())
}

#[tokio::test]
async fn functions_of_all_nodes_are_in_order_and_reversed_on_the_answer() {
    let keys = keys();
    let target = echo().await;
    let one = changing("one", |byte| changed(*byte, 1)).await;
    let two = changing("two", |byte| changed(*byte, 2)).await;
    let three = changing("three", |byte| changed(*byte, 3)).await;
    let four = changing("four", |byte| changed(*byte, 4)).await;

    let end = "routes: [{ terminate: true }]";
    let last = Node::start("c", &asked(keys.path(), "ac", &four, end));
    let on = format!(
        "upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\nroutes: [{{ to: next }}]",
        last.address()
    );
    let middle = asked(keys.path(), "ab", &format!("{two}, {three}"), &on);
    let middle = Node::start("b", &middle);
    let through = "one, { at: b, do: [two] }, three, { at: c, do: [four] }";
    let first = Node::start("a", &asks(keys.path(), middle.address(), &one, through));

    let (mut tunnel, answer) = first.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The part of this node's route is none of its client's business.
    assert!(
        !answer.to_lowercase().contains("hermes-functions"),
        "{answer}"
    );
    tunnel.write_all(b"hello").await.unwrap();
    let order = [1, 2, 3, 4, 4, 3, 2, 1];
    let outcome = |byte: &u8| order.iter().fold(*byte, |byte, by| changed(byte, *by));
    let wanted: Vec<u8> = b"hello".iter().map(outcome).collect();
    assert_eq!(bytes(&mut tunnel, 5).await, wanted);

    for node in [first, middle, last] {
        node.end().await;
    }
}

/// What a node sends to the next one for a tunnel, which is then answered so.
async fn sent(through: &str, target: SocketAddr, answer: &str) -> (String, String) {
    let keys = keys();
    let next = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = next.local_addr().unwrap();
    let node = Node::start("a", &asks(keys.path(), address, "", through));
    let asked = async {
        let (mut stream, _) = next.accept().await.unwrap();
        let request = head(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        let rest = bytes(&mut stream, 1).await;
        assert!(rest.is_empty() || answer.is_empty(), "bytes passed");
        request
    };
    let asking = async {
        let (stream, answer) = node.tunnel(target).await;
        drop(stream);
        answer
    };
    let (request, answer) = tokio::join!(asked, asking);
    node.end().await;
    (request, answer)
}

#[tokio::test]
async fn a_node_that_does_not_prove_its_part_gets_no_bytes() {
    let target = "127.0.0.1:9".parse().unwrap();
    let done = |mac: &str| format!("HTTP/1.1 200 OK\r\nHermes-Functions: b;mac={mac}\r\n\r\n");
    let answers = [
        "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        done(""),
        done(&"0".repeat(64)),
    ];
    for answer in answers {
        let (request, answered) = sent("{ at: b, do: [two] }", target, &answer).await;
        assert!(
            request
                .to_lowercase()
                .contains("hermes-functions: b=two;from=a;"),
            "{request}"
        );
        assert!(answered.starts_with("HTTP/1.1 5"), "{answered}");
        assert!(answered.contains("has not proved"), "{answered}");
    }
}

#[tokio::test]
async fn a_request_for_functions_is_good_once_for_its_tunnel_and_from_a_peer() {
    let keys = keys();
    let target = echo().await;
    let other = echo().await;
    let refusal = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
    let (request, _) = sent("{ at: b, do: [any] }", target, refusal).await;
    let line = |line: &&str| line.to_lowercase().starts_with("hermes-functions:");
    let field = request.lines().find(line).unwrap();

    let functions = "any: { allow: { ports: [1-65535] } }, none: { allow: { ports: [1] } }";
    let end = "routes: [{ terminate: true }]";
    let node = Node::start("b", &asked(keys.path(), "ab", functions, end));
    let ask = |target: SocketAddr, field: String| {
        let node = &node;
        async move {
            let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{field}\r\n\r\n");
            node.ask(&request).await.1
        }
    };

    let (rest, last) = field.split_at(field.len() - 1);
    let forged = [
        (other, field.to_owned()),
        (target, field.replace("=any;", "=none;")),
        (target, field.replace("from=a;", "from=z;")),
        (target, field.replace(";once=", ";once=0")),
        (
            target,
            format!("{rest}{}", if last == "0" { "1" } else { "0" }),
        ),
    ];
    for (target, field) in forged {
        let answer = ask(target, field.clone()).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{field}: {answer}");
    }

    let answer = ask(target, field.to_owned()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.to_lowercase().contains("hermes-functions: b;mac="),
        "{answer}"
    );
    let replayed = ask(target, field.to_owned()).await;
    assert!(replayed.starts_with("HTTP/1.1 403"), "{replayed}");
    assert!(replayed.contains("used before"), "{replayed}");

    // From a client that is no peer the field is no request, and is not passed on.
    let plain =
        asked(keys.path(), "ab", functions, end).replace(", insecure_trust: [127.0.0.0/8]", "");
    node.apply(&plain);
    let client = ask(target, field.to_owned()).await;
    assert!(client.starts_with("HTTP/1.1 200"), "{client}");
    assert!(
        !client.to_lowercase().contains("hermes-functions"),
        "{client}"
    );
    node.end().await;
}

#[tokio::test]
async fn a_node_does_no_function_that_it_has_not() {
    let keys = keys();
    let target = echo().await;
    let end = "routes: [{ terminate: true }]";
    let node = Node::start("b", &asked(keys.path(), "ab", "packed: compress", end));
    for (functions, why) in [("absent", "has no function"), ("packed", "nothing undoes")] {
        let through = format!("{{ at: b, do: [{functions}] }}");
        let first = Node::start("a", &asks(keys.path(), node.address(), "", &through));
        let (_, answer) = first.tunnel(target).await;
        assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");
        assert!(answer.contains(why), "{answer}");
        first.end().await;
    }

    // Behind the end of the overlay there is no node to ask.
    let through = "{ at: c, do: [any] }";
    let first = Node::start("a", &asks(keys.path(), node.address(), "", through));
    let (_, answer) = first.tunnel(target).await;
    assert!(answer.contains("no node c is on the way"), "{answer}");
    first.end().await;
    node.end().await;
}

#[tokio::test]
async fn bytes_are_encrypted_between_two_nodes_past_a_third() {
    let keys = keys();
    let target = echo().await;
    let end = "routes: [{ terminate: true }]";
    let open = "open: { decrypt: { with: a } }";
    let last = Node::start("c", &asked(keys.path(), "ac", open, end));
    let on = format!(
        "upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\nroutes: [{{ to: next, through: [same] }}]",
        last.address()
    );
    // What passes here is no HTTP.
    let same = "same: { sniff: { is: [http] } }";
    let looks = Node::start("b", &asked(keys.path(), "ab", same, &on));
    let through = "{ encrypt: { with: c } }, { at: c, do: [open] }";
    let first = Node::start("a", &asks(keys.path(), looks.address(), "", through));
    let (mut seen, answer) = first.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // The beginning is sent before a byte of the client, so that b may have ended it by now.
    let _ = seen.write_all(b"GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(bytes(&mut seen, 1).await, b"", "it was in the clear at b");

    looks.apply(&asked(keys.path(), "ab", "", &on.replace("same", "")));
    let (mut tunnel, _) = first.tunnel(target).await;
    let long: Vec<u8> = (0..100_000_u32).map(|at| (at % 253) as u8).collect();
    let (mut read, mut write) = tunnel.split();
    let mut got = vec![0; long.len()];
    let (written, echoed) = tokio::join!(
        async {
            write.write_all(&long).await?;
            write.shutdown().await
        },
        read.read_exact(&mut got)
    );
    written.unwrap();
    echoed.unwrap();
    assert!(got == long);
    assert_eq!(
        read.read(&mut [0]).await.unwrap(),
        0,
        "the end comes through"
    );
    for node in [first, looks, last] {
        node.end().await;
    }
}

#[tokio::test]
async fn bytes_are_compressed_to_the_next_node_under_any_name() {
    let keys = keys();
    let target = echo().await;
    let next = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let packed = "packed: { zstd: { level: 5 } }";
    let looking = asks(keys.path(), next.local_addr().unwrap(), packed, "packed");
    let first = Node::start("a", &looking);
    let looks = async {
        let (mut stream, _) = next.accept().await.unwrap();
        let request = head(&mut stream).await;
        assert!(
            request
                .to_lowercase()
                .contains("hermes-transform: zstd\r\n"),
            "{request}"
        );
        let answer = "HTTP/1.1 200 OK\r\nHermes-Transform: zstd\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        // The magic number of a frame (RFC 8878, 3.1.1).
        assert_eq!(bytes(&mut stream, 4).await, [0x28, 0xb5, 0x2f, 0xfd]);
    };
    let sends = async {
        let (mut tunnel, _) = first.tunnel(target).await;
        tunnel.write_all(b"hello").await.unwrap();
        tunnel
    };
    tokio::join!(looks, sends);

    let end = "routes: [{ terminate: true }]";
    let last = Node::start("b", &asked(keys.path(), "ab", "", end));
    first.apply(&asks(keys.path(), last.address(), packed, "packed"));
    let (mut tunnel, _) = first.tunnel(target).await;
    let long = b"many words are said twice, ".repeat(4000);
    let (mut read, mut write) = tunnel.split();
    let mut got = vec![0; long.len()];
    let (written, echoed) = tokio::join!(write.write_all(&long), read.read_exact(&mut got));
    written.unwrap();
    echoed.unwrap();
    assert!(got == long);
    first.end().await;
    last.end().await;
}

#[tokio::test]
async fn datagrams_are_encrypted_between_two_nodes() {
    let keys = keys();
    let target = echo_datagrams().await;
    let open = "open: { decrypt: { with: a } }";
    let end = "routes: [{ terminate: true, through: [open] }]";
    let last = Node::start("c", &asked(keys.path(), "ac", open, end));
    let seal = |key: &str| {
        let web = "web: { http: 127.0.0.1:0 }";
        asks(keys.path(), last.address(), "", "{ encrypt: { with: c } }")
            .replace(
                web,
                &format!("u: {{ udp: 127.0.0.1:0, target: \"{target}\" }}"),
            )
            .replace("/ac", key)
    };
    let first = Node::start("a", &seal("/ac"));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(first.address()).await.unwrap();
    for text in [&b"hello"[..], b"", &[7; 1000]] {
        client.send(text).await.unwrap();
        let mut echoed = [0; 2000];
        let length = tokio::time::timeout(Duration::from_secs(20), client.recv(&mut echoed)).await;
        assert_eq!(&echoed[..length.unwrap().unwrap()], text);
    }
    first.end().await;

    // Of another key none arrives: the clear bytes that follow would be echoed otherwise.
    let other = Node::start("a", &seal("/ab"));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(other.address()).await.unwrap();
    client.send(b"hello").await.unwrap();
    let mut echoed = [0; 2000];
    let echoed = client.recv(&mut echoed);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), echoed)
            .await
            .is_err()
    );
    other.end().await;
    last.end().await;
}

/// As [`asks`], with a listener of UDP for datagrams to this target in place of the one of HTTP.
fn asks_for_datagrams(keys: &Path, next: SocketAddr, target: SocketAddr, through: &str) -> String {
    let web = "web: { http: 127.0.0.1:0 }";
    let udp = format!("u: {{ udp: 127.0.0.1:0, target: \"{target}\" }}");
    asks(keys, next, "", through).replace(web, &udp)
}

/// A client of a node's listener of UDP.
async fn datagrams_of(node: &Node) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(node.address()).await.unwrap();
    client
}

async fn echoed(client: &UdpSocket, text: &[u8]) -> Option<Vec<u8>> {
    client.send(text).await.unwrap();
    let mut echoed = vec![0; 2000];
    let received = tokio::time::timeout(Duration::from_secs(20), client.recv(&mut echoed)).await;
    echoed.truncate(received.ok()?.ok()?);
    Some(echoed)
}

#[tokio::test]
async fn a_node_further_on_opens_datagrams_that_it_was_asked_to_open() {
    let keys = keys();
    let target = echo_datagrams().await;
    let open = "open: { decrypt: { with: a } }";
    let end = "routes: [{ terminate: true }]";
    let last = Node::start("c", &asked(keys.path(), "ac", open, end));
    // One in between passes the request for functions on, and the proof back.
    let on = format!(
        "upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\nroutes: [{{ to: next }}]",
        last.address()
    );
    let middle = Node::start("b", &asked(keys.path(), "ab", "", &on));
    let through = "{ encrypt: { with: c } }, { at: c, do: [open] }";
    let asking = asks_for_datagrams(keys.path(), middle.address(), target, through);
    let first = Node::start("a", &asking);
    let client = datagrams_of(&first).await;
    for text in [&b"hello"[..], b"", &[7; 1000]] {
        assert_eq!(echoed(&client, text).await.as_deref(), Some(text));
    }

    // A tunnel that moves to another path is signed and proved anew.
    let direct = asks_for_datagrams(keys.path(), last.address(), target, through);
    first.apply(&direct);
    middle.end().await;
    let mut answer = None;
    for _ in 0..20 {
        // Some may be lost with the path that was left.
        client.send(b"again").await.unwrap();
        let mut echoed = [0; 2000];
        let received = client.recv(&mut echoed);
        let received = tokio::time::timeout(Duration::from_secs(1), received).await;
        if let Ok(Ok(length)) = received {
            answer = Some(echoed[..length].to_vec());
            break;
        }
    }
    assert_eq!(answer.as_deref(), Some(&b"again"[..]));
    for node in [first, last] {
        node.end().await;
    }
}

/// The request for a tunnel of datagrams (RFC 9298, 3.2).
fn connect_udp(target: SocketAddr) -> String {
    let ip = target.ip();
    let port = target.port();
    format!(
        "GET /.well-known/masque/udp/{ip}/{port}/ HTTP/1.1\r\nHost: any.test\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n"
    )
}

#[tokio::test]
async fn no_datagram_passes_a_node_that_does_not_do_or_prove_its_part() {
    let keys = keys();
    let target = echo_datagrams().await;
    let functions =
        "none: { allow: { ports: [1] } }, packed: compress, any: { allow: { ports: [1-65535] } }";
    let end = "routes: [{ terminate: true }]";
    let node = Node::start("b", &asked(keys.path(), "ab", functions, end));
    let asking = |function: &str| {
        let through = format!("{{ at: b, do: [{function}] }}");
        asks(keys.path(), node.address(), "", &through)
    };
    let first = Node::start("a", &asking("any"));
    let (_, answer) = first.ask(&connect_udp(target)).await;
    assert!(answer.starts_with("HTTP/1.1 101"), "{answer}");
    // The part of this node's route is none of its client's business.
    assert!(
        !answer.to_lowercase().contains("hermes-functions"),
        "{answer}"
    );
    for (function, why) in [
        ("none", "not on the allow-list"),
        ("packed", "nothing undoes packed"),
        ("absent", "has no function absent"),
    ] {
        first.apply(&asking(function));
        let (_, answer) = first.ask(&connect_udp(target)).await;
        assert!(answer.contains(why), "{function}: {answer}");
    }
    node.end().await;

    let next = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = next.local_addr().unwrap();
    first.apply(&asks(keys.path(), address, "", "{ at: b, do: [any] }"));
    let lies = async {
        let (mut stream, _) = next.accept().await.unwrap();
        let request = head(&mut stream).await.to_lowercase();
        assert!(
            request.contains("hermes-functions: b=any;from=a;"),
            "{request}"
        );
        let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
                      Capsule-Protocol: ?1\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        assert_eq!(bytes(&mut stream, 1).await, b"", "a datagram passed");
    };
    let asks = async {
        let datagram = b"\0\x03\0hi";
        let request = connect_udp(target);
        let (mut stream, answer) = first.ask(&request).await;
        let _ = stream.write_all(datagram).await;
        assert!(answer.contains("has not proved"), "{answer}");
    };
    tokio::join!(lies, asks);
    first.end().await;
}

#[test]
fn mistakes_about_functions_of_other_nodes_are_those_of_the_document() {
    let keys = keys();
    let through = "{ at: d, do: [x] }, { limit: { per_second: 1MiB } }, { at: d, do: [y] }";
    let found = mistakes(&asks(
        keys.path(),
        "127.0.0.1:9".parse().unwrap(),
        "",
        through,
    ));
    assert_eq!(
        found,
        [
            "routes[0].through: a node is asked twice, or for too much",
            "routes[0].through[0]: no key is shared with the node `d`",
            "routes[0].through[1]: `limit` is done by the node before it, and has its settings there",
            "routes[0].through[2]: no key is shared with the node `d`",
        ]
    );
}
