//! What strangers and dishonest peers send to a port of WireGuard.

use std::net::Ipv4Addr;

use hermes_tests::eventually::eventually_true;
use hermes_wireguard::PrivateKey;

use super::endpoint::EndpointProgram;
use super::speaker::{Speaker, echo_request, private, socket};
use super::{Keys, networks, shown};
use crate::packets::start;

const ALICE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);

/// More than a second lets through without a cookie.
const STRANGERS: usize = 200;

/// What a node may hold of a flood, in bytes: more than it has for any bound of a port, and less than the flood.
const ROOM: usize = 16 * 1024 * 1024;

#[test]
fn forged_played_again_and_flooded_nothing_passes_and_peers_go_on() {
    let topology = networks();
    let keys = Keys::new();
    let _server = keys.server(&topology, EndpointProgram::WireguardGo);
    let _last = start(&topology, "last", &keys.last_node(""));
    let first = start(&topology, "first", &keys.first_node("", ""));
    let mut alice = Speaker::new(&topology, private(&keys.alice.file), &keys.first.public);
    eventually_true("an echo of the server", || alice.echo(ALICE));
    let seen = shown(&first, "alice");
    let endpoint = seen["endpoint"].clone();
    let held = first.peak();

    // The source of another, in a message that is hers.
    alice.send(&echo_request(Ipv4Addr::new(10, 9, 0, 8)));
    eventually_true("a forged source is counted", || {
        shown(&first, "alice")["refused"]["sources"] == 1
    });

    // Her own message again, from elsewhere; and changed.
    let other = socket(&topology);
    let before = shown(&first, "alice")["refused"]["messages"].clone();
    other.send(&alice.last).unwrap();
    let mut changed = alice.last.clone();
    changed[40] ^= 1;
    other.send(&changed).unwrap();
    let expected = before.as_u64().unwrap() + 2;
    eventually_true("what is played again is counted", || {
        shown(&first, "alice")["refused"]["messages"] == expected
    });
    assert_eq!(shown(&first, "alice")["endpoint"], endpoint);

    // Handshakes with keys that no one knows, and what is no message at all.
    for _ in 0..STRANGERS {
        let key = PrivateKey::generate().unwrap();
        let mut stranger = Speaker::new(&topology, key, &keys.first.public);
        stranger.send(&echo_request(ALICE));
    }
    let garbage: Vec<u8> = (0..1200).map(|at| (at % 251) as u8).collect();
    let mut long = garbage.clone();
    long[..4].copy_from_slice(&[4, 0, 0, 0]);
    for _ in 0..20_000 {
        // The queue of a socket may be full.
        let _ = other.send(&garbage);
        let _ = other.send(&long);
    }
    eventually_true("strangers are counted", || {
        let refused = &shown(&first, "alice")["refused"];
        let strangers = refused["strangers"].as_u64().unwrap();
        let too_many = refused["too_many"].as_u64().unwrap();
        refused["unknown"].as_u64().unwrap() > 1000 && strangers + too_many > STRANGERS as u64 / 2
    });

    let agreed = alice.agreed();
    eventually_true("her echoes are answered", || alice.echo(ALICE));
    assert_eq!(alice.agreed(), agreed, "under the same keys");
    assert_eq!(shown(&first, "alice")["endpoint"], endpoint);
    let more = first.peak().saturating_sub(held);
    assert!(more < ROOM, "{more} bytes more");
}

/// A firewall drops what the node sends: the kernel says so to its socket, as it does where its queue is full.
#[test]
fn what_this_machine_drops_is_lost_and_peers_go_on() {
    let topology = networks();
    let keys = Keys::new();
    let _server = keys.server(&topology, EndpointProgram::WireguardGo);
    let _last = start(&topology, "last", &keys.last_node(""));
    let first = start(&topology, "first", &keys.first_node("", ""));
    let mut alice = Speaker::new(&topology, private(&keys.alice.file), &keys.first.public);
    eventually_true("an echo of the server", || alice.echo(ALICE));
    let endpoint = shown(&first, "alice")["endpoint"].clone();

    let node = topology.namespace("first").unwrap();
    for kind in ["prohibit", "blackhole", "unreachable"] {
        let rule = ["ipproto", "udp", "sport", "51820", "type", kind];
        node.run(&[&["ip", "rule", "add", "pref", "1"][..], &rule[..]].concat())
            .unwrap();
        eventually_true("nothing passes", || !alice.echo(ALICE));
        for _ in 0..20 {
            alice.send(&echo_request(ALICE));
        }
        node.run(&["ip", "rule", "del", "pref", "1"]).unwrap();
        eventually_true("an echo again", || alice.echo(ALICE));
        assert_eq!(shown(&first, "alice")["endpoint"], endpoint, "{kind}");
    }
}
