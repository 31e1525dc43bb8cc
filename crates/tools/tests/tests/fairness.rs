//! One link, many tunnels: those that stall do not slow, lose or bloat the others. `cargo run -p hermes-tests --example
//! fairness` measures by how much.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use hermes_tests::crowd::{Crowd, STALLED_BYTES, resident};

/// Tunnels that stall.
const STALLED: usize = 1_000;

/// Short tunnels, one after the other by each of a few clients.
const SHORT: usize = 10_000;

/// What a slow reader may make a node keep, in bytes: a stream's window and send buffer (1.25 MiB), sockets, and what the
/// allocator keeps of the other tunnel.
const SLOW_READER: usize = 24 * 1024 * 1024;

#[test]
fn a_thousand_stalled_tunnels_do_not_stop_the_next_and_none_is_lost() {
    let crowd = Crowd::new();
    let client = crowd.narrow_client();
    let mut stalled: Vec<_> = (0..STALLED)
        .map(|_| crowd.stalled(&client, STALLED_BYTES))
        .collect();
    let open = crowd.end.exchanges().len();
    assert_eq!(open, STALLED, "ended: {:?}", crowd.end.access());
    crowd.fetch(1_000_000);
    stalled
        .iter_mut()
        .for_each(|tunnel| Crowd::finish(tunnel, STALLED_BYTES));
    drop(stalled);
    crowd.end.idle();
    assert_eq!(crowd.links(), 1, "all of them shared one link");
}

#[test]
fn ten_thousand_short_tunnels_share_one_link_without_a_reset() {
    let crowd = Crowd::new();
    crowd.short_tunnels(SHORT);
    crowd.end.idle();
    assert_eq!((crowd.end.access().len(), crowd.links()), (SHORT, 1));
}

#[test]
fn a_slow_reader_does_not_grow_memory() {
    let crowd = Crowd::new();
    let client = crowd.narrow_client();
    crowd.fetch(20_000_000);
    let before = [&crowd.entry, &crowd.end].map(resident);
    let mut slow = crowd.stalled(&client, 200_000_000);
    assert!(slow.receive().unwrap().is_some());
    // While these went through, the slow one had the same time to pile up.
    crowd.fetch(50_000_000);
    let after = [&crowd.entry, &crowd.end].map(resident);
    for (before, after) in before.iter().zip(after) {
        assert!(
            after < before + SLOW_READER,
            "{before} bytes before, {after} with a slow reader"
        );
    }
}
