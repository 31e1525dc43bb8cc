//! A process gives the TUN device of a listener to its successor: the device stays, and with it the connections of programs.

use std::path::Path;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, program};
use rustix::process::Signal;

use super::command;
use super::packets::{alice, edge, networks, start};
use super::traffic::{Flow, serve};

/// A process of Alice's node, which takes what the one before it has open.
fn process(topology: &Topology, name: &str, meeting: &Path) -> Node {
    let hermes = program::path();
    let yaml = alice("addresses: 10.7.0.9/24,", "http: 2");
    let command = command(topology, "alice", hermes.to_str().unwrap());
    let arguments = ["--handover", meeting.to_str().unwrap()];
    Node::start_with_by(command, name, &yaml, &arguments)
}

/// The number by which the kernel knows Alice's device.
fn device_number(topology: &Topology) -> String {
    let alice = topology.namespace("alice").unwrap();
    let link = alice.run(&["ip", "-o", "link", "show", "dev", "hermes0"]);
    let link = link.unwrap();
    link.split(':').next().unwrap().to_owned()
}

#[test]
fn a_device_and_what_goes_through_it_outlive_the_process_that_opened_it() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    let meeting = folder.path().join("handover");
    let _edge = start(&topology, "edge", &edge(""));
    let mut first = process(&topology, "first", &meeting);
    serve(&topology, "server");
    let flow = Flow::begin(&topology, "alice", "10.0.2.2".parse().unwrap(), "server");
    let device = device_number(&topology);

    let second = process(&topology, "second", &meeting);
    eventually_true("the second one waits for the device", || {
        let missing = second.status()["missing_devices"].to_string();
        missing.contains("the process before this one has it")
    });
    let third = process(&topology, "third", &meeting);

    first.signal(Signal::TERM);
    assert!(first.wait().success());
    eventually_true("the second one has the device", || {
        second.status()["devices"][0]["since"].is_string()
    });
    assert!(third.status()["missing_devices"].is_array(), "it waits");
    let mut second = second;
    second.kill();
    eventually_true("the third one has the device", || {
        third.status()["devices"][0]["since"].is_string()
    });

    assert!(flow.end() > 0);
    assert_eq!(device_number(&topology), device);
    assert!(third.status()["missing_devices"].is_null());
}
