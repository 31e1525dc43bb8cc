//! Functions that others wrote: ClamAV behind c-icap, socat, and a proxy of SOCKS5 and HTTP.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::node::{Node, bytes, echo, head};

/// A content that every scanner takes for a virus (the test file of EICAR), in two parts, so that this file is none.
const VIRUS: [&str; 2] = [
    r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-",
    "ANTIVIRUS-TEST-FILE!$H+H*",
];

/// A process that ends with the test.
struct Program(Child);

impl Program {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port that was free a moment ago.
async fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

/// Waits until something listens there.
async fn listens(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// clamd with one signature, and c-icap before it.
struct ClamAv {
    address: SocketAddr,
    _programs: [Program; 2],
    _folder: TempDir,
}

impl ClamAv {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let address = free().await;
        std::fs::create_dir(path.join("db")).unwrap();
        let hex: String = VIRUS
            .concat()
            .bytes()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        write(path, "db/test.ndb", &format!("Test:0:*:{hex}\n"));
        let place = path.display();
        let of_clamd = format!(
            "LocalSocket {place}/clamd\nDatabaseDirectory {place}/db\nTemporaryDirectory {place}\nForeground yes\nUser root\n"
        );
        write(path, "clamd.conf", &of_clamd);
        write(path, "c-icap.conf", &of_c_icap(path, address));

        let clamd = Program::start("clamd", &["-c", &format!("{place}/clamd.conf")]);
        while UnixStream::connect(path.join("clamd")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let c_icap = Program::start("c-icap", &["-N", "-f", &format!("{place}/c-icap.conf")]);
        listens(address).await;
        Self {
            address,
            _programs: [clamd, c_icap],
            _folder: folder,
        }
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn of_c_icap(folder: &Path, address: SocketAddr) -> String {
    let place = folder.display();
    let modules = std::fs::read_dir("/usr/lib").unwrap().find_map(|entry| {
        let modules = entry.ok()?.path().join("c_icap");
        modules.is_dir().then_some(modules)
    });
    let modules = modules
        .expect("the modules of c-icap")
        .display()
        .to_string();
    format!(
        "PidFile {place}/pid\nCommandsSocket {place}/commands\nPort {address}\nStartServers 1\nMaxServers 2\n\
         ThreadsPerChild 4\nTmpDir {place}\nServerLog {place}/server.log\nAccessLog {place}/access.log\n\
         ModulesDir {modules}\nServicesDir {modules}\nTemplateDir /usr/share/c_icap/templates/\n\
         LoadMagicFile /etc/c-icap/c-icap.magic\n\
         Service antivirus_module virus_scan.so\n\
         ServiceAlias avscan virus_scan?allow204=on&sizelimit=off&mode=simple\n\
         virus_scan.ScanFileTypes TEXT DATA EXECUTABLE ARCHIVE\n\
         virus_scan.DefaultEngine clamd\nModule common clamd_mod.so\nclamd_mod.ClamdSocket {place}/clamd\n"
    )
}

/// An origin that gives a virus at `/virus`, a long content at `/long`, and a short one otherwise; it takes whatever is sent.
async fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let request = head(&mut stream).await;
                let content = match request.split(' ').nth(1) {
                    Some("/virus") => VIRUS.concat().into_bytes(),
                    Some("/long") => long(),
                    _ => b"harmless".to_vec(),
                };
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n",
                    content.len()
                );
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.write_all(&content).await;
                let _ = stream.read(&mut [0; 1]).await;
            });
        }
    });
    address
}

fn long() -> Vec<u8> {
    (0..400_000_u32).flat_map(u32::to_le_bytes).collect()
}

#[tokio::test]
async fn clamav_stops_a_virus_in_answers_and_requests_and_passes_all_else() {
    let scanner = ClamAv::start().await;
    let origin = origin().await;
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         functions: {{ scan: {{ icap: {{ to: \"{}\", service: avscan }} }} }}\n\
         routes: [{{ terminate: true, through: [scan] }}]\n",
        scanner.address
    );
    let node = Node::start("scanned", &yaml);
    let get = |path: &str| {
        format!("GET http://{origin}{path} HTTP/1.1\r\nHost: {origin}\r\nConnection: close\r\n\r\n")
    };
    let (mut stream, head) = node.ask(&get("/")).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(bytes(&mut stream, 100).await, b"harmless");

    let (mut stream, head) = node.ask(&get("/long")).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(bytes(&mut stream, 4 << 20).await == long());

    let (mut stream, head) = node.ask(&get("/virus")).await;
    let content = bytes(&mut stream, 1 << 20).await;
    let content = String::from_utf8_lossy(&content);
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(!content.contains(VIRUS[1]), "{content}");

    let virus = VIRUS.concat();
    let post = format!(
        "POST http://{origin}/ HTTP/1.1\r\nHost: {origin}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{virus}",
        virus.len()
    );
    let (_, head) = node.ask(&post).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    node.end().await;
}

/// A target that says one thing and ends.
async fn brief() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"all of it").await;
        }
    });
    address
}

#[tokio::test]
async fn a_target_that_ends_first_is_heard_whole_through_a_program_without_half_close() {
    let target = brief().await;
    let socks = free().await;
    let port = socks.port().to_string();
    let _microsocks = Program::start("microsocks", &["-i", "127.0.0.1", "-p", &port]);
    listens(socks).await;
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         functions: {{ one: {{ hop: {{ to: \"{socks}\", speak: socks5 }} }} }}\n\
         routes: [{{ terminate: true, through: [one] }}]\n"
    );
    let node = Node::start("brief", &yaml);
    for _ in 0..50 {
        let (mut tunnel, answer) = node.tunnel(target).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let mut got = Vec::new();
        tunnel.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"all of it");
    }
    node.end().await;
}

#[tokio::test]
async fn programs_that_speak_socks5_and_connect_are_functions() {
    let target = echo().await;
    let socks = free().await;
    let port = socks.port().to_string();
    let _microsocks = Program::start("microsocks", &["-i", "127.0.0.1", "-p", &port]);
    let connect = free().await;
    let folder = tempfile::tempdir().unwrap();
    let settings = format!(
        "Port {}\nListen 127.0.0.1\nTimeout 60\nAllow 127.0.0.1\nMaxClients 20\n",
        connect.port()
    );
    write(folder.path(), "tinyproxy.conf", &settings);
    let settings = folder.path().join("tinyproxy.conf");
    let _tinyproxy = Program::start("tinyproxy", &["-d", "-c", settings.to_str().unwrap()]);
    listens(socks).await;
    listens(connect).await;

    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
         egress: {{ allow: [127.0.0.0/8] }}\n\
         functions:\n  one: {{ hop: {{ to: \"{socks}\", speak: socks5 }} }}\n  two: {{ hop: {{ to: \"{connect}\" }} }}\n\
         routes: [{{ terminate: true, through: [one, two] }}]\n"
    );
    let node = Node::start("led", &yaml);
    let (mut tunnel, answer) = node.tunnel(target).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let sent = long();
    let (mut read, mut write) = tunnel.split();
    // Neither program knows half-close: the client ends once it has everything.
    let mut got = vec![0; sent.len()];
    let (written, read) = tokio::join!(write.write_all(&sent), read.read_exact(&mut got));
    written.unwrap();
    read.unwrap();
    assert!(got == sent, "{} of {}", got.len(), sent.len());
    node.end().await;
}
