//! Four proxies in a row: many exchanges of every kind at once, and nothing left of them afterwards.

mod exchanges;
mod overlay;

use hermes_tests::eventually::eventually_true;

use overlay::{Between, Overlay};

/// Exchanges of one round, all at once.
const EXCHANGES: usize = 100;

/// Those of them that are requests with a response, GET and POST; as many are CONNECT: two kinds of five each.
const MESSAGES: usize = EXCHANGES * 2 / 5;

/// Rounds after the first one, which opens what is kept.
const ROUNDS: usize = 3;

/// Descriptors by which a node may differ from round to round: whether a kept connection is shared or opened anew is a
/// matter of chance.
const CHANCE: usize = 16;

#[test]
fn a_hundred_exchanges_at_once_leave_nothing_behind_over_h2_and_tls() {
    rounds_leave_nothing_behind(Between::TlsH2);
}

#[test]
fn a_hundred_exchanges_at_once_leave_nothing_behind_over_h1_in_the_clear() {
    rounds_leave_nothing_behind(Between::ClearH1);
}

fn rounds_leave_nothing_behind(between: Between) {
    let mut overlay = Overlay::start(between);
    let before = overlay.descriptors();
    exchanges::round(&overlay, EXCHANGES);
    overlay.idle();
    for round in 0..ROUNDS {
        exchanges::round(&overlay, EXCHANGES);
        overlay.idle();
        let mut now = before;
        let within =
            |(now, (before, kept)): (&usize, (&usize, usize))| *now <= before + kept + CHANCE;
        eventually_true(
            &format!("the descriptors return to {before:?} and what is kept, round {round}"),
            || {
                now = overlay.descriptors();
                now.iter()
                    .zip(before.iter().zip(overlay.kept(MESSAGES)))
                    .all(within)
            },
        );
    }
    for kind in ["http", "connect"] {
        for records in overlay.records(kind) {
            assert_eq!(
                records.len(),
                (ROUNDS + 1) * MESSAGES,
                "{kind}: each is recorded by every node, once"
            );
            records
                .iter()
                .for_each(|record| assert_eq!(record["reason"], "done", "{record:#}"));
        }
    }
    for sessions in overlay.records("connect-udp") {
        // A client that paused for long has had two sessions.
        assert!(
            sessions.len() >= (ROUNDS + 1) * EXCHANGES / 5,
            "{} sessions",
            sessions.len()
        );
    }
    overlay.stop();
}
