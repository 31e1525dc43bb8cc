//! What a tunnel of IP carries over two networks that are narrower than the others: the less of both, and always what IPv6 needs.

use hermes_tests::Pki;
use hermes_tests::eventually::{eventually, eventually_true, found};

use super::carriers::{carried, chain, row, set_mtu};

/// Waits for what takes a new search of each path, one after the other: longer than for anything else.
pub(super) fn searched(what: &str, look: impl Fn() -> bool) {
    let found = (0..4).any(|_| found(|| look().then_some(())).is_some());
    assert!(found, "{what}: searched in vain");
}

#[test]
fn a_tunnel_carries_what_the_narrower_of_two_networks_does_and_always_what_ipv6_needs() {
    let topology = row();
    let pki = Pki::new();
    let [_end, _far, _near, alice] = chain(&topology, &pki, "10.7.0.0/24, \"fd07::/64\"");
    let network = topology.namespace("alice").unwrap();
    // Whole packets, some at once: a path is known by those that it loses.
    let whole = |packet: u64| {
        // The kernel keeps what it was told for ten minutes.
        network.run(&["ip", "route", "flush", "cache"]).unwrap();
        let data = (packet - 28).to_string();
        let ask = [
            "ping", "-c", "5", "-i", "0.01", "-W", "0.3", "-M", "do", "-s", &data, "10.7.0.1",
        ];
        network.run(&ask)
    };
    // The least that every link of IPv6 carries, which is not cut.
    let least = || network.run(&["ping", "-6", "-c", "1", "-W", "1", "-s", "1232", "fd07::1"]);
    let proof = || alice.status()["devices"][0]["ipv6"].clone();
    eventually("an echo", || least().ok());
    eventually_true("it is proven", || proof() == "proven");
    searched("the path is known", || {
        assert!(whole(1490).is_err());
        (1401..1490).contains(&carried(&alice))
    });

    // Now one is the narrower one, now the other.
    for (one, other, mtu) in [
        ("near", "far", 1440),
        ("far", "end", 1400),
        ("near", "far", 1360),
    ] {
        set_mtu(&topology, one, other, &mtu.to_string());
        searched("what is carried is what the narrower one does", || {
            let carried = carried(&alice);
            whole(carried).is_ok() && (1281..mtu).contains(&carried)
        });
        eventually("packets of 1280 bytes", || least().ok());
        eventually_true("it is proven again", || proof() == "proven");
    }

    // Neither has room for 1280 bytes and what is around them.
    set_mtu(&topology, "near", "far", "1280");
    set_mtu(&topology, "far", "end", "1280");
    searched("no more is carried than what always is", || {
        let carried = carried(&alice);
        whole(carried).is_ok() && carried == 1280
    });
    eventually("packets of 1280 bytes", || least().ok());
    eventually_true("it is proven", || proof() == "proven");
}
