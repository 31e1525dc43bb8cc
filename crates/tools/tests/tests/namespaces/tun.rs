//! TUN devices, each in a network of its own.

use std::future::poll_fn;
use std::net::UdpSocket;

use hermes_lab::topology::Topology;
use hermes_net::tun::{HEADER_BYTES, TunDevice, TunError, TunPort, TunQueue, TunSettings};
use ipnet::IpNet;

use super::within;

fn one_network() -> Topology {
    let mut topology = Topology::new();
    topology.add("alice").unwrap();
    topology
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn settings() -> TunSettings {
    TunSettings {
        name: "hermes0".to_owned(),
        queues: 1,
        mtu: 1400,
        addresses: nets(&["10.7.0.2/24", "fd00:7::2/64"]),
        routes: nets(&["10.8.0.0/16", "fd00:8::/32"]),
        past: None,
        masquerade: false,
    }
}

fn opened(topology: &Topology, settings: &TunSettings) -> (TunDevice, Vec<TunQueue>) {
    within(topology, "alice", || TunDevice::open(settings).unwrap())
}

fn said(topology: &Topology, ask: &str) -> String {
    let alice = topology.namespace("alice").unwrap();
    alice.run(&ask.split(' ').collect::<Vec<_>>()).unwrap()
}

/// What happens at a queue, in a runtime of its own.
fn at<T>(queue: TunQueue, act: impl AsyncFnOnce(TunPort) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime
        .unwrap()
        .block_on(async { act(queue.register().unwrap()).await })
}

async fn read(port: &TunPort) -> Vec<u8> {
    let mut room = vec![0; HEADER_BYTES + 65_575];
    let length = poll_fn(|cx| port.poll_read(cx, &mut room)).await.unwrap();
    room.truncate(length);
    room
}

#[test]
fn a_device_has_what_was_asked_for_and_goes_with_its_queues() {
    let topology = one_network();
    let (device, queues) = opened(
        &topology,
        &TunSettings {
            queues: 3,
            ..settings()
        },
    );
    assert_eq!((device.name(), queues.len()), ("hermes0", 3));

    let link = said(&topology, "ip -d link show dev hermes0");
    for part in ["UP", "mtu 1400", "multi_queue", "vnet_hdr", "persist off"] {
        assert!(link.contains(part), "{part}: {link}");
    }
    // No other address: the kernel's own of IPv6 would speak first, and to no one.
    let addresses = within(&topology, "alice", || device.addresses().unwrap());
    assert_eq!(addresses, settings().addresses);
    let found = said(&topology, "ip route get 10.8.3.4");
    assert!(
        found.contains("dev hermes0") && found.contains("src 10.7.0.2"),
        "{found}"
    );
    let found = said(&topology, "ip -6 route get fd00:8::1");
    assert!(found.contains("dev hermes0"), "{found}");

    drop(queues);
    let left = said(&topology, "ip -o link");
    assert!(!left.contains("hermes0"), "{left}");
    let left = said(&topology, "ip route show");
    assert!(!left.contains("10.8"), "{left}");
}

#[test]
fn packets_come_out_and_go_in_with_their_headers() {
    let topology = one_network();
    let (_device, mut queues) = opened(&topology, &settings());
    let socket = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.2:5000").unwrap()
    });
    socket.send_to(b"hello", "10.8.0.1:6000").unwrap();

    at(queues.remove(0), async |port| {
        // The kernel may have asked for routers of IPv6 before.
        let mut taken = read(&port).await;
        while taken[HEADER_BYTES] >> 4 != 4 {
            taken = read(&port).await;
        }
        let (header, packet) = taken.split_at(HEADER_BYTES);
        assert_eq!(&packet[12..20], [10, 7, 0, 2, 10, 8, 0, 1]);
        assert_eq!(&packet[28..], b"hello");
        assert_eq!(header[0], 1, "the checksum is ours to compute");

        // The answer: the ends change places, by which no sum changes.
        let mut answer = packet.to_vec();
        answer[12..20].copy_from_slice(&[10, 8, 0, 1, 10, 7, 0, 2]);
        answer[20..24].copy_from_slice(&[packet[22], packet[23], packet[20], packet[21]]);
        let header = header.try_into().unwrap();
        port.write(header, &answer).unwrap();
        assert!(
            port.write(header, b"none").is_err(),
            "which is not a packet"
        );
    });

    let mut room = [0; 16];
    let (length, from) = socket.recv_from(&mut room).unwrap();
    assert_eq!(
        (&room[..length], from.to_string().as_str()),
        (&b"hello"[..], "10.8.0.1:6000")
    );
}

#[test]
fn addresses_and_routes_and_the_mtu_change_while_it_is_up() {
    let topology = one_network();
    let (device, _queues) = opened(&topology, &settings());
    let wanted = nets(&["10.7.0.9/32", "fd00:7::2/64"]);
    within(&topology, "alice", || {
        device.set_addresses(&wanted).unwrap();
        device.set_mtu(1300).unwrap();
        device.remove_route("10.8.0.0/16".parse().unwrap()).unwrap();
        device.add_route("10.9.0.0/16".parse().unwrap()).unwrap();
        // It has it already, and that is what was asked for.
        device.add_route("10.9.0.0/16".parse().unwrap()).unwrap();
        assert_eq!(device.addresses().unwrap(), wanted);
    });

    assert!(said(&topology, "ip link show dev hermes0").contains("mtu 1300"));
    let routes = said(&topology, "ip route show");
    assert!(
        routes.contains("10.9.0.0/16") && !routes.contains("10.8"),
        "{routes}"
    );
}

#[test]
fn a_device_that_was_made_to_stay_is_taken_over_and_put_right() {
    let topology = one_network();
    said(
        &topology,
        "ip tuntap add dev hermes0 mode tun multi_queue vnet_hdr",
    );
    said(&topology, "ip address add 10.66.0.1/16 dev hermes0");

    let (device, queues) = opened(&topology, &settings());
    let addresses = within(&topology, "alice", || device.addresses().unwrap());
    assert_eq!(addresses, settings().addresses);

    drop(queues);
    assert!(said(&topology, "ip -o link").contains("hermes0"));
}

#[test]
fn an_interface_of_another_kind_is_refused_with_a_reason() {
    let topology = one_network();
    said(&topology, "ip link add hermes0 type veth peer name other0");
    let error: TunError = within(&topology, "alice", || {
        TunDevice::open(&settings()).unwrap_err()
    });
    let text = error.to_string();
    assert!(
        text.starts_with("TUN device hermes0: opening it:") && text.contains("of another kind"),
        "{text}"
    );
}
