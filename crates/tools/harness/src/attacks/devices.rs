//! Packets of a tunnel that end at a device of the kernel: towards the machine itself, clients of another device, and others' flows.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use super::intercepted::tunnel;
use super::{Attack, Effort, Party, Place, Stage};
use crate::capsules::UdpTunnel;
use crate::ip_packets::{ICMP, UDP, datagram, icmp, packet_to};

/// Packets to each destination.
const PACKETS: u64 = 500;

/// The first device of the node, and a name for its number in echo requests.
const DEVICE: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);

/// The second.
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 8, 0, 1);

/// A public address of the machine.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

/// A host behind the node.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// How long packets are on their way at most.
const ON_THE_WAY: Duration = Duration::from_millis(500);

/// Who may open tunnels, of any user.
const OVERLAY: &str = "overlay: { http: 127.0.0.1:0, public: true, insecure_trust: [127.0.0.0/8] }";

/// The machine's own services.
pub(super) const OWN_SERVICES: Attack = Attack {
    name: "own-services",
    by: Party::User,
    place: Place::Devices,
    summary: "500 datagrams of a tunnel to a port of the machine, by the address of its device and a public one",
    prepare: prepare_own_services,
    run: run_own_services,
};

/// Clients who have another device.
pub(super) const TWO_DEVICES: Attack = Attack {
    name: "two-devices",
    by: Party::User,
    place: Place::Devices,
    summary: "500 datagrams of a client of one device to a client of another",
    prepare: prepare_two_devices,
    run: run_two_devices,
};

/// Flows of others.
pub(super) const FORGED_ERRORS: Attack = Attack {
    name: "forged-errors",
    by: Party::User,
    place: Place::Devices,
    summary: "500 times six errors of ICMP that quote another user's flow, by a user to whom the policy denies all",
    prepare: prepare_forged_errors,
    run: run_forged_errors,
};

fn prepare_own_services() -> Stage {
    address(PUBLIC);
    Stage::start(
        OVERLAY,
        "{ match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.7.0.0/24 } }",
        "",
    )
}

fn run_own_services(stage: &Stage) -> Effort {
    let service = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 6000)).unwrap();
    let (mut tunnel, own) = tunnel(stage.node.address("overlay"), "mallory");
    let mut effort = Effort::default();
    for to in [DEVICE, PUBLIC] {
        send(&mut tunnel, [own, to], &mut effort);
    }
    // Packets of a tunnel stay in order.
    echo(&mut tunnel, own, DEVICE);

    service.set_nonblocking(true).unwrap();
    while service.recv(&mut [0; 100]).is_ok() {
        effort.passed += 1;
    }
    effort
}

fn prepare_two_devices() -> Stage {
    // Each namespace has its own.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    Stage::start(
        OVERLAY,
        "{ match: { kind: connect-ip, user: alice }, terminate: { tun: hermes1, pool: 10.7.0.0/24 } }, \
         { match: { kind: connect-ip, user: bob }, terminate: { tun: hermes2, pool: 10.8.0.0/24 } }",
        "",
    )
}

fn run_two_devices(stage: &Stage) -> Effort {
    let overlay = stage.node.address("overlay");
    let (mut alice, at_alice) = tunnel(overlay, "alice");
    let (mut bob, at_bob) = tunnel(overlay, "bob");
    let mut effort = Effort::default();
    send(&mut alice, [at_alice, at_bob], &mut effort);
    echo(&mut alice, at_alice, DEVICE);
    std::thread::sleep(ON_THE_WAY);
    effort.passed += echo(&mut bob, at_bob, OTHER);
    effort
}

fn prepare_forged_errors() -> Stage {
    address(HOST);
    let further = format!(
        "egress: {{ allow: [{HOST}/32] }}\n\
         policy: {{ default: allow, packets: {{ default: deny, rules: [ {{ allow: true, user: alice, protocol: udp }} ] }} }}"
    );
    Stage::start(
        OVERLAY,
        "{ match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.7.0.0/24 } }",
        &further,
    )
}

fn run_forged_errors(stage: &Stage) -> Effort {
    let overlay = stage.node.address("overlay");
    let host = UdpSocket::bind((HOST, 6000)).unwrap();
    host.set_read_timeout(Some(Duration::from_secs(15)))
        .unwrap();
    let (mut alice, at_alice) = tunnel(overlay, "alice");
    let (mut mallory, at_mallory) = tunnel(overlay, "mallory");
    alice.send(packet_to([at_alice, HOST], UDP, 0, &datagram(b"hello")));
    let (_, from) = host.recv_from(&mut [0; 100]).unwrap();
    host.connect(from).unwrap();

    // A packet of the host to her, from its port 6000 to her port 5000.
    let mut answer = datagram(b"answer");
    answer[..4].copy_from_slice(&[0x17, 0x70, 0x13, 0x88]);
    let quoted = packet_to([HOST, at_alice], UDP, 0, &answer);
    let mut effort = Effort::default();
    for error in [[3, 3], [3, 2], [3, 10], [3, 4], [11, 0], [12, 0]] {
        let packet = packet_to([at_mallory, HOST], ICMP, 0, &icmp(error, 576, &quoted));
        for _ in 0..PACKETS {
            mallory.send(&packet);
            effort.attempts += 1;
            effort.bytes += packet.len() as u64;
        }
    }

    std::thread::sleep(ON_THE_WAY);
    let refused = |sent: std::io::Result<usize>| {
        sent.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    effort.passed += (0..10).filter(|_| refused(host.send(b"goes on"))).count() as u64;
    effort
}

/// Gives the machine an address, in the lab's network namespace.
fn address(address: Ipv4Addr) {
    let address = format!("{address}/32");
    let status = Command::new("ip")
        .args(["address", "replace", &address, "dev", "lo"])
        .status();
    assert!(status.unwrap().success());
}

fn send(tunnel: &mut UdpTunnel, ends: [Ipv4Addr; 2], effort: &mut Effort) {
    let packet = packet_to(ends, UDP, 0, &datagram(b"forbidden"));
    for _ in 0..PACKETS {
        tunnel.send(&packet);
        effort.attempts += 1;
        effort.bytes += packet.len() as u64;
    }
}

/// Waits for an echo of this device; how many datagrams came before it.
fn echo(tunnel: &mut UdpTunnel, own: Ipv4Addr, device: Ipv4Addr) -> u64 {
    tunnel.send(packet_to(
        [own, device],
        ICMP,
        0,
        &icmp([8, 0], 7, b"there?"),
    ));
    let mut others = 0;
    loop {
        let packet = tunnel.receive();
        match packet[9] {
            ICMP if packet[20] == 0 => return others,
            UDP => others += 1,
            _ => {}
        }
    }
}
