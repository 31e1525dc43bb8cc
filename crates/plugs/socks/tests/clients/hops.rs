//! Proxies of SOCKS behind a node: microsocks and dante, and another node.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::associations::{associate, datagram, heard};
use super::node::{ASKED, CLOSED, Node, OPEN, address, bytes, echo, request, serve_echo};

const SUCCEEDED: [u8; 12] = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// A proxy that others wrote.
struct Peer {
    process: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Peer {
    async fn start(ip: &str, command: impl FnOnce(SocketAddr, &TempDir) -> Command) -> Self {
        let free = std::net::TcpListener::bind((ip, 0)).unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let mut command = command(address, &folder);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.stdin(Stdio::null()).spawn();
        let peer = Self {
            process: process.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            address,
            folder,
        };
        let listens = async {
            while TcpStream::connect(address).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        let listens = tokio::time::timeout(Duration::from_secs(20), listens).await;
        listens.unwrap_or_else(|_| panic!("{}", peer.log()));
        peer
    }

    async fn microsocks(ip: &str, more: &[&str]) -> Self {
        Self::start(ip, |address, _| {
            let mut command = Command::new("microsocks");
            let port = address.port().to_string();
            command.args(["-i", &address.ip().to_string(), "-p", &port]);
            command.args(more);
            command
        })
        .await
    }

    async fn dante() -> Self {
        Self::start("127.0.0.1", |address, folder| {
            let (ip, port) = (address.ip(), address.port());
            let lines = format!(
                "logoutput: stderr\ninternal: {ip} port = {port}\nexternal: lo\nexternal.rotation: same-same\n\
                 socksmethod: none\nclientmethod: none\nuser.unprivileged: daemon\n\
                 client pass {{ from: 127.0.0.0/8 to: 0.0.0.0/0 }}\n\
                 socks block {{ from: 127.0.0.0/8 to: 127.0.0.9/32 }}\n\
                 socks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}\n"
            );
            let file = folder.path().join("danted.conf");
            std::fs::write(&file, lines).unwrap();
            let mut command = Command::new("danted");
            command.arg("-f").arg(&file).arg("-p").arg(folder.path().join("pid"));
            command
        })
        .await
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // dante has children, which end with their parent.
        let _ = Command::new("kill")
            .arg(self.process.id().to_string())
            .status();
        let _ = self.process.wait();
    }
}

/// A node whose next hop is this proxy.
fn before(proxy: SocketAddr, more: &str) -> String {
    format!(
        "listeners: {{ s: {{ socks: 127.0.0.1:0 }} }}\n\
         upstreams: {{ office: {{ endpoints: ['{proxy}'], socks: 5{more} }} }}\n\
         routes: [{{ to: office }}]\n"
    )
}

fn named(name: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[3, length], name.as_bytes(), &port.to_be_bytes()].concat()
}

async fn echoes(client: &mut TcpStream) {
    client.write_all(b"hello").await.unwrap();
    assert_eq!(bytes(client, 5).await, b"hello");
    client.shutdown().await.unwrap();
    assert_eq!(bytes(client, 1).await, b"", "half-close passes");
}

#[tokio::test]
async fn connections_pass_a_proxy_that_resolves_their_names() {
    let target = echo().await;
    for (name, peer) in [
        ("socks-hop-micro", Peer::microsocks("127.0.0.1", &[]).await),
        ("socks-hop-dante", Peer::dante().await),
    ] {
        let node = Node::start(name, &before(peer.address, ""));
        for said in [address(target), named("localhost", target.port())] {
            let (mut client, answered) = node.answer(&request(1, &said), 12).await;
            assert_eq!(answered, SUCCEEDED, "{said:?}: {}", peer.log());
            echoes(&mut client).await;
        }
        let closed = address(CLOSED.parse().unwrap());
        let (_, answered) = node.answer(&request(1, &closed), usize::MAX).await;
        assert_eq!(
            answered[3],
            5,
            "what the proxy says reaches the client: {}",
            peer.log()
        );
        node.end().await;
    }
}

#[tokio::test]
async fn the_rules_of_a_proxy_are_passed_on() {
    let peer = Peer::dante().await;
    let node = Node::start("socks-hop-rules", &before(peer.address, ""));
    let blocked = address("127.0.0.9:80".parse().unwrap());
    let (_, answered) = node.answer(&request(1, &blocked), usize::MAX).await;
    assert_eq!(answered[3], 2, "{}", peer.log());
    node.end().await;
}

#[tokio::test]
async fn a_proxy_is_shown_the_password_of_its_upstream() {
    let target = address(echo().await);
    let peer = Peer::microsocks("127.0.0.1", &["-u", "alice", "-P", "of alice"]).await;
    for (number, (credentials, reply)) in [
        (", credentials: { user: alice, password_file: right }", 0),
        (", credentials: { user: alice, password_file: wrong }", 4),
        ("", 4),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = tempfile::tempdir().unwrap();
        for (file, password) in [("right", "of alice\n"), ("wrong", "of bob\n")] {
            let file = folder.path().join(file);
            std::fs::write(&file, password).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        let at = format!("password_file: {}/", folder.path().display());
        let more = credentials.replace("password_file: ", &at);
        let node = Node::start(
            &format!("socks-hop-user-{number}"),
            &before(peer.address, &more),
        );
        let (_, answered) = node.answer(&request(1, &target), 12).await;
        assert_eq!(answered[3], reply, "{credentials}");
        node.end().await;
    }
}

#[tokio::test]
async fn datagrams_pass_a_proxy_by_an_association() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        while let Ok((length, peer)) = server.recv_from(&mut room).await {
            let _ = server.send_to(&room[..length], peer).await;
        }
    });

    let peer = Peer::dante().await;
    let last = Node::start(
        "socks-hop-last",
        &OPEN.replace(":0 ", ":0, experimental: true "),
    );
    let six = "socks: { version: 6, experimental: true }";
    for (name, proxy, version) in [
        ("socks-hop-udp", peer.address, "socks: 5"),
        ("socks-hop-two", last.address(), "socks: 5"),
        ("socks-hop-two-6", last.address(), six),
    ] {
        let node = Node::start(name, &before(proxy, "").replace("socks: 5", version));
        let (_control, client) = associate(&node).await;
        let said = datagram(target, "ping");
        client.send(&said).await.unwrap();
        assert_eq!(heard(&client).await, said, "{name}: {}", peer.log());
        node.end().await;
    }

    // Where the port of the proxy does not answer, datagrams pass by its connection.
    let taken = UdpSocket::bind(last.address()).await.unwrap();
    let yaml = before(last.address(), "").replace("socks: 5", six);
    let node = Node::start("socks-hop-two-6-connection", &yaml);
    let (_control, client) = associate(&node).await;
    let said = datagram(target, "ping");
    client.send(&said).await.unwrap();
    assert_eq!(heard(&client).await, said);
    assert!(taken.try_recv(&mut [0; 100]).is_ok(), "it was asked before");
    node.end().await;
    last.end().await;
}

#[tokio::test]
async fn ipv6_reaches_a_proxy_and_passes_it() {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let target = listener.local_addr().unwrap();
    serve_echo(listener);
    let peer = Peer::microsocks("::1", &[]).await;
    let node = Node::start("socks-hop-6", &before(peer.address, ""));
    let SocketAddr::V6(v6) = target else {
        panic!("{target} is no address of IPv6");
    };
    let said = [&[4][..], &v6.ip().octets(), &v6.port().to_be_bytes()].concat();
    let (mut client, answered) = node.answer(&request(1, &said), 12).await;
    assert_eq!(answered, SUCCEEDED, "{}", peer.log());
    echoes(&mut client).await;
    node.end().await;
}

#[tokio::test]
async fn an_upstream_is_reached_via_a_proxy() {
    let target = echo().await;
    let peer = Peer::microsocks("127.0.0.1", &[]).await;
    let last = Node::start("socks-via-last", OPEN);
    for (name, via) in [
        (
            "socks-via-micro",
            format!("office: {{ endpoints: ['{}'], socks: 5 }}", peer.address),
        ),
        (
            "socks-via-two",
            format!(
                "office: {{ endpoints: ['{}'], socks: 5, via: first }}, first: {{ endpoints: ['{}'], socks: 5 }}",
                last.address(),
                peer.address
            ),
        ),
    ] {
        let yaml = format!(
            "listeners: {{ s: {{ socks: 127.0.0.1:0 }} }}\n\
             upstreams: {{ page: {{ endpoints: [{target}], via: office }}, {via} }}\n\
             routes: [{{ terminate: page }}]\n"
        );
        let node = Node::start(name, &yaml);
        let (mut client, answered) = node.answer(&request(1, &named("page.test", 80)), 12).await;
        assert_eq!(answered, SUCCEEDED, "{name}");
        echoes(&mut client).await;
        node.end().await;
    }
    last.end().await;
}

/// A proxy that says this to all that it hears.
async fn liar(says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(says).await;
            kept.push(stream);
        }
    });
    address
}

#[tokio::test]
async fn a_proxy_that_speaks_something_else_is_a_failure_of_its_own() {
    for (number, says) in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"\x05\x01",
        b"\x05\x02",
        b"\x05\xff",
        b"\x04\x5a\0\0\0\0\0\0",
        b"\x05\0\x05\x01\0\x01\0\0\0\0\0\0",
        b"\x05\0\x05\0\0\x02\0\0\0\0\0\0",
        b"\x05\0\x06\0\0\x01\0\0\0\0\0\0",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("socks-liar-{number}");
        let node = Node::start(&name, &before(liar(says).await, ""));
        let target = address(CLOSED.parse().unwrap());
        let (_, answered) = node.answer(&request(1, &target), usize::MAX).await;
        assert_eq!(answered[3], 4, "{says:?}");
        node.end().await;
    }
}

#[tokio::test]
async fn a_proxy_that_is_silent_has_the_time_of_a_connection() {
    let limited = ", timeouts: { connect: 200ms }";
    let node = Node::start("socks-silent", &before(liar(b"").await, limited));
    let target = address(CLOSED.parse().unwrap());
    let (_, answered) = node.answer(&request(1, &target), usize::MAX).await;
    assert_eq!(answered[3], 4);
    node.end().await;
}

#[tokio::test]
async fn requests_have_no_way_through_a_proxy_of_socks() {
    let peer = Peer::microsocks("127.0.0.1", &[]).await;
    let yaml = before(peer.address, "").replace("{ socks: 127", "{ http: 127");
    let node = Node::start("socks-hop-requests", &yaml);
    let said =
        b"GET http://127.0.0.1:9/ HTTP/1.1\r\nHost: 127.0.0.1:9\r\nConnection: close\r\n\r\n";
    let (_, answered) = node.answer(said, usize::MAX).await;
    let answered = String::from_utf8_lossy(&answered);
    assert!(answered.starts_with("HTTP/1.1 501 "), "{answered}");
    assert!(answered.contains("speaks SOCKS"), "{answered}");
    node.end().await;
}

#[tokio::test]
async fn two_nodes_speak_socks6() {
    let target = echo().await;
    let last = ASKED.replace("127.0.0.1:0", "127.0.0.1:0, experimental: true");
    let last = Node::start("six-hop-last", &last);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "of alice").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let v6 = |user: &str| {
        let more = format!(
            ", credentials: {{ user: {user}, password_file: {} }}",
            file.display()
        );
        before(last.address(), &more)
            .replace("socks: 5", "socks: { version: 6, experimental: true }")
    };

    let node = Node::start("six-hop", &v6("alice"));
    for said in [address(target), named("localhost", target.port())] {
        let (mut client, answered) = node.answer(&request(1, &said), 12).await;
        assert_eq!(answered, SUCCEEDED, "{said:?}");
        echoes(&mut client).await;
    }
    let closed = address(CLOSED.parse().unwrap());
    let (_, answered) = node.answer(&request(1, &closed), usize::MAX).await;
    assert_eq!(
        answered[3], 5,
        "the reply of the last node reaches the client"
    );
    node.end().await;

    let node = Node::start("six-hop-wrong", &v6("bob"));
    let (_, answered) = node.answer(&request(1, &address(target)), usize::MAX).await;
    assert_eq!(answered[3], 4, "a wrong password is a failure of the way");
    node.end().await;
    last.end().await;
}

#[tokio::test]
async fn bytes_follow_a_request_of_socks6_before_its_reply() {
    // It answers only once it has the request and the bytes for the target, in one piece or more.
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let yaml = format!(
        "listeners: {{ t: {{ tcp: 127.0.0.1:0, target: 'a.test:7' }} }}\n\
         upstreams: {{ office: {{ endpoints: ['{}'], socks: {{ version: 6, experimental: true }} }} }}\n\
         routes: [{{ to: office, tunnel: {{ answer: early }} }}]\n",
        proxy.local_addr().unwrap()
    );
    let node = Node::start("six-hop-early", &yaml);
    let mut client = node.connect().await;
    client.write_all(b"early").await.unwrap();

    let (mut asked, _) = proxy.accept().await.unwrap();
    let wanted = [&b"\x06\x01\0\0\0\x07\0\x03\x06a.test\0"[..], b"early"].concat();
    assert_eq!(bytes(&mut asked, wanted.len()).await, wanted);
    let replies = [&[6, 0, 0, 0][..], &[6, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    for byte in [&replies[..], b"hello"].concat() {
        asked.write_all(&[byte]).await.unwrap();
    }
    assert_eq!(bytes(&mut client, 5).await, b"hello");

    // A refusal comes when the client believes that it is connected: it is reset.
    let mut client = node.connect().await;
    client.write_all(b"early").await.unwrap();
    let (mut asked, _) = proxy.accept().await.unwrap();
    assert_eq!(bytes(&mut asked, wanted.len()).await, wanted);
    let refused = [&replies[..4], &[6, 5, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
    asked.write_all(&refused).await.unwrap();
    assert_eq!(bytes(&mut client, 1).await, b"");
    node.end().await;
}
