//! Checks of custody.

use serde_json::json;

use super::finds;

const KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

#[test]
fn custody_needs_a_key_and_the_neighbour() {
    let ask = json!({ "routes": [{ "to": "next", "retry": { "custody": true } }] });
    finds(
        ask.clone(),
        &["routes[0].retry.custody: this node has no key for custody; add `defaults.custody`"],
    );
    let mut known = ask;
    known["defaults"] = json!({ "custody": {
        "key_file": "a.key",
        "neighbours": { "nxt": { "key": KEY, "address": "192.0.2.1:4500" } },
    } });
    finds(
        known.clone(),
        &[
            "routes[0].retry.custody: there is no neighbour `next` in `defaults.custody`; did you mean `nxt`?",
        ],
    );
    known["defaults"]["custody"]["neighbours"] =
        json!({ "next": { "key": KEY, "address": "192.0.2.1:4500" } });
    finds(known, &[]);
}

#[test]
fn neighbours_have_keys_and_one_of_two_begins() {
    finds(
        json!({ "defaults": { "custody": { "key_file": "a.key", "neighbours": {
            "a": { "key": "short", "address": "192.0.2.1:4500" },
            "b": { "key": KEY, "address": "unix:b.sock" },
            "c": { "key": KEY },
        } } } }),
        &[
            "defaults.custody.neighbours.a.key: it is not a key: a key is 32 bytes in Base64; write the key that the node logs when it starts",
            "defaults.custody.neighbours.b.address: a Unix socket is not a UDP port; write an IP address and a port",
            "defaults.custody.neighbours.c: neither node can begin: this one does not know where the other is, and has no listener \
             for it; add its `address`, or a `udp` listener with `ingress: custody`",
        ],
    );
}

#[test]
fn custody_listens_for_datagrams() {
    finds(
        json!({
            "listeners": { "more": { "tcp": "127.0.0.1:1", "ingress": "custody" } },
        }),
        &[
            "listeners.more.ingress: this node has no key for custody; add `defaults.custody`",
            "listeners.more.ingress: custody is for `udp` listeners; make it a `udp` listener",
        ],
    );
}
