//! Findings of devices on other machines.

use serde_json::{Value, json};

use super::finds;

const ALICE: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
const BOB: &str = "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=";

fn wireguard(key: &str, more: &Value) -> Value {
    let mut peer = json!({ "public_key": key });
    merge(&mut peer, more);
    json!({ "listen": "0.0.0.0:51820", "private_key_file": "wireguard.key", "peer": peer })
}

fn merge(into: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn listener(name: &str, wireguard: &Value, more: &Value) -> Value {
    let mut tun = json!({ "name": name, "addresses": ["10.9.0.7/32"], "wireguard": wireguard });
    merge(&mut tun, more);
    json!({ "tun": tun })
}

fn route(wireguard: &Value, more: &Value) -> Value {
    let mut end = json!({ "tun": "video", "pool": "10.9.0.0/24", "wireguard": wireguard });
    merge(&mut end, more);
    json!({ "match": { "kind": "connect-ip" }, "terminate": end })
}

#[test]
fn devices_share_a_port_with_one_key() {
    let none = json!({});
    let server = wireguard(
        BOB,
        &json!({ "allowed": "10.0.0.1/32", "keepalive": "25s" }),
    );
    let mut of_alice = route(&server, &none);
    of_alice["match"]["user"] = json!("alice");
    finds(
        json!({
            "listeners": { "phone": listener("phone", &wireguard(ALICE, &none), &none) },
            "routes": [of_alice, route(&server, &none)],
        }),
        &[],
    );

    let mut other = wireguard(BOB, &none);
    other["private_key_file"] = json!("other.key");
    finds(
        json!({
            "listeners": {
                "phone": listener("phone", &wireguard(ALICE, &none), &none),
                "again": listener("again", &wireguard(ALICE, &none), &none),
                "other": listener("other", &other, &none),
                "voice": { "udp": "127.0.0.1:51820", "target": "VOICE:1" },
            },
            "routes": [{ "terminate": true }],
        }),
        &[
            "listeners.phone.tun.wireguard.listen: listeners.voice.udp listens on 127.0.0.1:51820, which includes it or is part of it; choose another address or port",
            "listeners.again.tun.wireguard.peer.public_key: it is the peer of listeners.phone.tun.wireguard already, on the same port; give each device a peer of its own, or another port",
            "listeners.other.tun.wireguard.private_key_file: listeners.phone.tun.wireguard has another key on 0.0.0.0:51820; name the same file, or another port",
        ],
    );
}

#[test]
fn what_only_the_other_machine_can_decide_is_not_said_here() {
    let none = json!({});
    let more =
        json!({ "addresses": [], "other_address": "adopt", "routes": ["10.0.0.0/8"], "queues": 2 });
    let far = wireguard(
        BOB,
        &json!({ "endpoint": "server.example.org:51820", "keepalive": "10ms" }),
    );
    finds(
        json!({
            "listeners": { "phone": listener("phone", &wireguard(ALICE, &none), &more) },
            "routes": [route(&far, &json!({ "nat": true }))],
        }),
        &[
            "routes[0].terminate.wireguard.peer.endpoint: `server.example.org:51820` is not an address and port; write an address and a port, such as 192.0.2.7:51820",
            "listeners.phone.tun.addresses: the other machine has addresses, which it cannot be told; write those that its WireGuard has, such as `addresses: [10.9.0.7/24]`",
            "listeners.phone.tun.other_address: the other machine cannot be told another address; write `nat` or `refuse`, or remove it",
            "listeners.phone.tun.routes: the device is on another machine, which decides about that itself; remove `routes`, or `wireguard`",
            "listeners.phone.tun.queues: the device is on another machine, which decides about that itself; remove `queues`, or `wireguard`",
            "routes[0].terminate.wireguard.peer.allowed: the addresses of the other machine are missing; write them, such as `allowed: [10.0.0.1/32]`",
            "routes[0].terminate.nat: the device is on another machine, which decides about that itself; remove `nat`, or `wireguard`",
            "routes[0].terminate.wireguard.peer.keepalive: less than a second keeps nothing alive that needs it; write 25s, or remove it",
        ],
    );
}
