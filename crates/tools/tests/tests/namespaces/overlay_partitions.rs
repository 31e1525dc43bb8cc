//! Networks that fall apart: members of etcd from each other, and a controller from everything. No change that was made is lost.

use std::net::{IpAddr, SocketAddr};

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::etcd::Etcd;
use hermes_tests::eventually::eventually_true;
use hermes_tests::overlay::{Hub, Joined};
use hermes_tests::resources::Resources;
use hermes_tests::{curl, free, origins};

use super::within;

/// The namespaces of etcd's members, by the third number of their addresses.
const MEMBERS: [&str; 3] = ["etcd0", "etcd1", "etcd2"];

/// Where one of the controllers is; the other one is in the middle, with all nodes.
const OFFICE: &str = "10.0.9.2";

fn networks() -> Topology {
    let mut topology = Topology::new();
    topology.add("middle").unwrap();
    let lay = |topology: &mut Topology, name: &str, network: &str| {
        topology.add(name).unwrap();
        let near = format!("{network}.1");
        let far = format!("{network}.2");
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(
                plug("middle", &format!("{near}/24")),
                plug(name, &format!("{far}/24")),
            )
            .unwrap();
        topology.route(name, "10.0.0.0/16", &near).unwrap();
    };
    for (index, name) in MEMBERS.iter().enumerate() {
        lay(&mut topology, name, &format!("10.0.{index}"));
    }
    lay(&mut topology, "office", "10.0.9");
    topology
}

/// Cuts the cable from the middle to a namespace, or mends it.
fn set(topology: &Topology, name: &str, state: &str) {
    let middle = topology.namespace("middle").unwrap();
    middle.run(&["ip", "link", "set", name, state]).unwrap();
    if state == "up" {
        // The kernel took it away with the cable.
        let network = match MEMBERS.iter().position(|member| *member == name) {
            Some(index) => format!("10.0.{index}"),
            None => "10.0.9".to_owned(),
        };
        let namespace = topology.namespace(name).unwrap();
        let route = [
            "ip",
            "route",
            "replace",
            "10.0.0.0/16",
            "via",
            &format!("{network}.1"),
        ];
        namespace.run(&route).unwrap();
    }
}

fn etcd(topology: &Topology) -> Etcd {
    let place = |index: usize| {
        [2379, 2380].map(|port| SocketAddr::from(([10, 0, u8::try_from(index).unwrap(), 2], port)))
    };
    let mut etcd = Etcd::at((0..MEMBERS.len()).map(place));
    for (index, name) in MEMBERS.iter().enumerate() {
        within(topology, name, || etcd.run(index));
    }
    etcd
}

/// A node by which devices enter, with a server that Alice may reach.
fn overlay(listen: SocketAddr, server: SocketAddr) -> String {
    Resources::new()
        .ingress("edge", listen)
        .service("video", &[("edge", server)])
        .name("VIDEO", "video")
        .allow("all", "target: VIDEO, user: alice")
        .text()
}

/// A change that a later look finds if it was not lost.
fn user(name: &str) -> String {
    Resources::new().with("User", name, "{}").text()
}

fn is_served(device: &Joined) -> bool {
    curl(&["-x", &format!("http://{}", device.web), "http://VIDEO/"]).status == 200
}

#[test]
fn networks_fall_apart_and_no_change_that_was_made_is_lost() {
    let topology = networks();
    let etcd = etcd(&topology);
    // The first to come leads.
    let office: IpAddr = OFFICE.parse().unwrap();
    let office = within(&topology, "office", || Hub::one_of_at(&etcd, "o", office));
    within(&topology, "middle", || {
        let origin = origins::http();
        let here = Hub::one_of(&etcd, "o");
        here.apply(&overlay(free::tcp(), origin.address()), &[]);
        let _edge = here.member("edge");
        let device = here.device("alice", "laptop");
        eventually_true("the device is served", || is_served(&device));

        set(&topology, "etcd0", "down");
        here.apply(&user("made-by-two-members"), &[]);
        set(&topology, "etcd1", "down");
        let refused = here.try_apply(&user("made-by-one-member"), &[]);
        assert_ne!(refused.code, 0, "one of three is not most: {refused:?}");
        assert!(is_served(&device));
        set(&topology, "etcd0", "up");
        set(&topology, "etcd1", "up");
        eventually_true("changes are made again", || {
            here.try_apply(&user("made-by-all-again"), &[]).code == 0
        });

        set(&topology, "office", "down");
        eventually_true("the other controller leads", || {
            here.try_apply(&user("made-without-the-office"), &[]).code == 0
        });
        assert!(is_served(&device));
        here.await_step("edge");
        here.await_step("laptop");
        set(&topology, "office", "up");

        let state = here.say(&["get"]).stdout;
        for made in [
            "made-by-two-members",
            "made-by-all-again",
            "made-without-the-office",
        ] {
            assert!(state.contains(made), "{made}: {state}");
        }
        eventually_true("the office knows all of it", || {
            office.ask(&["history"]) == here.ask(&["history"])
        });
        assert!(is_served(&device));
    });
}
