//! `hermes subscribe` and `hermes publish`, each through a node beside its user.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Command, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, free, program};
use rustix::process::Signal;

/// The channel, by a name that the routes of each device know.
const URL: &str = "http://hub.test/c/chat";

/// A device behind a NAT: it opens connections, and takes none from others.
fn device(hub: &Node) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: hub }} ]
        upstreams: {{ hub: {{ endpoints: ["{}"] }} }}
        "#,
        hub.address("web")
    );
    Node::start("device", &yaml)
}

fn command(device: &Node, arguments: &[&str]) -> Command {
    let mut command = program::command();
    command
        .args(arguments)
        .args(["--proxy", &device.url("web")]);
    command
}

/// Publishes this, and gives what the program says.
fn publish(device: &Node, input: &str, arguments: &[&str]) -> String {
    let mut child = command(device, &[&["publish", URL], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut standard_input = child.stdin.take().unwrap();
    standard_input.write_all(input.as_bytes()).unwrap();
    drop(standard_input);
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    String::from_utf8(ended.stdout).unwrap()
}

/// A program that is stopped with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_devices_chat_and_hear_of_each_other_again_after_the_relay_was_away() {
    let place = free::tcp();
    let yaml =
        format!("listeners: {{ web: {{ http: \"{place}\" }} }}\nroutes: [ {{ handle: relay }} ]\n");
    let mut hub = Node::start("hub", &yaml);
    let alice = device(&hub);
    let bob = device(&hub);
    let folder = tempfile::tempdir().unwrap();
    let got = folder.path().join("got");
    let words = folder.path().join("words");
    let child = command(&alice, &["subscribe", URL])
        .stdout(File::create(&got).unwrap())
        .stderr(File::create(&words).unwrap())
        .spawn()
        .unwrap();
    let _subscriber = Running(child);
    let reads = |wanted: &str| {
        eventually_true(wanted, || fs::read_to_string(&got).unwrap() == wanted);
    };
    eventually_true("alice subscribes", || super::subscriptions(&hub) == 1);
    assert_eq!(publish(&bob, "", &["hi"]), "receivers: 1\n");
    let said = publish(&bob, "a\nb\n", &["--lines", "--reliable"]);
    assert_eq!(said, "receivers: 1\nreceivers: 1\n");
    reads("hi\na\nb\n");

    hub.signal(Signal::TERM);
    hub.wait();
    hub.restart();
    eventually_true("alice comes again", || super::subscriptions(&hub) == 1);
    assert_eq!(publish(&bob, "there again", &[]), "receivers: 1\n");
    reads("hi\na\nb\nthere again\n");
    let words = fs::read_to_string(&words).unwrap();
    assert!(words.contains("messages lost: restarted"), "{words}");
}
