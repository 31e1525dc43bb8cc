//! Sessions of tunnels over paths in custody: a node in the middle is started again, and they go on.

use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, free, origins};

use super::row::{Row, dies, talk};

#[test]
fn a_session_goes_on_when_the_node_in_the_middle_dies() {
    for answer in ["", ", answer: early"] {
        let target = origins::tcp_echo();
        let mut row = Row::start(
            target.address(),
            &format!(", tunnel: {{ resume: true{answer} }}"),
        );
        let mut raw = Raw::connect(row.near.address("db"));
        talk(&mut raw, "before, ");
        row.core.kill();
        raw.send("while it was dead, ");
        row.core.restart();
        let heard = raw.exactly("while it was dead, ".len());
        assert_eq!(heard, b"while it was dead, ");
        talk(&mut raw, "after");

        assert_eq!(target.connections(), 1, "the target has seen nothing of it");
        raw.finish();
        assert_eq!(raw.rest().0, b"");
        let record = row
            .near
            .record(|record| record["resumed"].as_u64() >= Some(1));
        assert_eq!(record["reason"], "done");
        let record = row.far.record(|record| record["reason"] == "done");
        assert!(record["resumed"].as_u64() >= Some(1), "{record}");
    }
}

#[test]
fn a_session_passes_through_custody_that_a_node_before_has_asked_for() {
    let target = origins::tcp_echo();
    let mut row = Row::start(target.address(), "");
    let entry = Node::start(
        "entry",
        &format!(
            "listeners: {{ db: {{ tcp: \"{}\", target: \"{}\" }} }}\n\
             routes: [ {{ to: next, tunnel: {{ resume: true }} }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"] }} }}\n",
            free::tcp(),
            target.address(),
            row.near.address("web"),
        ),
    );
    let mut raw = Raw::connect(entry.address("db"));
    talk(&mut raw, "before");
    dies(&mut row.near);
    talk(&mut raw, "between");
    dies(&mut row.core);
    talk(&mut raw, "after");
    assert_eq!(target.connections(), 1);
}

#[test]
fn a_session_ends_with_the_node_that_keeps_its_connection() {
    let target = origins::tcp_echo();
    let mut row = Row::start(target.address(), ", tunnel: { resume: true }");
    let mut raw = Raw::connect(row.near.address("db"));
    talk(&mut raw, "before");
    dies(&mut row.far);
    assert_eq!(raw.rest(), (Vec::new(), End::Reset));
    let record = row.near.record(|record| record["listener"] == "db");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("another process"), "{reason}");
}
