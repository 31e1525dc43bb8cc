//! What a node holds in memory is written down for no one when it dies.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use hermes_tests::{Node, program};
use rustix::process::Signal;

/// Whether the system dumped a node that aborted, where it may.
fn dumped(debug: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\""])
        .arg(program::path())
        .current_dir(folder.path());
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n{debug}\n"
    );
    let mut node = Node::start_by(command, "edge", &yaml);
    node.signal(Signal::ABORT);
    node.wait().core_dumped()
}

#[test]
fn a_node_that_crashes_leaves_no_dump() {
    assert!(!dumped("debug: {}"));
}
