//! Attachments begin, end and come back: kills, restarts, reloads, drains.

use std::fs;

use hermes_tests::Node;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use rustix::process::Signal;

use super::overlay::{Overlay, ROUTES, attached, core, node, refused};

fn numbers(core: &Node) -> Vec<String> {
    let status = core.status();
    let all = status["attached"].as_array().unwrap().iter();
    all.map(|one| one["attachment"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_node_that_is_killed_is_unavailable_until_it_is_back() {
    let mut overlay = Overlay::start(2);
    overlay.alice.kill();
    attached(&overlay.core, "alice", 0);
    let answer = overlay.get("http://alice/");
    assert_eq!(answer.status, 503, "{answer:?}");
    let status = answer.field("proxy-status").unwrap();
    assert!(
        status.contains("destination_unavailable")
            && status.contains("no one is attached as alice"),
        "{status}"
    );
    let record = overlay.core.record(|record| record["status"] == 503);
    assert_eq!(
        record["reason"], "destination_unavailable: no one is attached as alice",
        "{record:#}"
    );
    overlay.alice.restart();
    attached(&overlay.core, "alice", 2);
    assert_eq!(overlay.get("http://alice/").status, 200);
}

#[test]
fn a_proxy_that_is_killed_is_attached_to_again_over_each_version() {
    for version in [1, 2, 3] {
        let mut overlay = Overlay::start(version);
        let (address, file) = (overlay.core.address("overlay"), overlay.core.file());
        let text = fs::read_to_string(&file).unwrap();
        fs::write(
            &file,
            text.replace(
                "overlay: { http: 127.0.0.1:0",
                &format!("overlay: {{ http: \"{address}\""),
            ),
        )
        .unwrap();
        overlay.core.kill();
        overlay.core.restart();
        attached(&overlay.core, "alice", 2);
        assert_eq!(overlay.get("http://alice/").status, 200, "HTTP/{version}");
    }
}

#[test]
fn what_is_under_way_fails_with_the_node_and_says_so() {
    let mut overlay = Overlay::start(2);
    let mut client = Raw::connect(overlay.core.address("web"));
    client.send("POST http://alice/hang HTTP/1.1\r\nHost: alice\r\nContent-Length: 0\r\n\r\n");
    eventually_true("the site has it", || !overlay.site.seen().is_empty());
    overlay.alice.kill();
    let (head, _) = client.response();
    assert_eq!(head.status(), 502, "{head:?}");
    let record = overlay.core.record(|record| record["status"] == 502);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("http_response_incomplete: "),
        "{record:#}"
    );
}

#[test]
fn attachments_stay_over_a_reload_that_still_permits_them_and_end_with_one_that_does_not() {
    let overlay = Overlay::start(2);
    let Overlay {
        core: node,
        pki,
        alice,
        ..
    } = &overlay;
    let before = numbers(node);
    let report = node.reload(&core(
        pki,
        &ROUTES.replace("name: users", "name: everybody"),
    ));
    assert_eq!(
        (report.0, &report.1["tunnels"]["kept"]),
        (200, &2.into()),
        "{report:?}"
    );
    assert_eq!(numbers(node), before);
    let report = node.reload(&core(pki, &ROUTES.replace("attach: true", "attach: door")));
    assert_eq!(
        (report.0, &report.1["tunnels"]["ended"]),
        (200, &2.into()),
        "{report:?}"
    );
    attached(node, "alice", 0);
    let record = node.record(|record| record["route"] == "attach" && record["status"] == 200);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed: the route allows no attachment"),
        "{record:#}"
    );
    refused(alice, "the route allows no attachment as alice");
    assert_eq!(overlay.get("http://alice/").status, 503);
    assert_eq!(node.reload(&core(pki, ROUTES)).0, 200);
    attached(node, "alice", 2);
}

#[test]
fn an_attachment_that_may_not_stay_takes_nothing_new_and_ends_what_it_has() {
    let overlay = Overlay::start(2);
    let Overlay {
        core: node,
        pki,
        site,
        ..
    } = &overlay;
    let mut client = Raw::connect(node.address("web"));
    client.send("GET http://alice/hang HTTP/1.1\r\nHost: alice\r\n\r\n");
    eventually_true("the site has it", || !site.seen().is_empty());
    assert_eq!(
        node.reload(&core(pki, &ROUTES.replace("attach: true", "attach: door")))
            .0,
        200
    );
    attached(node, "alice", 0);
    assert_eq!(overlay.get("http://alice/").status, 503);
    site.release();
    assert_eq!(client.response().0.status(), 200);
    // Then the node hears of the end.
    refused(&overlay.alice, "the route allows no attachment as alice");
}

#[test]
fn a_changed_upstream_is_attached_to_anew_and_a_changed_name_too() {
    let overlay = Overlay::start(2);
    let Overlay {
        core,
        alice,
        pki,
        machine,
        ..
    } = &overlay;
    let before = numbers(core);
    let again = node(pki, "alice", core, 1, *machine);
    assert_eq!(alice.reload(&again).0, 200);
    eventually_true("others follow", || {
        let now = numbers(core);
        now.len() == 2 && now.iter().all(|number| !before.contains(number))
    });
    assert!(
        core.status()["attached"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["carrier"] == "h1")
    );
    assert_eq!(overlay.get("http://alice/").status, 200);
    let one = again.replace("attach: core", "attach: { to: core, connections: 1 }");
    assert_eq!(alice.reload(&one).0, 200);
    attached(core, "alice", 1);
    let gone = one.replace(
        "  reach: { attach: { to: core, connections: 1 } }",
        "  web: { http: 127.0.0.1:0 }",
    );
    let gone = gone.replace("listener: reach", "listener: web").replace(
        "peers:\n  core: { certificate: core.overlay, speaks_for: [\"*\"] }\n",
        "",
    );
    let report = alice.reload(&gone);
    assert_eq!(report.0, 200, "{report:?}");
    assert_eq!(report.1["listeners"]["closed"][0], "reach", "{report:?}");
    attached(core, "alice", 0);
}

#[test]
fn a_node_that_stops_finishes_what_came_over_its_attachments() {
    let mut overlay = Overlay::start(2);
    let mut client = Raw::connect(overlay.core.address("web"));
    client.send("GET http://alice/hang HTTP/1.1\r\nHost: alice\r\n\r\n");
    eventually_true("the site has it", || !overlay.site.seen().is_empty());
    overlay.alice.signal(Signal::TERM);
    eventually_true("the node drains", || {
        overlay.alice.status()["draining"] == true
    });
    overlay.site.release();
    assert_eq!(client.response().0.status(), 200);
    assert!(overlay.alice.wait().success());
    assert!(
        !overlay.alice.log().contains("tasks were ended"),
        "{}",
        overlay.alice.log()
    );
    attached(&overlay.core, "alice", 0);
}

#[test]
fn a_proxy_that_stops_finishes_what_goes_over_attachments() {
    for version in [1, 2, 3] {
        let mut overlay = Overlay::start(version);
        let mut client = Raw::connect(overlay.core.address("web"));
        client.send("GET http://alice/hang HTTP/1.1\r\nHost: alice\r\n\r\n");
        eventually_true("the site has it", || !overlay.site.seen().is_empty());
        overlay.core.signal(Signal::TERM);
        eventually_true("the node drains", || {
            overlay.core.status()["draining"] == true
        });
        overlay.site.release();
        assert_eq!(client.response().0.status(), 200, "HTTP/{version}");
        assert!(overlay.core.wait().success(), "HTTP/{version}");
        assert!(
            !overlay.core.log().contains("tasks were ended"),
            "{}",
            overlay.core.log()
        );
    }
}

#[test]
fn a_proxy_that_falls_silent_is_noticed_and_attached_to_again() {
    // Over HTTP/1.1 nothing but the attachment itself could notice.
    let overlay = Overlay::start(1);
    overlay.core.signal(Signal::STOP);
    eventually_true("the node notices", || {
        let status = overlay.alice.status();
        status["attachments"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["last_error"].is_string())
    });
    overlay.core.signal(Signal::CONT);
    eventually_true("she can be reached again", || {
        overlay.get("http://alice/").status == 200
    });
}

#[test]
fn a_node_that_falls_silent_is_noticed() {
    let overlay = Overlay::start(1);
    overlay.alice.signal(Signal::STOP);
    attached(&overlay.core, "alice", 0);
    overlay.alice.signal(Signal::CONT);
    attached(&overlay.core, "alice", 2);
    assert_eq!(overlay.get("http://alice/").status, 200);
}
