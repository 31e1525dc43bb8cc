//! Scanners by ICAP, some of which hang, die, lie or never end.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::node::{Node, bytes, head};

/// A node whose only route leads to one origin, through a scanner.
fn to_origin(origin: SocketAddr, scanner: SocketAddr, more: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         upstreams: {{ o: {{ endpoints: [\"{origin}\"] }} }}\n\
         functions: {{ scan: {{ icap: {{ to: \"{scanner}\", service: s, silence: 1s{more} }} }} }}\n\
         routes: [{{ terminate: o, through: [scan] }}]\n"
    )
}

/// An origin that answers with a content of some bytes, after the head of each request.
async fn origin(content: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let request = head(&mut stream).await;
                let seen = request.to_lowercase();
                let marks = ["x-scanned", "user: root", "x-hermes-role"]
                    .map(|name| u8::from(seen.contains(name)));
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nMarks: {marks:?}\r\nConnection: close\r\n\r\n",
                    content.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.write_all(content).await;
            });
        }
    });
    address
}

/// The answer of a scanner to a message with this head; `None` ends the connection, an empty one keeps it and says nothing.
type Judge = fn(&str) -> Option<Vec<u8>>;

/// A scanner; it reads as far as the end of the preview.
async fn scanner(judge: Judge) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, judge));
        }
    });
    address
}

async fn serve(mut client: TcpStream, judge: Judge) -> Option<()> {
    let request = head(&mut client).await;
    if request.starts_with("OPTIONS") {
        let options = "ICAP/1.0 200 OK\r\nMethods: RESPMOD\r\nPreview: 8\r\nEncapsulated: null-body=0\r\n\r\n";
        client.write_all(options.as_bytes()).await.ok()?;
        return Some(());
    }
    let mut seen = request.clone();
    let body_at: usize = request
        .split("-body=")
        .nth(1)?
        .split('\r')
        .next()?
        .parse()
        .ok()?;
    let mut heads = vec![0; body_at];
    client.read_exact(&mut heads).await.ok()?;
    seen.push_str(&String::from_utf8_lossy(&heads));
    if !request.contains("null-body") {
        let mut preview = Vec::new();
        while !preview.ends_with(b"\r\n\r\n") {
            preview.push(client.read_u8().await.ok()?);
        }
        seen.push_str(&String::from_utf8_lossy(&preview));
    }
    let answer = judge(&seen)?;
    client.write_all(&answer).await.ok()?;
    if answer.is_empty() || seen.contains("keep-open") {
        std::future::pending::<()>().await;
    }
    // What still comes is read, so that the end is no reset.
    let mut rest = Vec::new();
    client.shutdown().await.ok()?;
    client.read_to_end(&mut rest).await.ok()?;
    Some(())
}

const ALL_CLEAR: &[u8] = b"ICAP/1.0 204 No Content\r\n\r\n";

/// A page in place of the answer.
fn page(length: usize, content: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {length}\r\n\r\n");
    let mut answer = format!(
        "ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body={}\r\n\r\n{head}",
        head.len()
    );
    answer.push_str(&format!("{:x}\r\n{content}\r\n0\r\n\r\n", content.len()));
    answer.into_bytes()
}

/// Asks for a page; gives the head of the answer, and its content.
async fn get(node: &Node, origin: SocketAddr) -> (String, Vec<u8>) {
    let request =
        format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n");
    let (mut stream, head) = node.ask(&request).await;
    let content = bytes(&mut stream, 4 << 20).await;
    (head, content)
}

#[tokio::test]
async fn a_content_that_is_clear_arrives_as_it_was() {
    static LONG: [u8; 300_000] = [b'x'; 300_000];
    for content in [&b""[..], b"short", b"exactly8", &LONG] {
        let origin = origin(content).await;
        let scanner = scanner(|_| Some(ALL_CLEAR.to_vec())).await;
        let node = Node::start("n", &to_origin(origin, scanner, ""));
        let (head, got) = get(&node, origin).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(got == content, "{} of {}", got.len(), content.len());
        node.end().await;
    }
}

#[tokio::test]
async fn a_bad_content_is_replaced_and_does_not_arrive() {
    let origin = origin(b"a virus, certainly").await;
    let scanner = scanner(|seen| {
        assert!(
            !seen.contains("certainly"),
            "more than the preview was sent"
        );
        Some(match seen.contains("a virus,") {
            true => page(3, "bad"),
            false => ALL_CLEAR.to_vec(),
        })
    })
    .await;
    let node = Node::start("n", &to_origin(origin, scanner, ""));
    let (head, content) = get(&node, origin).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert_eq!(content, b"bad");
    node.end().await;
}

#[tokio::test]
async fn a_scanner_that_fails_is_told_and_nothing_passes_without_it() {
    let cases: [(Judge, &str); 6] = [
        // It hangs.
        (|_| Some(Vec::new()), "504"),
        // It ends before an answer.
        (|_| None, "502"),
        // It speaks another protocol.
        (|_| Some(b"SSH-2.0-x\r\n\r\n".to_vec()), "502"),
        // It has an error of its own.
        (|_| Some(b"ICAP/1.0 500 Error\r\n\r\n".to_vec()), "502"),
        // A head without end.
        (
            |_| Some([&b"ICAP/1.0 200 OK\r\n"[..], &vec![b'a'; 1 << 18]].concat()),
            "502",
        ),
        // It gives a head that lies beyond all bounds.
        (
            |_| {
                Some(
                    b"ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=999999999\r\n\r\n"
                        .to_vec(),
                )
            },
            "502",
        ),
    ];
    for (judge, status) in cases {
        let origin = origin(b"content that is long enough").await;
        let node = Node::start("n", &to_origin(origin, scanner(judge).await, ""));
        let (head, content) = get(&node, origin).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        assert!(!String::from_utf8_lossy(&content).contains("long enough"));
        node.end().await;
    }
}

#[tokio::test]
async fn a_scanner_that_is_only_welcome_is_passed_by_while_it_is_away() {
    let origin = origin(b"content").await;
    let closed = "127.0.0.1:9".parse().unwrap();
    let node = Node::start("n", &to_origin(origin, closed, ", need: best"));
    let (head, content) = get(&node, origin).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(content, b"content");
    node.end().await;
}

#[tokio::test]
async fn an_answer_that_breaks_gives_too_much_or_too_little_is_no_whole_one() {
    // It dies in the midst of its content; it gives less than it says; and more.
    let cases: [Judge; 3] = [
        |_| {
            let mut broken = page(1000, "half");
            broken.truncate(broken.len() - 5);
            Some(broken)
        },
        |_| Some(page(1000, "half")),
        |_| Some(page(1, "twice as much")),
    ];
    for judge in cases {
        let origin = origin(b"content that is long enough").await;
        let more = ", sees: answers";
        let node = Node::start("n", &to_origin(origin, scanner(judge).await, more));
        let request = format!("GET http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\n\r\n");
        let (mut stream, head) = node.ask(&request).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
        let mut content = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut content));
        let _ = end
            .await
            .expect("the connection ends: a client waits for no rest");
        let length = head.to_lowercase();
        let told: usize = length
            .split("content-length: ")
            .nth(1)
            .unwrap()
            .split('\r')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            content.len() < told || told == 1,
            "{} of {told}",
            content.len()
        );
        node.end().await;
    }
}

#[tokio::test]
async fn a_scanner_changes_fields_but_nothing_that_was_decided_on() {
    let origin = origin(b"content").await;
    let scanner = scanner(|seen| {
        if seen.starts_with("RESPMOD") {
            return Some(ALL_CLEAR.to_vec());
        }
        let first = seen.split("\r\n\r\n").nth(1).unwrap();
        let line = first.lines().next().unwrap();
        let host = first
            .lines()
            .find(|line| line.to_lowercase().starts_with("host:"))
            .unwrap();
        let head = format!(
            "{line}\r\n{host}\r\nX-Scanned: yes\r\nUser: root\r\nX-Hermes-Role: admin\r\n\r\n"
        );
        let answer = format!(
            "ICAP/1.0 200 OK\r\nEncapsulated: req-hdr=0, null-body={}\r\n\r\n{head}",
            head.len()
        );
        Some(answer.into_bytes())
    })
    .await;
    let node = Node::start("n", &to_origin(origin, scanner, ""));
    let (head, content) = get(&node, origin).await;
    assert!(head.contains("[1, 0, 0]"), "{head}");
    assert_eq!(content, b"content");
    node.end().await;
}

#[tokio::test]
async fn a_scanner_that_changes_the_target_is_refused() {
    let origin = origin(b"content").await;
    let scanner = scanner(|_| {
        let head = "GET http://elsewhere.example/ HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n";
        let answer = format!(
            "ICAP/1.0 200 OK\r\nEncapsulated: req-hdr=0, null-body={}\r\n\r\n{head}",
            head.len()
        );
        Some(answer.into_bytes())
    })
    .await;
    let node = Node::start("n", &to_origin(origin, scanner, ""));
    let (head, _) = get(&node, origin).await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    node.end().await;
}
