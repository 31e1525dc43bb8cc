//! Reverse attachment: a node that no one can reach opens the connection over which exchanges come to it.

mod between;
mod crowd;
mod hostile;
mod identity;
mod life;
mod overlay;

use hermes_tests::raw::Raw;
use hermes_tests::udp;
use overlay::Overlay;

#[test]
fn messages_tunnels_and_datagrams_come_back_over_h1() {
    everything_comes_back(1, "h1");
}

#[test]
fn messages_tunnels_and_datagrams_come_back_over_h2() {
    everything_comes_back(2, "h2");
}

#[test]
fn messages_tunnels_and_datagrams_come_back_over_h3() {
    everything_comes_back(3, "h3");
}

fn everything_comes_back(version: u8, carrier: &str) {
    let overlay = Overlay::start(version);
    let Overlay {
        core, alice, site, ..
    } = &overlay;
    // A message.
    let answer = overlay.get("http://ALICE/page");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        site.last().field("user").as_deref(),
        Some("server"),
        "core speaks for its users"
    );
    // Bytes, to a service behind the node.
    let mut db = Raw::tunnel(core.address("web"), "alice:5432", "").unwrap();
    db.send("select");
    assert_eq!(db.exactly(6), b"select");
    drop(db);
    // Datagrams: what a server sends to its own proxy comes to the user's player.
    let server = udp::Client::connect(core.address("video"));
    assert_eq!(server.ask("frame 1"), b"frame 1");
    for (node, kind) in [
        (core, "http"),
        (core, "connect"),
        (alice, "http"),
        (alice, "connect"),
    ] {
        let record = node.record(|record| record["kind"] == kind);
        assert_eq!(
            (&record["reason"], &record["user"]),
            (&"done".into(), &"server".into()),
            "{record:#}"
        );
    }
    let of_core = core.record(|record| record["kind"] == "http");
    assert!(
        of_core["endpoint"].as_str().unwrap().starts_with("alice#"),
        "{of_core:#}"
    );
    let of_alice = alice.record(|record| record["kind"] == "http");
    assert_eq!(of_alice["listener"], "reach", "{of_alice:#}");
    let status = core.status();
    let attached = status["attached"].as_array().unwrap();
    assert_eq!(attached.len(), 2, "{status:#}");
    assert!(
        attached
            .iter()
            .all(|one| one["carrier"] == carrier && one["user"] == "alice"),
        "{status:#}"
    );
    assert!(core.metrics().contains("\nhermes_attached 2\n"));
    let exchanges = core.exchanges();
    let upgrades: Vec<_> = exchanges
        .iter()
        .filter(|one| one["kind"] == "upgrade")
        .collect();
    assert!(
        upgrades.len() == 2
            && upgrades
                .iter()
                .all(|one| one["bytes"]["client_to_target"] != 0),
        "{exchanges:#?}"
    );
    let own = alice.status();
    assert!(
        own["attachments"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["endpoint"].is_string()),
        "{own:#}"
    );
}
