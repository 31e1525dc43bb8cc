//! Programs that others wrote: curl, netcat, ssh, Python, a browser, and two that lead others to a proxy.

use std::net::SocketAddr;
use std::process::{Child, Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::node::{ASKED, CLOSED, Node, OPEN, echo};

/// A server of HTTP that answers everything alike.
async fn web(at: &str) -> SocketAddr {
    let listener = TcpListener::bind(at).await.unwrap();
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
    let words = [&[program], arguments].concat();
    run_all(words.into_iter().map(str::to_owned).collect()).await
}

async fn run_all(words: Vec<String>) -> Output {
    let (program, arguments) = words.split_first().unwrap();
    let program = program.clone();
    let mut command = Command::new(&program);
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
    let url = format!("http://{}/", web("127.0.0.1:0").await);
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
    let url = format!("http://{}/", web("127.0.0.1:0").await);
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
async fn curl_reaches_and_passes_a_node_over_ipv6() {
    let url = format!("http://{}/", web("[::1]:0").await);
    let yaml = OPEN
        .replace("127.0.0.1:0", "'[::1]:0'")
        .replace("127.0.0.0/8", "'::1/128'");
    let node = Node::start("socks-curl-6", &yaml);
    let proxy = node.address().to_string();
    for version in ["--socks5", "--socks5-hostname"] {
        let got = curl(&[version, &proxy, &url]).await;
        assert_eq!(got, (Some(0), "hello".to_owned()), "{version}");
    }
    node.end().await;
}

#[tokio::test]
async fn programs_that_know_no_proxy_are_led_to_one() {
    let node = Node::start("socks-led", &page(web("127.0.0.1:0").await));
    let folder = tempfile::tempdir().unwrap();
    let (address, port) = (node.address().ip(), node.address().port());

    // proxychains puts its own functions before those of the C library, and so does dante's socksify.
    let chains = folder.path().join("proxychains.conf");
    let lines =
        format!("strict_chain\nquiet_mode\nproxy_dns\n[ProxyList]\nsocks5 {address} {port}\n");
    std::fs::write(&chains, lines).unwrap();
    let dante = folder.path().join("socks.conf");
    let route = format!(
        "resolveprotocol: fake\nroute {{\n from: 0.0.0.0/0 to: 0.0.0.0/0 via: {address} port = {port}\n proxyprotocol: socks_v5 socks_v4\n method: none\n}}\n"
    );
    std::fs::write(&dante, route).unwrap();

    let chains = ["proxychains4", "-f", chains.to_str().unwrap()];
    let conf = format!("SOCKS_CONF={}", dante.display());
    let socksify = ["env", &conf, "socksify"];
    for leader in [chains, socksify] {
        let led = |url: &str| {
            let curl = ["curl", "-sS", "-m", "20", "--noproxy", "*", url];
            let words = [&leader[..], &curl].concat();
            words.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let output = run_all(led("http://page.test/")).await;
        assert_eq!(output.stdout, b"hello", "{leader:?}: {output:?}");
        let output = run_all(led("http://closed.test/")).await;
        assert_eq!(
            output.status.code(),
            Some(7),
            "{leader:?}: curl sees no connection: {output:?}"
        );
    }
    node.end().await;
}

#[tokio::test]
async fn netcat_carries_bytes() {
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

/// A server of SSH that knows one key.
struct Sshd {
    folder: TempDir,
    process: Child,
    port: u16,
}

impl Sshd {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for key in ["host", "user"] {
            let file = folder.path().join(key);
            let file = file.to_str().unwrap();
            run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", file]).await;
        }
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let at = folder.path().display();
        let lines = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host\nPidFile none\nAuthorizedKeysFile {at}/user.pub\n\
             StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        );
        let file = folder.path().join("sshd_config");
        std::fs::write(&file, lines).unwrap();
        // Where it gives up its rights; a package makes it when the service starts, which it does not here.
        let _ = std::fs::create_dir_all("/run/sshd");
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(&file)
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        let sshd = Self {
            folder,
            process,
            port,
        };
        sshd.wait().await;
        sshd
    }

    /// Waits until it listens.
    async fn wait(&self) {
        let listens = async {
            while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        let listens = tokio::time::timeout(Duration::from_secs(20), listens).await;
        listens.expect("sshd listens");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn ssh_logs_in_through_netcat_and_ncat() {
    let sshd = Sshd::start().await;
    let node = Node::start("socks-ssh", OPEN);
    let proxy = node.address();
    let key = sshd.folder.path().join("user");
    for command in [
        format!("nc -X 5 -x {proxy} %h %p"),
        format!("nc -X 4 -x {proxy} %h %p"),
        format!("ncat --proxy-type socks5 --proxy {proxy} %h %p"),
    ] {
        let by = format!("ProxyCommand={command}");
        let port = sshd.port.to_string();
        let said = run(
            "timeout",
            &[
                "20",
                "ssh",
                "-F",
                "none",
                "-T",
                "-i",
                key.to_str().unwrap(),
                "-o",
                "StrictHostKeyChecking=no",
                "-o",
                "UserKnownHostsFile=/dev/null",
                "-o",
                &by,
                "-p",
                &port,
                "127.0.0.1",
                "echo logged in",
            ],
        )
        .await;
        assert_eq!(
            said.stdout,
            b"logged in\n",
            "{command}: {said:?}\n{}",
            sshd.log()
        );
    }
    node.end().await;
}

/// A client that PySocks makes of Python's own sockets: with and without a password, by name, and of datagrams.
const PYSOCKS: &str = r#"
import socks, sys
proxy, web, udp = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
def connected(kind, **more):
    client = socks.socksocket()
    client.settimeout(20)
    client.set_proxy(kind, "127.0.0.1", proxy, **more)
    client.connect(("127.0.0.1", web))
    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
    answer = b""
    while part := client.recv(4000):
        answer += part
    return answer[-5:].decode()
shown = { "username": "alice", "password": "of alice" }
for kind, more in [(socks.SOCKS5, shown), (socks.SOCKS5, { **shown, "rdns": False })]:
    print(connected(kind, **more))
try:
    connected(socks.SOCKS5, username="alice", password="of bob")
except socks.ProxyError as error:
    assert isinstance(error.socket_err, socks.SOCKS5AuthError), error
    print("refused")
client = socks.socksocket(type=socks.socket.SOCK_DGRAM)
client.settimeout(20)
client.set_proxy(socks.SOCKS5, "127.0.0.1", proxy, **shown)
client.sendto(b"ping", ("127.0.0.1", udp))
answer, source = client.recvfrom(100)
print(answer.decode(), source[1] == udp)
"#;

#[tokio::test]
async fn pysocks_makes_clients_of_sockets() {
    let web = web("127.0.0.1:0").await.port().to_string();
    let target = datagrams().await.port().to_string();
    let node = Node::start("socks-pysocks", ASKED);
    let proxy = node.address().port().to_string();
    // The Python of `./test install`, which has it.
    let python = std::env::var("HERMES_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = run(&python, &["-c", PYSOCKS, &proxy, &web, &target]).await;
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "hello\nhello\nrefused\nping True\n", "{output:?}");
    node.end().await;
}

#[tokio::test]
async fn chromium_loads_a_page() {
    let node = Node::start("socks-chromium", &page(web("127.0.0.1:0").await));
    let profile = tempfile::tempdir().unwrap();
    let chromium = std::env::var("HERMES_CHROMIUM_HEADLESS_SHELL");
    let chromium = chromium.unwrap_or_else(|_| "chromium-headless-shell".to_owned());
    let proxy = format!("--proxy-server=socks5://{}", node.address());
    let profile = format!("--user-data-dir={}", profile.path().display());
    let output = run(
        &chromium,
        &[
            "--no-sandbox",
            "--disable-gpu",
            "--timeout=60000",
            &proxy,
            &profile,
            "--dump-dom",
            "http://page.test/",
        ],
    )
    .await;
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("hello"), "{output:?}");
    node.end().await;
}

/// Names that only a node knows: `page.test` leads to this server, `closed.test` to no one.
fn page(server: SocketAddr) -> String {
    format!(
        "listeners: {{ s: {{ socks: 127.0.0.1:0 }} }}\n\
         upstreams: {{ page: {{ endpoints: [{server}] }}, closed: {{ endpoints: [{CLOSED}] }} }}\n\
         routes: [{{ match: {{ target: page.test }}, terminate: page }}, \
                  {{ match: {{ target: closed.test }}, terminate: closed }}]\n"
    )
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

/// A server that sends datagrams back.
async fn datagrams() -> SocketAddr {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        while let Ok((length, peer)) = server.recv_from(&mut room).await {
            let _ = server.send_to(&room[..length], peer).await;
        }
    });
    address
}

#[tokio::test]
async fn python_sends_datagrams_by_name() {
    let target = datagrams().await;
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
