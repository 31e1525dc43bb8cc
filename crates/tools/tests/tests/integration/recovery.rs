//! Datagrams that a path loses, mended between the nodes at its ends.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use hermes_tests::eventually::PATIENCE;
use hermes_tests::{Gate, Node, Pki, eventually, origins, udp};

use crate::http3::overlay::{end, upstream};

/// Datagrams of a stream, and the time between two: 4 Mbit/s.
const DATAGRAMS: u32 = 500;
const EVERY: Duration = Duration::from_millis(2);

/// Bytes of a datagram.
const SIZE: usize = 1000;

/// The numbers of datagrams before a stream, and behind it.
const OPEN: u32 = u32::MAX;
const END: u32 = u32::MAX - 1;

/// Two nodes with a path of HTTP/3 between them that loses packets, and a program behind each.
struct Stage {
    sink: UdpSocket,
    gate: Gate,
    near: Node,
    far: Node,
    pki: Pki,
}

impl Stage {
    /// The route of the near node says so of losses, and that of the far node, too.
    fn start(near: &str, far: &str) -> Self {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        sink.set_read_timeout(Some(PATIENCE)).unwrap();
        let pki = Pki::new();
        let tls = pki.issue(&["127.0.0.1"]).yaml();
        let far_file = end(&tls).replace("terminate: true", &format!("terminate: true{far}"));
        let far = Node::start("far", &far_file);
        let gate = Gate::to(far.address("web"));
        let near = Node::start("near", &near_file(&sink, &pki, &gate, near));
        Self {
            sink,
            gate,
            near,
            far,
            pki,
        }
    }

    fn reload(&self, loss: &str) {
        let file = near_file(&self.sink, &self.pki, &self.gate, loss);
        let (status, said) = self.near.reload(&file);
        assert_eq!(
            (status, &said["tunnels"]["moved"]),
            (200, &1.into()),
            "{said}"
        );
    }

    /// A client whose tunnel is open.
    fn client(&self) -> udp::Client {
        let client = udp::Client::connect(self.near.address("rtp"));
        client.send(OPEN.to_be_bytes());
        assert_eq!(self.next(), Some(OPEN));
        client
    }

    /// The number of the next datagram that comes out.
    fn next(&self) -> Option<u32> {
        let mut room = [0; 2048];
        let length = self.sink.recv(&mut room).ok()?;
        let number = u32::from_be_bytes(*room.first_chunk()?);
        assert!(length == 4 || length == SIZE, "{length} bytes");
        Some(number)
    }

    /// Passes over datagrams that came late.
    fn drain(&self) {
        self.sink
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        while self.next().is_some() {}
        self.sink.set_read_timeout(Some(PATIENCE)).unwrap();
    }

    /// Sends a stream while the path loses so many of a hundred packets; the numbers that come out, in their order.
    fn stream(&self, client: &udp::Client, percent: usize) -> Vec<u32> {
        self.gate.lose_udp(percent);
        let received = thread::scope(|threads| {
            threads.spawn(|| send_all(client));
            let numbers = std::iter::from_fn(|| self.next());
            numbers.take_while(|number| *number != END).collect()
        });
        self.gate.lose_udp(0);
        self.drain();
        received
    }
}

/// The near node's file: a listener of UDP, and a route that says so of losses.
fn near_file(sink: &UdpSocket, pki: &Pki, gate: &Gate, loss: &str) -> String {
    format!(
        "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{}\" }} }}\nroutes: [ {{ to: next{loss} }} ]\n\
         upstreams: {{ next: {} }}\n",
        sink.local_addr().unwrap(),
        upstream(pki, gate.address(), "3")
    )
}

/// Sends the datagrams of a stream, and marks its end until that has come through.
fn send_all(client: &udp::Client) {
    for number in 0..DATAGRAMS {
        let mut datagram = number.to_be_bytes().to_vec();
        datagram.resize(SIZE, number as u8);
        client.send(datagram);
        thread::sleep(EVERY);
    }
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(20));
        client.send_if_open(END.to_be_bytes());
    }
}

/// The next answer to a client, behind those to its opening, which it may have sent more than once.
fn answer(client: &udp::Client) -> Option<Vec<u8>> {
    std::iter::repeat_with(|| client.receive_within(PATIENCE))
        .find(|answer| answer.as_deref() != Some(&b"open"[..]))?
}

#[test]
fn a_path_that_loses_every_twentieth_packet_loses_no_datagram_and_changes_no_order() {
    let stage = Stage::start(", tunnel: { loss: { by: retransmit, within: 2s } }", "");
    let received = stage.stream(&stage.client(), 5);
    assert_eq!(received, Vec::from_iter(0..DATAGRAMS));

    let [near, far] = [&stage.near, &stage.far].map(|node| node.exchanges()[0]["recovery"].clone());
    assert!(near["sent_again"].as_u64() >= far["came_again"].as_u64());
    assert!(far["came_again"].as_u64() > Some(5), "{far}");
    assert_eq!((&far["lost"], &near["sent_parity"]), (&0.into(), &0.into()));
    assert!(near["loss_per_mille"].as_u64() > Some(5), "{near}");
}

#[test]
fn without_recovery_the_same_path_loses_datagrams_and_a_reload_mends_that_in_the_open_tunnel() {
    let stage = Stage::start("", "");
    let client = stage.client();
    let received = stage.stream(&client, 5);
    assert!(received.len() < 490, "{} came", received.len());

    stage.reload(", tunnel: { loss: { by: auto, within: 2s } }");
    eventually("the tunnel has left its path", || {
        let open = stage.far.exchanges();
        (open.len() == 1 && stage.far.access().len() == 1).then_some(())
    });
    let received = stage.stream(&client, 5);
    assert_eq!(received, Vec::from_iter(0..DATAGRAMS));
}

#[test]
fn parity_mends_most_losses_without_a_round_trip() {
    let stage = Stage::start(", tunnel: { loss: { by: parity, percent: 40 } }", "");
    let received = stage.stream(&stage.client(), 5);
    assert!(received.is_sorted());
    assert!(received.len() > 494, "{} came", received.len());
}

#[test]
fn a_far_end_that_wants_no_recovery_gets_datagrams_as_they_are() {
    let stage = Stage::start(", tunnel: { loss: auto }", ", tunnel: { loss: plain }");
    let client = stage.client();
    assert_eq!(stage.stream(&client, 0).len(), DATAGRAMS as usize);
    assert!(stage.stream(&client, 5).len() < 490);
    assert_eq!(stage.far.exchanges()[0].get("recovery"), None);
    assert_eq!(stage.near.exchanges()[0].get("recovery"), None);
}

#[test]
fn datagrams_go_on_while_losses_take_all_acknowledgements() {
    for loss in ["{ by: auto, within: 10s }", "{ by: groups, within: 10s }"] {
        let stage = Stage::start(&format!(", tunnel: {{ loss: {loss} }}"), "");
        let client = stage.client();
        stage.gate.let_udp_answers(false);
        for number in 0..100_u32 {
            client.send(number.to_be_bytes());
            assert_eq!(stage.next(), Some(number), "{loss}");
            thread::sleep(Duration::from_millis(5));
        }
        stage.gate.let_udp_answers(true);
    }
}

#[test]
fn a_node_in_between_holds_no_frames_back_while_nothing_is_acknowledged_behind_it() {
    let Stage {
        sink,
        gate,
        near: middle,
        far,
        pki,
    } = Stage::start("", "");
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let (status, said) = middle.reload(&format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\nroutes: [ {{ to: next }} ]\nupstreams: {{ next: {} }}\n",
        upstream(&pki, gate.address(), "3")
    ));
    assert_eq!(status, 200, "{said}");
    let near = Node::start(
        "first",
        &format!(
            "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{}\" }} }}\nroutes: [ {{ to: next, tunnel: {{ loss: {{ by: auto, within: 10s }} }} }} ]\nupstreams: {{ next: {} }}\n",
            sink.local_addr().unwrap(),
            upstream(&pki, middle.address("web"), "3")
        ),
    );
    let stage = Stage {
        sink,
        gate,
        near,
        far,
        pki,
    };

    let client = stage.client();
    stage.gate.let_udp_answers(false);
    for number in 0..100_u32 {
        client.send(number.to_be_bytes());
        assert_eq!(stage.next(), Some(number));
        thread::sleep(Duration::from_millis(5));
    }
    stage.gate.let_udp_answers(true);
}

#[test]
fn groups_lose_nothing_on_a_path_that_loses_every_twentieth_packet_and_change_no_order() {
    let stage = Stage::start(", tunnel: { loss: { by: groups, within: 5s } }", "");
    let received = stage.stream(&stage.client(), 5);
    assert_eq!(received, Vec::from_iter(0..DATAGRAMS));

    let [near, far] = [&stage.near, &stage.far].map(|node| node.exchanges()[0]["recovery"].clone());
    assert!(near["groups"].as_u64() > Some(50), "{near}");
    assert_eq!(near["given_up"], 0, "{near}");
    assert!(far["came_in_groups"].as_u64() >= Some(400), "{far}");
}

#[test]
fn groups_pass_nodes_in_between_over_every_version_and_back() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let echo = origins::udp_echo(origins::V4);
    let far = Node::start("far", &end(&tls));
    let gate = Gate::to(far.address("web"));
    let next =
        |address, http| format!("upstreams: {{ next: {} }}\n", upstream(&pki, address, http));
    let middle = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\nroutes: [ {{ to: next }} ]\n"
    );
    let second = Node::start("second", &format!("{middle}{}", next(gate.address(), "3")));
    for http in ["1", "2", "3"] {
        let first = Node::start(
            "first",
            &format!(
                "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{}\" }} }}\nroutes: [ {{ to: next, tunnel: {{ loss: {{ by: groups, within: 5s }} }} }} ]\n{}",
                echo.address(),
                next(second.address("web"), http)
            ),
        );
        let client = udp::Client::connect(first.address("rtp"));
        assert_eq!(client.ask("open"), b"open");
        gate.lose_udp(10);
        for number in 0..60_u32 {
            client.send(number.to_be_bytes());
            let received = answer(&client);
            assert_eq!(
                received.as_deref(),
                Some(&number.to_be_bytes()[..]),
                "over HTTP/{http}"
            );
        }
        gate.lose_udp(0);
    }
}

#[test]
fn frames_pass_nodes_in_between_over_every_version_and_back() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let echo = origins::udp_echo(origins::V4);
    let far = Node::start("far", &end(&tls));
    let gate = Gate::to(far.address("web"));
    let next =
        |address, http| format!("upstreams: {{ next: {} }}\n", upstream(&pki, address, http));
    let middle = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}\nroutes: [ {{ to: next }} ]\n"
    );
    let second = Node::start("second", &format!("{middle}{}", next(gate.address(), "3")));
    for http in ["1", "2", "3"] {
        let first = Node::start(
            "first",
            &format!(
                "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{}\" }} }}\nroutes: [ {{ to: next, tunnel: {{ loss: {{ by: retransmit, within: 2s, tries: 10 }} }} }} ]\n{}",
                echo.address(),
                next(second.address("web"), http)
            ),
        );
        let client = udp::Client::connect(first.address("rtp"));
        assert_eq!(client.ask("open"), b"open");
        gate.lose_udp(10);
        for number in 0..60_u32 {
            client.send(number.to_be_bytes());
            let received = answer(&client);
            let recovered = [&first, &far].map(|node| node.exchanges()[0]["recovery"].clone());
            assert_eq!(
                received.as_deref(),
                Some(&number.to_be_bytes()[..]),
                "over HTTP/{http}: {recovered:?}"
            );
        }
        gate.lose_udp(0);
    }
}
