//! Bounds on datagrams and capsules: what a session may make a node keep, and that it costs only itself.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use hermes_tests::capsules::{DATAGRAM, UdpTunnel, varint};
use hermes_tests::crowd::resident;
use hermes_tests::eventually::{PATIENCE, eventually_true};
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins, program, udp};

/// What a flood may make a node keep, in bytes: windows, sockets, and what the allocator keeps of it.
const FLOOD: usize = 24 * 1024 * 1024;

/// A node where datagrams are kept for 200 ms, and 20 KiB of them.
fn end() -> Node {
    Node::start(
        "end",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, datagrams: { hold_bytes: 20KiB, hold_time: 200ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    )
}

fn forwarder(next: &Node) -> Node {
    Node::start(
        "forwarder",
        &format!(
            "workers: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            next.address("web")
        ),
    )
}

/// A target that says what the test wants, and where the node's socket is.
fn target(client: &Client, node: &Node) -> (UdpTunnel, UdpSocket, SocketAddr) {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    target.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = target.local_addr().unwrap().port();
    let mut tunnel = UdpTunnel::h2(client, node.address("web"), "127.0.0.1", port, &[]).unwrap();
    tunnel.send("hello");
    let mut hello = [0; 16];
    let (_, socket) = target.recv_from(&mut hello).unwrap();
    (tunnel, target, socket)
}

fn dropped(node: &Node) -> bool {
    let counts = |line: &str| {
        line.contains("datagrams_dropped") && !line.starts_with('#') && !line.ends_with(" 0")
    };
    node.metrics().lines().any(counts)
}

/// What `hermes exchanges` says of the only live exchange.
fn drops_shown(node: &Node) -> Option<u64> {
    let table = program::run(&[
        "exchanges",
        "--once",
        "--admin",
        node.socket().to_str().unwrap(),
    ])
    .stdout;
    let (header, row) = table.split_once('\n')?;
    let end = header.find("drops")? + "drops".len();
    row.get(..end)?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn a_tunnel_that_stopped_gets_nothing_old_when_it_goes_on() {
    let node = end();
    let client = Client::with_windows(node.address("web"), 65_535, 1 << 20);
    let (mut tunnel, target, socket) = target(&client, &node);
    // The client does not read: what its window and the node's buffers do not hold has to wait.
    let mut number = 0_u32;
    eventually_true("something was dropped", || {
        for _ in 0..200 {
            let datagram = [&number.to_be_bytes()[..], &[7; 996]].concat();
            target.send_to(&datagram, socket).unwrap();
            number += 1;
        }
        dropped(&node)
    });
    assert!(drops_shown(&node).is_some_and(|drops| drops > 0));
    let mut came = 0;
    loop {
        target.send_to(b"new", socket).unwrap();
        if tunnel.receive() == b"new" {
            break;
        }
        came += 1;
    }
    assert!(came < 1_000 && came < number, "{came} of {number} came");
    drop((tunnel, client));
    let record = node.record(|record| record["kind"] == "connect-udp");
    assert!(
        record["datagrams"]["dropped"].as_u64().unwrap() > 0,
        "{record}"
    );
}

/// A next proxy over HTTP/1.1 that answers tunnels when it is told to, and the capsule streams that it then has.
fn hesitant(tunnels: usize) -> (SocketAddr, Sender<()>, Receiver<Raw>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let ((go, told), (give, streams)) = (channel(), channel());
    std::thread::spawn(move || {
        let mut asked: Vec<Raw> = (0..tunnels)
            .map(|_| Raw::from(listener.accept().unwrap().0))
            .collect();
        asked.iter_mut().for_each(|raw| drop(raw.head()));
        told.recv().unwrap();
        for mut raw in asked {
            raw.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: connect-udp\r\n\r\n");
            give.send(raw).unwrap();
        }
    });
    (address, go, streams)
}

/// The payload of the next datagram, all of which are short here.
fn payload(raw: &mut Raw) -> Vec<u8> {
    let head = raw.exactly(2);
    assert_eq!(head[0], 0, "a DATAGRAM capsule");
    let length = match head[1] >> 6 {
        0 => usize::from(head[1]),
        _ => usize::from(head[1] & 0x3f) << 8 | usize::from(raw.exactly(1)[0]),
    };
    let value = raw.exactly(length);
    assert_eq!(value[0], 0, "the context of UDP payloads");
    value[1..].to_vec()
}

#[test]
fn a_client_that_floods_while_its_tunnel_opens_pushes_out_only_its_own() {
    let (next, go, streams) = hesitant(2);
    let node = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "VOICE:1", datagrams: {{ hold_bytes: 20KiB, hold_time: 1h }} }} }}
            routes: [ {{ to: next, timeouts: {{ header: 1h }} }} ]
            upstreams: {{ next: {{ endpoints: ["{next}"] }} }}
            "#
        ),
    );
    let [flooding, good] = [(); 2].map(|()| udp::Client::connect(node.address("voice")));
    let mut number = 0_u32;
    // Five times what may be kept.
    let mut flood = || {
        for _ in 0..100 {
            flooding.send([&number.to_be_bytes()[..], &[b'f'; 996]].concat());
            number += 1;
        }
    };
    flood();
    (0..10_u32).for_each(|number| good.send([&number.to_be_bytes()[..], b"good"].concat()));
    eventually_true("both have a session", || node.exchanges().len() == 2);
    flood();
    go.send(()).unwrap();
    for mut raw in streams.iter().take(2) {
        let first = payload(&mut raw);
        if first.ends_with(b"good") {
            assert_eq!(first[..4], [0; 4]);
            for number in 1..10_u32 {
                assert_eq!(
                    payload(&mut raw)[..4],
                    number.to_be_bytes(),
                    "each came, in order"
                );
            }
        } else {
            // The newest: 20 of a thousand bytes each.
            let mut kept = vec![u32::from_be_bytes(first[..4].try_into().unwrap())];
            kept.extend(
                (1..20).map(|_| u32::from_be_bytes(payload(&mut raw)[..4].try_into().unwrap())),
            );
            assert!(kept[0] > 0 && kept.is_sorted(), "{kept:?}");
        }
    }
}

#[test]
fn a_session_that_is_flooded_and_not_read_costs_another_nothing() {
    let (node, echo) = (end(), origins::udp_echo(origins::V4));
    let entry = forwarder(&node);
    for entrance in [&node, &entry] {
        let client = Client::with_windows(entrance.address("web"), 65_535, 1 << 24);
        let (flooded, target, socket) = target(&client, entrance);
        let mut good = UdpTunnel::h2(
            &client,
            entrance.address("web"),
            "127.0.0.1",
            echo.port(),
            &[],
        )
        .unwrap();
        let before = [&node, &entry].map(resident);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The kernel drops what does not fit.
                    drop(target.send_to(&[7; 1_200], socket));
                }
            });
            for number in 0..500 {
                let datagram = format!("datagram {number}");
                good.send(&datagram);
                assert_eq!(good.receive(), datagram.as_bytes());
            }
            done.store(true, Ordering::Relaxed);
        });
        let after = [&node, &entry].map(resident);
        for (before, after) in before.iter().zip(after) {
            assert!(
                after < before + FLOOD,
                "{before} bytes before, {after} after the flood"
            );
        }
        drop(flooded);
    }
}

#[test]
fn capsules_that_no_one_knows_cost_no_one_else_anything() {
    let (node, echo) = (end(), origins::udp_echo(origins::V4));
    let entry = forwarder(&node);
    let unknown = [varint(0x2f3a), varint(0)].concat().repeat(20_000);
    let contexts = [varint(DATAGRAM), varint(2), vec![5, 7]]
        .concat()
        .repeat(20_000);
    for entrance in [&node, &entry] {
        let (one, other) = (
            Client::connect(entrance.address("web")),
            Client::connect(entrance.address("web")),
        );
        let open = |client| {
            UdpTunnel::h2(
                client,
                entrance.address("web"),
                "127.0.0.1",
                echo.port(),
                &[],
            )
            .unwrap()
        };
        let (mut flooding, mut beside, mut good) = (open(&one), open(&one), open(&other));
        let before = [&node, &entry].map(resident);
        for number in 0..20 {
            flooding.send_bytes(&unknown);
            flooding.send_bytes(&contexts);
            for tunnel in [&mut beside, &mut good] {
                let datagram = format!("datagram {number}");
                tunnel.send(&datagram);
                assert_eq!(tunnel.receive(), datagram.as_bytes());
            }
        }
        flooding.send("after it");
        assert_eq!(flooding.receive(), b"after it");
        let after = [&node, &entry].map(resident);
        for (before, after) in before.iter().zip(after) {
            assert!(
                after < before + FLOOD,
                "{before} bytes before, {after} after the flood"
            );
        }
    }
}
