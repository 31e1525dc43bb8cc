//! A node whose address changes while it asks.

use super::file::{FIRST, FileOrigin, WHOLE, agreed};
use super::row::{Row, talk};
use hermes_tests::origins;
use hermes_tests::raw::Raw;

#[test]
fn a_download_goes_on_when_the_near_end_changes_its_address() {
    let origin = FileOrigin::start();
    let row = Row::start(origin.address, "");
    let mut raw =
        row.ask("GET http://files/file HTTP/1.1\r\nHost: files\r\nConnection: close\r\n\r\n");
    assert_eq!(raw.head().status(), 200);
    let mut content = raw.exactly(FIRST / 2);
    row.gate.move_udp();
    content.extend(raw.exactly(FIRST / 2));
    row.gate.move_udp();
    origin.release();
    content.extend(raw.rest().0);
    assert_eq!(agreed(0, &content), WHOLE);
}

#[test]
fn a_tunnel_goes_on_when_the_near_end_changes_its_address() {
    let target = origins::tcp_echo();
    let row = Row::start(target.address(), "");
    let mut raw = Raw::connect(row.near.address("db"));
    talk(&mut raw, "before");
    row.gate.move_udp();
    talk(&mut raw, "after");
    assert_eq!(target.connections(), 1);
}
