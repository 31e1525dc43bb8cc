//! Two users on one port of WireGuard, and what a reload does to them.

use std::net::Ipv4Addr;

use hermes_tests::eventually::eventually_true;

use super::endpoint::EndpointProgram;
use super::speaker::{Speaker, private};
use super::{Key, Keys, key, networks, shown};
use crate::packets::start;
use crate::scenario::applied;

const ALICE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 7);
const BOB: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 9);

/// Bob's listener, on the port that Alice's has.
fn bob(keys: &Keys, of: &Key) -> String {
    let (file, public) = (keys.first.file.display(), &of.public);
    format!(
        "bob: {{ user: bob, tun: {{ name: bob, addresses: [10.9.0.9/32], wireguard: {{ listen: 0.0.0.0:51820, private_key_file: {file}, peer: {{ public_key: {public} }} }} }} }}"
    )
}

#[test]
fn devices_share_a_port_and_another_key_of_a_peer_concerns_its_device_alone() {
    let topology = networks();
    let keys = Keys::new();
    let [old, new] = ["old", "new"].map(|name| key(keys.folder.path(), name));
    let _server = keys.server(&topology, EndpointProgram::WireguardGo);
    let _last = start(&topology, "last", &keys.last_node(""));
    let with_bob = |of: &Key| keys.first_node("", &bob(&keys, of));
    let first = start(&topology, "first", &with_bob(&old));

    let node = &keys.first.public;
    let mut alice = Speaker::new(&topology, private(&keys.alice.file), node);
    let mut before = Speaker::new(&topology, private(&old.file), node);
    eventually_true("an echo of alice", || alice.echo(ALICE));
    eventually_true("an echo of bob", || before.echo(BOB));
    let agreed = alice.agreed();

    applied(&first, &with_bob(&new));
    eventually_true("the key of bob is another", || {
        shown(&first, "bob")["peer"] == new.public.as_str()
    });
    assert!(!before.echo(BOB), "the old one is a stranger's");
    let mut after = Speaker::new(&topology, private(&new.file), node);
    eventually_true("an echo of bob", || after.echo(BOB));
    assert!(alice.echo(ALICE));
    assert_eq!(alice.agreed(), agreed, "alice did not notice");

    // Without a listener, it is no peer; and without any, the port is free.
    applied(&first, &keys.first_node("", ""));
    eventually_true("bob is no peer any more", || shown(&first, "bob").is_null());
    assert!(!after.echo(BOB));
    assert!(alice.echo(ALICE));
}
