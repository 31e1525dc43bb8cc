//! Several controllers of one overlay, with their store in etcd.

use hermes_harness::etcd::Etcd;
use hermes_harness::eventually::eventually_true;
use hermes_harness::overlay::Hub;
use hermes_harness::{free, origins};

use crate::overlay::{asks, edge};

/// Makes a user, whom a later look finds if the change was not lost.
fn add(controller: &Hub, user: &str) {
    let text =
        format!("apiVersion: hermes/v1\nkind: User\nmetadata: {{ name: {user} }}\nspec: {{}}\n");
    controller.apply(&text, &[]);
}

fn has_all(controller: &Hub, users: &[&str]) {
    let said = controller.say(&["get"]);
    for user in users {
        assert!(said.stdout.contains(user), "{user}: {said:?}");
    }
}

#[test]
fn controllers_and_members_of_etcd_are_lost_and_no_change_is() {
    let origin = origins::http();
    let mut etcd = Etcd::start(3);
    let mut first = Hub::one_of(&etcd, "office");
    let second = Hub::one_of(&etcd, "office");
    // The second passes on what the first decides, and makes members itself.
    second.apply(&edge(free::tcp(), origin.address()), &[]);
    let _edge = second.member("edge");
    let device = first.device("alice", "laptop");
    eventually_true("the device is served", || {
        asks(&device, "http://VIDEO/").0 == 200
    });
    add(&first, "made-by-the-first");
    add(&second, "made-by-the-second");

    first.kill();
    // It waits for a leader, and is answered by it.
    add(&second, "made-after-a-leader-was-lost");
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
    second.await_step("edge");
    second.await_step("laptop");

    etcd.kill(0);
    add(&second, "made-after-a-member-was-lost");
    first.run();
    let all = [
        "made-by-the-first",
        "made-by-the-second",
        "made-after-a-leader-was-lost",
        "made-after-a-member-was-lost",
    ];
    has_all(&first, &all);
    has_all(&second, &all);
    assert_eq!(first.ask(&["history"]), second.ask(&["history"]));
    assert_eq!(asks(&device, "http://VIDEO/").0, 200);
}

#[test]
fn an_overlay_moves_from_a_file_into_etcd_and_back() {
    let etcd = Etcd::start(1);
    let hub = Hub::controller();
    let listen = free::tcp();
    hub.apply(&edge(listen, listen), &[]);
    let _edge = hub.member("edge");
    let folder = tempfile::tempdir().unwrap();
    let backup = |name: &str| folder.path().join(name);
    let write = |hub: &Hub, name: &str| {
        let file = backup(name);
        hub.ask(&["backup", file.to_str().unwrap()]).unwrap();
        file
    };

    let file = write(&hub, "of-the-file");
    // The overlay's name is the one of its state.
    let hub = hub.restored_into(etcd.arguments("hermes"), &file);
    hub.await_step("edge");
    add(&hub, "made-in-etcd");
    let file = write(&hub, "of-etcd");
    let hub = hub.restored(&file);
    hub.await_step("edge");
    has_all(&hub, &["made-in-etcd"]);
}
