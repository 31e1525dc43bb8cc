//! Programs that others wrote: curl, OpenBSD's netcat under ssh's feet, and Python.

use std::net::SocketAddr;
use std::process::{Command, Output};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use super::node::{ASKED, CLOSED, Node, OPEN, echo};

/// A server of HTTP that answers everything alike.
async fn web() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4000]).await;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            let _ = stream.write_all(answer).await;
            let _ = stream.shutdown().await;
        }
    });
    address
}

async fn run(program: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    output
        .unwrap()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

async fn curl(arguments: &[&str]) -> (Option<i32>, String) {
    let bounded = ["-sS", "-m", "20", "--noproxy", ""];
    let output = run("curl", &[&bounded[..], arguments].concat()).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said)
}

#[tokio::test]
async fn curl_speaks_each_version() {
    let url = format!("http://{}/", web().await);
    let node = Node::start("socks-curl", OPEN);
    let proxy = node.address().to_string();
    for version in ["--socks4", "--socks4a", "--socks5", "--socks5-hostname"] {
        let got = curl(&[version, &proxy, &url]).await;
        assert_eq!(got, (Some(0), "hello".to_owned()), "{version}");
    }
    let refused = curl(&["--socks5-hostname", &proxy, &format!("http://{CLOSED}/")]).await;
    assert_eq!(refused.0, Some(97), "curl knows that the proxy refused");
    node.end().await;
}

#[tokio::test]
async fn curl_shows_its_password() {
    let url = format!("http://{}/", web().await);
    let node = Node::start("socks-curl-user", ASKED);
    let proxy = node.address().to_string();
    let user = |user: &'static str| ["--proxy-user", user];
    for (user, exit) in [
        (&user("alice:of alice")[..], Some(0)),
        (&user("alice:of bob"), Some(97)),
        (&[], Some(97)),
    ] {
        let got = curl(&[&["--socks5-hostname", &proxy, &url][..], user].concat()).await;
        assert_eq!(got.0, exit, "{user:?}: {got:?}");
    }
    node.end().await;
}

#[tokio::test]
async fn netcat_carries_bytes_as_it_does_for_ssh() {
    let target = echo().await;
    let node = Node::start("socks-netcat", OPEN);
    let script = format!(
        "printf hello | nc -N -X 5 -x {} 127.0.0.1 {}",
        node.address(),
        target.port()
    );
    let output = run("timeout", &["20", "sh", "-c", &script]).await;
    assert_eq!(output.stdout, b"hello", "{output:?}");
    node.end().await;
}

/// A client of UDP in Python, without any code of ours.
const PYTHON: &str = r#"
import socket, struct, sys
proxy, target = int(sys.argv[1]), int(sys.argv[2])
control = socket.create_connection(("127.0.0.1", proxy), 20)
control.sendall(b"\x05\x01\x00")
assert control.recv(2) == b"\x05\x00"
control.sendall(b"\x05\x03\x00\x01" + bytes(6))
reply = control.recv(10)
assert reply[:4] == b"\x05\x00\x00\x01", reply
relay = (socket.inet_ntoa(reply[4:8]), struct.unpack("!H", reply[8:])[0])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.settimeout(20)
name = b"127.0.0.1"
header = b"\0\0\0\x03" + bytes([len(name)]) + name + struct.pack("!H", target)
udp.sendto(header + b"ping", relay)
answer, source = udp.recvfrom(2000)
assert source == relay, source
sys.stdout.write(answer[-4:].decode())
"#;

#[tokio::test]
async fn python_sends_datagrams_by_name() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        while let Ok((length, peer)) = server.recv_from(&mut room).await {
            let _ = server.send_to(&room[..length], peer).await;
        }
    });
    let node = Node::start("socks-python", OPEN);
    let proxy = node.address().port().to_string();
    let output = run(
        "python3",
        &["-c", PYTHON, &proxy, &target.port().to_string()],
    )
    .await;
    assert_eq!(output.stdout, b"ping", "{output:?}");
    node.end().await;
}
