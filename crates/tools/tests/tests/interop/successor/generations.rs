//! More than two processes on the same sockets, and some that stand still.

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Origin};
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Echo, KeptSockets, Node, Pki};
use rustix::process::Signal;

use super::links::{ANY, Link, near, talk, tunnel};
use super::web;

/// A node with a link of its own over HTTP/3, and a tunnel on it.
fn linked(pki: &Pki, far: &KeptSockets, echo: &Origin<Vec<u8>>) -> (Node, Raw) {
    let link = Link {
        far: far.address,
        http: 3,
        is_resumable: false,
    };
    let node = Node::start("near", &near(pki, ANY, echo.address(), link));
    let tunnel = tunnel(&node);
    (node, tunnel)
}

#[test]
fn a_process_that_stands_still_ends_no_session_of_the_others() {
    let (pki, sockets, echo) = (Pki::new(), KeptSockets::both(), origins::tcp_echo());
    let yaml = web(&pki, sockets.address);
    let first = sockets.start("first", &yaml);
    let (_early, mut at_first) = linked(&pki, &sockets, &echo);
    let second = sockets.start("second", &yaml);
    let (_late, mut at_second) = linked(&pki, &sockets, &echo);
    assert_eq!((first.exchanges().len(), second.exchanges().len()), (1, 1));

    for round in 0..3 {
        second.signal(Signal::STOP);
        talk(
            &mut at_first,
            &format!("while the second stands still {round}"),
        );
        second.signal(Signal::CONT);
        talk(&mut at_second, "it goes on");

        first.signal(Signal::STOP);
        talk(
            &mut at_second,
            &format!("while the first stands still {round}"),
        );
        first.signal(Signal::CONT);
        talk(&mut at_first, "it goes on");
    }
}

#[test]
fn sessions_of_three_processes_go_on_beside_each_other() {
    let (pki, sockets, echo) = (Pki::new(), KeptSockets::both(), origins::tcp_echo());
    let yaml = web(&pki, sockets.address);
    let mut processes: Vec<Node> = Vec::new();
    let mut tunnels = Vec::new();

    for name in ["first", "second", "third"] {
        let process = sockets.start(name, &yaml);
        if let Some(before) = processes.last() {
            before.signal(Signal::TERM);
            eventually_true("it drains", || before.status()["draining"] == true);
        }
        processes.push(process);
        tunnels.push(linked(&pki, &sockets, &echo));
        for round in 0..10 {
            for (_, tunnel) in &mut tunnels {
                talk(tunnel, &format!("round {round} with the {name}"));
            }
        }
    }
    for process in &processes {
        assert_eq!(process.exchanges().len(), 1, "each has its own");
    }

    let (_node, tunnel) = tunnels.remove(0);
    drop(tunnel);
    assert!(processes.remove(0).wait().success());
    for (_, tunnel) in &mut tunnels {
        talk(tunnel, "without the first");
    }
}

#[test]
fn datagrams_find_the_process_of_their_session_among_three() {
    let (echo, sockets) = (Echo::start(), KeptSockets::datagrams());
    let yaml = format!(
        "drain: 1m\nlisteners: {{ voice: {{ udp: \"{}\", target: \"VOICE:1\" }} }}\n\
         routes: [ {{ match: {{ target: VOICE }}, terminate: \"{}\" }} ]\n",
        sockets.address, echo.udp
    );
    let mut processes: Vec<Node> = Vec::new();
    let mut clients: Vec<Client> = Vec::new();
    for name in ["first", "second", "third"] {
        processes.push(sockets.start(name, &yaml));
        for _ in 0..4 {
            let client = Client::connect(sockets.address);
            assert_eq!(client.ask("hello"), b"hello");
            clients.push(client);
        }
        for round in 0..10 {
            for client in &clients {
                let word = format!("round {round} with the {name}");
                client.send(&word);
                assert_eq!(client.receive(), word.as_bytes());
            }
        }
    }
    for process in &processes {
        assert_eq!(process.exchanges().len(), 4, "each has its own");
    }

    let second = processes.remove(1);
    second.signal(Signal::STOP);
    for client in clients[..4].iter().chain(&clients[8..]) {
        client.send("while the second stands still");
        assert_eq!(client.receive(), b"while the second stands still");
    }
    second.signal(Signal::CONT);
    for client in &clients {
        client.send("all of them");
        assert_eq!(client.receive(), b"all of them");
    }
}
