//! Findings of TUN devices.

use serde_json::{Value, json};

use super::finds;

fn route(terminate: Value) -> Value {
    json!({ "routes": [{ "match": { "kind": "connect-ip" }, "terminate": terminate }] })
}

fn listener(listener: Value) -> Value {
    json!({ "listeners": { "vpn": listener }, "routes": [{ "terminate": true }] })
}

#[test]
fn devices_that_hold() {
    finds(
        route(json!({ "tun": "hermes1", "pool": "10.7.0.0/24" })),
        &[],
    );
    finds(
        route(json!({
            "tun": "hermes1", "pool": ["10.7.0.0/29", "fd07::/125"], "routes": ["0.0.0.0/0", "fd09::/64"], "mtu": 9000
        })),
        &[],
    );
    finds(listener(json!({ "tun": "hermes0", "user": "alice" })), &[]);
    finds(
        listener(
            json!({ "tun": { "name": "hermes0", "addresses": ["10.7.0.2/24", "fd07::2/64"], "routes": ["0.0.0.0/0"] } }),
        ),
        &[],
    );
}

#[test]
fn who_sends_is_named_and_not_by_hundreds() {
    let only = |senders: Value| listener(json!({ "tun": { "name": "hermes0", "only": senders } }));
    let group = "/sys/fs/cgroup/vpn.slice";
    finds(
        only(json!({ "users": ["alice", 1000, "2000-2999"], "cgroups": group })),
        &[],
    );
    finds(
        only(json!({})),
        &["listeners.vpn.tun.only: it is empty; name `users` or `cgroups`, or remove it"],
    );
    let many: Vec<u32> = (1000..1065).collect();
    finds(
        only(json!({ "users": many })),
        &[
            "listeners.vpn.tun.only: a device names up to 64 users and control groups here, and these are 65; write ranges of users, or a control group that has the others in it",
        ],
    );
}

#[test]
fn a_device_with_addresses_adopts_no_others() {
    let device = |addresses: Value, other: &str| {
        listener(
            json!({ "tun": { "name": "hermes0", "addresses": addresses, "other_address": other } }),
        )
    };
    finds(device(json!([]), "adopt"), &[]);
    finds(device(json!(["10.7.0.2/24"]), "nat"), &[]);
    finds(
        device(json!(["10.7.0.2/24"]), "adopt"),
        &[
            "listeners.vpn.tun.other_address: a device with `addresses` does not take others; write `nat` or `refuse`, or remove `addresses`",
        ],
    );
}

#[test]
fn a_pool_has_an_address_for_a_tunnel() {
    finds(
        route(
            json!({ "tun": "hermes1", "pool": ["10.7.0.0/30", "fd07::/126", "10.7.0.9/24"], "routes": [] }),
        ),
        &[
            "routes[0].terminate.pool[0]: 10.7.0.0/30 has no address left for a tunnel; give a /29 or a shorter one",
            "routes[0].terminate.pool[1]: fd07::/126 has no address left for a tunnel; give a /125 or a shorter one",
            "routes[0].terminate.pool[2]: 10.7.0.9/24 has bits beyond its length; write 10.7.0.0/24",
        ],
    );
    finds(
        route(json!({ "tun": "hermes1", "pool": "10.7.0.0/24", "routes": ["fd09::/64"] })),
        &[
            "routes[0].terminate.routes[0]: no tunnel has an address of this family; add a prefix of it to `pool`",
        ],
    );
}

#[test]
fn only_packets_go_into_a_device() {
    finds(
        json!({ "routes": [{ "terminate": { "tun": "hermes1", "pool": "10.7.0.0/24" } }] }),
        &[
            "routes[0].terminate.tun: only the packets of CONNECT-IP end there; add `match: { kind: connect-ip }`",
        ],
    );
}

#[test]
fn what_ends_packets_in_user_space_is_checked_like_a_device() {
    finds(
        json!({ "routes": [
            { "match": { "kind": "connect-ip", "user": "alice" }, "terminate": { "intercept": true, "pool": "10.7.0.0/24" } },
            { "match": { "kind": "connect-ip" }, "terminate": { "intercept": true, "pool": "10.7.0.0/24", "echo": "refuse" } },
            { "terminate": { "intercept": false, "pool": "10.6.0.0/30" } },
        ] }),
        &[
            "routes[1].terminate: another route says something else of `intercept 10.7.0.0/24`; say the same of it, or name another device or pool",
            "routes[2].terminate.intercept: `false` says nothing of where packets end; write `intercept: true`, or name a device: `tun: hermes0`",
            "routes[2].terminate.intercept: only the packets of CONNECT-IP end there; add `match: { kind: connect-ip }`",
            "routes[2].terminate.pool[0]: 10.6.0.0/30 has no address left for a tunnel; give a /29 or a shorter one",
        ],
    );
}

#[test]
fn connections_become_packets_in_the_tunnel_of_a_listener_with_a_stack() {
    finds(
        json!({
            "listeners": {
                "vpn": { "tun": "hermes0" },
                "office": { "tun": { "name": "office", "stack": true, "routes": ["10.9.0.0/16"] } },
            },
            "routes": [
                { "match": { "kind": "connect" }, "terminate": { "ip": "vpn" } },
                { "match": { "kind": "connect-udp" }, "terminate": { "ip": "office" } },
                { "terminate": { "ip": "office" } },
            ],
        }),
        &[
            "listeners.office.tun.routes: a stack has the packets of routes with `terminate: { ip: .. }`, and no others; remove `routes`, or `stack: true`",
            "routes[0].terminate.ip: `vpn` is not a listener with a stack; name one, such as `listeners: { vpn: { tun: { name: vpn, stack: true } } }`",
            "routes[2].terminate.ip: only connections and datagrams become packets; add `match: { kind: [connect, connect-tcp, connect-udp] }`, or one of them",
        ],
    );
}

#[test]
fn a_device_has_a_name_of_its_own() {
    finds(
        listener(json!({ "tun": "a-name-too-long-for-it" })),
        &[
            "listeners.vpn.tun: `a-name-too-long-for-it` is not the name of an interface; write up to 15 letters and digits, such as hermes0",
        ],
    );
    finds(
        json!({
            "listeners": { "vpn": { "tun": "hermes0" }, "lab": { "tun": { "name": "hermes0" } } },
            "routes": [{ "terminate": true }],
        }),
        &[
            "listeners.lab.tun.name: `hermes0` is the device of listeners.vpn.tun already; name another device",
        ],
    );
    finds(
        json!({ "routes": [
            { "match": { "kind": "connect-ip", "user": "alice" }, "terminate": { "tun": "hermes1", "pool": "10.7.0.0/24" } },
            { "match": { "kind": "connect-ip" }, "terminate": { "tun": "hermes1", "pool": "10.8.0.0/24" } },
        ] }),
        &[
            "routes[1].terminate: another route says something else of `hermes1`; say the same of it, or name another device or pool",
        ],
    );
}

#[test]
fn a_listener_with_a_device_has_one_address_of_each_family() {
    finds(
        listener(json!({
            "tun": { "name": "hermes0", "addresses": ["10.7.0.2/24", "10.8.0.2/24"] }
        })),
        &[
            "listeners.vpn.tun.addresses[1]: a device has one address of each family; keep one of each",
        ],
    );
}

#[test]
fn tunnels_that_share_a_device_hold() {
    finds(
        listener(json!({ "tun": {
            "name": "hermes0", "routes": ["10.0.0.0/8"], "exclude": ["10.0.0.7/32"],
            "tunnels": {
                "lab": { "prefixes": "10.0.0.1/32", "set": { "destination": "lab" }, "user": "alice" },
                "campus": { "prefixes": ["10.0.0.0/24", "fd09::/64"] },
            },
        } })),
        &[],
    );
}

#[test]
fn each_prefix_has_one_tunnel() {
    finds(
        listener(json!({ "tun": {
            "name": "hermes0", "exclude": ["10.0.3.0/24"],
            "tunnels": {
                "lab": { "prefixes": ["10.0.0.0/24", "10.0.0.9/16"] },
                "campus": { "prefixes": ["10.0.0.0/24", "10.0.3.0/24"] },
            },
        } })),
        &[
            "listeners.vpn.tun.tunnels.lab.prefixes[1]: 10.0.0.9/16 has bits beyond its length; write 10.0.0.0/16",
            "listeners.vpn.tun.tunnels.campus.prefixes[0]: 10.0.0.0/24 is that of listeners.vpn.tun.tunnels.lab.prefixes[0] already; give each prefix to one tunnel",
            "listeners.vpn.tun.tunnels.campus.prefixes[1]: `exclude` lets 10.0.3.0/24 pass by the device; remove it here or there",
        ],
    );
}

#[test]
fn a_tunnel_of_a_device_has_a_name_prefixes_and_fields_that_can_be_written() {
    finds(
        listener(json!({ "tun": {
            "name": "hermes0",
            "tunnels": { "my lab": { "prefixes": [] }, "lab": { "prefixes": "::/0", "set": { "bad name": "x" } } },
        } })),
        &[
            "listeners.vpn.tun.tunnels.lab.set[\"bad name\"]: `bad name` cannot be a field's name; write a name of letters, digits and `-`",
            "listeners.vpn.tun.tunnels[\"my lab\"]: `my lab` is not the name of a tunnel; use up to 64 letters, digits, `-`, `.` and `_`",
            "listeners.vpn.tun.tunnels[\"my lab\"].prefixes: no packet goes into a tunnel without prefixes; name its destinations, or remove it",
        ],
    );
}

#[test]
fn tunnels_that_share_a_device_do_not_replace_its_addresses() {
    let with = |other: &str| {
        listener(json!({ "tun": {
            "name": "hermes0", "other_address": other, "tunnels": { "lab": { "prefixes": "10.0.0.0/24" } },
        } }))
    };
    finds(with("nat"), &[]);
    finds(with("refuse"), &[]);
    finds(
        with("adopt"),
        &[
            "listeners.vpn.tun.other_address: several tunnels share the addresses of a device, which cannot be those of each; write `nat` or `refuse`, or remove `tunnels`",
        ],
    );
}
