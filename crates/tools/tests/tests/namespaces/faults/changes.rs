//! The client's address changes, the path becomes narrow, the first proxy ends and comes back, nothing happens for long.

use std::time::Duration;

use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, eventually};

use super::super::within;
use super::load::{Load, MIXED};
use super::row::{Row, TUNNEL, VOICE};

/// Seconds without traffic; more with `HERMES_IDLE`. Between two keep-alives of QUIC are 15 s.
const IDLE: u64 = 20;

/// Datagrams of a session that are on their way at one moment, with room for a busy machine.
const IN_FLIGHT: u64 = 20;

/// Records of tunnels and sessions that have ended.
fn ended(node: &Node) -> Vec<serde_json::Value> {
    node.access()
        .into_iter()
        .filter(|record| record["kind"] != "http")
        .collect()
}

#[test]
fn a_client_whose_address_changes_under_load_loses_no_more_than_was_in_flight() {
    let row = Row::by_router("3");
    let came = MIXED.during(&row, |progress| {
        row.ip("road", &["addr add 10.0.4.2/24 dev client"]);
        for (old, new, by) in [
            ("10.0.1.1", "10.0.4.1", "10.0.4.2"),
            ("10.0.4.1", "10.0.1.1", "10.0.1.2"),
        ] {
            progress.more(10);
            row.ip(
                "client",
                &[
                    &format!("addr add {new}/24 dev road"),
                    &format!("route replace 10.0.3.0/24 via {by}"),
                ],
            );
            row.ip("client", &[&format!("addr del {old}/24 dev road")]);
            progress.more(20);
            assert_eq!(ended(&row.entry), [] as [serde_json::Value; 0]);
        }
    });
    for datagrams in came {
        assert!(
            datagrams.sent - datagrams.answered <= 2 * IN_FLIGHT,
            "{datagrams:?}"
        );
    }
    assert_eq!(row.echo.sockets().len(), MIXED.sessions);
    assert!(!row.entry.log().contains("silent"), "{}", row.entry.log());
}

/// As when one walks from one network to another.
#[test]
fn a_client_that_has_no_address_for_a_while_goes_on_where_it_was() {
    // A connection that is begun meanwhile asks again after 1, 2 and 4 s: later than the 5 s that it has without this.
    let row = Row::by_router("3, timeouts: { connect: 15s }");
    MIXED.during(&row, |progress| {
        row.ip("client", &["addr del 10.0.1.1/24 dev road"]);
        within(&row.topology, "client", || {
            drop(Client::connect(VOICE.parse().unwrap()).receive_within(Duration::from_secs(4)))
        });
        row.ip(
            "client",
            &[
                "addr add 10.0.1.9/24 dev road",
                "route replace 10.0.3.0/24 via 10.0.1.2",
            ],
        );
        progress.more(20);
        assert_eq!(ended(&row.entry), [] as [serde_json::Value; 0]);
    });
    assert_eq!(row.echo.sockets().len(), MIXED.sessions);
}

#[test]
fn tunnels_and_messages_go_on_over_a_path_whose_mtu_drops_and_comes_back() {
    let row = Row::by_router("3");
    let mtu = |mtu: &str| {
        for (namespace, device) in [("road", "near"), ("near", "road")] {
            row.ip(namespace, &[&format!("link set dev {device} mtu {mtu}")]);
        }
    };
    let came = MIXED.during(&row, |progress| {
        for size in ["1280", "1500"] {
            mtu(size);
            progress.more(30);
        }
    });
    for datagrams in came {
        assert!(datagrams.answered * 2 > datagrams.sent, "{datagrams:?}");
    }
    assert_eq!(row.echo.sockets().len(), MIXED.sessions);
}

/// The ends of the first proxy: by order, and without a word.
#[test]
fn sessions_outlive_a_proxy_that_is_restarted_and_tunnels_end_with_a_reason() {
    let mut row = Row::by_router("3");
    let (mut tunnel, sessions) = within(&row.topology, "client", || {
        let mut tunnel = Raw::connect(TUNNEL.parse().unwrap());
        assert_eq!(tunnel.exchange(b"before").unwrap(), b"before");
        let sessions: Vec<_> = (0..4)
            .map(|_| Client::connect(VOICE.parse().unwrap()))
            .collect();
        // Twice, so that they are no mere questions.
        (0..2).for_each(|_| {
            sessions
                .iter()
                .for_each(|session| assert_eq!(session.ask("before"), b"before"))
        });
        (tunnel, sessions)
    });
    let sockets = row.echo.sockets();
    row.restart_near(Node::kill);
    sessions.iter().for_each(|session| {
        eventually("an answer", || {
            (session.ask("killed") == b"killed").then_some(())
        })
    });
    assert_eq!(row.echo.sockets(), sockets, "the sockets are the same");
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    let record = row.entry.record(|record| record["kind"] == "connect");
    let reason = record["reason"].as_str().unwrap();
    let told = [
        "the connection was lost",
        "knows nothing of the connection",
        "the peer is gone",
        "the connection died",
    ];
    assert!(told.iter().any(|told| reason.contains(told)), "{reason}");

    row.restart_near(|near| assert!(near.stop().success()));
    sessions.iter().for_each(|session| {
        eventually("an answer", || {
            (session.ask("stopped") == b"stopped").then_some(())
        })
    });
    assert_eq!(row.echo.sockets(), sockets, "the sockets are the same");
    MIXED.during(&row, |progress| progress.more(10));
}

#[test]
fn what_is_idle_for_long_is_there_when_it_is_wanted() {
    let row = Row::by_router("[3, 2]");
    let (mut tunnel, session) = within(&row.topology, "client", || {
        let mut tunnel = Raw::connect(TUNNEL.parse().unwrap());
        assert_eq!(tunnel.exchange(b"before").unwrap(), b"before");
        let session = Client::connect(VOICE.parse().unwrap());
        (0..2).for_each(|_| assert_eq!(session.ask("before"), b"before"));
        (tunnel, session)
    });
    let sockets = row.echo.sockets();
    let idle = std::env::var("HERMES_IDLE").map_or(IDLE, |seconds| seconds.parse().unwrap());
    assert_eq!(session.receive_within(Duration::from_secs(idle)), None);
    assert_eq!(tunnel.exchange(b"after").unwrap(), b"after");
    assert_eq!(session.ask("after"), b"after");
    assert_eq!(row.echo.sockets(), sockets, "the socket is the same");
    assert_eq!(ended(&row.entry), [] as [serde_json::Value; 0]);
    assert_eq!(row.way()["http3"], "works");
    Load {
        tunnels: 1,
        messages: 1,
        ..MIXED
    }
    .during(&row, |progress| progress.more(10));
}
