//! What is seen of a request that waits long in custody.

use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;

use super::file::FileOrigin;
use super::row::Row;

/// What the next interim responses say, up to one that says this.
fn hears(raw: &mut Raw, words: &str) {
    loop {
        let head = raw.head();
        assert_eq!(head.status(), 102);
        let says = head.field("proxy-status").unwrap();
        assert!(says.starts_with("near; details="), "{says}");
        if says.contains(words) {
            return;
        }
    }
}

#[test]
fn a_client_and_the_operator_see_what_a_request_in_custody_waits_for() {
    let origin = FileOrigin::start();
    let row = Row::start(origin.address, "");
    row.gate.let_udp(false);
    let mut raw = row.ask(
        "POST http://files/do HTTP/1.1\r\nHost: files\r\nContent-Length: 0\r\nHermes-Progress: ?1\r\n\r\n",
    );
    hears(&mut raw, "next to take the request into custody");
    let waits = |words: &str| {
        let live = row.near.exchanges();
        let said = live.first().and_then(|one| one["waits"].as_str());
        said.is_some_and(|said| said.contains(words))
    };
    eventually_true("it is shown", || waits("which was not heard yet"));

    row.gate.let_udp(true);
    hears(&mut raw, "next has the request in custody");
    eventually_true("it is shown", || waits("the answer: next has the request"));

    origin.release();
    let mut head = raw.head();
    while head.status() == 102 {
        head = raw.head();
    }
    assert_eq!(head.status(), 200);
}
