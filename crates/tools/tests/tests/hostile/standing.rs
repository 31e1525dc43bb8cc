//! What stands still, and what others notice of it: servers without end, clients that stop, and chains of nodes between them.

use std::net::SocketAddr;

use bytes::Bytes;
use hermes_tests::frames::{
    END_HEADERS, END_STREAM, HEADERS, HELLO, SETTINGS, WINDOW_UPDATE, frame, request,
};
use hermes_tests::h2c::{Client, Upload};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, eventually, origins, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

pub use hermes_tests::attacks::uploads::mute;

pub const MIB: usize = 1024 * 1024;

/// Content of each response, and of each upload: more than a stream's window and all buffers on the way take.
const CONTENT: usize = 64 * MIB;
const UPLOAD: usize = 8 * MIB;

/// What the kernel keeps for each connection of a [`generous`] server: thousands of them must not fill the memory that it has for TCP, or it
/// delays everyone's.
const SENT: u32 = 64 * 1024;

/// What a client takes on all streams together, in bytes: far above what a node may hold for it, but not for ever if it reads after all.
const ROOM: u32 = 256 << 20;

/// An HTTP/1.1 server that answers everything with [`CONTENT`], as fast as it is taken.
pub fn generous() -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(SENT).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = runtime::handle()
        .block_on(async { socket.listen(1024) })
        .unwrap();
    let address = listener.local_addr().unwrap();
    runtime::handle().spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let piece = [b'x'; 64 * 1024];
                drop(stream.read(&mut [0; 4096]).await);
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {CONTENT}\r\n\r\n");
                drop(stream.write_all(head.as_bytes()).await);
                for _ in 0..CONTENT / piece.len() {
                    if stream.write_all(&piece).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address.to_string()
}

/// A client that asks for much on this many streams, gives each a `window`, and reads nothing.
pub fn stopped(proxy: SocketAddr, origin: &str, window: u32, streams: u32) -> Raw {
    let mut raw = Raw::connect(proxy);
    raw.send(HELLO);
    raw.send(frame(
        SETTINGS,
        0,
        0,
        &[&[0, 4][..], &window.to_be_bytes()].concat(),
    ));
    raw.send(frame(WINDOW_UPDATE, 0, 0, &ROOM.to_be_bytes()));
    for stream in 0..streams {
        let ask = request("GET", origin, "/");
        raw.send(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * stream + 1,
            &ask,
        ));
    }
    raw
}

/// Uploads on this many streams of a connection, each as far as it is taken.
pub fn uploads(client: &Client, origin: &str, streams: usize) -> Vec<Upload> {
    let content = Bytes::from(vec![b'x'; UPLOAD]);
    let begin = |_| {
        let mut upload = client.upload(&format!("http://{origin}/"));
        upload.offer(content.clone());
        upload
    };
    (0..streams).map(begin).collect()
}

/// That someone else gets what he asks for; `how` he reaches the proxy.
pub fn others_are_served(node: &Node, how: &[&str]) {
    let origin = origins::http();
    let url = format!("http://{}/bytes/3000000", origin.address());
    let answer = curl(&[how, &[&url]].concat());
    assert_eq!(
        (answer.status, answer.body.len()),
        (200, 3_000_000),
        "{answer:?} {:#}",
        node.status()
    );
}

/// That someone else's content arrives.
pub fn others_are_taken(node: &Node, how: &[&str]) {
    let origin = origins::http();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("content");
    std::fs::write(&file, vec![b'x'; 3_000_000]).unwrap();
    let content = format!("@{}", file.display());
    let url = format!("http://{}/post", origin.address());
    let answer = curl(&[how, &["-H", "expect:", "--data-binary", &content, &url]].concat());
    assert_eq!(answer.status, 200, "{answer:?} {:#}", node.status());
    assert_eq!(answer.json()["bytes"], 3_000_000);
}

/// Waits until a node's memory grows no more; the most that it had.
pub fn settled(node: &Node) -> usize {
    // The kernel's count is not exact: it moves a little by itself.
    let mut last = 0;
    let mut same = 0;
    eventually("memory that grows no more", || {
        let peak = node.peak();
        if peak > last + MIB {
            last = peak;
            same = 0;
        }
        same += 1;
        (same > 50).then_some(peak)
    })
}

/// Two nodes, and one link between them.
pub struct Chain {
    /// Where clients come in.
    pub entry: Node,
    /// Where the link ends.
    pub end: Node,
    _pki: Pki,
}

impl Chain {
    /// With a link of this version of HTTP, 2 or 3.
    pub fn over(http: u8) -> Self {
        let pki = Pki::new();
        let server = if http == 3 {
            format!("tls: {{ {} }},", pki.issue(&["127.0.0.1"]).yaml())
        } else {
            String::new()
        };
        let end = Node::start(
            "end",
            &format!(
                r#"
                workers: 1
                listeners:
                  web: {{ http: 127.0.0.1:0, {server} insecure_trust: [127.0.0.0/8], limits: {{ streams: 2000 }} }}
                routes: [ {{ terminate: true }} ]
                egress: {{ allow: [127.0.0.0/8] }}
                "#
            ),
        );
        let client = if http == 3 {
            format!(", tls: {{ ca_file: {} }}", pki.ca().display())
        } else {
            String::new()
        };
        let entry = Node::start(
            "entry",
            &format!(
                r#"
                workers: 1
                listeners: {{ web: {{ http: 127.0.0.1:0, limits: {{ min_rate: 0B }} }} }}
                routes: [ {{ to: end }} ]
                upstreams: {{ end: {{ endpoints: ["{}"], http: {http}{client} }} }}
                "#,
                end.address("web")
            ),
        );
        Self {
            entry,
            end,
            _pki: pki,
        }
    }
}
