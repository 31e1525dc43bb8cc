//! Full disks of a controller and of a node: each says so, all go on, and what was refused is made once there is room.

use std::net::SocketAddr;

use hermes_tests::eventually::eventually_true;
use hermes_tests::overlay::{Hub, Joined, Machine};
use hermes_tests::resources::Resources;
use hermes_tests::{curl, free, origins};

/// Bytes of the disks.
const DISK: usize = 4 * 1024 * 1024;

/// A node by which devices enter, with a server that these users may reach; and one beside it.
fn overlay(places: [SocketAddr; 2], server: SocketAddr, users: &str) -> String {
    let [edge, other] = places;
    Resources::new()
        .ingress("edge", edge)
        .node("other", other)
        .service("video", &[("edge", server), ("other", server)])
        .name("VIDEO", "video")
        .allow("all", &format!("target: VIDEO, user: [{users}]"))
        .text()
}

/// Users of one change are not in the next: what a slip would look like.
const MEANT: [&str; 1] = ["--force"];

fn is_served(device: &Joined) -> bool {
    curl(&["-x", &format!("http://{}", device.web), "http://VIDEO/"]).status == 200
}

#[test]
fn a_controller_whose_disk_is_full_says_so_and_goes_on_once_there_is_room() {
    let origin = origins::http();
    let places = [free::tcp(), free::tcp()];
    let controller = Hub::controller_on_disk(DISK);
    controller.apply(&overlay(places, origin.address(), "alice"), &[]);
    let _edge = controller.member("edge");
    let device = controller.device("alice", "laptop");

    controller.fill_disk();
    let mut refused = 0;
    for change in 0..20 {
        let text = overlay(places, origin.address(), &format!("alice, user-{change}"));
        let said = controller.try_apply(&text, &MEANT);
        if said.code != 0 {
            refused += 1;
            let told = format!("{}{}", said.stdout, said.stderr);
            assert!(told.contains("No space left on device"), "{told}");
        }
    }
    assert!(refused > 0);
    assert!(is_served(&device));
    assert!(controller.is_in_step("edge"));

    controller.empty_disk();
    controller.apply(&overlay(places, origin.address(), "alice, bob"), &MEANT);
    controller.await_step("edge");
}

#[test]
fn a_node_whose_disk_is_full_is_named_and_serves_and_follows_once_there_is_room() {
    let origin = origins::http();
    let places = [free::tcp(), free::tcp()];
    let controller = Hub::controller();
    controller.apply(&overlay(places, origin.address(), "alice"), &[]);
    let made = controller
        .ask(&["token", "create", "--name", "edge"])
        .unwrap();
    let token = made["token"].as_str().unwrap();
    let edge = Joined::start_on(Machine::WithDisk(DISK), &controller.url(), token, "edge");
    controller.await_step("edge");
    let device = controller.device("alice", "laptop");

    edge.fill_disk();
    let said = controller.try_apply(&overlay(places, origin.address(), "alice, bob"), &[]);
    let told = format!("{}{}", said.stdout, said.stderr);
    assert_eq!(said.code, 1, "{told}");
    assert!(
        told.contains("edge") && told.contains("No space left on device"),
        "{told}"
    );
    assert!(is_served(&device));

    edge.empty_disk();
    controller.apply(&overlay(places, origin.address(), "alice, carol"), &MEANT);
    eventually_true("the node follows", || controller.is_in_step("edge"));
    assert!(is_served(&device));
}
