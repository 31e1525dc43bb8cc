//! Socket activation: nodes on sockets that systemd's own `systemd-socket-activate` opened, and a program of ours where it cannot mix
//! the kinds of sockets.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::thread::{self, JoinHandle};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Echo, Node, Pki, curl, free, h3c, program};

/// What a client of `web` asks.
const QUESTION: &str = "GET http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\n\r\n";

/// `systemd-socket-activate` with these arguments, for our program. It starts that when the first client has come.
fn systemd(arguments: &[&str]) -> Command {
    let tool = std::env::var_os("HERMES_SYSTEMD_SOCKET_ACTIVATE")
        .unwrap_or_else(|| "systemd-socket-activate".into());
    let mut command = Command::new(tool);
    command.args(arguments).arg(program::path());
    command
}

/// Passes sockets, `NAME=KIND:ADDRESS` each, to our program.
fn passing(sockets: &[String]) -> Command {
    let python = std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test sets it");
    let mut command = Command::new(python);
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../harness/src/passed.py"
        ))
        .arg(sockets.join(","))
        .arg(program::path());
    command
}

/// A client that is there before the node is: the status of its answer.
fn first_client(address: SocketAddr) -> JoinHandle<u16> {
    thread::spawn(move || {
        let mut client = eventually("systemd listens", || Raw::try_connect(address));
        client.send(QUESTION);
        client.response().0.status()
    })
}

fn video(listener: &str) -> String {
    format!(
        "listeners: {{ {listener} }}\nroutes: [ {{ match: {{ target: VIDEO }}, respond: {{ status: 204 }} }} ]\n"
    )
}

#[test]
fn systemd_passes_tcp_by_address_and_names_what_is_not_used() {
    let (web, other) = (free::tcp(), free::tcp());
    let client = first_client(web);
    let command = systemd(&["-l", &web.to_string(), "-l", &other.to_string()]);
    let node = Node::start_by(
        command,
        "sap",
        &video(&format!("web: {{ http: \"{web}\" }}")),
    );
    assert_eq!(client.join().unwrap(), 204);
    assert_eq!(node.address("web"), web);

    let log = node.log();
    assert!(
        log.contains(&format!(
            "takes a socket that was passed: descriptor 3 (TCP at {web})"
        )),
        "{log}"
    );
    assert!(
        log.contains(&format!(
            "a socket that was passed: descriptor 4 (TCP at {other})"
        )),
        "{log}"
    );
    assert_eq!(
        log.matches("no listener has the name or the address")
            .count(),
        1,
        "{log}"
    );
}

#[test]
fn systemd_passes_tcp_by_name_through_reloads_in_which_its_listener_goes_and_comes_back() {
    let web = free::tcp();
    let client = first_client(web);
    let with_web = video("web: { http: 127.0.0.1:0 }, other: { http: 127.0.0.1:0 }");
    let node = Node::start_by(
        systemd(&["-l", &web.to_string(), "--fdname=web"]),
        "sap",
        &with_web,
    );
    assert_eq!(client.join().unwrap(), 204);
    assert_eq!(node.address("web"), web);

    // Without the listener its clients wait, as they do while the service is restarted.
    let (status, report) = node.reload(&video("other: { http: 127.0.0.1:0 }"));
    assert_eq!(
        (status, &report["listeners"]["closed"][0]),
        (200, &"web".into()),
        "{report:#}"
    );
    let mut waiting = Raw::connect(web);
    waiting.send(QUESTION);
    let (status, report) = node.reload(&with_web);
    assert_eq!(
        (status, &report["listeners"]["opened"][0]),
        (200, &"web".into()),
        "{report:#}"
    );
    assert_eq!(waiting.response().0.status(), 204);
    assert_eq!(node.address("web"), web);
}

#[test]
fn systemd_passes_udp() {
    let (echo, voice) = (Echo::start(), free::udp());
    let client = thread::spawn(move || {
        let client = Client::connect(voice);
        // Nothing says when systemd listens, but an answer.
        let answer = eventually("an answer", || {
            client.send_if_open("hello");
            client.receive_within(std::time::Duration::from_millis(100))
        });
        assert_eq!(answer, b"hello");
    });
    let yaml = format!(
        "listeners: {{ voice: {{ udp: \"{voice}\", target: \"VOICE:1\" }} }}\nroutes: [ {{ match: {{ target: VOICE }}, terminate: \"{}\" }} ]\n",
        echo.udp
    );
    let node = Node::start_by(
        systemd(&["--datagram", "-l", &voice.to_string()]),
        "sap",
        &yaml,
    );
    client.join().unwrap();
    assert!(node.log().contains(&format!(
        "takes a socket that was passed: descriptor 3 (UDP at {voice})"
    )));
    // One worker receives all that its clients send.
    for _ in 0..8 {
        let client = Client::connect(voice);
        for word in ["one", "two", "three"] {
            client.send(word);
            assert_eq!(client.receive(), word.as_bytes());
        }
    }
    assert_eq!(node.exchanges().len(), 9);
}

/// A free port of both TCP and UDP.
fn both() -> SocketAddr {
    eventually("a free port of both", || {
        let address = free::tcp();
        std::net::UdpSocket::bind(address)
            .is_ok()
            .then_some(address)
    })
}

#[test]
fn http3_takes_udp_beside_tcp_and_again_after_it_was_gone() {
    let (pki, sealed) = (Pki::new(), both());
    let command = passing(&[
        format!("sealed=tcp:{sealed}"),
        format!("sealed=udp:{sealed}"),
    ]);
    let yaml = video(&format!(
        "sealed: {{ http: \"{sealed}\", gateway: true, tls: {{ {} }} }}, other: {{ http: 127.0.0.1:0 }}",
        pki.issue(&["VIDEO", &sealed.ip().to_string()]).yaml()
    ));
    let node = Node::start_by(command, "sap", &yaml);
    let lines = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "VIDEO"),
        (":path", "/"),
    ];
    let quic = || h3c::ask(&pki.ca(), sealed, &lines)["status"].clone();
    let streams = || {
        let (ca, resolve) = (pki.ca(), format!("VIDEO:{}:{}", sealed.port(), sealed.ip()));
        let url = format!("https://VIDEO:{}/", sealed.port());
        curl(&[
            "--cacert",
            ca.to_str().unwrap(),
            "--resolve",
            &resolve,
            &url,
        ])
        .status
    };
    assert_eq!((quic(), streams()), (204.into(), 204));
    assert_eq!(
        node.log().matches("takes a socket that was passed").count(),
        2
    );

    assert_eq!(node.reload(&video("other: { http: 127.0.0.1:0 }")).0, 200);
    // What its connections were is over when the port is free for the next.
    eventually_true("the listener is back", || node.reload(&yaml).0 == 200);
    assert_eq!((quic(), streams()), (204.into(), 204));
}

#[test]
fn unix_sockets_keep_their_files_also_that_of_administration() {
    let folder = tempfile::tempdir().unwrap();
    let (web, admin) = (
        folder.path().join("web.sock"),
        folder.path().join("admin.sock"),
    );
    let metrics = free::tcp();
    let command = passing(&[
        format!("x=unix:{}", web.display()),
        format!("x=unix:{}", admin.display()),
        format!("x=tcp:{metrics}"),
    ]);
    let file = |listeners: &str| {
        format!(
            "{}admin: {{ socket: admin.sock, metrics: \"{metrics}\" }}\n",
            video(listeners)
        )
    };
    let with_web = file(&format!(
        "web: {{ http: \"unix:{}\", user: alice }}, other: {{ http: 127.0.0.1:0 }}",
        web.display()
    ));
    let mut node = Node::start_in_by(folder, command, "sap", &with_web);
    let asked = || {
        let output = curl(&[
            "--unix-socket",
            web.to_str().unwrap(),
            "-H",
            "Host: VIDEO",
            "http://VIDEO/",
        ]);
        output.status
    };
    assert_ne!(asked(), 0, "the node answers");
    assert_eq!(curl(&[&format!("http://{metrics}/metrics")]).status, 200);
    assert!(!node.log().contains("no listener has"), "{}", node.log());

    assert_eq!(node.reload(&file("other: { http: 127.0.0.1:0 }")).0, 200);
    assert!(
        UnixStream::connect(&web).is_ok(),
        "it is there for the listener to come back"
    );
    assert_eq!(node.reload(&with_web).0, 200);
    assert_ne!(asked(), 0);
    assert!(node.stop().success());
    let is_there = |file: &Path| fs::symlink_metadata(file).is_ok();
    assert!(
        is_there(&web) && is_there(&admin),
        "they are the service manager's"
    );
}

/// What our program says of sockets with which it does not start.
fn refused(sockets: &[String], yaml: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sap.yaml");
    fs::write(
        &file,
        format!("version: 1\nadmin: {{ socket: admin.sock }}\n{yaml}"),
    )
    .unwrap();
    let output = passing(sockets).arg("run").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn refuses_sockets_that_open_a_listener_to_strangers_and_names_that_do_not_fit() {
    let yaml = video("web: { http: 127.0.0.1:0 }");
    let said = refused(&["web=tcp:0.0.0.0:0".to_owned()], &yaml);
    assert!(
        said.contains("strangers can reach 0.0.0.0:")
            && said.contains("descriptor 3 (\"web\", TCP at"),
        "{said}"
    );
    let said = refused(&["web:more=tcp:127.0.0.1:0".to_owned()], &yaml);
    assert!(
        said.contains("socket activation: LISTEN_FDNAMES has 2 names for 1 sockets"),
        "{said}"
    );
}
