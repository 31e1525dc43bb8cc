//! FTP in active mode: the server connects to its client, who is two nodes away and behind the client of dante.

use std::process::Stdio;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;

use super::packets::{networks, start};
use super::{Running, command};

/// Waits for connections of servers that Alice names, on its own address.
const EDGE: &str = "
    listeners: { overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] } }
    routes: [{ terminate: true, bind: { listen: 10.0.2.1, tcp: { ports: 40000-40003 } } }]
    egress: { allow: [10.0.2.2/32] }
    ";

/// Her programs speak SOCKS to it.
const ALICE: &str = "
    listeners: { s: { socks: 127.0.0.1:1080 } }
    routes: [{ to: edge }]
    upstreams: { edge: { endpoints: [10.0.1.2:8443] } }
    ";

/// A server of FTP that knows one file and no passive mode; its second connection comes from a stranger.
const SERVER: &str = r#"
import socket, sys
listener = socket.create_server(("10.0.2.2", 2121))
while True:
    control, _ = listener.accept()
    lines = control.makefile("rwb")
    def say(line):
        lines.write(line.encode() + b"\r\n")
        lines.flush()
    say("220 ready")
    for line in lines:
        command, _, argument = line.decode().strip().partition(" ")
        if command == "PORT":
            numbers = [int(number) for number in argument.split(",")]
            client = (".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5])
            say("200 there")
        elif command == "RETR":
            say("150 here it comes")
            data = socket.create_connection(client, 20)
            data.sendall(f"from {client[0]}".encode() * 10000)
            data.close()
            say("226 that was it")
        else:
            say({ "USER": "230 logged in", "TYPE": "200 as you like" }.get(command, "500 not known"))
"#;

/// A client whose library names the address of its control connection to the server, as the proxy has said it. The client of dante
/// takes calls of `accept` alone, and Python's are of `accept4`.
const FTPLIB: &str = r#"
import ctypes, ftplib, socket, sys
def accept(own, call=ctypes.CDLL(None).accept):
    address = ctypes.create_string_buffer(128)
    taken = call(own.fileno(), address, ctypes.byref(ctypes.c_int(128)))
    return socket.socket(fileno=taken), None
socket.socket.accept = accept
client = ftplib.FTP()
client.connect("10.0.2.2", 2121)
client.login()
client.set_pasv(False)
client.retrbinary("RETR file", sys.stdout.buffer.write)
client.close()
"#;

fn server(topology: &Topology) -> Running {
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let mut server = command(topology, "server", &python);
    let server = server.args(["-c", SERVER]).stdout(Stdio::null()).spawn();
    Running(server.unwrap())
}

#[test]
fn curl_and_ftplib_behind_the_client_of_dante_are_sent_a_file_by_a_server_that_connects_to_them() {
    let topology = networks();
    let _server = server(&topology);
    let _edge = start(&topology, "edge", EDGE);
    let node = start(&topology, "alice", ALICE);
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("socks.conf");
    let route = "route {\n from: 0.0.0.0/0 to: 0.0.0.0/0 via: 127.0.0.1 port = 1080\n proxyprotocol: socks_v5\n method: none\n}\n";
    std::fs::write(&conf, route).unwrap();

    let conf = format!("SOCKS_CONF={}", conf.display());
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let curl = [
        "curl",
        "-sS",
        "-m",
        "20",
        "--noproxy",
        "*",
        "--disable-eprt",
        "-P",
        "10.0.2.1",
        "ftp://10.0.2.2:2121/file",
    ];
    let ftplib = [&*python, "-c", FTPLIB];
    let alice = topology.namespace("alice").unwrap();
    let file = "from 10.0.2.1".repeat(10_000);
    for program in [&curl[..], &ftplib] {
        let words = [&["env", &conf, "socksify"], program].concat();
        eventually_true(program[0], || {
            alice.run(&words).is_ok_and(|said| said == file)
        });
    }
    let waited = node.record(|record| record["bytes"]["target_to_client"].as_u64() > Some(130_000));
    assert_eq!(waited["status"], 200, "{waited}");
    assert_eq!(waited["target"], "10.0.2.2:1", "{waited}");
}
