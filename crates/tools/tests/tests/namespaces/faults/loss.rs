//! Links that lose packets, or let some overtake others.

use std::thread;
use std::time::Duration;

use hermes_lab::emulator::{Loss, Profile};
use hermes_tests::eventually::eventually_true;
use hermes_tests::udp::Client;

use super::super::within;
use super::load::{Datagrams, Load, MIXED};
use super::row::{Row, VOICE};

/// One datagram fills a packet, so that each loss is one.
const ONE_A_PACKET: Load = Load {
    tunnels: 2,
    messages: 1,
    sessions: 4,
    datagram: 1000,
};

/// Of each session.
const ENOUGH: u64 = 500;

/// How many standard deviations the count may be off. Packets with two datagrams or none make it less even than a coin.
const DEVIATIONS: f64 = 6.0;

fn all(came: &[Datagrams]) -> (f64, f64) {
    let sent = came.iter().map(|datagrams| datagrams.sent).sum::<u64>() as f64;
    let answered = came.iter().map(|datagrams| datagrams.answered).sum::<u64>() as f64;
    (sent, sent - answered)
}

/// Tunnels and messages are what they were, and datagrams are lost as the link loses packets, there and back.
fn loses_like_the_link(share: f64) {
    let profile = Profile {
        delay: Duration::from_millis(2),
        loss: Loss::Random(share),
        ..Profile::default()
    };
    let row = Row::by_wire(&profile, 7, "3");
    let came = ONE_A_PACKET.during(&row, |progress| progress.answered(ENOUGH));
    let (sent, lost) = all(&came);
    let both_ways = 1.0 - (1.0 - share).powi(2);
    let (expected, deviation) = (
        sent * both_ways,
        (sent * both_ways * (1.0 - both_ways)).sqrt(),
    );
    assert!(
        (lost - expected).abs() < DEVIATIONS * deviation,
        "{lost} of {sent} lost, not {expected}"
    );
    assert_eq!(row.way()["http3"], "works");
    assert!(!row.entry.log().contains("silent"), "{}", row.entry.log());
}

#[test]
fn a_link_that_loses_one_percent_costs_datagrams_only_that() {
    loses_like_the_link(0.01);
}

#[test]
fn a_link_that_loses_five_percent_costs_datagrams_only_that() {
    loses_like_the_link(0.05);
}

#[test]
fn a_link_that_lets_packets_overtake_others_loses_none() {
    let profile = Profile {
        delay: Duration::from_millis(5),
        reorder: 0.1,
        ..Profile::default()
    };
    let row = Row::by_wire(&profile, 7, "3");
    let came = MIXED.during(&row, |progress| progress.answered(200));
    assert_eq!(all(&came).1, 0.0, "{came:?}");
    assert!(!row.entry.log().contains("silent"), "{}", row.entry.log());
}

/// A flow that knows nothing of congestion: so many datagrams at once, at such distances, so often.
const BURST: usize = 10;
const PAUSE: Duration = Duration::from_millis(5);
const BURSTS: usize = 300;

/// Offers more than a controlled connection sends where one packet of twenty is lost; the share that came while it was offered.
fn share_that_comes(http: &str) -> f64 {
    let profile = Profile {
        delay: Duration::from_millis(20),
        loss: Loss::Random(0.05),
        ..Profile::default()
    };
    let row = Row::by_wire(&profile, 7, http);
    let client = within(&row.topology, "client", || {
        Client::connect(VOICE.parse().unwrap())
    });
    eventually_true("the session is open", || {
        client.send([0_u8; 1000]);
        client.receive_within(PAUSE);
        row.echo.datagrams() > 0
    });

    let before = row.echo.datagrams();
    for _ in 0..BURSTS {
        (0..BURST).for_each(|_| client.send([0_u8; 1000]));
        thread::sleep(PAUSE);
    }
    (row.echo.datagrams() - before) as f64 / (BURST * BURSTS) as f64
}

#[test]
fn where_nothing_controls_congestion_losses_slow_nothing_down() {
    let controlled = share_that_comes("3, congestion: cubic");
    let free = share_that_comes("3, congestion: off");
    assert!(free > 0.8, "{free}");
    assert!(controlled < 0.6, "{controlled}");
}

#[test]
fn bbr_sends_on_where_losses_are_the_links_own() {
    let share = share_that_comes("3, congestion: bbr");
    // CUBIC: about 0.15.
    assert!(share > 0.5, "{share}");
}
