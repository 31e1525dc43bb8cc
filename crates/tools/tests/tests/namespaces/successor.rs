//! Another user's process that claims to share a socket with a node: it is told nothing, and nothing it says is heard.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::udp::Client;
use hermes_tests::{Echo, Node, program};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::sockopt::socket_cookie;

/// Who would like to be the node's successor.
const OTHER: u32 = 12_346;

/// Has names as a newer and an older process of the node would: PREFIX. It accepts every connection and counts what it is told. When a
/// line comes it calls the node, says that it is newer, forwards a datagram from port 0x1234, and prints how many bytes it was told so far.
const CLAIMS: &str = r"
import socket, sys, threading
prefix, told = '\0' + sys.argv[1], 0
def serve(name):
    global told
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.bind(prefix + name)
    one.listen(64)
    def run():
        global told
        while True:
            other, _ = one.accept()
            told += len(other.recv(65536))
    threading.Thread(target=run, daemon=True).start()
serve('00000000.000001')
serve('7fffffff.000002')
print('ready', flush=True)
sys.stdin.readline()
calls = []
for name in open('/proc/net/unix').read().split():
    if name.startswith('@' + sys.argv[1]) and name[-6:] not in ('000001', '000002'):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect('\0' + name[1:])
        try:
            one.send(b'\0\x7f\xff\xff\xff\0\0\2')
            source = b'\0' * 10 + b'\xff\xff\x7f\0\0\1' + b'\x12\x34' + b'\0' * 4
            one.send(b'\2\1' + source + b'\0' * 16 + b'\0\5forge')
        except ConnectionError:
            pass
        calls.append(one)
print(len(calls), told, flush=True)
sys.stdin.readline()
print(told, flush=True)
";

#[test]
fn another_users_process_gets_no_packet_of_a_socket_that_was_passed() {
    let (echo, socket) = (Echo::start(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = socket.local_addr().unwrap();
    let prefix = format!("hermes/1/udp/{:x}/", socket_cookie(&socket).unwrap());
    let mut claims = Command::new("python3")
        .args(["-c", CLAIMS, &prefix])
        .uid(OTHER)
        .gid(OTHER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut says = BufReader::new(claims.stdout.take().unwrap()).lines();
    let mut hears = claims.stdin.take().unwrap();
    assert_eq!(says.next().unwrap().unwrap(), "ready");

    let passed = fcntl_dupfd_cloexec(&socket, 100).unwrap();
    fcntl_setfd(&passed, FdFlags::empty()).unwrap();
    let script = format!(
        "exec 3<&{}; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"",
        passed.as_raw_fd()
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(program::path());
    let node = Node::start_by(
        command,
        "sap",
        &format!(
            "listeners: {{ voice: {{ udp: \"{address}\", target: \"VOICE:1\" }} }}\n\
             routes: [ {{ match: {{ target: VOICE }}, terminate: \"{}\" }} ]\n",
            echo.udp
        ),
    );
    let refusals = || node.log().matches("is ignored").count();
    // It looks before and after it has taken a name of its own.
    assert_eq!(refusals(), 4, "{}", node.log());

    std::io::Write::write_all(&mut hears, b"call\n").unwrap();
    assert_eq!(
        says.next().unwrap().unwrap(),
        "1 0",
        "a name of the node, and bytes told"
    );
    eventually_true("the call is refused", || refusals() == 5);
    for number in 0..8 {
        let word = format!("client {number}");
        assert_eq!(Client::connect(address).ask(&word), word.as_bytes());
    }
    let forged = format!("127.0.0.1:{}", 0x1234);
    assert_eq!(node.exchanges().len(), 8, "none of its datagram");
    assert!(node.exchanges().iter().all(|one| one["source"] != *forged));
    std::io::Write::write_all(&mut hears, b"end\n").unwrap();
    assert_eq!(says.next().unwrap().unwrap(), "0");
    drop(hears);
    claims.wait().unwrap();
}
